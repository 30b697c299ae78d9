/* libFuzzer harness of the decoder of strace's output and of recordings of tracekit-bpf: the first
 * byte of an input says whether rows are left out. See README.md. */
#include <errno.h>

#include "input.h"
#include "strace/calls.h"

#define ROWS 64
#define BELOW 0x80

/* Rows must come in the order of their starts, and name files that there are. */
static void consume_calls(struct tk_calls *calls) {
  struct tk_operation rows[ROWS];
  int64_t last_ns = INT64_MIN;
  int64_t count;
  int64_t most_file = -1;
  while ((count = tk_calls_next(calls, rows, ROWS)) > 0)
    for (int64_t i = 0; i < count; i++) {
      if (rows[i].start_ns < last_ns || rows[i].operation < 0 || rows[i].operation >= OPERATIONS)
        abort();
      last_ns = rows[i].start_ns;
      most_file = rows[i].file > most_file ? rows[i].file : most_file;
    }
  const char *text;
  if ((count < 0 && count != -EBADMSG) || most_file >= tk_calls_files(calls, NULL, NULL, &text))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  uint8_t options = *data++;
  size--;
  int32_t fd = make_file(data, size);

  /* What is known before the trace, so that inherited descriptors are met, too. */
  struct tk_calls_options given = {.folder = "/w", .below = options & BELOW ? "/w" : NULL};
  struct tk_calls *calls;
  int status = tk_calls_open(fd, &given, &calls);
  if (status == -EBADMSG) { /* a damaged recording */
    close_files(&fd, 1);
    return 0;
  }
  if (status)
    abort();
  if (tk_calls_know(calls, "/w/a", 4, 1, 100, 2) || tk_calls_inherit(calls, 1, "/w/out", 7, 0))
    abort();
  consume_calls(calls);
  struct tk_calls_stats stats;
  tk_calls_stats(calls, &stats);
  tk_calls_close(calls);
  close_files(&fd, 1);
  return 0;
}
