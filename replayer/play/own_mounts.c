#include "play/own_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "play/mounts.h"

#define FIELDS_MAX 64U
#define LEAST_FIELDS 5U /* before those that need not be there, which end with "-" */

/* Returns whether the line is one of a mount. */
static int cut(char *line, struct own_mount *mount) {
  char *fields[FIELDS_MAX];
  unsigned count = mounts_cut_fields(line, fields, FIELDS_MAX);
  unsigned dash = LEAST_FIELDS;
  while (dash < count && strcmp(fields[dash], "-") != 0)
    dash++;
  if (dash + 1 >= count)
    return 0;
  mounts_unescape(fields[3]);
  mounts_unescape(fields[4]);
  *mount = (struct own_mount){.id = strtoull(fields[0], NULL, 10),
                              .root = fields[3],
                              .point = fields[4],
                              .type = fields[dash + 1],
                              .options = dash + 3 < count ? fields[dash + 3] : ""};
  return 1;
}

int own_mounts_visit(int (*visit)(void *context, const struct own_mount *mount), void *context) {
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (file == NULL)
    return -errno;
  char *line = NULL;
  size_t capacity = 0;
  struct own_mount mount;
  int rc = 0;
  while (rc == 0 && getline(&line, &capacity, file) > 0)
    if (cut(line, &mount))
      rc = visit(context, &mount);
  free(line);
  (void)fclose(file); /* only read */
  return rc;
}

/* A mount by its number, and its type. */
struct typed {
  uint64_t id;
  char *type;
};

static int take_type(void *context, const struct own_mount *mount) {
  const struct typed *typed = context;
  if (mount->id != typed->id)
    return 0;
  (void)snprintf(typed->type, OWN_MOUNTS_TYPE_BYTES, "%s", mount->type); /* types are short */
  return 1;
}

void own_mounts_type(int fd, char type[OWN_MOUNTS_TYPE_BYTES]) {
  char path[64];
  char line[256];
  struct typed typed = {.type = type};
  int found = 0;
  type[0] = '\0';
  (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd); /* always fits */
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return;
  while (found != 1 && fgets(line, sizeof line, file) != NULL)
    found = sscanf(line, "mnt_id: %" SCNu64, &typed.id);
  (void)fclose(file); /* only read */
  if (found == 1)
    (void)own_mounts_visit(take_type, &typed); /* it stays "" */
}
