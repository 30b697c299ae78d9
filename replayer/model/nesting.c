#include "model/nesting.h"

#include <errno.h>
#include <stdbool.h>
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
                       calloc(members / NESTING_WORD_BITS + 1, sizeof(uint64_t))};
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
  if (nesting->steps_ps == NULL || nesting->heads == NULL)
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

void nesting_free(struct nesting *nesting, uint32_t device_count) {
  for (uint32_t i = 0; nesting->heads != NULL && i <= device_count; i++)
    free(nesting->heads[i].runs);
  for (int role = 0; role < TK_ROLES; role++)
    free(nesting->reached[role]);
  free(nesting->scenarios);
  free(nesting->heads);
  free(nesting->steps_ps);
  free(nesting->changes.base_ps);
  free(nesting->changes.nvm_ps);
  free(nesting->changes.marks);
  fcfs_free(nesting->queues);
}
