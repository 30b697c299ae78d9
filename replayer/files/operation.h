/* One record of a plan as system calls. */
#ifndef TRACEKIT_FILES_OPERATION_H
#define TRACEKIT_FILES_OPERATION_H

#include "files/handles.h"
#include "files/paths.h"
#include "files/plan.h"
#include "replay/buffers.h"

/* What all threads share. */
struct operation_place {
  const struct paths *paths;
  struct handles *handles;
  const struct buffers *buffers;
  int run_fd; /* where paths begin */
};

/* Closes what is open under the handle that `record` is about to open: to be called before the
 * clock is read. */
void operation_clear(const struct operation_place *place, const struct plan_record *record);

/* Performs the record; `sink` takes what is read. Returns bytes moved, entries read or 0; or
 * -errno: -EBADF for a handle that is not open. */
int64_t operation_perform(const struct operation_place *place, const struct plan_record *record,
                          unsigned char *sink);

/* Returns the bytes that are to be written at byte `offset` of a file, PLAN_AT_POSITION: at 0. */
const unsigned char *operation_content(const struct operation_place *place, uint32_t file,
                                       uint64_t offset);

#endif
