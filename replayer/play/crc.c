#include "play/crc.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define POLYNOMIAL 0xEDB88320U
#define FOLDED_MIN 64U /* bytes */

void crc_table_init(struct crc_table *table) {
  for (uint32_t value = 0; value < 256; value++) {
    uint32_t crc = value;
    for (unsigned bit = 0; bit < 8; bit++)
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? POLYNOMIAL : 0U);
    table->step[0][value] = crc;
  }
  for (uint32_t value = 0; value < 256; value++)
    for (unsigned k = 1; k < 8; k++) {
      uint32_t before = table->step[k - 1][value];
      table->step[k][value] = (before >> 8) ^ table->step[0][before & 0xFFU];
    }
}

#ifdef __x86_64__
#define FOLDING __attribute__((target("pclmul,sse4.1")))

/* 16 bytes, multiplied to where the bytes of `next` are: both together have the same remainder. */
FOLDING static inline __m128i folded(__m128i bytes, __m128i powers, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(bytes, powers, 0x00);
  __m128i high = _mm_clmulepi64_si128(bytes, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* The remainder of 16 bytes, by the method of Barrett. */
FOLDING static uint32_t remainder_of(__m128i bytes, __m128i powers) {
  const __m128i low_halves = _mm_setr_epi32(-1, 0, -1, 0);
  const __m128i power = _mm_set_epi64x(0, 0x163cd6124);
  const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
  __m128i rest = _mm_xor_si128(_mm_srli_si128(bytes, 8), _mm_clmulepi64_si128(bytes, powers, 0x10));
  __m128i above = _mm_srli_si128(rest, 4);
  rest = _mm_clmulepi64_si128(_mm_and_si128(rest, low_halves), power, 0x00);
  rest = _mm_xor_si128(rest, above);
  __m128i times = _mm_clmulepi64_si128(_mm_and_si128(rest, low_halves), barrett, 0x10);
  times = _mm_clmulepi64_si128(_mm_and_si128(times, low_halves), barrett, 0x00);
  return (uint32_t)_mm_extract_epi32(_mm_xor_si128(rest, times), 1);
}

/* Of `size` bytes, a multiple of 16 and at least FOLDED_MIN: 64 bytes a step, by multiplications
 * without carry (Gopal and others, Fast CRC Computation Using PCLMULQDQ, Intel 2009). */
FOLDING static uint32_t update_folded(uint32_t crc, const unsigned char *at, size_t size) {
  const __m128i by_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  const __m128i by_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const __m128i_u *next = (const void *)at;
  __m128i lanes[4];
  for (unsigned i = 0; i < 4; i++)
    lanes[i] = _mm_loadu_si128(next++);
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)crc));
  for (size -= 64; size >= 64; size -= 64, next += 4)
    for (unsigned i = 0; i < 4; i++)
      lanes[i] = folded(lanes[i], by_64, _mm_loadu_si128(next + i));
  for (unsigned i = 1; i < 4; i++)
    lanes[0] = folded(lanes[0], by_16, lanes[i]);
  for (; size >= 16; size -= 16)
    lanes[0] = folded(lanes[0], by_16, _mm_loadu_si128(next++));
  return remainder_of(lanes[0], by_16);
}

static int can_fold(void) {
  return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
static uint32_t update_folded(uint32_t crc, const unsigned char *at, size_t size) {
  (void)at;
  (void)size; /* never called */
  return crc;
}

static int can_fold(void) { return 0; }
#endif

uint32_t crc_update(const struct crc_table *table, uint32_t crc, const void *data, size_t size) {
  /* Eight tables take eight bytes a step, in a fraction of the time of one byte a step. */
  const unsigned char *at = data;
  crc = ~crc;
  if (size >= FOLDED_MIN && can_fold()) {
    size_t whole = size & ~(size_t)15;
    crc = update_folded(crc, at, whole);
    at += whole;
    size -= whole;
  }
  for (; size >= 8; size -= 8, at += 8) {
    uint32_t low;
    uint32_t high;
    memcpy(&low, at, sizeof low);
    memcpy(&high, at + 4, sizeof high);
    low ^= crc;
    crc = table->step[7][low & 0xFFU] ^ table->step[6][(low >> 8) & 0xFFU] ^
          table->step[5][(low >> 16) & 0xFFU] ^ table->step[4][low >> 24] ^
          table->step[3][high & 0xFFU] ^ table->step[2][(high >> 8) & 0xFFU] ^
          table->step[1][(high >> 16) & 0xFFU] ^ table->step[0][high >> 24];
  }
  for (; size > 0; size--, at++)
    crc = (crc >> 8) ^ table->step[0][(crc ^ *at) & 0xFFU];
  return ~crc;
}
