/* The memory that requests move. Requests share it, so it does not grow with the depth:
 * what is written is a pure function of its place on the target, what is read is thrown away. */
#ifndef TRACEKIT_PLAY_BUFFERS_H
#define TRACEKIT_PLAY_BUFFERS_H

#include <stdint.h>

#define BUFFERS_PERIOD_BYTES (1U << 20) /* the pattern repeats after this many bytes */

struct buffers {
  unsigned char *pattern;  /* BUFFERS_PERIOD_BYTES + transfer_bytes, page-aligned, read-only */
  unsigned char *sink;     /* transfer_bytes, page-aligned: where reads go */
  unsigned char *zeroes;   /* transfer_bytes, page-aligned, read-only */
  uint64_t transfer_bytes; /* longest single transfer */
};

/* Makes the buffers for transfers of up to `transfer_bytes`. The caller frees them with
 * buffers_close. Returns 0 or -errno. */
int buffers_open(struct buffers *buffers, uint64_t transfer_bytes);

/* Returns what is to be written at byte `offset` of a target. Any thread. */
const unsigned char *buffers_pattern_at(const struct buffers *buffers, uint64_t offset);

/* Makes a further sink of transfer_bytes, for a thread of its own: threads that copied into one
 * would slow each other down. NULL with errno on failure. Free with buffers_free_sink. */
unsigned char *buffers_new_sink(const struct buffers *buffers);

/* NULL is fine. */
void buffers_free_sink(const struct buffers *buffers, unsigned char *sink);

void buffers_close(struct buffers *buffers);

#endif
