#include "read/merge.h"

#include <errno.h>
#include <stdlib.h>

int merge_open(struct merge *merge, const int32_t *fds, size_t count, bool keeps_whole) {
  *merge = (struct merge){0};
  merge->sources = calloc(count, sizeof(*merge->sources));
  merge->heap = calloc(count, sizeof(*merge->heap));
  if (!merge->sources || !merge->heap)
    return -ENOMEM;
  for (; merge->count < count; merge->count++)
    if (source_open(&merge->sources[merge->count], fds[merge->count], (int32_t)merge->count,
                    keeps_whole)) {
      merge->count++;
      return -ENOMEM;
    }
  return 0;
}

void merge_close(struct merge *merge) {
  for (size_t i = 0; i < merge->count; i++)
    source_close(&merge->sources[i]);
  free(merge->sources);
  free(merge->heap);
  *merge = (struct merge){0};
}

static struct source *first_of(const struct merge *merge) {
  return &merge->sources[merge->heap[0].input];
}

/* Of events of one time on several CPUs, what has to come first: a coarse clock gives a request's
 * queueing on one and its completion on another the same. */
static uint64_t rank_of(const struct record *record) {
  if (record->category & CATEGORY_NOTIFY)
    return 0;
  switch (record->action) {
  case ACTION_INSERT:
    return 1;
  case ACTION_ISSUE:
    return 2;
  case ACTION_COMPLETE:
    return 3;
  default:
    return 0;
  }
}

static struct merge_head head_of(const struct source *source) {
  const struct record *record = &source->held[source->next];
  return (struct merge_head){
      .time_ns = record->time_ns, .number = rank_of(record), .input = (size_t)source->index};
}

/* Files of two versions are of two kernels, and so of two captures. */
static int check_version(const struct merge *merge, const struct source *source,
                         struct problem *problem) {
  uint8_t first = first_of(merge)->version;
  if (source->version == first)
    return 0;
  *problem = (struct problem){
      .kind = PROBLEM_VERSIONS, .file = source->index, .value = source->version, .other = first};
  return -EBADMSG;
}

/* Asks every source for its first record and builds the heap. */
static int start(struct merge *merge, struct problem *problem) {
  for (; merge->opened < merge->count; merge->opened++) {
    int status = source_peek(&merge->sources[merge->opened], problem);
    if (status < 0)
      return status;
    if (status == 0)
      continue;
    merge->heap[merge->live++] = head_of(&merge->sources[merge->opened]);
    if (check_version(merge, &merge->sources[merge->opened], problem))
      return -EBADMSG;
  }
  merge_heap_order(merge->heap, merge->live);
  return 0;
}

/* Puts the source at the top, whose record was taken, at its new place. */
static int settle(struct merge *merge, struct problem *problem) {
  int status = source_peek(first_of(merge), problem);
  if (status < 0)
    return status;
  if (status)
    merge->heap[0] = head_of(first_of(merge));
  else
    merge->heap[0] = merge->heap[--merge->live];
  merge_heap_settle(merge->heap, merge->live);
  return 0;
}

int merge_next(struct merge *merge, const struct record **out, struct problem *problem) {
  if (merge->opened < merge->count) {
    if (start(merge, problem))
      return -EBADMSG;
  } else if (merge->live && merge->is_taken) {
    if (settle(merge, problem))
      return -EBADMSG;
  }
  merge->is_taken = merge->live > 0;
  if (!merge->live)
    return 0;
  struct source *source = first_of(merge);
  *out = &source->held[source->next++];
  return 1;
}
