/* libFuzzer harness of the texts of events: the first byte of an input says as which format the
 * rest is read, and how much of it was read before. See README.md. */
#include <string.h>

#include "input.h"
#include "read/text.h"

#define KNOWN 0x80 /* the format is the one that the text is found to be */
#define HEAD_BYTES (64u << 10)

static const char *const forms[] = {
    "%D %2c %8s %5T.%9t %5p %2a %3d %S + %n [%C] %e\\n",
    "%M:%m;%c;%T;%t;%p;%a;%d;%S;%N\n",
    "%T|%C|%a|%d|%S|%n|%g%U",
};

/* Every line is an event, passed over or wrong; a wrong one that is kept has a number. */
static void check(const struct tk_decoder *decoder) {
  struct tk_decode_stats stats;
  tk_decode_stats(decoder, &stats);
  struct problem problem;
  tk_decode_problem(decoder, &problem);
  int64_t told = stats.records + stats.passed_lines + stats.bad_lines;
  if (problem.kind == PROBLEM_NONE && told != stats.lines)
    abort();
  const char *text;
  int64_t kept = 0;
  while (tk_decode_bad_line(decoder, 0, kept, &text) > 0)
    kept += strlen(text) <= TEXT_SHOWN_BYTES;
  if (kept != (stats.bad_lines < TEXT_EXAMPLES ? stats.bad_lines : TEXT_EXAMPLES))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  uint8_t options = *data++;
  size--;
  int32_t fd = make_file(data, size);

  /* A copy of just the head's size, so that a read beyond it is seen. */
  size_t head_size = options & KNOWN || size < HEAD_BYTES ? size : HEAD_BYTES;
  if (head_size > HEAD_BYTES)
    head_size = HEAD_BYTES;
  char *head = malloc(head_size);
  if (!head || read(fd, head, head_size) != (ssize_t)head_size)
    abort();

  /* The format that the text is found to be, or any. */
  int64_t found = tk_decode_detect_text(head, (int64_t)head_size);
  int64_t format = options & KNOWN ? found : 1 + options % TEXT_SCSI;
  const char *form = format == TEXT_FORM ? forms[(options >> 2) % 3] : NULL;
  struct tk_decoder *decoder;
  if (tk_decode_open(&fd, 1, 0, &decoder))
    abort();
  if (format != TEXT_NONE) {
    if (tk_decode_set_text(decoder, 0, format, form, 512, head, (int64_t)head_size))
      abort();
    consume(decoder);
    check(decoder);
  }
  tk_decode_close(decoder);
  free(head);
  close_files(&fd, 1);
  return 0;
}
