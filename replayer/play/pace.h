/* When each request is due: by the plan's times, by the completion that it waited for in the trace,
 * or at once; and what becomes of a schedule that could not be kept. */
#ifndef TRACEKIT_PLAY_PACE_H
#define TRACEKIT_PLAY_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct block_record;

enum pace_kind {
  PACE_TRACE,  /* open loop: each request at its intended time */
  PACE_FAST,   /* as fast as possible */
  PACE_CLOSED, /* think time after the completion that preceded it in the trace */
  PACE_UNSET,  /* not chosen: by the kind of the plan */
};

extern const char *const pace_words[]; /* in the order of the enum, ended by NULL */

/* What to do about a request that is later than the limit; open loop only. */
enum pace_late {
  PACE_CATCH_UP, /* issue it at once and keep the times of all that follow */
  PACE_SLIP,     /* issue it at once and move the times of all that follow by as much */
  PACE_DROP,     /* leave it out */
};

extern const char *const pace_late_words[]; /* as pace_words */

struct pace_rules {
  enum pace_kind kind;
  enum pace_late late;
  uint64_t late_limit_ns; /* a request up to this late is not late */
  uint64_t lead_ns;       /* what the kernel takes to queue a request that is handed to it */
};

struct pace {
  struct pace_rules rules;
  uint64_t slipped_ns; /* how far the schedule has moved */
  uint64_t *done_ns;   /* closed loop: completion + 1 by position, 0 while in flight; else NULL */
  uint64_t begun;      /* closed loop: the position after the last that is under way */
};

/* Makes a pace; the caller frees it with pace_close. Returns 0 or -ENOMEM. */
int pace_open(struct pace *pace, const struct pace_rules *rules);

/* Sets *due_ns (from the run's start) for the record at `position` of the run. Returns false while
 * that depends on a request in flight. */
bool pace_due(const struct pace *pace, const struct block_record *record, uint64_t position,
              uint64_t *due_ns);

/* Returns when a record due at `due_ns` is handed over: before that by the lead, and not before the
 * run's start. */
uint64_t pace_go_ns(const struct pace *pace, uint64_t due_ns);

/* Returns how late the kernel queues what is handed over at `elapsed_ns`, as far as the lead says;
 * 0 with PACE_FAST. */
uint64_t pace_lag_ns(const struct pace *pace, uint64_t due_ns, uint64_t elapsed_ns);

/* Whether a request that is `lag_ns` late is to be left out. Moves the schedule when it slips. */
bool pace_drops(struct pace *pace, uint64_t lag_ns);

/* Notes that the request at `position` is under way, in the order of positions; then that it ended,
 * whenever that is. */
void pace_begin(struct pace *pace, uint64_t position);
void pace_end(struct pace *pace, uint64_t position, uint64_t complete_ns);

/* Frees what pace_open made; does nothing for zeroes. */
void pace_close(struct pace *pace);

#endif
