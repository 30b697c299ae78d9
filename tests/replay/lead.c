/* Follows requests as a file says, and writes the lead after each line. */
#include "play/lead.h"

#include <inttypes.h>
#include <stdio.h>

#define TIMES 64U

int main(void) {
  struct lead lead;
  uint64_t first_ns;
  uint64_t submit_ns;
  uint32_t requests;
  uint32_t count;
  uint64_t queued_ns[TIMES];
  if (scanf("%" SCNu64, &first_ns) != 1)
    return 1;
  lead_open(&lead, first_ns);
  /* A line: when so many requests were submitted, and so many times. */
  while (scanf("%" SCNu64 "%" SCNu32 "%" SCNu32, &submit_ns, &requests, &count) == 3) {
    for (uint32_t i = 0; i < count; i++)
      if (count > TIMES || scanf("%" SCNu64, &queued_ns[i]) != 1)
        return 1;
    lead_follow(&lead, submit_ns, requests, queued_ns, count);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", lead.ns, lead.range.requests,
           lead.range.least_ns, lead.range.most_ns);
  }
  return 0;
}
