/* CRC-32 (IEEE 802.3, as in zlib). */
#ifndef TRACEKIT_PLAY_CRC_H
#define TRACEKIT_PLAY_CRC_H

#include <stddef.h>
#include <stdint.h>

struct crc_table {
  uint32_t step[8][256]; /* remainder of each byte value, 0 to 7 bytes further on */
};

void crc_table_init(struct crc_table *table);

/* Returns the CRC of `size` more bytes after `crc`; 0 starts a new one. Any thread. */
uint32_t crc_update(const struct crc_table *table, uint32_t crc, const void *data, size_t size);

#endif
