#include "strace/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES ((size_t)1 << 18)

static int fill(struct reader *reader) {
  if (reader->from) {
    memmove(reader->text, reader->text + reader->from, reader->to - reader->from);
    reader->to -= reader->from;
    reader->from = 0;
  }

  /* A line may be longer than the buffer, which then grows. */
  if (reader->capacity - reader->to < READ_BYTES) {
    size_t capacity = (reader->to + READ_BYTES) * 2;
    char *text = realloc(reader->text, capacity);
    if (!text)
      return -ENOMEM;
    reader->text = text;
    reader->capacity = capacity;
  }
  ssize_t got;
  do
    got = read(reader->fd, reader->text + reader->to, READ_BYTES);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return -errno;
  reader->is_at_end = got == 0;
  reader->to += (size_t)got;
  return 0;
}

/* A line is looked for in what was read, and then in what follows. */
int reader_line(struct reader *reader, struct view *out) {
  size_t looked_at = 0;
  for (;;) {
    size_t held = reader->to - reader->from;
    const char *text = held ? reader->text + reader->from : NULL;
    const char *end = held > looked_at ? memchr(text + looked_at, '\n', held - looked_at) : NULL;
    if (end || (reader->is_at_end && held)) {
      size_t length = end ? (size_t)(end - text) : held;
      *out = (struct view){text, length};
      reader->from += length + (end != NULL);
      reader->bytes += (int64_t)length + (end != NULL);
      return 1;
    }
    if (reader->is_at_end)
      return 0;
    looked_at = held;
    int status = fill(reader);
    if (status)
      return status;
  }
}

int reader_peek(struct reader *reader, size_t size, struct view *out) {
  while (reader->to - reader->from < size && !reader->is_at_end) {
    int status = fill(reader);
    if (status)
      return status;
  }
  size_t held = reader->to - reader->from;
  if (held < size)
    return 0;
  *out = (struct view){reader->text + reader->from, held};
  return 1;
}

void reader_skip(struct reader *reader, size_t size) {
  reader->from += size;
  reader->bytes += (int64_t)size;
}

void reader_clear(struct reader *reader) {
  free(reader->text);
  *reader = (struct reader){.fd = reader->fd};
}
