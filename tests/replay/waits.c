/* Takes and ends the requests of a closed loop as a file says, and writes when each is due. */
#include "play/waits.h"

#include <inttypes.h>
#include <stdio.h>

#define CAPACITY 4096U

int main(void) {
  struct pace pace;
  const struct pace_rules rules = {.kind = PACE_CLOSED};
  struct waits *waits = waits_open(CAPACITY);
  uint64_t taken = 0;
  uint64_t numbers[3];
  char action;
  if (waits == NULL || pace_open(&pace, &rules) != 0)
    return 1;
  /* Each command is a letter and three numbers, of which some mean nothing. */
  while (scanf(" %c%" SCNu64 "%" SCNu64 "%" SCNu64, &action, &numbers[0], &numbers[1],
               &numbers[2]) == 4) {
    if (action == 't') { /* a request: its intended time, how far back it waits, its think time */
      struct block_record record = {
          .intended_ns = numbers[0], .after = (uint32_t)numbers[1], .think_ns = numbers[2]};
      if (!waits_has_space(waits))
        return 1;
      pace_begin(&pace, taken);
      waits_add(waits, &pace, &record, taken++);
    }
    if (action == 'e') { /* one ends: its position, and when */
      pace_end(&pace, numbers[0], numbers[1]);
      waits_end(waits, numbers[0], numbers[1]);
    }
    for (uint64_t i = 0; action == 'p' && i < numbers[0]; i++) { /* so many pass at a time */
      pace_begin(&pace, taken);
      pace_end(&pace, taken, numbers[1]);
      waits_end(waits, taken++, numbers[1]);
    }
    for (const struct waiting *due; (due = waits_first(waits)) != NULL; waits_remove_first(waits))
      printf("%" PRIu64 " %" PRIu64 "\n", due->position, due->due_ns);
  }
  waits_close(waits);
  pace_close(&pace);
  return 0;
}
