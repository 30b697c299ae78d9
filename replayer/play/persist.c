#include "play/persist.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

/* Stores that go around the caches, and a fence until they have arrived. */
static void stream(void *to, const void *from, size_t length) {
  __m128i *out = to;
  const __m128i *in = from;
  for (const __m128i *end = in + length / sizeof *in; in < end; in += 4, out += 4) {
    __m128i a = _mm_loadu_si128(in);
    __m128i b = _mm_loadu_si128(in + 1);
    __m128i c = _mm_loadu_si128(in + 2);
    __m128i d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  _mm_sfence();
}

static const struct persist own = {.copy = stream, .name = "non-temporal stores"};

#elif defined(__aarch64__)

/* Stores, then each line cleaned to the point of coherency, and a barrier. */
static void write_back(void *to, const void *from, size_t length) {
  memcpy(to, from, length);
  for (size_t at = 0; at < length; at += 64)
    __asm__ volatile("dc cvac, %0" : : "r"((char *)to + at) : "memory");
  __asm__ volatile("dsb sy" : : : "memory");
}

static const struct persist own = {.copy = write_back, .name = "write-back"};

#else
static const struct persist own = {.copy = NULL, .name = NULL};
#endif

typedef void *(*pmem_copy)(void *to, const void *from, size_t length);

int persist_open(struct persist *persist) {
  *persist = own;
  void *library = dlopen("libpmem.so.1", RTLD_NOW | RTLD_LOCAL);
  void *symbol = library == NULL ? NULL : dlsym(library, "pmem_memcpy_persist");
  if (symbol != NULL) {
    pmem_copy found;
    memcpy(&found, &symbol, sizeof found); /* C has no cast from an object to a function */
    /* It returns its first argument, which no caller of ours takes. */
    persist->copy = (persist_copy)(void (*)(void))found;
    persist->name = "libpmem";
    persist->library = library;
  } else if (library != NULL) {
    (void)dlclose(library); /* nothing of it is in use */
  }
  return persist->copy == NULL ? -ENOTSUP : 0;
}

void persist_close(struct persist *persist) {
  if (persist->library != NULL)
    (void)dlclose(persist->library); /* at the end of the program anyway */
  persist->library = NULL;
}
