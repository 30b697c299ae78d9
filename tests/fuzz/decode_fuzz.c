/* libFuzzer harness of the trace decoder: the first byte of an input says how the rest is cut into
 * files, whether damage is salvaged and whether names are given. See README.md. */
#include "input.h"

#define FILES 3
#define SALVAGE 0x80
#define NAMES 0x40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  uint8_t options = *data++;
  size--;
  int32_t fds[FILES];
  int64_t count = options % FILES + 1;
  make_files(data, size, count, fds);
  struct tk_decoder *decoder;
  if (tk_decode_open(fds, count, options & SALVAGE, &decoder))
    abort();

  /* Names come from outside of the trace, before its first record. */
  bool has_names = options & NAMES;
  if (has_names &&
      (tk_decode_name_device(decoder, 7, 0, "loop0") || tk_decode_name_process(decoder, 1, "init")))
    abort();
  consume(decoder);
  struct tk_decode_stats stats;
  tk_decode_stats(decoder, &stats);
  tk_decode_close(decoder);
  close_files(fds, count);
  return 0;
}
