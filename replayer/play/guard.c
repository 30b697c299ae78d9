#include "play/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/clock.h"
#include "play/dm_table.h"
#include "play/exports.h"
#include "play/loop_device.h"
#include "play/mounts.h"
#include "play/openers.h"
#include "play/sysfs.h"

#define OPENER_TRIES 4U
#define OPENER_PAUSE_NS 25000000U
/* A ring in use, and a descriptor on its way, may be a matter of moments. */
#define MAYBE_TRIES 40U

static int busy(struct guard *guard, const char *what, const char *name) {
  (void)snprintf(guard->why, sizeof guard->why, "%.100s%s%.140s", what, name[0] == '\0' ? "" : " ",
                 name);
  return -EBUSY;
}

/* What is in a list of users: found, not found, or not to be known. */
static int verdict(struct guard *guard, int found, const char *what, const char *where) {
  if (found < 0)
    return busy(guard, "cannot find out who uses it:", strerror(-found));
  return found == 0 ? 0 : busy(guard, what, where);
}

/* Whether what is built upon a device, beside what the target is built of, leaves the target's part
 * alone: other tables of the device mapper, other volumes of one driver that shares out the device
 * itself, and what has no bytes (the container of an array). */
static bool is_apart(const struct graph *graph, const struct sysfs_set *holders, dev_t holder,
                     dev_t below) {
  char text[64];
  char name[SYSFS_NAME_BYTES];
  if (sysfs_read(holder, "size", text, sizeof text) == 0 && strcmp(text, "0") == 0)
    return true;
  sysfs_name(holder, name);
  for (uint32_t i = 0; i < holders->count; i++) {
    char ours[SYSFS_NAME_BYTES];
    if (graph_device(graph, holders->devices[i]) == NULL)
      continue;
    sysfs_name(holders->devices[i], ours);
    bool is_bcache = strncmp(name, "bcache", 6) == 0 && strncmp(ours, "bcache", 6) == 0;
    if (!is_bcache && !dm_table_are_apart(holder, holders->devices[i], below))
      return false;
  }
  return true;
}

/* What is built upon a node is somebody's, unless it is the way from the target down to it. */
static int check_holders(struct guard *guard, const struct graph *graph) {
  for (uint32_t i = 0; i < graph->count; i++) {
    const struct graph_node *node = &graph->nodes[i];
    struct sysfs_set holders;
    char name[SYSFS_NAME_BYTES];
    if (node->kind != GRAPH_DEVICE)
      continue;
    int rc = sysfs_list(node->device, SYSFS_HOLDERS, &holders);
    if (rc != 0)
      return verdict(guard, rc, "", "");
    for (uint32_t n = 0; n < holders.count; n++) {
      dev_t holder = holders.devices[n];
      if (graph_device(graph, holder) != NULL ||
          (!node->is_whole && is_apart(graph, &holders, holder, node->device)))
        continue;
      sysfs_name(holder, name);
      return busy(guard, "it, or a device that shares bytes with it, is part of", name);
    }
  }
  return 0;
}

/* Rejects what the loop device `name` stands on, unless that loop device is the way from the target
 * down to it. */
static int check_loop(struct guard *guard, const struct graph *graph, const char *name) {
  char path[96];
  struct loop_backing backing;
  struct stat status;
  (void)snprintf(path, sizeof path, "/sys/block/%.64s/dev", name);
  unsigned numbers[2];
  FILE *file = fopen(path, "re");
  if (file == NULL && errno == ENOENT) /* it has gone */
    return 0;
  bool is_read = file != NULL && fscanf(file, "%u:%u", &numbers[0], &numbers[1]) == 2;
  if (file != NULL)
    (void)fclose(file); /* only read */
  if (!is_read)
    return busy(guard, "cannot find out what is the loop device", name);
  dev_t device = makedev(numbers[0], numbers[1]);
  if (graph_device(graph, device) != NULL)
    return 0;
  int rc = loop_device_look(device, &backing);
  /* Of a file the kernel will say whether anything else has it open. */
  if (rc < 0)
    return guard->kind == GRAPH_FILE
               ? 0
               : busy(guard, "cannot find out what is behind the loop device", name);
  status.st_mode = backing.is_device ? S_IFBLK : S_IFREG;
  status.st_dev = status.st_rdev = backing.device;
  status.st_ino = backing.inode;
  const struct graph_node *node = rc == 1 ? NULL : graph_find(graph, &status);
  if (node == NULL && rc == 0 && backing.below_inode != 0) {
    status.st_dev = backing.below_device;
    status.st_ino = backing.below_inode;
    node = graph_find(graph, &status);
  }
  if (node == NULL)
    return 0;
  return busy(guard,
              node == graph->nodes ? "it is behind the loop device"
                                   : "what it shares its bytes with is behind the loop device",
              name);
}

static int check_loops(struct guard *guard, const struct graph *graph) {
  DIR *folder = opendir("/sys/block");
  if (folder == NULL)
    return busy(guard, "cannot list the block devices:", strerror(errno));
  int rc = 0;
  for (struct dirent *entry = readdir(folder); entry != NULL && rc == 0; entry = readdir(folder))
    if (strncmp(entry->d_name, "loop", 4) == 0)
      rc = check_loop(guard, graph, entry->d_name);
  (void)closedir(folder); /* only read */
  return rc;
}

static bool is_claimed(const struct guard_claims *claims, dev_t device) {
  for (uint32_t i = 0; i < claims->count; i++)
    if (claims->devices[i] == device)
      return true;
  return false;
}

/* A disk that is claimed holds its partitions, too. */
static bool has_claimed_disk(const struct graph *graph, dev_t device) {
  dev_t whole;
  if (sysfs_partition_number(device) == 0 || sysfs_whole(device, &whole) != 0)
    return false;
  const struct graph_node *disk = graph_device(graph, whole);
  return disk != NULL && disk->is_whole;
}

/* The kernel itself says whether a device behind a loop device is in use, whatever the namespace,
 * and nobody can mount it as long as we hold it. */
static int claim(struct guard *guard, const struct graph *graph) {
  struct guard_claims *claims = &guard->claims;
  for (uint32_t i = 1; i < graph->count; i++) {
    const struct graph_node *node = &graph->nodes[i];
    char name[SYSFS_NAME_BYTES];
    bool is_below =
        node->kind == GRAPH_DEVICE && node->is_whole && !has_claimed_disk(graph, node->device);
    if (!is_below || is_claimed(claims, node->device))
      continue;
    sysfs_name(node->device, name);
    if (claims->count == GUARD_CLAIMS_MAX)
      return busy(guard, "cannot claim so many devices, the last of which is", name);
    int fd = sysfs_open(node->device, O_RDONLY | O_EXCL);
    if (fd == -EBUSY)
      return busy(guard, "the kernel says that it is in use by what is below it:", name);
    if (fd < 0 && !guard->is_written)
      continue; /* who only reads it harms nobody */
    if (fd < 0)
      return busy(guard, "cannot claim the device that it shares its bytes with,", name);
    claims->fds[claims->count] = fd;
    claims->devices[claims->count++] = node->device;
  }
  return 0;
}

static int check_exports(struct guard *guard, const struct graph *graph) {
  char where[128];
  char text[GUARD_REASON_BYTES];
  int found = exports_find(graph, where, sizeof where);
  if (found >= 0)
    return verdict(guard, found, "the kernel exports it:", where);
  /* Of a file the kernel will say whether anything else has it open. */
  if (guard->kind == GRAPH_FILE)
    return 0;
  (void)snprintf(text, sizeof text, "%s: %s", where, strerror(-found));
  return busy(guard, "cannot find out whether the kernel exports it:", text);
}

static int check_graph(struct guard *guard, const struct graph *graph) {
  char where[128];
  int rc = check_holders(guard, graph);
  if (rc == 0)
    rc = verdict(guard, mounts_find(graph, where, sizeof where),
                 "it, a partition or a holder of it is mounted at", where);
  if (rc == 0)
    rc = verdict(guard, mounts_find_swap(graph, where, sizeof where),
                 "it is in use as swap:", where);
  if (rc == 0)
    rc = check_loops(guard, graph);
  if (rc == 0)
    rc = check_exports(guard, graph);
  return rc == 0 ? claim(guard, graph) : rc;
}

/* Makes the graph and checks it. The graph is made anew each time: it may have grown meanwhile. */
static int with_graph(struct guard *guard, int (*check)(struct guard *, const struct graph *)) {
  struct graph *graph = malloc(sizeof *graph);
  if (graph == NULL)
    return busy(guard, "cannot check it:", strerror(ENOMEM));
  int rc = graph_make(graph, guard->kind, guard->device, guard->inode);
  if (rc == 0 && guard->below_inode != 0)
    rc = graph_add_file(graph, guard->below_device, guard->below_inode);
  rc = rc != 0 ? busy(guard, "cannot find out what it is related to:", strerror(-rc))
               : check(guard, graph);
  free(graph);
  return rc;
}

int guard_check(struct guard *guard) { return with_graph(guard, check_graph); }

static int check_processes(struct guard *guard, const struct graph *graph) {
  static const char *const used[] = {
      [OPENER_OPEN] = "it is in use by the process",
      [OPENER_MAPPED] = "it is in use by a mapping of the process",
      [OPENER_MAYBE] = "it may be among the files that it holds without a descriptor: the process",
  };
  struct openers found;
  char text[64];
  /* A device may be read by others; a file, and memory that is mapped, is used by one alone. */
  int rc = openers_find(graph, guard->kind != GRAPH_DEVICE, &found);
  guard->unseen = found.unseen;
  guard->tries = found.pid == 0 ? 0 : found.how == OPENER_MAYBE ? MAYBE_TRIES : OPENER_TRIES;
  if (rc != 0)
    return verdict(guard, rc, "", "");
  (void)snprintf(text, sizeof text, "%d", found.pid);
  if (found.pid != 0 && guard->kind == GRAPH_FILE && found.how != OPENER_MAYBE)
    return busy(guard, "another process has the file open:", text);
  if (found.pid != 0)
    return busy(guard, used[found.how], text);
  if ((found.unseen == 0 && !found.is_confined) || (guard->is_owner && geteuid() != 0))
    return 0;
  if (found.is_confined)
    return busy(guard,
                "only some processes are shown here (a PID namespace, or /proc with hidepid): "
                "others may use it",
                "");
  (void)snprintf(text, sizeof text, "%u", found.unseen);
  return busy(guard,
              geteuid() == 0 ? "root may not look into all processes here; those that may use it:"
                             : "another user owns it, and only root may look into processes "
                               "of others that may use it:",
              text);
}

/* The kernel grants a write lease only to the sole opener. */
static int check_lease(struct guard *guard, int fd, bool *is_known) {
  *is_known = fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
  if (*is_known)
    (void)fcntl(fd, F_SETLEASE, F_UNLCK); /* granted a moment ago */
  else if (errno == EAGAIN || errno == EBUSY)
    return busy(guard, "another process has the file open", "");
  return 0;
}

/* Who has a device open for a moment only, to look at it or to set it up, is asked again. */
static int check_processes_patiently(struct guard *guard) {
  int rc = with_graph(guard, check_processes);
  for (unsigned tries = 0; rc != 0 && tries < guard->tries; tries++) {
    clock_sleep_until(clock_now_ns() + OPENER_PAUSE_NS);
    rc = with_graph(guard, check_processes);
  }
  return rc;
}

int guard_check_openers(struct guard *guard, int fd, bool again) {
  bool is_known = false;
  guard->unseen = 0;
  int rc = guard->kind == GRAPH_FILE ? check_lease(guard, fd, &is_known) : 0;
  /* Of a file on an overlay the kernel grants one whoever has the file below open. */
  is_known = is_known && guard->below_inode == 0;
  return rc != 0 || is_known || again ? rc : check_processes_patiently(guard);
}

void guard_release(struct guard *guard) {
  for (uint32_t i = 0; i < guard->claims.count; i++)
    (void)close(guard->claims.fds[i]); /* only held */
  guard->claims.count = 0;
}
