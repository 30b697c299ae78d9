#include "model/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLOSED UINT64_MAX

struct buffer {
  uint32_t row_shift;
  uint32_t unit_shift; /* of a line, or of a row where that is smaller */
  uint32_t count;
  uint32_t depth;    /* the largest number of buffers */
  uint32_t *buffers; /* `count` numbers */
  uint64_t *stack;   /* `depth` rows, the newest first */
  uint64_t *banks;   /* for each number of buffers its open rows, `depth` apart */
  uint64_t *found;   /* BUFFER_ROWS rows of `depth`: LRU hits by stack distance from 0 */
  uint64_t *matched; /* BUFFER_ROWS rows of `count`: rows that a request found open in banks */
  uint64_t accesses[BUFFER_ROWS];
  uint64_t repeats[BUFFER_ROWS]; /* accesses after a request's first to a row: always hits */
};

static int check_setup(const struct buffer_setup *setup) {
  if (setup->row_shift > 30 || setup->line_shift > 30 || setup->count == 0)
    return -EINVAL;
  for (uint32_t i = 0; i < setup->count; i++)
    if (setup->buffers[i] <= (i ? setup->buffers[i - 1] : 0) || setup->buffers[i] > BUFFER_MOST)
      return -EINVAL;
  return 0;
}

static int make_tables(struct buffer *buffer, const uint32_t *buffers) {
  const size_t count = buffer->count, depth = buffer->depth;
  buffer->buffers = calloc(count, sizeof *buffer->buffers);
  buffer->stack = calloc(depth, sizeof *buffer->stack);
  buffer->banks = calloc(count * depth, sizeof *buffer->banks);
  buffer->found = calloc(BUFFER_ROWS * depth, sizeof *buffer->found);
  buffer->matched = calloc(BUFFER_ROWS * count, sizeof *buffer->matched);
  if (!buffer->buffers || !buffer->stack || !buffer->banks || !buffer->found || !buffer->matched)
    return -ENOMEM;
  memcpy(buffer->buffers, buffers, count * sizeof *buffers);
  for (size_t i = 0; i < depth; i++)
    buffer->stack[i] = CLOSED;
  for (size_t i = 0; i < count * depth; i++)
    buffer->banks[i] = CLOSED;
  return 0;
}

int tk_buffer_new(const struct buffer_setup *setup, struct buffer **out) {
  if (check_setup(setup))
    return -EINVAL;
  struct buffer *buffer = calloc(1, sizeof *buffer);
  if (buffer == NULL)
    return -ENOMEM;

  /* A line that is longer than a row counts once a row. */
  buffer->row_shift = setup->row_shift;
  buffer->unit_shift = setup->line_shift < setup->row_shift ? setup->line_shift : setup->row_shift;
  buffer->count = setup->count;
  buffer->depth = setup->buffers[setup->count - 1];
  const int error = make_tables(buffer, setup->buffers);
  if (error) {
    tk_buffer_free(buffer);
    return error;
  }
  *out = buffer;
  return 0;
}

/* Makes a row the newest of the stack and counts at which distance it was. */
static void touch(struct buffer *buffer, uint64_t row, uint64_t *found) {
  uint32_t at = 0;
  while (at < buffer->depth && buffer->stack[at] != row)
    at++;
  if (at < buffer->depth)
    found[at]++;
  else
    at = buffer->depth - 1;
  memmove(buffer->stack + 1, buffer->stack, at * sizeof *buffer->stack);
  buffer->stack[0] = row;
}

/* Rows that follow `depth` others of the same request all miss: the buffers hold only those. */
static void add_stack(struct buffer *buffer, uint64_t first, uint64_t rows, uint64_t *found) {
  const uint64_t depth = buffer->depth;
  const uint64_t head = rows > 2 * depth ? depth : rows;
  for (uint64_t i = 0; i < head; i++)
    touch(buffer, first + i, found);
  for (uint64_t i = head < rows ? rows - depth : rows; i < rows; i++)
    touch(buffer, first + i, found);
}

/* Opens rows in `banks` banks and returns how many were open. */
static uint64_t add_banks(uint64_t *open, uint64_t banks, uint64_t first, uint64_t rows) {
  const uint64_t head = rows < banks ? rows : banks;
  uint64_t matched = 0;
  uint64_t bank = first % banks;
  for (uint64_t i = 0; i < head; i++) {
    matched += open[bank] == first + i;
    open[bank] = first + i;
    bank = bank + 1 == banks ? 0 : bank + 1;
  }
  for (uint64_t row = first + (rows > 2 * banks ? rows - banks : head); row < first + rows; row++)
    open[row % banks] = row;
  return matched;
}

int tk_buffer_add(struct buffer *buffer, const struct page_access *rows, uint64_t count) {
  /* An access that is out of range ends the call; those before it count. */
  for (uint64_t i = 0; i < count; i++) {
    const struct page_access *access = &rows[i];
    if (access->role >= PAGE_ROLES || access->count == 0 || access->key < 0 ||
        access->key >> (62 - BUFFER_SECTOR_SHIFT))
      return -EINVAL;

    /* The units of a row behind its first one find the row open: only rows go through the
     * buffers. */
    const uint64_t start = (uint64_t)access->key << BUFFER_SECTOR_SHIFT;
    const uint64_t last = start + ((uint64_t)access->count << BUFFER_SECTOR_SHIFT) - 1;
    const uint64_t units = (last >> buffer->unit_shift) - (start >> buffer->unit_shift) + 1;
    const uint64_t first = start >> buffer->row_shift;
    const uint64_t touched = (last >> buffer->row_shift) - first + 1;
    const uint32_t kind = access->role * 2u + (access->is_write != 0);
    buffer->accesses[kind] += units;
    buffer->repeats[kind] += units - touched;
    add_stack(buffer, first, touched, buffer->found + (size_t)kind * buffer->depth);
    for (uint32_t at = 0; at < buffer->count; at++)
      buffer->matched[(size_t)kind * buffer->count + at] += add_banks(
          buffer->banks + (size_t)at * buffer->depth, buffer->buffers[at], first, touched);
  }
  return 0;
}

void tk_buffer_read(const struct buffer *buffer, uint64_t *counts) {
  const size_t width = 1 + 2 * (size_t)buffer->count;
  for (uint32_t kind = 0; kind < BUFFER_ROWS; kind++) {
    uint64_t *row = counts + kind * width;
    uint64_t hits = buffer->repeats[kind];
    uint32_t distance = 0;
    row[0] = buffer->accesses[kind];
    for (uint32_t at = 0; at < buffer->count; at++) {
      for (; distance < buffer->buffers[at]; distance++)
        hits += buffer->found[(size_t)kind * buffer->depth + distance];
      row[1 + at] = hits;
      row[1 + buffer->count + at] =
          buffer->repeats[kind] + buffer->matched[(size_t)kind * buffer->count + at];
    }
  }
}

void tk_buffer_free(struct buffer *buffer) {
  if (buffer == NULL)
    return;
  free(buffer->buffers);
  free(buffer->stack);
  free(buffer->banks);
  free(buffer->found);
  free(buffer->matched);
  free(buffer);
}
