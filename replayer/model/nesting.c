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

int nesting_fill(struct nesting *nesting, const struct tk_simulation_setup *setup) {
  const uint32_t devices = setup->placement.device_count;
  nesting->order = setup->scenarios[nesting->scenarios[0]].order;
  nesting->steps_ps = calloc(nesting->count + 1ul, sizeof *nesting->steps_ps);
  nesting->heads = calloc(devices + 1ul, sizeof *nesting->heads);
  if (nesting->steps_ps == NULL || nesting->heads == NULL)
    return -ENOMEM;

  /* Before the first request every placement has its head at the same unknown place: one run. */
  for (uint32_t i = 0; setup->disk.half_turn_ps > 0 && i < devices; i++) {
    nesting->heads[i].runs = malloc((nesting->count + 1ul) * sizeof *nesting->heads[i].runs);
    if (nesting->heads[i].runs == NULL)
      return -ENOMEM;
    nesting->heads[i].runs[0] = (struct run){-1, nesting->count};
    nesting->heads[i].count = 1;
  }
  if (setup->is_open && fcfs_new(nesting->count, devices, setup->servers, &nesting->queues))
    return -ENOMEM;
  return fill_reached(nesting, setup);
}

void nesting_free(struct nesting *nesting, uint32_t device_count) {
  for (uint32_t device = 0; nesting->heads != NULL && device < device_count; device++)
    free(nesting->heads[device].runs);
  for (int role = 0; role < TK_ROLES; role++)
    free(nesting->reached[role]);
  free(nesting->scenarios);
  free(nesting->heads);
  free(nesting->steps_ps);
  fcfs_free(nesting->queues);
}
