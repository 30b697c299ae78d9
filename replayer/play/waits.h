/* A closed loop looks ahead: records that wait for a completion do not hold up those behind them.
 */
#ifndef TRACEKIT_PLAY_WAITS_H
#define TRACEKIT_PLAY_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "play/feed.h"
#include "play/pace.h"

struct waits;

/* A record that was taken from the feed and is not yet handled. */
struct waiting {
  struct block_record record;
  uint64_t position; /* in the run */
  uint64_t due_ns;   /* from the run's start; once that is known */
  uint64_t awaited;  /* position of the request that it waits for; until then */
  uint32_t next;     /* of those with the same hash, or free */
};

/* Makes space for `capacity` records (at least 1). Free with waits_close. NULL without memory. */
struct waits *waits_open(uint32_t capacity);

/* Whether a record can be added. */
bool waits_has_space(const struct waits *waits);

/* Adds the record at `position`: due at a time that `pace` knows, or once the request that it waits
 * for has ended. There must be space. */
void waits_add(struct waits *waits, const struct pace *pace, const struct block_record *record,
               uint64_t position);

/* The request at `position` has ended, `complete_ns` after the run's start: those that waited for
 * it are due. */
void waits_end(struct waits *waits, uint64_t position, uint64_t complete_ns);

/* Whether a record waits for the request at `position` that is due less than `think_ns` after it.
 */
bool waits_hurries(const struct waits *waits, uint64_t position, uint64_t think_ns);

/* Returns the record that is due first, of equals that of the lowest position; NULL if none is. */
const struct waiting *waits_first(const struct waits *waits);

/* Takes out what waits_first returned. */
void waits_remove_first(struct waits *waits);

/* Whether there is no record in it. */
bool waits_is_empty(const struct waits *waits);

/* Whether some wait for a completion. */
bool waits_follows(const struct waits *waits);

/* Returns the lowest position that is in it, `next` if it is empty. */
uint64_t waits_lowest(const struct waits *waits, uint64_t next);

/* NULL is fine. */
void waits_close(struct waits *waits);

#endif
