/* Makes the files that a plan finds before its first operation, out of the measured time. */
#ifndef TRACEKIT_PLAY_PREPARE_H
#define TRACEKIT_PLAY_PREPARE_H

#include "play/file_operation.h"

#define PREPARE_CHUNK_BYTES (1U << 20) /* buffers must hold at least this */

/* What happens to the page cache between the preparation and the run. */
enum prepare_cache { PREPARE_KEEP, PREPARE_SYNC, PREPARE_COLD };
extern const char *const prepare_cache_words[]; /* in the order of the enum, ended by NULL */

struct prepare_report {
  uint64_t files;
  uint64_t directories;
  uint64_t bytes;
  uint64_t elapsed_ns; /* with what was done to the cache */
  const char *dropped; /* "nothing", "data" of the files, or "all" caches of this machine */
};

/* Makes directories, then files with their content by `threads` threads, then does `cache`. Returns
 * 0, -EINTR when a signal asked to stop, or another -errno after a line on stderr. */
int prepare_files(const struct file_plan *plan, const struct file_context *context,
                  uint32_t threads, enum prepare_cache cache, struct prepare_report *report);

#endif
