/* libFuzzer harness of the trace decoder: the first byte of an input says how the rest is cut into
 * files, whether damage is salvaged and whether names are given. See README.md. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "decode/decode.h"

#define FILES 3
#define SALVAGE 0x80
#define NAMES 0x40

/* Puts the bytes into a new file in memory; aborts when the machine, not the decoder, fails. */
static int make_file(const uint8_t *data, size_t size) {
  int fd = memfd_create("trace", 0);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
    abort();
  return fd;
}

/* Rows must come in order, and everything must be released. */
static void consume(struct tk_decoder *decoder) {
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  if (tk_decode_stream(decoder, &stream) || stream.get_schema(&stream, &schema))
    abort();
  schema.release(&schema);
  int64_t next_id = 0;
  for (;;) {
    struct ArrowArray batch = {0};
    if (stream.get_next(&stream, &batch) || !batch.release)
      break;
    const int64_t *ids = batch.children[0]->buffers[1];
    for (int64_t i = 0; i < batch.length; i++)
      if (ids[i] != next_id++)
        abort();
    batch.release(&batch);
  }
  stream.release(&stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  uint8_t options = *data++;
  size--;
  int32_t fds[FILES];
  int64_t count = options % FILES + 1;
  size_t share = size / (size_t)count;
  for (int64_t i = 0; i < count; i++) {
    size_t begin = share * (size_t)i;
    fds[i] = make_file(data + begin, i + 1 == count ? size - begin : share);
  }
  struct tk_decoder *decoder;
  if (tk_decode_open(fds, count, options & SALVAGE, &decoder))
    abort();
  bool has_names = options & NAMES;
  if (has_names &&
      (tk_decode_name_device(decoder, 7, 0, "loop0") || tk_decode_name_process(decoder, 1, "init")))
    abort();
  consume(decoder);
  struct tk_decode_stats stats;
  tk_decode_stats(decoder, &stats);
  tk_decode_close(decoder);
  for (int64_t i = 0; i < count; i++)
    (void)close(fds[i]); /* a file in memory has nothing left to write */
  return 0;
}
