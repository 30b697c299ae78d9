#include "strace/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_RECORDS 1024
#define LAST_CLOCK_NS ((int64_t)1 << 62) /* of a machine that began in the year 2116 */

int records_open(struct records *records, struct reader *reader) {
  struct view head;
  int status = reader_peek(reader, sizeof(struct file_header), &head);
  if (status <= 0)
    return status;
  const struct file_header *header = (const void *)head.text;
  if (memcmp(header->sign, FILE_SIGN, sizeof(FILE_SIGN)) != 0)
    return 0;
  records->is_there = true;
  memcpy(&records->clock_to_wall_ns, &header->clock_to_wall_ns, sizeof(int64_t));
  reader_skip(reader, sizeof(struct file_header));
  if (records->clock_to_wall_ns < 0 || records->clock_to_wall_ns > LAST_CLOCK_NS)
    return -EBADMSG;
  if (!records->line)
    records->line = malloc(RECORD_TEXT_BYTES);
  return records->line ? 0 : -ENOMEM;
}

/* Shows the next record. Returns 1, 0 at the end or before a record that was cut or never written,
 * as a power cut leaves it, -errno. */
static int peek(struct reader *reader, const struct file_record **out) {
  struct view view;
  int status = reader_peek(reader, sizeof(**out), &view);
  if (status <= 0)
    return status;
  size_t size = ((const struct file_record *)(const void *)view.text)->size;
  if (size == 0)
    return 0;
  if (size < sizeof(**out) || size > RECORD_TEXT_BYTES || size % 8)
    return -EBADMSG;
  status = reader_peek(reader, size, &view);
  *out = (const void *)view.text;
  if (status > 0 && !record_is_whole(*out, size))
    return -EBADMSG;
  return status;
}

static int add_block(struct records *records) {
  if (records->blocks % 1024 == 0) {
    int64_t *grown =
        realloc(records->oldest_ns, (records->blocks + 1024) * sizeof(*records->oldest_ns));
    if (!grown)
      return -ENOMEM;
    records->oldest_ns = grown;
  }
  records->oldest_ns[records->blocks++] = INT64_MAX;
  return 0;
}

static void summarize(const struct file_record *record, int64_t clock_to_wall_ns,
                      struct records_summary *summary) {
  int64_t start_ns = (int64_t)record->start_ns + clock_to_wall_ns;
  int64_t end_ns = (int64_t)record->end_ns + clock_to_wall_ns;
  if (record->call == FILE_LOST) {
    summary->lost = (int64_t)record->arguments[FILE_LOST_RECORDS];
    summary->unseen = (int64_t)record->arguments[FILE_UNSEEN];
    summary->foreign = (int64_t)record->arguments[FILE_FOREIGN];
    summary->has_end = record->phase == FILE_WHOLE;
    return;
  }
  if (!summary->first_ns || start_ns < summary->first_ns)
    summary->first_ns = start_ns;
  if (record->phase != FILE_BEGUN && end_ns > summary->last_ns)
    summary->last_ns = end_ns;
}

int records_survey(struct records *records, struct reader *reader, struct thread_parents *parents,
                   struct records_summary *summary) {
  const struct file_record *record;
  int status;
  while ((status = peek(reader, &record)) > 0) {
    if (records->count++ % BLOCK_RECORDS == 0 && add_block(records))
      return -ENOMEM;
    int64_t *oldest_ns = &records->oldest_ns[records->blocks - 1];
    int64_t start_ns = (int64_t)record->start_ns + records->clock_to_wall_ns;
    summarize(record, records->clock_to_wall_ns, summary);
    if (record->call != FILE_LOST && start_ns < *oldest_ns)
      *oldest_ns = start_ns;
    if (record->call == FILE_FORK) {
      struct view line = record_text(record, records->clock_to_wall_ns, false, records->line);
      if (thread_parents_note(parents, line))
        return -ENOMEM;
    }
    reader_skip(reader, record->size);
  }

  /* What is older comes later: a call that lasts long is in a late block. */
  for (uint64_t block = records->blocks; block-- > 1;)
    if (records->oldest_ns[block] < records->oldest_ns[block - 1])
      records->oldest_ns[block - 1] = records->oldest_ns[block];
  records->count = 0;
  return status;
}

int records_line(struct records *records, struct reader *reader, struct view *out) {
  const struct file_record *record;
  int status;
  while ((status = peek(reader, &record)) > 0) {
    if (record->call == FILE_LOST) {
      records->count++;
      reader_skip(reader, record->size);
      continue;
    }
    bool is_first = record_supersedes(record) && !records->is_second_due;
    *out = record_text(record, records->clock_to_wall_ns, is_first, records->line);
    records->is_second_due = is_first;
    if (!is_first) {
      records->count++;
      reader_skip(reader, record->size);
    }
    return 1;
  }
  return status;
}

int64_t records_oldest(const struct records *records) {
  uint64_t block = records->count / BLOCK_RECORDS;
  return block < records->blocks ? records->oldest_ns[block] : INT64_MAX;
}

void records_clear(struct records *records) {
  free(records->oldest_ns);
  free(records->line);
  *records = (struct records){0};
}
