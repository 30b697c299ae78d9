#include "play/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/processes.h"

/* What a process sees depends on its namespace and on its root. */
struct view {
  ino_t space; /* mount namespace */
  dev_t device;
  ino_t root;
};

/* Views that were looked at, and what is looked for. */
struct search {
  const struct graph *graph;
  struct view *seen;
  size_t count;
  size_t capacity;
  char *where;
  size_t size;
};

void mounts_unescape(char *text) {
  char *out = text;
  for (char *in = text; *in != '\0'; out++) {
    bool is_escape = in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' &&
                     in[2] <= '7' && in[3] >= '0' && in[3] <= '7';
    *out = is_escape ? (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0')) : *in;
    in += is_escape ? 4 : 1;
  }
  *out = '\0';
}

unsigned mounts_cut_fields(char *line, char **fields, unsigned limit) {
  unsigned count = 0;
  char *rest = NULL;
  for (char *field = strtok_r(line, " \t\n", &rest); field != NULL && count < limit;
       field = strtok_r(NULL, " \t\n", &rest))
    fields[count++] = field;
  return count;
}

/* Whether a path, as the process of the folder sees it, leads to a node. */
static bool leads_to_node(const struct graph *graph, int folder, const char *path) {
  char from_root[PATH_MAX];
  struct stat status;
  int length = snprintf(from_root, sizeof from_root, "root%s", path);
  return path[0] == '/' && length > 0 && (size_t)length < sizeof from_root &&
         fstatat(folder, from_root, &status, 0) == 0 && graph_find(graph, &status) != NULL;
}

/* One line of mountinfo: field 2 is major:minor, 4 the mount point, and after " - " come the type
 * and the source. Some file systems show an invented number, so the source is looked at as well;
 * that of others is the file that they are mounted from. */
static bool line_mounts(char *line, const struct graph *graph, int folder, const char **point) {
  static const char *const without_source[] = {"proc", "sysfs", "tmpfs", "devtmpfs", "overlay",
                                               "nfs",  "nfs4",  "cifs",  "autofs"};
  char *fields[64];
  unsigned major_number;
  unsigned minor_number;
  unsigned count = mounts_cut_fields(line, fields, 64);
  if (count < 5 || sscanf(fields[2], "%u:%u", &major_number, &minor_number) != 2)
    return false;
  *point = fields[4];
  if (graph_device(graph, makedev(major_number, minor_number)) != NULL)
    return true;
  unsigned dash = 5;
  while (dash < count && strcmp(fields[dash], "-") != 0)
    dash++;
  if (dash + 2 >= count)
    return false;
  for (size_t i = 0; i < sizeof without_source / sizeof *without_source; i++)
    if (strcmp(fields[dash + 1], without_source[i]) == 0)
      return false;
  mounts_unescape(fields[dash + 2]);
  return leads_to_node(graph, folder, fields[dash + 2]);
}

/* Looks through the mounts of one process. Returns 0, 1 or -errno. */
static int look(const struct search *search, int folder) {
  int fd = openat(folder, "mountinfo", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  FILE *file = fdopen(fd, "r");
  if (file == NULL) {
    int rc = -errno;
    (void)close(fd); /* only opened */
    return rc;
  }
  char *line = NULL;
  size_t capacity = 0;
  const char *point = "";
  int rc = 0;
  while (rc == 0 && getline(&line, &capacity, file) > 0)
    if (line_mounts(line, search->graph, folder, &point)) {
      (void)snprintf(search->where, search->size, "%s", point);
      rc = 1;
    }
  free(line);
  (void)fclose(file); /* only read */
  return rc;
}

/* Whether this view is new; it is remembered then. */
static int is_new(struct search *search, int folder, bool *result) {
  struct stat space;
  struct stat root;
  *result = false;
  if (fstatat(folder, "ns/mnt", &space, 0) != 0 || fstatat(folder, "root", &root, 0) != 0)
    return 0; /* it has ended, or is another user's */
  for (size_t i = 0; i < search->count; i++)
    if (search->seen[i].space == space.st_ino && search->seen[i].device == root.st_dev &&
        search->seen[i].root == root.st_ino)
      return 0;
  if (search->count == search->capacity) {
    size_t capacity = search->capacity == 0 ? 64 : 2 * search->capacity;
    struct view *seen = realloc(search->seen, capacity * sizeof *seen);
    if (seen == NULL)
      return -ENOMEM;
    search->seen = seen;
    search->capacity = capacity;
  }
  search->seen[search->count++] = (struct view){space.st_ino, root.st_dev, root.st_ino};
  *result = true;
  return 0;
}

static int look_if_new(int folder, int pid, void *context) {
  struct search *search = context;
  bool result;
  int rc = is_new(search, folder, &result);
  if (rc != 0 || !result)
    return rc;
  rc = look(search, folder);
  /* Ours must be readable; one that ends meanwhile has nothing mounted any more. */
  return rc < 0 && pid != getpid() ? 0 : rc;
}

int mounts_find(const struct graph *graph, char *where, size_t size) {
  struct search search = {.graph = graph, .where = where, .size = size};
  int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (self < 0)
    return -errno;
  int rc = look_if_new(self, getpid(), &search); /* first: its names are those that one types */
  (void)close(self);                             /* only a place */
  if (rc == 0)
    rc = processes_visit(look_if_new, &search);
  free(search.seen);
  return rc;
}

/* A swap file or partition holds memory of any process: writing there would be fatal. */
int mounts_find_swap(const struct graph *graph, char *where, size_t size) {
  FILE *file = fopen("/proc/swaps", "re");
  if (file == NULL)
    return errno == ENOENT ? 0 : -errno;
  char *line = NULL;
  size_t capacity = 0;
  int rc = 0;
  while (rc == 0 && getline(&line, &capacity, file) > 0) {
    struct stat status;
    line[strcspn(line, " \t\n")] = '\0';
    mounts_unescape(line);
    if (line[0] == '/' && stat(line, &status) == 0 && graph_find(graph, &status) != NULL) {
      (void)snprintf(where, size, "%s", line);
      rc = 1;
    }
  }
  free(line);
  (void)fclose(file); /* only read */
  return rc;
}
