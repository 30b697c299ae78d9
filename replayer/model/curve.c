#include "model/curve.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/reuse.h"
#include "model/size_buckets.h"

#define SLOT_DISTANCE 24 /* runs ahead */
#define WORD_DISTANCE 12

struct curve {
  struct reuse reuse;
  struct size_buckets buckets;
  uint64_t *counts; /* CURVE_ROWS rows of `columns` */
  uint32_t columns; /* sizes + 2 */
  bool writes_allocate;
};

int tk_curve_new(uint32_t page_count, const uint64_t *sizes, uint32_t size_count,
                 int writes_allocate, struct curve **out) {
  if (page_count >= PAGE_MAX)
    return -EINVAL;
  struct curve *curve = calloc(1, sizeof *curve);
  if (curve == NULL)
    return -ENOMEM;
  curve->writes_allocate = writes_allocate != 0;
  curve->columns = size_count + 2;
  int error = size_buckets_init(&curve->buckets, sizes, size_count);
  if (error == 0)
    error = reuse_init(&curve->reuse, page_count);
  if (error == 0) {
    curve->counts = calloc((size_t)CURVE_ROWS * curve->columns, sizeof *curve->counts);
    error = curve->counts == NULL ? -ENOMEM : 0;
  }
  if (error) {
    tk_curve_free(curve);
    return error;
  }
  *out = curve;
  return 0;
}

static uint32_t column_of(const struct curve *curve, uint32_t distance) {
  return distance == REUSE_COLD ? curve->columns - 1 : size_buckets_find(&curve->buckets, distance);
}

static void add_touches(struct curve *curve, const struct page_run *run, uint64_t *row) {
  for (uint32_t done = 0; done < run->count;) {
    uint32_t distance;
    const uint32_t alike =
        reuse_touch(&curve->reuse, run->first + done, run->count - done, &distance);
    row[column_of(curve, distance)] += alike;
    done += alike;
  }
}

static void add_looks(const struct curve *curve, const struct page_run *run, uint64_t *row) {
  for (uint32_t i = 0; i < run->count; i++)
    row[column_of(curve, reuse_distance(&curve->reuse, run->first + i))]++;
}

static bool is_possible(const struct curve *curve, const struct page_run *run) {
  return run->role < PAGE_ROLES && (uint64_t)run->first + run->count <= curve->reuse.pages;
}

/* Fetches what runs soon after `run` will need, if they are within `left` runs. */
static void look_ahead(const struct curve *curve, const struct page_run *run, uint64_t left) {
  if (left <= SLOT_DISTANCE || !is_possible(curve, run + WORD_DISTANCE))
    return;
  reuse_prefetch_slot(&curve->reuse, run[SLOT_DISTANCE].first);
  reuse_prefetch_word(&curve->reuse, run[WORD_DISTANCE].first);
}

int tk_curve_add(struct curve *curve, const struct page_run *runs, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    const struct page_run *run = &runs[i];
    if (!is_possible(curve, run))
      return -EINVAL;
    look_ahead(curve, run, count - i);
    uint64_t *row = curve->counts + (run->role * 2u + (run->is_write != 0)) * curve->columns;
    if (run->is_write && !curve->writes_allocate)
      add_looks(curve, run, row);
    else
      add_touches(curve, run, row);
  }
  return 0;
}

void tk_curve_read(const struct curve *curve, uint64_t *counts) {
  memcpy(counts, curve->counts, (size_t)CURVE_ROWS * curve->columns * sizeof *counts);
}

uint64_t tk_curve_bytes(const struct curve *curve) {
  return sizeof *curve + reuse_bytes(&curve->reuse) +
         (CURVE_ROWS * sizeof *curve->counts + sizeof *curve->buckets.sizes) * curve->columns;
}

void tk_curve_free(struct curve *curve) {
  if (curve == NULL)
    return;
  reuse_free(&curve->reuse);
  size_buckets_free(&curve->buckets);
  free(curve->counts);
  free(curve);
}
