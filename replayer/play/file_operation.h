/* One record of a plan as system calls. */
#ifndef TRACEKIT_PLAY_FILE_OPERATION_H
#define TRACEKIT_PLAY_FILE_OPERATION_H

#include "play/buffers.h"
#include "play/file_paths.h"
#include "play/file_plan.h"
#include "play/handle_table.h"

/* What all threads share. */
struct file_context {
  const struct file_paths *paths;
  struct handle_table *handles;
  const struct buffers *buffers;
  int run_fd; /* where paths begin */
};

/* Closes what is open under the handle that `record` is about to open: to be called before the
 * clock is read. */
void file_operation_clear(const struct file_context *context, const struct file_record *record);

/* Performs the record; `sink` takes what is read. Returns bytes moved, entries read or 0; or
 * -errno: -EBADF for a handle that is not open. */
int64_t file_operation_perform(const struct file_context *context, const struct file_record *record,
                               unsigned char *sink);

/* Returns the bytes that are to be written at byte `offset` of a file, FILE_AT_POSITION: at 0. */
const unsigned char *file_operation_content(const struct file_context *context, uint32_t file,
                                            uint64_t offset);

#endif
