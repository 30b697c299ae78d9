/* Reads commands of requests in flight from a file and writes for each whether it met one. */
#include "play/overlap.h"

#include <stdio.h>
#include <stdlib.h>

struct command {
  uint64_t sector;
  uint32_t length_sectors;
  uint32_t slot;
  uint16_t target;
  uint8_t operation;
  uint8_t action; /* 0 looks, 1 looks and adds, 2 removes */
  uint32_t reserved;
};

int main(int count, char **arguments) {
  FILE *in = count == 4 ? fopen(arguments[1], "rb") : NULL;
  FILE *out = in != NULL ? fopen(arguments[2], "wb") : NULL;
  struct overlap *overlap = out != NULL ? overlap_open((uint32_t)atoi(arguments[3])) : NULL;
  struct command command;
  if (overlap == NULL)
    return 1;
  while (fread(&command, sizeof command, 1, in) == 1) {
    struct block_record record = {.sector = command.sector,
                                  .length_sectors = command.length_sectors,
                                  .operation = command.operation,
                                  .target = command.target};
    if (command.action == 2) {
      overlap_remove(overlap, command.slot);
      continue;
    }
    int found = overlap_find(overlap, &record);
    bool differs = command.action == 1 && overlap_enter(overlap, command.slot, &record) != found;
    fputc(differs ? 2 : found, out);
  }
  overlap_close(overlap);
  return fclose(out) != 0 || fclose(in) != 0;
}
