/* Open requests: the table that finds the request an event speaks of by its place on the device.
 *
 * A queued I/O is one piece until it is split. Pieces that were merged hang on their carrier and
 * are found through it; all others are found by their first sector and by their end. */
#ifndef TRACEKIT_READ_PIECES_H
#define TRACEKIT_READ_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "read/rows.h"

/* States are bits, so that a search can name several. */
enum piece_state {
  PIECE_QUEUED = 1,    /* Q */
  PIECE_ALLOCATED = 2, /* G */
  PIECE_INSERTED = 4,  /* I, or R after a D */
  PIECE_ISSUED = 8,    /* D */
  PIECE_DRAINING = 16, /* its data is done, its closing flush is not */
  PIECE_MERGED = 32,   /* part of another piece */
  PIECE_WAITING = PIECE_QUEUED | PIECE_ALLOCATED | PIECE_INSERTED,
};

#define ANY_LENGTH UINT64_MAX

struct piece {
  uint64_t row;   /* request_id, NO_ROW when its row has left the window */
  uint64_t begin; /* sectors [begin, end) that are still to be transferred, merged ones too */
  uint64_t end;
  uint64_t own_begin; /* sectors of the row itself */
  uint64_t own_end;
  int64_t flushed_ns; /* of an empty flush: the device flush that serves it was done; or NO_TIME */
  uint32_t device;    /* index */
  uint32_t pid;       /* of the queue event */
  uint32_t next_at_begin, next_at_end;   /* chains of the two tables; the first also of free ones */
  uint32_t first_child, last_child;      /* pieces merged into this one, in order of merging */
  uint32_t next_child;                   /* chain of the carrier's children, or of flushes */
  uint32_t next_of_row, previous_of_row; /* the row's other pieces */
  uint8_t kind;  /* direction and sort of operation: an event of another kind is another's */
  uint8_t state; /* enum piece_state */
  bool has_closing_flush; /* its last completion carries no bytes */
  bool is_remainder;      /* what was left after a split, not seen since */
};

/* Embedded by its owner. */
struct pieces {
  struct piece *pool;
  uint32_t capacity, used; /* of the pool */
  uint32_t free_list;
  uint32_t linked;  /* pieces in the tables */
  uint32_t buckets; /* of each table, a power of two */
  uint32_t *by_begin, *by_end;
};

/* What to look for. */
struct piece_key {
  uint32_t device;
  uint32_t pid; /* preferred among several */
  uint64_t sector;
  uint64_t sectors; /* exact length or ANY_LENGTH */
  uint8_t kind;
  uint8_t states;
};

/* Prepares an empty table. Returns 0 or -ENOMEM; pieces_close in both cases. */
int pieces_open(struct pieces *pieces);
void pieces_close(struct pieces *pieces);

/* Takes a zeroed piece without children from the pool; not yet in the tables. Returns its index or
 * NO_PIECE without memory. Pointers to pieces are invalid afterwards. */
uint32_t pieces_new(struct pieces *pieces);

/* Gives a piece that is not in the tables back to the pool. */
void pieces_free(struct pieces *pieces, uint32_t index);

/* Enters the piece into the tables by its begin and end, or removes it. These must not change while
 * it is in them. Returns 0 or -ENOMEM. */
int pieces_link(struct pieces *pieces, uint32_t index);
void pieces_unlink(struct pieces *pieces, uint32_t index);

/* Finds the piece that begins (ends) at key->sector, is of the kind and in one of the states, and
 * has the length if one is given. Of several, one of the same pid is taken, then the newest: if a
 * completion was lost, only its own request is spoilt and not every later one at that place.
 * Returns NO_PIECE if there is none. */
uint32_t pieces_find(const struct pieces *pieces, const struct piece_key *key);
uint32_t pieces_find_end(const struct pieces *pieces, const struct piece_key *key);

static inline struct piece *pieces_at(const struct pieces *pieces, uint32_t index) {
  return &pieces->pool[index];
}

#endif
