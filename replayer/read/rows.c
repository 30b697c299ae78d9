#include "read/rows.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_CAPACITY (1u << 10)

int rows_open(struct rows *rows) {
  *rows = (struct rows){.capacity = FIRST_CAPACITY};
  rows->ring = calloc(rows->capacity, sizeof(*rows->ring));
  return rows->ring ? 0 : -ENOMEM;
}

static int grow(struct rows *rows) {
  struct rows bigger = *rows;
  bigger.capacity *= 2;
  bigger.ring = malloc(bigger.capacity * sizeof(*bigger.ring));
  if (!bigger.ring)
    return -ENOMEM;
  for (uint64_t id = rows->head; id < rows->tail; id++)
    *rows_at(&bigger, id) = *rows_at(rows, id);
  free(rows->ring);
  *rows = bigger;
  return 0;
}

struct row *rows_append(struct rows *rows) {
  if (rows->tail - rows->head == rows->capacity && grow(rows))
    return NULL;
  struct row *row = rows_at(rows, rows->tail++);
  *row = (struct row){.queue_ns = NO_TIME,
                      .getrq_ns = NO_TIME,
                      .insert_ns = NO_TIME,
                      .merge_ns = NO_TIME,
                      .issue_ns = NO_TIME,
                      .transfer_ns = NO_TIME,
                      .complete_ns = NO_TIME,
                      .merged_into = -1,
                      .process = -1,
                      .partition = -1,
                      .request = NO_REQUEST};
  return row;
}

void rows_advance(struct rows *rows) {
  while (rows->ready < rows->tail && rows_at(rows, rows->ready)->is_done)
    rows->ready++;
}

void rows_close(struct rows *rows) {
  free(rows->ring);
  *rows = (struct rows){0};
}
