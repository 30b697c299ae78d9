/* Control groups of requests by the kernel's ids, and what they are called. */
#ifndef TRACEKIT_READ_CGROUPS_H
#define TRACEKIT_READ_CGROUPS_H

#include <stdint.h>

#include "common/idmap.h"
#include "common/names.h"

struct cgroup {
  uint64_t id;
  int32_t name; /* index into the names */
};

/* Embedded by its owner; all zero is a valid empty table. */
struct cgroups {
  struct idmap index; /* by the id folded to 32 bits, or a key behind it: place in `all` */
  struct cgroup *all;
  uint32_t count, capacity;
  uint32_t latest; /* that an event named, of most the next one too */
  struct names names;
};

/* Names a cgroup that has none yet. Returns 0 or -ENOMEM. */
int cgroups_name(struct cgroups *cgroups, uint64_t id, const char *name);

/* Gives the name of a cgroup, which is '#' and its id when nothing named it. Returns 0 or -ENOMEM.
 */
int cgroups_find(struct cgroups *cgroups, uint64_t id, int32_t *name);

/* Frees everything; the table is empty and usable again. */
void cgroups_clear(struct cgroups *cgroups);

#endif
