#include "files/medium.h"

#include "replay/clock.h"

#define LINE_BYTES 64U

void medium_wait(const struct plan *plan, const struct plan_record *record, int64_t result) {
  uint32_t line_ns = record->operation == PLAN_READ    ? plan->read_line_ns
                     : record->operation == PLAN_WRITE ? plan->write_line_ns
                                                       : 0;
  if (line_ns == 0 || result <= 0)
    return;
  uint64_t lines = ((uint64_t)result + LINE_BYTES - 1) / LINE_BYTES;
  uint64_t until_ns = clock_now_ns() + lines * line_ns;
  while (clock_now_ns() < until_ns) {
    /* A processor that waits for memory does nothing else. */
  }
}
