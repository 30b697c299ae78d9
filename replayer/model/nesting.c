#include "model/nesting.h"

#include <errno.h>
#include <stdlib.h>

/* Says whether no role's NVM shrinks from a scenario to the other. */
static bool is_grown(const struct tk_scenario *before, const struct tk_scenario *after) {
  bool grown = before->order == after->order;
  for (int role = 0; role < TK_ROLES; role++)
    grown = grown && before->limit[role] <= after->limit[role];
  return grown;
}

uint32_t nesting_choose(const struct tk_simulation_setup *setup, uint32_t *last, uint32_t *chosen) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < setup->scenario_count; i++) {
    uint32_t nesting = 0;
    while (nesting < count && !is_grown(&setup->scenarios[last[nesting]], &setup->scenarios[i]))
      nesting++;
    count += nesting == count;
    last[nesting] = i;
    chosen[i] = nesting;
  }
  return count;
}

static int fill_reached(struct nesting *nesting, const struct tk_simulation_setup *setup) {
  const uint32_t points = setup->placement.point_count + 1;
  for (int role = 0; role < TK_ROLES; role++) {
    nesting->reached[role] = malloc(points * sizeof *nesting->reached[role]);
    if (nesting->reached[role] == NULL)
      return -ENOMEM;
    uint32_t member = 0;
    for (uint32_t point = 0; point < points; point++) {
      while (member < nesting->count &&
             setup->scenarios[nesting->scenarios[member]].limit[role] <= point)
        member++;
      nesting->reached[role][point] = member;
    }
  }
  return 0;
}

static int fill_changes(struct nesting *nesting) {
  const size_t members = nesting->count + 1ul;
  nesting->changes =
      (struct changes){calloc(members, sizeof(int64_t)), calloc(members, sizeof(int64_t)),
                       calloc(nesting_words(nesting), sizeof(uint64_t))};
  return nesting->changes.base_ps != NULL && nesting->changes.nvm_ps != NULL &&
                 nesting->changes.marks != NULL
             ? 0
             : -ENOMEM;
}

int nesting_fill(struct nesting *nesting, const struct tk_simulation_setup *setup) {
  const uint32_t devices = setup->placement.device_count;
  nesting->order = setup->scenarios[nesting->scenarios[0]].order;
  nesting->steps_ps = calloc(nesting->count + 1ul, sizeof *nesting->steps_ps);
  nesting->heads = calloc(devices + 1ul, sizeof *nesting->heads);
  nesting->written = calloc((devices + 1ul) * nesting_words(nesting), sizeof *nesting->written);
  if (nesting->steps_ps == NULL || nesting->heads == NULL || nesting->written == NULL)
    return -ENOMEM;

  /* Before the first request every placement has its heads at the same unknown place: one run. */
  for (uint32_t i = 0; i <= devices; i++) {
    struct heads *heads = &nesting->heads[i];
    heads->runs = malloc((nesting->count + 1ul) * sizeof *heads->runs);
    if (heads->runs == NULL)
      return -ENOMEM;
    heads->runs[heads->count++] = (struct run){-1, i < devices ? nesting->count : 0};
  }
  if (setup->is_open && (fill_changes(nesting) ||
                         fcfs_new(nesting->count, devices, setup->servers, &nesting->queues)))
    return -ENOMEM;
  return fill_reached(nesting, setup);
}

/* The bits of members from `begin` to before `end` in a word. */
static uint64_t bits_between(uint32_t word, uint32_t begin, uint32_t end) {
  const uint32_t first = word * NESTING_WORD_BITS;
  const uint64_t from = begin > first ? UINT64_MAX << (begin - first) : UINT64_MAX;
  return end - first < NESTING_WORD_BITS ? from & ~(UINT64_MAX << (end - first)) : from;
}

void nesting_write(struct nesting *nesting, uint32_t device, uint32_t begin, uint32_t end,
                   bool is_written) {
  uint64_t *row = &nesting->written[(size_t)device * nesting_words(nesting)];
  for (uint32_t at = begin; at < end; at = (at / NESTING_WORD_BITS + 1) * NESTING_WORD_BITS) {
    const uint32_t word = at / NESTING_WORD_BITS;
    const uint64_t bits = bits_between(word, at, end);
    row[word] = is_written ? row[word] | bits : row[word] & ~bits;
  }
}

bool nesting_is_written(const struct nesting *nesting, uint32_t device, uint32_t begin,
                        uint32_t *end) {
  const uint64_t *row = &nesting->written[(size_t)device * nesting_words(nesting)];
  const bool is_written = row[begin / NESTING_WORD_BITS] >> begin % NESTING_WORD_BITS & 1u;
  for (uint32_t at = begin; at < *end; at = (at / NESTING_WORD_BITS + 1) * NESTING_WORD_BITS) {
    const uint32_t word = at / NESTING_WORD_BITS;
    const uint64_t others = (is_written ? ~row[word] : row[word]) & bits_between(word, at, *end);
    if (others == 0)
      continue;
    *end = word * NESTING_WORD_BITS + (uint32_t)__builtin_ctzll(others);
    break;
  }
  return is_written;
}

void nesting_free(struct nesting *nesting, uint32_t device_count) {
  for (uint32_t i = 0; nesting->heads != NULL && i <= device_count; i++)
    free(nesting->heads[i].runs);
  for (int role = 0; role < TK_ROLES; role++)
    free(nesting->reached[role]);
  free(nesting->scenarios);
  free(nesting->heads);
  free(nesting->written);
  free(nesting->steps_ps);
  free(nesting->changes.base_ps);
  free(nesting->changes.nvm_ps);
  free(nesting->changes.marks);
  fcfs_free(nesting->queues);
}
