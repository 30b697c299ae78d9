/* How true an emulated device was: when its completions were seen, against when it was done.
 *
 * The program cannot be everywhere at once, and a busy machine does not let it run: then it is
 * late, and the device looks slower than it is. Beyond a budget its times say more about the
 * machine. */
#ifndef TRACEKIT_PLAY_EMULATION_H
#define TRACEKIT_PLAY_EMULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "play/histogram.h"

/* Requests that were done on one device. */
struct emulation {
  struct histogram modelled; /* submitted until the device was done */
  struct histogram lateness; /* the device was done until the completion was seen */
};

struct json;

/* Makes empty ones, one a target, every page of them touched; NULL without memory. Free with free.
 */
struct emulation *emulation_new(uint32_t target_count);

/* Notes a request that the device was done with modelled_ns after its submission. */
void emulation_add(struct emulation *emulation, uint64_t modelled_ns, uint64_t late_ns);

/* Whether a device's completions were as punctual as its times need: the mean lateness at most a
 * twentieth of the mean modelled response, the 99th percentile a tenth of that of the responses; or
 * as much as looking at the clock costs. */
bool emulation_is_within_budget(const struct emulation *emulation);

/* Writes whether all devices are within the budget, the lateness of all of them together by what
 * they took, and the budget. */
void emulation_write_budget(struct json *json, const struct emulation *emulation, uint32_t count);

/* Writes what there is of one device into an open object. */
void emulation_write(struct json *json, const struct emulation *emulation);

#endif
