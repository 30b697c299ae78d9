/* Writes the checksums of the beginnings and of the ends of a file, of each length, in two pieces.
 */
#include "play/crc.h"

#include <stdio.h>

int main(void) {
  static unsigned char data[1024];
  struct crc_table table;
  crc_table_init(&table);
  size_t size = fread(data, 1, sizeof data, stdin);
  for (size_t length = 0; length <= size; length++) {
    uint32_t crc = crc_update(&table, 0, data, length);
    printf("%u %u\n", crc, crc_update(&table, crc, data + length, size - length));
  }
  return 0;
}
