/* Finds records that the tracer lost: each device and cpu numbers its records from 1. */
#ifndef TRACEKIT_READ_SEQUENCE_H
#define TRACEKIT_READ_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/record.h"

struct sequence_stream {
  uint32_t device;
  uint32_t cpu;
  uint32_t last; /* sequence number */
};

/* Embedded by its owner; all zero is valid. */
struct sequence {
  struct sequence_stream *streams;
  size_t count, capacity;
  size_t current;    /* the stream of the last record */
  uint64_t gaps;     /* places where numbers are missing */
  uint64_t lost;     /* numbers missing in all */
  uint64_t repeated; /* records whose number does not go up: read twice, or two captures in one */
  uint64_t numbered; /* records with a number; 0 of them means a source without numbers */
};

/* Takes the record's number into account. Returns 0 or -ENOMEM. */
int sequence_check(struct sequence *sequence, const struct record *record);

/* Frees everything. */
void sequence_clear(struct sequence *sequence);

#endif
