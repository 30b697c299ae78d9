/* What the harnesses share: inputs as files in memory, and rows that must come in order. */
#ifndef TRACEKIT_FUZZ_INPUT_H
#define TRACEKIT_FUZZ_INPUT_H

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "read/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Puts the bytes into a new file in memory; aborts when the machine, not the decoder, fails. */
static inline int make_file(const uint8_t *data, size_t size) {
  int fd = memfd_create("trace", 0);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
    abort();
  return fd;
}

/* Cuts the bytes into `count` files of about the same size. */
static inline void make_files(const uint8_t *data, size_t size, int64_t count, int32_t *fds) {
  size_t share = size / (size_t)count;
  for (int64_t i = 0; i < count; i++) {
    size_t begin = share * (size_t)i;
    fds[i] = make_file(data + begin, i + 1 == count ? size - begin : share);
  }
}

static inline void close_files(const int32_t *fds, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    (void)close(fds[i]); /* a file in memory has nothing left to write */
}

/* Rows must come in order, and everything must be released. */
static inline void consume(struct tk_decoder *decoder) {
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

#endif
