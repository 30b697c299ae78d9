#include "decode/batch.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/arrow_build.h"
#include "decode/rows.h"

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

enum dictionary { DICTIONARY_DEVICE, DICTIONARY_PROCESS, DICTIONARY_PARTITION };

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
    {"role", COLUMN_ROLE, 0, 0, 0},
};

#define COLUMNS ((int64_t)(sizeof(columns) / sizeof(columns[0])))

/* In the order of enum operation. */
static const char *const operation_names[] = {"read",         "write", "flush", "discard",
                                              "write_zeroes", "zone",  "other"};

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
                                        [DICTIONARY_PARTITION] = &pairing->partition_names};
  if (column->kind == COLUMN_OPERATION)
    return export_words(operation_names, sizeof(operation_names) / sizeof(operation_names[0]), out);
  if (column->kind == COLUMN_ROLE)
    return export_words(roles, 1, out);
  return names_export(tables[column->detail], out);
}

/* Gives the column its buffers, all bits zero, and its dictionary. */
static int prepare(const struct pairing *pairing, const struct column *column, int64_t rows,
                   struct ArrowArray *out) {
  if (arrow_array_new(out, rows, 2))
    return -ENOMEM;
  size_t bit_bytes = ((size_t)rows + 7) / 8;
  size_t value_bytes = ((size_t)rows * bits_of(column->kind) + 7) / 8;
  void *values = arrow_array_buffer(out, 1, value_bytes);
  if (!values)
    return -ENOMEM;
  memset(values, 0, value_bytes);
  if (column->nullable) {
    void *valid = arrow_array_buffer(out, 0, bit_bytes);
    if (!valid)
      return -ENOMEM;
    memset(valid, 0, bit_bytes);
  }
  if (!has_dictionary(column->kind))
    return 0;
  struct ArrowArray *dictionary = arrow_array_dictionary(out);
  return dictionary ? export_dictionary(pairing, column, dictionary) : -ENOMEM;
}

static inline void set_bit(void *bits, int64_t place) {
  ((uint8_t *)bits)[place >> 3] |= (uint8_t)(1u << (place & 7));
}

/* Stores one nullable value; those that are null stay zero. */
static inline void put(struct ArrowArray *array, int64_t place, int64_t value, bool is_null) {
  if (is_null) {
    array->null_count++;
    return;
  }
  ((int64_t *)(uintptr_t)array->buffers[1])[place] = value;
  set_bit((void *)(uintptr_t)array->buffers[0], place);
}

static inline void put_name(struct ArrowArray *array, int64_t place, int32_t name) {
  if (name < 0) {
    array->null_count++;
    return;
  }
  ((int32_t *)(uintptr_t)array->buffers[1])[place] = name;
  if (array->buffers[0])
    set_bit((void *)(uintptr_t)array->buffers[0], place);
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

/* Fills places [from, to) of one column from the rows that begin at request_id `first`. */
static void fill(const struct rows *rows, const struct column *column, struct ArrowArray *array,
                 int64_t from, int64_t to) {
  int64_t *wide = (int64_t *)(uintptr_t)array->buffers[1];
  int32_t *narrow = (int32_t *)(uintptr_t)array->buffers[1];
  for (int64_t place = from; place < to; place++) {
    uint64_t request_id = rows->head + (uint64_t)place;
    const struct row *row = rows_at(rows, request_id);
    switch (column->kind) {
    case COLUMN_ID:
      wide[place] = (int64_t)request_id;
      break;
    case COLUMN_INT64:
      wide[place] = load64(row, column);
      break;
    case COLUMN_TIME:
      put(array, place, load64(row, column), load64(row, column) == NO_TIME);
      break;
    case COLUMN_MAYBE:
      put(array, place, load64(row, column), load64(row, column) < 0);
      break;
    case COLUMN_INT32:
      narrow[place] = load32(row, column);
      break;
    case COLUMN_NAME:
      put_name(array, place, load32(row, column));
      break;
    case COLUMN_OPERATION:
      narrow[place] = row->operation;
      break;
    case COLUMN_FLAG:
      if (row->flags & column->detail)
        set_bit(wide, place);
      break;
    case COLUMN_ROLE:
      break;
    }
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
  for (int64_t from = 0; from < count; from += CHUNK_ROWS) {
    int64_t to = from + CHUNK_ROWS < count ? from + CHUNK_ROWS : count;
    for (int64_t i = 0; i < COLUMNS; i++)
      fill(&pairing->rows, &columns[i], out->children[i], from, to);
  }
  pairing->rows.head += (uint64_t)count;
  return 0;
}
