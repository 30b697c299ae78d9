#include "play/openers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/held_files.h"
#include "play/number.h"
#include "play/overlay.h"
#include "play/processes.h"
#include "play/rings.h"
#include "play/sysfs.h"

#define KERNEL_THREAD 0x00200000UL /* PF_KTHREAD of the kernel */
#define NBD_MAJOR 43U
#define FIRST_PID_NAMESPACE "pid:[4026531836]"
#define RING "anon_inode:[io_uring]"

struct search {
  const struct graph *graph;
  struct openers *found;
  bool any;
  /* Of the process that is looked at: */
  int folder;
  enum opener how;
  struct rings rings;
  bool is_closed; /* its descriptors are listed, and cannot be followed */
};

static bool has_files(const struct graph *graph) {
  for (uint32_t i = 0; i < graph->count; i++)
    if (graph->nodes[i].kind == GRAPH_FILE)
      return true;
  return false;
}

/* Only the numbers, without asking a server that may not answer. */
static bool leads_to_node(struct search *search, int folder, const char *name, mode_t *mode) {
  struct statx found;
  if (statx(folder, name, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &found) != 0) {
    search->is_closed |= errno == EACCES || errno == EPERM;
    *mode = S_IFIFO; /* else it was closed, and is nothing any more */
    return false;
  }
  struct stat status = {.st_mode = found.stx_mode,
                        .st_dev = makedev(found.stx_dev_major, found.stx_dev_minor),
                        .st_rdev = makedev(found.stx_rdev_major, found.stx_rdev_minor),
                        .st_ino = found.stx_ino};
  *mode = found.stx_mode;
  if (graph_find(search->graph, &status) != NULL)
    return true;
  return S_ISREG(found.stx_mode) && found.stx_dev_major == 0 && has_files(search->graph) &&
         overlay_is_node(search->graph, search->folder, folder, name);
}

/* Whether a descriptor can be written to, or used at all where that counts. */
static bool counts(const struct search *search, int folder, const char *name) {
  char path[64];
  char text[512];
  unsigned flags;
  (void)snprintf(path, sizeof path, "fdinfo/%.32s", name);
  if (!processes_text(folder, path, text, sizeof text))
    return false; /* it was closed */
  const char *line = strstr(text, "flags:");
  if (line == NULL || sscanf(line, "flags: %o", &flags) != 1)
    return true;
  if ((flags & O_PATH) != 0) /* a place, not an opening */
    return false;
  return search->any || (flags & O_ACCMODE) != O_RDONLY;
}

/* A descriptor's folder that is closed to us: a thread of the kernel has none, and no matter. */
static bool is_kernel_thread(int folder) { return (processes_flags(folder) & KERNEL_THREAD) != 0; }

static void look_at_descriptor(struct search *search, int folder, int descriptors,
                               const char *name) {
  struct rings_report report = {0};
  struct statx ring;
  mode_t mode;
  if (leads_to_node(search, descriptors, name, &mode)) {
    search->how = counts(search, folder, name) ? OPENER_OPEN : OPENER_NONE;
    return;
  }
  enum held_files held = held_files_look(search->graph, folder, name, mode, &report);
  if (held != HELD_NONE && !S_ISSOCK(mode) &&
      statx(descriptors, name, AT_STATX_DONT_SYNC, STATX_INO, &ring) == 0)
    rings_add_held(&search->rings, ring.stx_ino, &report);
  search->how = held == HELD_MAYBE ? OPENER_MAYBE : OPENER_NONE;
}

/* Opens a folder of a process to be listed. Returns 0 or -errno: -ENOENT or -ESRCH once the process
 * has ended, before the folder was opened or after. */
static int open_list(int folder, const char *name, DIR **list) {
  int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  *list = fd < 0 ? NULL : fdopendir(fd);
  int rc = *list == NULL ? -errno : 0;
  if (rc != 0 && fd >= 0)
    (void)close(fd); /* only opened */
  return rc;
}

static int look_at_descriptors(struct search *search, int folder) {
  DIR *descriptors;
  int rc = open_list(folder, "fd", &descriptors);
  if (rc != 0)
    return rc;
  int fd = dirfd(descriptors);
  for (struct dirent *entry = readdir(descriptors); entry != NULL && search->how == OPENER_NONE;
       entry = readdir(descriptors))
    if (entry->d_name[0] != '.')
      look_at_descriptor(search, folder, fd, entry->d_name);
  (void)closedir(descriptors); /* only read */
  return 0;
}

/* Whether a mapped file may be a node: of a file its inode must be the same. Of a device the line
 * shows the node in /dev, which has many. */
static bool may_be_node(const struct graph *graph, uint64_t inode) {
  for (uint32_t i = 0; i < graph->count; i++)
    if (graph->nodes[i].kind != GRAPH_FILE || graph->nodes[i].inode == inode)
      return true;
  return false;
}

/* One line of maps: START-END PERMISSIONS OFFSET DEVICE INODE NAME. */
static int look_at_mapping(void *context, char *line) {
  struct search *search = context;
  char range[64];
  char path[128];
  unsigned long long inode;
  struct stat status;
  mode_t mode;
  /* Most lines end here: nothing that is private is written through. */
  const char *space = strchr(line, ' ');
  if (space == NULL || (!search->any && space[4] != 's'))
    return 0;
  int name_at = 0;
  if (sscanf(line, "%63s %*s %*s %*s %llu %n", range, &inode, &name_at) < 2 || inode == 0)
    return 0;
  if (strcmp(line + name_at, RING) == 0)
    rings_add_mapped(&search->rings, inode);
  if (!may_be_node(search->graph, inode))
    return 0;
  (void)snprintf(path, sizeof path, "map_files/%s", range);
  /* What was opened for writing can be made writable at any time. */
  if (!search->any && space[2] != 'w' &&
      fstatat(search->folder, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      (status.st_mode & S_IWUSR) == 0)
    return 0;
  /* Only root may follow these; the name must do for others. */
  bool is_named = line[name_at] == '/' && stat(line + name_at, &status) == 0 &&
                  graph_find(search->graph, &status) != NULL;
  bool was_closed = search->is_closed;
  bool is_node = leads_to_node(search, search->folder, path, &mode) || is_named;
  search->is_closed = was_closed;
  if (!is_node)
    return 0;
  search->how = OPENER_MAPPED;
  return 1;
}

/* A process may have closed the target and still use it by its mapping. */
static int look_at_mappings(struct search *search, int folder) {
  int rc =
      search->how == OPENER_NONE ? processes_lines(folder, "maps", look_at_mapping, search) : 0;
  return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM ? rc : 0; /* or it has ended */
}

/* Nearly all threads have what their process has: its folder shows that of the first one, which may
 * have ended or taken a table of its own. */
static bool is_like_first(int pid, uint64_t thread) {
  return (uint64_t)pid == thread || syscall(SYS_kcmp, pid, thread, KCMP_FILES, 0, 0) == 0;
}

static int look_at_thread(struct search *search, int task, uint64_t thread, bool is_like_first) {
  rings_add_thread(&search->rings, task, thread);
  int rc = is_like_first ? 0 : look_at_descriptors(search, task);
  return rc == 0 && !is_like_first ? look_at_mappings(search, task) : rc;
}

static int look_at_threads(struct search *search, int folder, int pid) {
  uint64_t thread;
  DIR *threads;
  int rc = open_list(folder, "task", &threads);
  if (rc != 0)
    return rc;
  for (struct dirent *entry = readdir(threads);
       entry != NULL && rc == 0 && search->how == OPENER_NONE; entry = readdir(threads)) {
    if (number_parse(entry->d_name, 1, INT_MAX, &thread) != 0)
      continue;
    int task = openat(dirfd(threads), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    rc = task < 0 ? -errno : look_at_thread(search, task, thread, is_like_first(pid, thread));
    rc = rc == -ENOENT || rc == -ESRCH ? 0 : rc; /* it has ended */
    if (task >= 0)
      (void)close(task); /* only a place */
  }
  (void)closedir(threads); /* only read */
  return rc;
}

/* A client of nbd keeps the device open for as long as it serves it, in one of its threads. */
static bool serves_node(const struct graph *graph, int folder) {
  for (uint32_t i = 0; i < graph->count; i++) {
    const struct graph_node *node = &graph->nodes[i];
    char thread[32];
    char path[64];
    if (node->kind != GRAPH_DEVICE || major(node->device) != NBD_MAJOR ||
        sysfs_read(node->device, "pid", thread, sizeof thread) != 0)
      continue;
    (void)snprintf(path, sizeof path, "task/%s", thread);
    if (faccessat(folder, path, F_OK, 0) == 0)
      return true;
  }
  return false;
}

static int look(int folder, int pid, void *context) {
  struct search *search = context;
  if (pid == getpid())
    return 0;
  search->folder = folder;
  search->how = OPENER_NONE;
  search->is_closed = false;
  rings_clear(&search->rings);
  int rc = look_at_descriptors(search, folder);
  if (rc == 0 && search->how == OPENER_NONE)
    rc = look_at_threads(search, folder, pid);
  /* The first process uses no disk itself, and may be closed even to root. */
  search->is_closed &= pid != 1;
  if (rc == -EACCES || rc == -EPERM || (search->is_closed && search->how == OPENER_NONE))
    search->found->unseen += !is_kernel_thread(folder);
  if (rc != 0)
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ? rc : 0; /* or it has ended */
  rc = look_at_mappings(search, folder);
  if (rc != 0)
    return rc;
  /* Nobody tells what is registered in a ring that has no descriptor any more. */
  if (search->how == OPENER_NONE && !search->is_closed && rings_have_hidden(&search->rings))
    search->how = OPENER_MAYBE;
  if (search->how == OPENER_NONE || serves_node(search->graph, folder))
    return 0;
  search->found->pid = pid;
  search->found->how = search->how;
  return 1;
}

/* In a namespace of its own, or where /proc hides others, a process is shown some only. */
static bool is_confined(void) {
  char name[sizeof FIRST_PID_NAMESPACE + 1];
  ssize_t length = readlink("/proc/self/ns/pid", name, sizeof name);
  bool is_first = length < 0 ? errno == ENOENT /* the kernel has none */
                             : length == sizeof FIRST_PID_NAMESPACE - 1 &&
                                   memcmp(name, FIRST_PID_NAMESPACE, (size_t)length) == 0;
  return !is_first || access("/proc/1", F_OK) != 0;
}

int openers_find(const struct graph *graph, bool any, struct openers *found) {
  *found = (struct openers){0};
  struct search search = {.graph = graph, .found = found, .any = any};
  found->is_confined = is_confined();
  int rc = processes_visit(look, &search);
  return rc < 0 ? rc : 0;
}
