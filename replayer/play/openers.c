#include "play/openers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/number.h"
#include "play/processes.h"
#include "play/sysfs.h"

#define KERNEL_THREAD 0x00200000UL /* PF_KTHREAD of the kernel */
#define NBD_MAJOR 43U
/* Mappings of a process are read in pieces of this size. */
#define PIECE_BYTES 65536U

struct search {
  const struct graph *graph;
  struct openers *found;
  char *piece; /* PIECE_BYTES */
  bool any;
};

/* Only the numbers, without asking a server that may not answer. */
static bool leads_to_node(const struct graph *graph, int folder, const char *name) {
  struct statx found;
  if (statx(folder, name, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &found) != 0)
    return false;
  struct stat status = {.st_mode = found.stx_mode,
                        .st_dev = makedev(found.stx_dev_major, found.stx_dev_minor),
                        .st_rdev = makedev(found.stx_rdev_major, found.stx_rdev_minor),
                        .st_ino = found.stx_ino};
  return graph_find(graph, &status) != NULL;
}

/* Reads a short file of a process. */
static bool read_short(int folder, const char *name, char *text, size_t size) {
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t length = read(fd, text, size - 1);
  (void)close(fd); /* only read */
  text[length < 0 ? 0 : length] = '\0';
  return length > 0;
}

/* Whether a descriptor can be written to, or used at all where that counts. */
static bool counts(const struct search *search, int folder, const char *name) {
  char path[64];
  char text[512];
  unsigned flags;
  (void)snprintf(path, sizeof path, "fdinfo/%.32s", name);
  if (!read_short(folder, path, text, sizeof text))
    return false; /* it was closed */
  const char *line = strstr(text, "flags:");
  if (line == NULL || sscanf(line, "flags: %o", &flags) != 1)
    return true;
  if ((flags & O_PATH) != 0) /* a place, not an opening */
    return false;
  return search->any || (flags & O_ACCMODE) != O_RDONLY;
}

/* A descriptor's folder that is closed to us: a thread of the kernel has none, and no matter. */
static bool is_kernel_thread(int folder) {
  char text[512];
  unsigned long flags;
  if (!read_short(folder, "stat", text, sizeof text))
    return true; /* it has ended */
  const char *end = strrchr(text, ')');
  return end != NULL && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
         (flags & KERNEL_THREAD) != 0;
}

static int look_at_descriptors(struct search *search, int folder, bool *is_found) {
  char path[64];
  int fd = openat(folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  DIR *descriptors = fdopendir(fd);
  if (descriptors == NULL) {
    (void)close(fd); /* only opened */
    return -ENOMEM;
  }
  for (struct dirent *entry = readdir(descriptors); entry != NULL && !*is_found;
       entry = readdir(descriptors))
    if (entry->d_name[0] != '.' && leads_to_node(search->graph, fd, entry->d_name)) {
      (void)snprintf(path, sizeof path, "%.32s", entry->d_name);
      *is_found = counts(search, folder, path);
    }
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
static bool line_maps(const struct search *search, int folder, const char *line) {
  char range[64];
  char rights[8];
  char path[128];
  unsigned long long inode;
  struct stat status;
  /* Most lines end here: nothing that is private or only read is written through. */
  const char *space = strchr(line, ' ');
  bool is_written = space != NULL && space[2] == 'w' && space[4] == 's';
  if (space == NULL || (!search->any && !is_written))
    return false;
  int name_at = 0;
  if (sscanf(line, "%63s %7s %*s %*s %llu %n", range, rights, &inode, &name_at) < 3 || inode == 0 ||
      !may_be_node(search->graph, inode))
    return false;
  (void)snprintf(path, sizeof path, "map_files/%s", range);
  if (fstatat(folder, path, &status, 0) == 0)
    return graph_find(search->graph, &status) != NULL;
  /* Only root may follow these; the name must do for others. */
  return name_at > 0 && line[name_at] == '/' && stat(line + name_at, &status) == 0 &&
         graph_find(search->graph, &status) != NULL;
}

/* A process may have closed the target and still use it by its mapping. */
static void look_at_mappings(struct search *search, int folder, bool *is_found) {
  int fd = openat(folder, "maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  size_t kept = 0;
  ssize_t now;
  while (!*is_found && (now = read(fd, search->piece + kept, PIECE_BYTES - 1 - kept)) > 0) {
    char *line = search->piece;
    size_t length = kept + (size_t)now;
    search->piece[length] = '\0';
    for (char *end = strchr(line, '\n'); end != NULL && !*is_found; end = strchr(line, '\n')) {
      *end = '\0';
      *is_found = line_maps(search, folder, line);
      line = end + 1;
    }
    kept = length - (size_t)(line - search->piece);
    if (kept >= PIECE_BYTES - 1) /* no line is so long */
      break;
    memmove(search->piece, line, kept);
  }
  (void)close(fd); /* only read */
}

/* Nearly all threads have what their process has: its folder shows that of the first one, which may
 * have ended or taken a table of its own. */
static bool is_like_first(int pid, uint64_t thread) {
  return (uint64_t)pid == thread || syscall(SYS_kcmp, pid, thread, KCMP_FILES, 0, 0) == 0;
}

static int look_at_threads(struct search *search, int folder, int pid, bool *is_found) {
  uint64_t thread;
  int rc = 0;
  int fd = openat(folder, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *threads = fd < 0 ? NULL : fdopendir(fd);
  if (threads == NULL) {
    if (fd >= 0)
      (void)close(fd); /* only opened */
    return 0;          /* it has ended */
  }
  for (struct dirent *entry = readdir(threads); entry != NULL && rc == 0 && !*is_found;
       entry = readdir(threads)) {
    if (number_parse(entry->d_name, 1, INT_MAX, &thread) != 0 || is_like_first(pid, thread))
      continue;
    int task = openat(fd, entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (task < 0)
      continue; /* it has ended */
    rc = look_at_descriptors(search, task, is_found);
    rc = rc == -ENOENT || rc == -ESRCH ? 0 : rc; /* it has ended */
    if (!*is_found)
      look_at_mappings(search, task, is_found);
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
  bool is_found = false;
  if (pid == getpid())
    return 0;
  int rc = look_at_descriptors(search, folder, &is_found);
  if (rc == 0 && !is_found)
    rc = look_at_threads(search, folder, pid, &is_found);
  if (rc == -EACCES || rc == -EPERM)
    search->found->unseen += !is_kernel_thread(folder);
  if (rc != 0)
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ? rc : 0; /* or it has ended */
  bool is_opened = is_found;
  if (!is_found)
    look_at_mappings(search, folder, &is_found);
  if (!is_found || serves_node(search->graph, folder))
    return 0;
  search->found->pid = pid;
  search->found->is_mapped = !is_opened;
  return 1;
}

int openers_find(const struct graph *graph, bool any, struct openers *found) {
  *found = (struct openers){0};
  struct search search = {.graph = graph, .found = found, .piece = malloc(PIECE_BYTES), .any = any};
  if (search.piece == NULL)
    return -ENOMEM;
  int rc = processes_visit(look, &search);
  free(search.piece);
  return rc < 0 ? rc : 0;
}
