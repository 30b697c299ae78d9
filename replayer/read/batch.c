#include "read/batch.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/arrow_build.h"
#include "read/rows.h"

/* Rows are gathered a cacheful at a time, all columns of it before the next. */
#define CHUNK_ROWS 256

enum column_kind {
  COLUMN_ID,   /* the request_id */
  COLUMN_TIME, /* int64, NO_TIME is null */
  COLUMN_INT64,
  COLUMN_MAYBE, /* int64, negative is null */
  COLUMN_INT32,
  COLUMN_FLAG, /* one bit of `flags` */
  COLUMN_NAME, /* index into a dictionary, negative is null */
  COLUMN_OPERATION,
  COLUMN_ROLE, /* always the dictionary's first word */
};

enum dictionary { DICTIONARY_DEVICE, DICTIONARY_PROCESS, DICTIONARY_PARTITION, DICTIONARY_CGROUP };

struct column {
  const char *name;
  enum column_kind kind;
  uint16_t offset; /* of the field in struct row, bytes */
  uint16_t detail; /* the flag's bit, or enum dictionary */
  int64_t nullable;
};

#define AT(field) ((uint16_t)offsetof(struct row, field))

static const struct column columns[] = {
    {"request_id", COLUMN_ID, 0, 0, 0},
    {"queue_ns", COLUMN_TIME, AT(queue_ns), 0, ARROW_FLAG_NULLABLE},
    {"getrq_ns", COLUMN_TIME, AT(getrq_ns), 0, ARROW_FLAG_NULLABLE},
    {"insert_ns", COLUMN_TIME, AT(insert_ns), 0, ARROW_FLAG_NULLABLE},
    {"merge_ns", COLUMN_TIME, AT(merge_ns), 0, ARROW_FLAG_NULLABLE},
    {"issue_ns", COLUMN_TIME, AT(issue_ns), 0, ARROW_FLAG_NULLABLE},
    {"transfer_ns", COLUMN_TIME, AT(transfer_ns), 0, ARROW_FLAG_NULLABLE},
    {"complete_ns", COLUMN_TIME, AT(complete_ns), 0, ARROW_FLAG_NULLABLE},
    {"device", COLUMN_NAME, AT(device), DICTIONARY_DEVICE, 0},
    {"sector", COLUMN_INT64, AT(sector), 0, 0},
    {"length_bytes", COLUMN_INT64, AT(length_bytes), 0, 0},
    {"operation", COLUMN_OPERATION, AT(operation), 0, 0},
    {"is_sync", COLUMN_FLAG, AT(flags), ROW_SYNC, 0},
    {"is_meta", COLUMN_FLAG, AT(flags), ROW_META, 0},
    {"is_fua", COLUMN_FLAG, AT(flags), ROW_FUA, 0},
    {"is_preflush", COLUMN_FLAG, AT(flags), ROW_PREFLUSH, 0},
    {"is_readahead", COLUMN_FLAG, AT(flags), ROW_READAHEAD, 0},
    {"process", COLUMN_NAME, AT(process), DICTIONARY_PROCESS, ARROW_FLAG_NULLABLE},
    {"pid", COLUMN_INT32, AT(pid), 0, 0},
    {"cpu", COLUMN_INT32, AT(cpu), 0, 0},
    {"error", COLUMN_INT32, AT(error), 0, 0},
    {"merged_into", COLUMN_MAYBE, AT(merged_into), 0, ARROW_FLAG_NULLABLE},
    {"requeue_count", COLUMN_INT32, AT(requeue_count), 0, 0},
    {"split_count", COLUMN_INT32, AT(split_count), 0, 0},
    {"depth", COLUMN_INT32, AT(depth), 0, 0},
    {"partition", COLUMN_NAME, AT(partition), DICTIONARY_PARTITION, ARROW_FLAG_NULLABLE},
    {"cgroup", COLUMN_NAME, AT(cgroup), DICTIONARY_CGROUP, ARROW_FLAG_NULLABLE},
    {"role", COLUMN_ROLE, 0, 0, 0},
};

#define COLUMNS ((int64_t)(sizeof(columns) / sizeof(columns[0])))

/* In the order of enum row_operation. */
static const char *const operation_names[] = {
    "read",       "write",       "flush",      "discard",        "write_zeroes",
    "zone",       "zone_append", "zone_reset", "zone_reset_all", "zone_open",
    "zone_close", "zone_finish", "other"};

static const char *format_of(enum column_kind kind) {
  switch (kind) {
  case COLUMN_ID:
  case COLUMN_TIME:
  case COLUMN_INT64:
  case COLUMN_MAYBE:
    return "l";
  case COLUMN_FLAG:
    return "b";
  case COLUMN_INT32:
  case COLUMN_NAME:
  case COLUMN_OPERATION:
  case COLUMN_ROLE:
    return "i";
  }
  return "n";
}

static size_t bits_of(enum column_kind kind) {
  return *format_of(kind) == 'l' ? 64 : *format_of(kind) == 'i' ? 32 : 1;
}

static bool has_dictionary(enum column_kind kind) {
  return kind == COLUMN_NAME || kind == COLUMN_OPERATION || kind == COLUMN_ROLE;
}

int batch_schema(struct ArrowSchema *out) {
  struct arrow_field fields[COLUMNS];
  for (int64_t i = 0; i < COLUMNS; i++)
    fields[i] = (struct arrow_field){.name = columns[i].name,
                                     .format = format_of(columns[i].kind),
                                     .dictionary = has_dictionary(columns[i].kind) ? "u" : NULL,
                                     .flags = columns[i].nullable};
  return arrow_schema_new(out, fields, COLUMNS);
}

static int export_words(const char *const *words, size_t count, struct ArrowArray *out) {
  struct names names = {0};
  int status = 0;
  for (size_t i = 0; i < count && status >= 0; i++)
    status = names_add(&names, words[i], strlen(words[i]));
  status = status < 0 ? status : names_export(&names, out);
  names_clear(&names);
  return status;
}

static int export_dictionary(const struct pairing *pairing, const struct column *column,
                             struct ArrowArray *out) {
  static const char *const roles[] = {"unknown"};
  const struct names *const tables[] = {[DICTIONARY_DEVICE] = &pairing->device_names,
                                        [DICTIONARY_PROCESS] = &pairing->process_names,
                                        [DICTIONARY_PARTITION] = &pairing->partition_names,
                                        [DICTIONARY_CGROUP] = &pairing->cgroups.names};
  if (column->kind == COLUMN_OPERATION)
    return export_words(operation_names, sizeof(operation_names) / sizeof(operation_names[0]), out);
  if (column->kind == COLUMN_ROLE)
    return export_words(roles, 1, out);
  return names_export(tables[column->detail], out);
}

/* Gives the column its buffers, to be filled as a whole, and its dictionary. */
static int prepare(const struct pairing *pairing, const struct column *column, int64_t rows,
                   struct ArrowArray *out) {
  if (arrow_array_new(out, rows, 2))
    return -ENOMEM;
  size_t bit_bytes = ((size_t)rows + 7) / 8;
  size_t value_bytes = ((size_t)rows * bits_of(column->kind) + 7) / 8;
  if (!arrow_array_buffer(out, 1, value_bytes))
    return -ENOMEM;
  if (column->nullable && !arrow_array_buffer(out, 0, bit_bytes))
    return -ENOMEM;
  if (!has_dictionary(column->kind))
    return 0;
  struct ArrowArray *dictionary = arrow_array_dictionary(out);
  return dictionary ? export_dictionary(pairing, column, dictionary) : -ENOMEM;
}

static int64_t load64(const struct row *row, const struct column *column) {
  int64_t value;
  memcpy(&value, (const char *)row + column->offset, sizeof(value));
  return value;
}

static int32_t load32(const struct row *row, const struct column *column) {
  int32_t value;
  memcpy(&value, (const char *)row + column->offset, sizeof(value));
  return value;
}

/* Places [from, to) of the batch whose first row is the window's; `from` is a multiple of 8. */
struct range {
  const struct rows *rows;
  int64_t from, to;
};

static inline const struct row *row_at(const struct range *range, int64_t place) {
  return rows_at(range->rows, range->rows->head + (uint64_t)place);
}

static void fill_ids(const struct range *range, int64_t *out) {
  for (int64_t place = range->from; place < range->to; place++)
    out[place] = (int64_t)range->rows->head + place;
}

static void fill_wide(const struct range *range, const struct column *column, int64_t *out) {
  for (int64_t place = range->from; place < range->to; place++)
    out[place] = load64(row_at(range, place), column);
}

static void fill_narrow(const struct range *range, const struct column *column, int32_t *out) {
  for (int64_t place = range->from; place < range->to; place++)
    out[place] = load32(row_at(range, place), column);
}

static void fill_operations(const struct range *range, int32_t *out) {
  for (int64_t place = range->from; place < range->to; place++)
    out[place] = row_at(range, place)->operation;
}

static void fill_flags(const struct range *range, uint16_t flag, uint8_t *out) {
  for (int64_t place = range->from; place < range->to; place += 8) {
    unsigned bits = 0;
    for (int64_t i = 0; i < 8 && place + i < range->to; i++)
      bits |= (unsigned)((row_at(range, place + i)->flags & flag) != 0) << i;
    out[place >> 3] = (uint8_t)bits;
  }
}

/* Values below `least` are null, and stored as zero. Which ones are cannot be foretold: no branch.
 */
static void fill_times(const struct range *range, const struct column *column, int64_t least,
                       struct ArrowArray *array) {
  uint8_t *valid = (void *)(uintptr_t)array->buffers[0];
  int64_t *out = (void *)(uintptr_t)array->buffers[1];
  for (int64_t place = range->from; place < range->to; place += 8) {
    unsigned bits = 0;
    int64_t count = range->to - place < 8 ? range->to - place : 8;
    for (int64_t i = 0; i < count; i++) {
      int64_t value = load64(row_at(range, place + i), column);
      bits |= (unsigned)(value >= least) << i;
      out[place + i] = value >= least ? value : 0;
    }
    valid[place >> 3] = (uint8_t)bits;
    array->null_count += count - __builtin_popcount(bits);
  }
}

/* The same of names' indices, some of which may not be null. */
static void fill_names(const struct range *range, const struct column *column,
                       struct ArrowArray *array) {
  uint8_t *valid = (void *)(uintptr_t)array->buffers[0];
  int32_t *out = (void *)(uintptr_t)array->buffers[1];
  for (int64_t place = range->from; place < range->to; place += 8) {
    unsigned bits = 0;
    int64_t count = range->to - place < 8 ? range->to - place : 8;
    for (int64_t i = 0; i < count; i++) {
      int32_t name = load32(row_at(range, place + i), column);
      bits |= (unsigned)(name >= 0) << i;
      out[place + i] = name >= 0 ? name : 0;
    }
    if (valid)
      valid[place >> 3] = (uint8_t)bits;
    array->null_count += count - __builtin_popcount(bits);
  }
}

/* Fills places of one column, which has a loop of its own for each kind. */
static void fill(const struct range *range, const struct column *column, struct ArrowArray *array) {
  void *values = (void *)(uintptr_t)array->buffers[1];
  switch (column->kind) {
  case COLUMN_ID:
    fill_ids(range, values);
    break;
  case COLUMN_INT64:
    fill_wide(range, column, values);
    break;
  case COLUMN_TIME:
    fill_times(range, column, NO_TIME + 1, array);
    break;
  case COLUMN_MAYBE:
    fill_times(range, column, 0, array);
    break;
  case COLUMN_INT32:
    fill_narrow(range, column, values);
    break;
  case COLUMN_NAME:
    fill_names(range, column, array);
    break;
  case COLUMN_OPERATION:
    fill_operations(range, values);
    break;
  case COLUMN_FLAG:
    fill_flags(range, column->detail, values);
    break;
  case COLUMN_ROLE:
    memset((int32_t *)values + range->from, 0, (size_t)(range->to - range->from) * sizeof(int32_t));
    break;
  }
}

int batch_take(struct pairing *pairing, int64_t count, struct ArrowArray *out) {
  if (arrow_array_new(out, count, 1))
    return -ENOMEM;
  int status = arrow_array_children(out, COLUMNS);
  for (int64_t i = 0; i < COLUMNS && status == 0; i++)
    status = prepare(pairing, &columns[i], count, out->children[i]);
  if (status) {
    out->release(out);
    return -ENOMEM;
  }

  /* Chunk by chunk, so that the rows stay in the cache while every column is filled from them. */
  for (int64_t from = 0; from < count; from += CHUNK_ROWS) {
    struct range range = {.rows = &pairing->rows,
                          .from = from,
                          .to = from + CHUNK_ROWS < count ? from + CHUNK_ROWS : count};
    for (int64_t i = 0; i < COLUMNS; i++)
      fill(&range, &columns[i], out->children[i]);
  }
  pairing->rows.head += (uint64_t)count;
  return 0;
}
