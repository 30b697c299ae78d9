/* Times of many placements, requests one after the other or with queues.
 *
 * A nesting is a chain of placements in which no role's NVM shrinks. In it a request's parts are
 * step functions of the placement, and so is the place of a disk's head: the base device serves a
 * request in the first placements up to some one, and its head is then in one place in all of
 * these. So the heads are a stack of runs, of which a request takes off the first ones and puts on
 * one, and without queues the time of a request does not grow with the number of placements. With
 * them each placement has its servers, which `fcfs_queues.c` goes through piece by piece. */
#ifndef TRACEKIT_MODEL_NESTED_PLACEMENTS_H
#define TRACEKIT_MODEL_NESTED_PLACEMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/device_split.h"
#include "model/event_simulation.h"
#include "model/issue_queue.h"

struct nested_placements;

/* Makes the nestings of a simulation's placements. Returns 0 or -ENOMEM. */
int nested_new(const struct tk_simulation_setup *setup, struct nested_placements **set);

/* Charges a transfer that arrives now, given its split by order; `before` is the point by order of
 * the block that it continues, NULL when it continues none. Returns the time from arrival to its
 * end in the first placement, 0 without queues. */
int64_t nested_charge(struct nested_placements *set, const struct issue_request *request,
                      const struct device_split splits[TK_ORDERS], const uint16_t *before,
                      int64_t arrival_ps);

/* Charges a flush in the same way; the blocks of its role move from the lowest to the highest
 * points, by order. On both devices it counts as long as it takes on the slower one. */
int64_t nested_flush(struct nested_placements *set, const struct issue_request *request,
                     const uint16_t lowest[TK_ORDERS], const uint16_t highest[TK_ORDERS],
                     int64_t arrival_ps);

/* Returns what the first placement takes so far. */
int64_t nested_first_ps(const struct nested_placements *set);

/* Writes what each placement takes. */
void nested_read(const struct nested_placements *set, struct tk_simulated *results);

/* Frees the set; NULL is fine. */
void nested_free(struct nested_placements *set);

#endif
