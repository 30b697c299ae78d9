#include "decode/merge.h"

#include <errno.h>
#include <stdlib.h>

int merge_open(struct merge *merge, const int32_t *fds, size_t count, bool keeps_whole) {
  *merge = (struct merge){0};
  merge->sources = calloc(count, sizeof(*merge->sources));
  merge->heap = calloc(count, sizeof(struct source *));
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

static bool is_before(const struct source *left, const struct source *right) {
  uint64_t left_ns = left->held[left->next].time_ns;
  uint64_t right_ns = right->held[right->next].time_ns;
  return left_ns < right_ns || (left_ns == right_ns && left->index < right->index);
}

static void sift_down(struct merge *merge, size_t place) {
  struct source *moved = merge->heap[place];
  for (;;) {
    size_t child = 2 * place + 1;
    if (child >= merge->live)
      break;
    if (child + 1 < merge->live && is_before(merge->heap[child + 1], merge->heap[child]))
      child++;
    if (!is_before(merge->heap[child], moved))
      break;
    merge->heap[place] = merge->heap[child];
    place = child;
  }
  merge->heap[place] = moved;
}

/* Files of two versions are of two kernels, and so of two captures. */
static int check_version(const struct merge *merge, const struct source *source,
                         struct problem *problem) {
  uint8_t first = merge->heap[0]->version;
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
    merge->heap[merge->live++] = &merge->sources[merge->opened];
    if (check_version(merge, &merge->sources[merge->opened], problem))
      return -EBADMSG;
  }
  for (size_t place = merge->live / 2; place-- > 0;)
    sift_down(merge, place);
  return 0;
}

/* Puts the source at the top, whose record was taken, at its new place. */
static int settle(struct merge *merge, struct problem *problem) {
  int status = source_peek(merge->heap[0], problem);
  if (status < 0)
    return status;
  if (status == 0)
    merge->heap[0] = merge->heap[--merge->live];
  if (merge->live > 1)
    sift_down(merge, 0);
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
  *out = &merge->heap[0]->held[merge->heap[0]->next++];
  return 1;
}
