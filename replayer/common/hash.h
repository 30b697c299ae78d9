/* One mixing function for every hash table of the library. */
#ifndef TRACEKIT_COMMON_HASH_H
#define TRACEKIT_COMMON_HASH_H

#include <stdint.h>

/* Spreads a 64-bit key over all bits (the finalizer of splitmix64). */
static inline uint64_t hash_mix(uint64_t key) {
  key ^= key >> 30;
  key *= 0xbf58476d1ce4e5b9ULL;
  key ^= key >> 27;
  key *= 0x94d049bb133111ebULL;
  return key ^ (key >> 31);
}

#endif
