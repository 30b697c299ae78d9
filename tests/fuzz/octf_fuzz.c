/* libFuzzer harness of the reader of OCTF traces: the first byte of an input says how the rest is
 * cut into files and how much of the first was read before. See README.md. */
#include <string.h>

#include "input.h"
#include "read/octf.h"

#define FILES 3
#define ROWS 16
#define HAS_HEAD 0x80
#define HEAD_BYTES 64u

static bool is_flag(int64_t value) { return value == 0 || value == 1; }

/* A row is of a known device and operation, and ends after it began if it ends. */
static void check_row(const struct tk_octf *reader, int64_t *const *columns, int64_t row) {
  struct tk_octf_device device;
  int64_t devices = tk_octf_device(reader, columns[TK_OCTF_DEVICE][row], &device);
  if (columns[TK_OCTF_DEVICE][row] < 0 || columns[TK_OCTF_DEVICE][row] >= devices)
    abort();
  if (columns[TK_OCTF_TIME][row] < 0 || columns[TK_OCTF_SECTOR][row] < 0 ||
      columns[TK_OCTF_SECTORS][row] < 0 || columns[TK_OCTF_RESPONSE][row] < -1)
    abort();
  if (columns[TK_OCTF_OPERATION][row] < 0 || columns[TK_OCTF_OPERATION][row] > 4)
    abort();
  for (int i = TK_OCTF_PREFLUSH; i <= TK_OCTF_ERROR; i++)
    if (!is_flag(columns[i][row]))
      abort();
}

/* Reads to the end; returns the rows, or -errno. */
static int64_t consume_rows(struct tk_octf *reader) {
  static int64_t numbers[TK_OCTF_COLUMNS][ROWS];
  int64_t *columns[TK_OCTF_COLUMNS];
  for (int i = 0; i < TK_OCTF_COLUMNS; i++)
    columns[i] = numbers[i];
  int64_t rows = 0, count;
  while ((count = tk_octf_read(reader, columns, ROWS)) > 0) {
    for (int64_t i = 0; i < count; i++)
      check_row(reader, columns, i);
    rows += count;
  }
  return count < 0 ? count : rows;
}

/* Every event is a request, a completion, passed over or unknown; what stopped it has a place. */
static void check(const struct tk_octf *reader, int64_t rows, int64_t count) {
  struct tk_octf_stats stats;
  struct octf_problem problem;
  tk_octf_stats(reader, &stats);
  tk_octf_problem(reader, &problem);
  if (rows < 0) {
    if (problem.kind == OCTF_PROBLEM_NONE || problem.file < 0 || problem.file >= count)
      abort();
    return;
  }
  if (problem.kind != OCTF_PROBLEM_NONE || rows != stats.requests ||
      stats.requests + stats.completions + stats.passed + stats.unknown > stats.messages ||
      stats.unmatched_requests > stats.requests || stats.evicted > stats.unmatched_requests ||
      stats.unmatched_completions > stats.completions || stats.numbered > stats.messages)
    abort();
  for (int64_t i = 0; i < count; i++)
    tk_octf_cut(reader, i, &problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  uint8_t options = *data++;
  size--;
  int32_t fds[FILES];
  int64_t count = options % FILES + 1;
  make_files(data, size, count, fds);

  /* A copy of just the head's size, so that a read beyond it is seen. */
  uint8_t *head = malloc(HEAD_BYTES);
  ssize_t head_size = options & HAS_HEAD ? read(fds[0], head, HEAD_BYTES) : 0;
  if (!head || head_size < 0)
    abort();
  head = realloc(head, (size_t)head_size + 1);
  (void)tk_octf_detect(head, head_size);
  struct tk_octf *reader;
  if (tk_octf_open(fds, count, head, head_size, &reader))
    abort();
  check(reader, consume_rows(reader), count);
  tk_octf_close(reader);
  free(head);
  close_files(fds, count);
  return 0;
}
