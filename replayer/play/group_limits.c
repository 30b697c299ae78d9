#include "play/group_limits.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "play/number.h"
#include "play/own_mounts.h"
#include "play/processes.h"

#define UNLIMITED (UINT64_C(1) << 62) /* version 1 writes a number like this for none */

/* The files of a limit in one version; NULL: it has none. */
struct names {
  const char *limit;
  const char *used;
  const char *statistics; /* where what can be taken back stands */
  const char *inactive;   /* its two rows there */
  const char *active;
};

static const struct {
  const char *controller;
  struct names versions[2]; /* 1, 2 */
} kinds[GROUP_LIMIT_KINDS] = {
    [GROUP_LIMIT_THREADS] = {"pids",
                             {{"pids.max", "pids.current", NULL, NULL, NULL},
                              {"pids.max", "pids.current", NULL, NULL, NULL}}},
    [GROUP_LIMIT_MEMORY] = {"memory",
                            {{"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat",
                              "total_inactive_file ", "total_active_file "},
                             {"memory.max", "memory.current", "memory.stat", "inactive_file ",
                              "active_file "}}},
    [GROUP_LIMIT_MEMORY_HIGH] = {"memory",
                                 {{NULL, NULL, NULL, NULL, NULL},
                                  {"memory.high", "memory.current", "memory.stat", "inactive_file ",
                                   "active_file "}}},
};

/* Where the groups of one version are, and which of them is ours. */
struct place {
  const char *controller;
  const struct names *names;
  bool is_first;             /* of version 1 */
  char group[PATH_MAX];      /* ours in its hierarchy; "": none */
  char folder[2 * PATH_MAX]; /* ours as a folder */
  size_t top_bytes;          /* of `folder`: the mount point */
};

static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
      return true;
  }
  return false;
}

/* A line of /proc/self/cgroup: number, controllers (none in version 2) and group. */
static int take_group(void *context, char *line) {
  struct place *place = context;
  char *controllers = strchr(line, ':');
  char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
  if (group == NULL)
    return 0;
  *group++ = '\0';
  bool is_ours =
      place->is_first ? has_word(controllers + 1, place->controller) : controllers[1] == '\0';
  if (is_ours)
    (void)snprintf(place->group, sizeof place->group, "%s", group); /* no longer than a path */
  return is_ours;
}

/* A mount shows the groups below its root, which is the group's path where ours is seen. */
static int take_mount(void *context, const struct own_mount *mount) {
  struct place *place = context;
  bool is_first = strcmp(mount->type, "cgroup") == 0;
  bool is_hierarchy = place->is_first ? is_first && has_word(mount->options, place->controller)
                                      : strcmp(mount->type, "cgroup2") == 0;
  size_t root_bytes = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root);
  const char *below = place->group + root_bytes;
  bool is_below =
      strncmp(place->group, mount->root, root_bytes) == 0 && (*below == '/' || *below == '\0');
  if (!is_hierarchy)
    return 0;
  if (!is_below)
    below = ""; /* of another name space: the limits at its top are ours all the same */
  int length = snprintf(place->folder, sizeof place->folder, "%s%s", mount->point, below);
  if (length < 0 || (size_t)length >= sizeof place->folder)
    return 0;
  while (length > 1 && place->folder[length - 1] == '/')
    place->folder[--length] = '\0';
  place->top_bytes = strlen(mount->point);
  return 1;
}

static uint64_t read_number(int folder, const char *name) {
  char text[64];
  uint64_t number;
  if (!processes_text(folder, name, text, sizeof text))
    return UINT64_MAX;
  text[strcspn(text, "\n")] = '\0';
  return number_parse(text, 0, UNLIMITED - 1, &number) == 0 ? number : UINT64_MAX; /* "max" */
}

/* The pages of files, of which clean ones go at once and others when they are written back. */
struct taken_back {
  const struct names *names;
  uint64_t bytes;
};

static int take_statistic(void *context, char *line) {
  struct taken_back *found = context;
  uint64_t bytes = 0;
  const char *rows[] = {found->names->inactive, found->names->active};
  for (unsigned i = 0; i < 2; i++)
    if (strncmp(line, rows[i], strlen(rows[i])) == 0 &&
        number_parse(line + strlen(rows[i]), 0, UNLIMITED - 1, &bytes) == 0)
      found->bytes += bytes;
  return 0;
}

static void look(const struct names *names, const char *path, struct group_limit *found) {
  int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return;
  struct taken_back back = {.names = names};
  uint64_t limit = read_number(folder, names->limit);
  uint64_t used = limit == UINT64_MAX ? 0 : read_number(folder, names->used);
  if (limit != UINT64_MAX && names->statistics != NULL)
    (void)processes_lines(folder, names->statistics, take_statistic, &back); /* 0 without */
  (void)close(folder);                                                       /* only a place */
  used -= back.bytes < used ? back.bytes : used;
  uint64_t left = limit > used ? limit - used : 0;
  if (limit == UINT64_MAX || used == UINT64_MAX || left >= found->left)
    return;
  found->limit = limit;
  found->left = left;
  (void)snprintf(found->path, sizeof found->path, "%s/%s", path, names->limit);
}

/* The limits of all groups from ours to the top hold for us. */
static void look_upwards(struct place *place, struct group_limit *found) {
  size_t length = strlen(place->folder);
  for (;;) {
    look(place->names, place->folder, found);
    while (length > place->top_bytes && place->folder[length - 1] != '/')
      length--;
    if (length <= place->top_bytes)
      return;
    place->folder[--length] = '\0';
  }
}

void group_limits_find(enum group_limit_kind kind, struct group_limit *found) {
  *found = (struct group_limit){.limit = UINT64_MAX, .left = UINT64_MAX};
  struct place *place = malloc(sizeof *place);
  int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (unsigned version = 0; version < 2 && place != NULL && self >= 0; version++) {
    const struct names *names = &kinds[kind].versions[version];
    memset(place, 0, sizeof *place);
    place->controller = kinds[kind].controller;
    place->names = names;
    place->is_first = version == 0;
    if (names->limit != NULL && processes_lines(self, "cgroup", take_group, place) == 1 &&
        own_mounts_visit(take_mount, place) == 1)
      look_upwards(place, found);
  }
  if (self >= 0)
    (void)close(self); /* only a place */
  free(place);
}
