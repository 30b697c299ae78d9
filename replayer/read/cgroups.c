#include "read/cgroups.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys of ids that fold to the same follow each other. Returns whether the id is known; its place,
 * or the free key, is in `out`. */
static bool find(const struct cgroups *cgroups, uint64_t id, uint32_t *out) {
  uint32_t key = (uint32_t)(id ^ id >> 32);
  for (;; key++) {
    const uint32_t *place = idmap_get(&cgroups->index, key);
    *out = place ? *place : key;
    if (!place || cgroups->all[*place].id == id)
      return place != NULL;
  }
}

int cgroups_name(struct cgroups *cgroups, uint64_t id, const char *name) {
  uint32_t key;
  if (find(cgroups, id, &key))
    return 0;
  if (cgroups->count == cgroups->capacity) {
    uint32_t capacity = cgroups->capacity ? cgroups->capacity * 2 : 8;
    struct cgroup *all = realloc(cgroups->all, capacity * sizeof(*all));
    if (!all)
      return -ENOMEM;
    cgroups->all = all;
    cgroups->capacity = capacity;
  }
  int32_t index = names_add(&cgroups->names, name, strlen(name));
  if (index < 0 || idmap_set(&cgroups->index, key, cgroups->count))
    return -ENOMEM;
  cgroups->all[cgroups->count++] = (struct cgroup){.id = id, .name = index};
  return 0;
}

int cgroups_find(struct cgroups *cgroups, uint64_t id, int32_t *name) {
  uint32_t place = cgroups->latest;
  if (place >= cgroups->count || cgroups->all[place].id != id) {
    char text[24];
    (void)snprintf(text, sizeof(text), "#%" PRIu64, id);
    if (!find(cgroups, id, &place) && cgroups_name(cgroups, id, text))
      return -ENOMEM;
    (void)find(cgroups, id, &place); /* it is known by now */
    cgroups->latest = place;
  }
  *name = cgroups->all[place].name;
  return 0;
}

void cgroups_clear(struct cgroups *cgroups) {
  idmap_clear(&cgroups->index);
  names_clear(&cgroups->names);
  free(cgroups->all);
  *cgroups = (struct cgroups){0};
}
