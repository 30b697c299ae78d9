/* Times of many placements, requests one after the other or with queues.
 *
 * A nesting is a chain of placements in which no role's NVM shrinks. In it a request's parts are
 * step functions of the placement, and so are the places of the heads: the base device serves a
 * part of a request in the first placements up to some one, NVM in the others, and leaves its head
 * in one place in all of these. So the heads of a device are a stack of runs, of which a part takes
 * off some and puts on one, and without queues the time of a request does not grow with the number
 * of placements. With them each placement has its servers, which `fcfs_queues.c` goes through piece
 * by piece.
 *
 * What continues on a device where its head is costs less than what does not. A request that is on
 * both devices is as many requests of the base device as it has runs of sectors there, and one of
 * NVM, where its blocks are neighbours. */
#ifndef TRACEKIT_MODEL_NESTED_PLACEMENTS_H
#define TRACEKIT_MODEL_NESTED_PLACEMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/device_split.h"
#include "model/event_simulation.h"
#include "model/issue_queue.h"
#include "model/nvm_layout.h"

struct nested_placements;

/* Says whether what continues on a device costs less than what does not, so that it matters where
 * the one before ended. */
bool nested_has_head(const struct tk_placement_cost *cost);

/* Makes the nestings of a simulation's placements; `layout` of NVM, which must outlive them, is
 * NULL where no request continues another there. Returns 0 or -ENOMEM. */
int nested_new(const struct tk_simulation_setup *setup, const struct nvm_layout *layout,
               struct nested_placements **set);

/* Charges a transfer that arrives now, given its split by order. Returns the time from arrival to
 * its end in the first placement, 0 without queues. */
int64_t nested_charge(struct nested_placements *set, const struct issue_request *request,
                      const struct device_split splits[TK_ORDERS], int64_t arrival_ps);

/* Charges a flush in the same way; the blocks of its role move from the lowest to the highest
 * points, by order. On both devices it costs
 * what both take. */
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
