/* The files of a flow's set that are there and those that are not, and which is next. */
#ifndef TRACEKIT_PLAY_FLOW_FILES_H
#define TRACEKIT_PLAY_FLOW_FILES_H

#include <pthread.h>
#include <stdbool.h>

#include "play/file_plan.h"

/* One set. Any thread, under its lock. */
struct flow_files {
  uint32_t count;
  uint32_t first_of_create; /* rotor: where the search for a file that is not there begins */
  uint32_t *first_of_open;  /* the same of those that are there: [0] of all threads, then of each */
  uint64_t *present;        /* a bit a file */
  uint8_t *busy;            /* an operation is at it */
  uint32_t *open_count;     /* descriptors */
  pthread_mutex_t lock;
  pthread_cond_t idle; /* some file is no longer busy */
};

/* How to choose. */
struct flow_choice {
  bool is_present; /* a file that is there */
  bool is_closed;  /* that nobody has open */
  bool is_indexed; /* by `start`, else by the rotor of that number */
  uint32_t start;
};

/* A file was chosen; or there is none; or all are busy at the moment. */
enum flow_found { FLOW_FOUND, FLOW_EMPTY, FLOW_BUSY };

/* Makes the state before the run. Returns 0 or -ENOMEM; end it with flow_files_close either way. */
int flow_files_open(struct flow_files *files, const struct file_plan *plan, uint32_t set);

void flow_files_close(struct flow_files *files);

/* Chooses the first file from the rotor on, around the end, and makes it busy. When all are busy it
 * waits for up to 20 ms before it says so. */
enum flow_found flow_files_choose(struct flow_files *files, const struct flow_choice *choice,
                                  uint32_t *member);

/* Makes one file busy, as far as 20 ms allow. */
enum flow_found flow_files_take(struct flow_files *files, uint32_t member);

/* Whether more than `most` descriptors of a file are open; it is busy. */
bool flow_files_is_open(struct flow_files *files, uint32_t member, uint32_t most);

/* What became of a file, which is busy no more. */
struct flow_change {
  bool sets_present; /* it is there or not, as the next one says; nobody has a missing one open */
  bool is_present;
  int opened; /* +1, 0, -1 */
};
void flow_files_give(struct flow_files *files, uint32_t member, struct flow_change change);

/* Notes that one descriptor was closed. */
void flow_files_closed(struct flow_files *files, uint32_t member);

#endif
