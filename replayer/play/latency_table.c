#include "play/latency_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "play/number.h"

#define FIELD_CHARS 24U
#define LENGTH_MAX (UINT64_C(1) << 30)
#define DEPTH_MAX 1024U
#define QUARTER 4.0

struct latency_table {
  uint32_t count;
  struct latency_cell cells[];
};

/* Copies the characters before the next '/' and steps behind it. */
static int next_field(const char **text, const char *end, char *out) {
  const char *slash = memchr(*text, '/', (size_t)(end - *text));
  if (slash == NULL || (size_t)(slash - *text) >= FIELD_CHARS)
    return -EINVAL;
  memcpy(out, *text, (size_t)(slash - *text));
  out[slash - *text] = '\0';
  *text = slash + 1;
  return 0;
}

/* Reads a decimal number from 0 to 1. */
static int take_ratio(const char *text, double *out) {
  char *end;
  bool is_decimal = text[0] != '\0' && strspn(text, "0123456789.") == strlen(text);
  *out = strtod(text, &end);
  return is_decimal && *end == '\0' && *out <= 1.0 ? 0 : -EINVAL;
}

static int take_cell(const char *text, const char *end, uint64_t maximum_ns,
                     struct latency_cell *cell) {
  char field[FIELD_CHARS];
  if (next_field(&text, end, field) != 0 || (strcmp(field, "r") != 0 && strcmp(field, "w") != 0))
    return -EINVAL;
  cell->place.is_read = field[0] == 'r';
  if (next_field(&text, end, field) != 0 ||
      number_parse(field, 1, LENGTH_MAX, &cell->place.length_bytes) != 0)
    return -EINVAL;
  if (next_field(&text, end, field) != 0 ||
      number_parse(field, 1, DEPTH_MAX, &cell->place.depth) != 0)
    return -EINVAL;
  if (next_field(&text, end, field) != 0 || take_ratio(field, &cell->place.write_ratio) != 0)
    return -EINVAL;
  return quantiles_parse(text, (size_t)(end - text), maximum_ns, &cell->times);
}

uint32_t latency_cells(const char *text, size_t length) {
  uint32_t count = 1;
  for (size_t i = 0; i < length; i++)
    count += text[i] == ';';
  return count;
}

int latency_table_parse(const char *text, size_t length, uint64_t maximum_ns,
                        struct latency_table **out) {
  uint32_t count = latency_cells(text, length);
  if (count > LATENCY_CELLS_MAX)
    return -EINVAL;
  struct latency_table *table = calloc(1, sizeof *table + count * sizeof *table->cells);
  if (table == NULL)
    return -ENOMEM;
  const char *end = text + length;
  for (; table->count < count; table->count++) {
    const char *semicolon = memchr(text, ';', (size_t)(end - text));
    const char *cell_end = semicolon == NULL ? end : semicolon;
    if (take_cell(text, cell_end, maximum_ns, &table->cells[table->count]) != 0) {
      latency_table_free(table);
      return -EINVAL;
    }
    text = cell_end + (semicolon != NULL);
  }
  *out = table;
  return 0;
}

/* How far a cell is from what a request looks for. */
static double distance(const struct latency_place *cell, const struct latency_place *place) {
  double length = log2((double)cell->length_bytes / (double)place->length_bytes);
  double depth = log2((double)cell->depth / (double)place->depth);
  return fabs(length) + fabs(depth) + QUARTER * fabs(cell->write_ratio - place->write_ratio);
}

const struct latency_cell *latency_table_find(const struct latency_table *table,
                                              const struct latency_place *place) {
  const struct latency_cell *found = NULL;
  double least = INFINITY;
  for (uint32_t i = 0; i < table->count; i++) {
    const struct latency_cell *cell = &table->cells[i];
    if (cell->place.is_read != place->is_read)
      continue;
    double far = distance(&cell->place, place);
    if (far < least) {
      least = far;
      found = cell;
    }
  }
  return found;
}

void latency_table_free(struct latency_table *table) { free(table); }
