#include "play/buffers.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "common/hash.h"

/* SplitMix64 (Steele, Lea, Flood 2014): the n-th value of its sequence from seed 0. */
static uint64_t splitmix(uint64_t n) { return hash_mix((n + 1) * UINT64_C(0x9E3779B97F4A7C15)); }

static unsigned char *map(uint64_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void fill(unsigned char *pattern, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = splitmix((at % BUFFERS_PERIOD_BYTES) / sizeof(uint64_t));
    memcpy(pattern + at, &word, sizeof word);
  }
}

int buffers_open(struct buffers *buffers, uint64_t transfer_bytes) {
  memset(buffers, 0, sizeof *buffers);
  /* Whole pages, and at least one, so that a plan of flushes alone needs no special case. */
  buffers->transfer_bytes = (transfer_bytes + 4096) & ~UINT64_C(4095);
  uint64_t pattern_bytes = BUFFERS_PERIOD_BYTES + buffers->transfer_bytes;
  buffers->pattern = map(pattern_bytes);
  buffers->sink = map(buffers->transfer_bytes);
  buffers->zeroes = map(buffers->transfer_bytes);
  if (buffers->pattern == NULL || buffers->sink == NULL || buffers->zeroes == NULL) {
    buffers_close(buffers);
    return -ENOMEM;
  }
  fill(buffers->pattern, pattern_bytes);
  /* The sink's pages are touched now, not by the first reads of the run. */
  memset(buffers->sink, 0, buffers->transfer_bytes);
  return 0;
}

const unsigned char *buffers_pattern_at(const struct buffers *buffers, uint64_t offset) {
  return buffers->pattern + offset % BUFFERS_PERIOD_BYTES;
}

static void unmap(unsigned char *memory, uint64_t bytes) {
  if (memory != NULL)
    (void)munmap(memory, bytes); /* fails only for a range that was never mapped */
}

unsigned char *buffers_new_sink(const struct buffers *buffers) {
  return map(buffers->transfer_bytes);
}

void buffers_free_sink(const struct buffers *buffers, unsigned char *sink) {
  unmap(sink, buffers->transfer_bytes);
}

void buffers_close(struct buffers *buffers) {
  unmap(buffers->pattern, BUFFERS_PERIOD_BYTES + buffers->transfer_bytes);
  unmap(buffers->sink, buffers->transfer_bytes);
  unmap(buffers->zeroes, buffers->transfer_bytes);
  memset(buffers, 0, sizeof *buffers);
}
