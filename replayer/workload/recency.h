/* Places in the order of their last use (an LRU stack): the n-th last is found in O(log n). */
#ifndef TRACEKIT_WORKLOAD_RECENCY_H
#define TRACEKIT_WORKLOAD_RECENCY_H

#include <stdint.h>

#define RECENCY_NOWHERE UINT64_MAX

struct recency;

/* Makes an empty stack of at most `most` places, 1 to 2^26; when full, the oldest is forgotten.
 * Returns 0, -EINVAL or -ENOMEM. */
int recency_new(uint64_t most, struct recency **out);

/* Returns how many places it holds. */
uint64_t recency_count(const struct recency *recency);

/* Returns the place that `distance` others were used after, which is below the count. */
uint64_t recency_at(const struct recency *recency, uint64_t distance);

/* Returns which one the place is by its last use, 1: the last used one; 0: it is not held. */
uint64_t recency_back(const struct recency *recency, uint64_t place);

/* Says whether the place is held. */
int recency_has(const struct recency *recency, uint64_t place);

/* Makes the place, below 2^63, the last used one, and notes a number of it. Returns 0 or -ENOMEM.
 */
int recency_use(struct recency *recency, uint64_t place, uint64_t note);

/* Forgets the place, if it is held. */
void recency_forget(struct recency *recency, uint64_t place);

/* Returns what was noted of a place that is held. */
uint64_t recency_note(const struct recency *recency, uint64_t place);

/* Frees the stack; NULL is fine. */
void recency_free(struct recency *recency);

#endif
