#include "play/crc.h"

#include <string.h>

#define POLYNOMIAL 0xEDB88320U

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

uint32_t crc_update(const struct crc_table *table, uint32_t crc, const void *data, size_t size) {
  /* Eight tables take eight bytes a step, in a fraction of the time of one byte a step. */
  const unsigned char *at = data;
  crc = ~crc;
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
