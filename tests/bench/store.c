/* The peer of the dax engine: copies of 4 KiB to a mapping and a fence, and nothing around them.
 * The mapping is synchronous where the file system can do that, as the engine's.
 * usage: store FILE COPIES; prints the ns of one. */
#define _GNU_SOURCE
#include <emmintrin.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES 4096
#define PLACES 16384L

static void store(void *to, const void *from) {
  __m128i *out = to;
  const __m128i *in = from;
#pragma GCC unroll 4 /* as in the engine */
  for (int i = 0; i < BYTES / 16; i++)
    _mm_stream_si128(out + i, _mm_load_si128(in + i));
  _mm_sfence();
}

static char *map(int fd) {
  int protection = PROT_READ | PROT_WRITE;
  int synchronous = MAP_SHARED_VALIDATE | MAP_SYNC;
  void *bytes = mmap(NULL, PLACES * BYTES, protection, synchronous, fd, 0);
  if (bytes == MAP_FAILED)
    bytes = mmap(NULL, PLACES * BYTES, protection, MAP_SHARED, fd, 0);
  return bytes == MAP_FAILED ? NULL : bytes;
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int count, char **arguments) {
  if (count != 3)
    return 2;
  int fd = open(arguments[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, PLACES * BYTES) != 0)
    return 1;
  char *to = map(fd);
  char *from = aligned_alloc(BYTES, 256 * BYTES);
  if (to == NULL || from == NULL)
    return 1;
  memset(to, 0, PLACES * BYTES);
  memset(from, 1, 256 * BYTES);
  long copies = atol(arguments[2]);
  double start = now_ns();
  for (long i = 0; i < copies; i++) {
    long place = i * 7919 % PLACES;
    store(to + place * BYTES, from + place % 256 * BYTES);
  }
  printf("%.2f\n", (now_ns() - start) / (double)copies);
  return 0;
}
