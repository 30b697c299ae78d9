#include "read/sequence.h"

#include <errno.h>
#include <stdlib.h>

static bool is_of(const struct sequence_stream *stream, const struct record *record) {
  return stream->device == record->device && stream->cpu == record->cpu;
}

/* Makes `current` the record's stream. Per-cpu files have one stream a device, so that the search
 * is short; a merged stream has one for each cpu. */
static int select_stream(struct sequence *sequence, const struct record *record) {
  for (size_t i = 0; i < sequence->count; i++)
    if (is_of(&sequence->streams[i], record)) {
      sequence->current = i;
      return 0;
    }
  if (sequence->count == sequence->capacity) {
    size_t capacity = sequence->capacity ? sequence->capacity * 2 : 8;
    void *streams = realloc(sequence->streams, capacity * sizeof(*sequence->streams));
    if (!streams)
      return -ENOMEM;
    sequence->streams = streams;
    sequence->capacity = capacity;
  }
  sequence->current = sequence->count++;
  sequence->streams[sequence->current] = (struct sequence_stream){
      .device = record->device, .cpu = record->cpu, .last = record->sequence - 1};
  return 0;
}

int sequence_check(struct sequence *sequence, const struct record *record) {
  if (record->sequence == 0)
    return 0;
  if (sequence->count == 0 || !is_of(&sequence->streams[sequence->current], record))
    if (select_stream(sequence, record))
      return -ENOMEM;
  struct sequence_stream *stream = &sequence->streams[sequence->current];
  /* The difference of 32-bit numbers stays right when they wrap. */
  int32_t step = (int32_t)(record->sequence - stream->last);
  sequence->numbered++;
  if (step > 1) {
    sequence->gaps++;
    sequence->lost += (uint64_t)step - 1;
  } else if (step <= 0) {
    sequence->repeated++;
    return 0;
  }
  stream->last = record->sequence;
  return 0;
}

void sequence_clear(struct sequence *sequence) {
  free(sequence->streams);
  *sequence = (struct sequence){0};
}
