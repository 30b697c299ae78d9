#include "play/graph.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "play/loop_device.h"
#include "play/number.h"
#include "play/sysfs.h"

static const struct graph_node *find(const struct graph *graph, enum graph_kind kind, dev_t device,
                                     ino_t inode) {
  for (uint32_t i = 0; i < graph->count; i++) {
    const struct graph_node *node = &graph->nodes[i];
    if (node->kind == kind && node->device == device && node->inode == inode)
      return node;
  }
  return NULL;
}

const struct graph_node *graph_device(const struct graph *graph, dev_t device) {
  return find(graph, GRAPH_DEVICE, device, 0);
}

const struct graph_node *graph_find(const struct graph *graph, const struct stat *status) {
  if (S_ISBLK(status->st_mode))
    return find(graph, GRAPH_DEVICE, status->st_rdev, 0);
  if (S_ISCHR(status->st_mode))
    return find(graph, GRAPH_CHARACTER, status->st_rdev, 0);
  return find(graph, GRAPH_FILE, status->st_dev, status->st_ino);
}

/* Adds a node. One that was known in part and is now known whole is walked again. */
static int add(struct graph *graph, struct graph_node new) {
  struct graph_node *node = (struct graph_node *)find(graph, new.kind, new.device, new.inode);
  if (node != NULL) {
    node->is_walked = node->is_walked && (node->is_whole || !new.is_whole);
    node->is_whole = node->is_whole || new.is_whole;
    return 0;
  }
  if (graph->count == GRAPH_NODES_MAX)
    return -E2BIG;
  graph->nodes[graph->count++] = new;
  return 0;
}

int graph_add_file(struct graph *graph, dev_t device, ino_t inode) {
  return add(graph, (struct graph_node){
                        .kind = GRAPH_FILE, .is_whole = true, .device = device, .inode = inode});
}

static int add_device(struct graph *graph, dev_t device, bool is_whole) {
  return add(graph, (struct graph_node){.device = device, .is_whole = is_whole});
}

static int add_character(struct graph *graph, dev_t device) {
  return add(graph,
             (struct graph_node){.kind = GRAPH_CHARACTER, .is_whole = true, .device = device});
}

static int add_all(struct graph *graph, const struct sysfs_set *set, bool are_whole) {
  int rc = 0;
  for (uint32_t i = 0; i < set->count && rc == 0; i++)
    rc = add_device(graph, set->devices[i], are_whole);
  return rc;
}

/* Sectors of a partition on its disk; false when they cannot be read. */
static bool extent(dev_t partition, uint64_t *first, uint64_t *end) {
  char start[32];
  char size[32];
  uint64_t sectors;
  if (sysfs_read(partition, "start", start, sizeof start) != 0 ||
      sysfs_read(partition, "size", size, sizeof size) != 0 ||
      number_parse(start, 0, INT64_MAX, first) != 0 ||
      number_parse(size, 0, INT64_MAX, &sectors) != 0)
    return false;
  *end = *first + sectors;
  return true;
}

/* The disk of a partition, and those of its partitions that a strange table lays over this one. */
static int walk_to_disk(struct graph *graph, dev_t partition) {
  struct sysfs_set others;
  dev_t whole;
  uint64_t first;
  uint64_t end;
  int rc = sysfs_whole(partition, &whole);
  if (rc == 0)
    rc = add_device(graph, whole, false);
  if (rc == 0)
    rc = sysfs_list(whole, SYSFS_PARTITIONS, &others);
  bool is_known = rc == 0 && extent(partition, &first, &end);
  for (uint32_t i = 0; i < others.count && rc == 0; i++) {
    uint64_t other_first;
    uint64_t other_end;
    bool is_apart = is_known && extent(others.devices[i], &other_first, &other_end) &&
                    (other_end <= first || other_first >= end);
    if (!is_apart)
      rc = add_device(graph, others.devices[i], true);
  }
  return rc;
}

/* A loop device is all of what is behind it, whatever part it shows: two windows of one file may
 * overlap, and what lies beside them is the file's all the same. */
static int walk_loop(struct graph *graph, dev_t device) {
  struct loop_backing backing;
  int rc = loop_device_look(device, &backing);
  if (rc != 0)
    return rc < 0 ? rc : 0;
  if (backing.is_device)
    return add_device(graph, backing.device, true);
  rc = graph_add_file(graph, backing.device, backing.inode);
  return rc != 0 || backing.below_inode == 0
             ? rc
             : graph_add_file(graph, backing.below_device, backing.below_inode);
}

/* zram may write what is not used to a device, named "none" when there is none. */
static int walk_zram(struct graph *graph, dev_t device) {
  char path[PATH_MAX];
  struct stat status;
  int rc = sysfs_read(device, "backing_dev", path, sizeof path);
  if (rc != 0)
    return rc == -ENOENT ? 0 : rc;
  if (path[0] != '/')
    return 0;
  if (stat(path, &status) != 0)
    return -errno;
  return S_ISBLK(status.st_mode) ? add_device(graph, status.st_rdev, false) : -ENOTBLK;
}

/* Character devices that take commands for the disk as they are: sg, bsg, ng of NVMe. */
static int walk_generic(struct graph *graph, dev_t device) {
  static const enum sysfs_relation relations[] = {SYSFS_SG, SYSFS_BSG};
  struct sysfs_set set;
  char name[SYSFS_NAME_BYTES];
  char path[SYSFS_NAME_BYTES + 16];
  char text[64];
  unsigned numbers[2];
  int rc = 0;
  for (size_t n = 0; n < sizeof relations / sizeof *relations && rc == 0; n++) {
    rc = sysfs_list(device, relations[n], &set);
    for (uint32_t i = 0; i < set.count && rc == 0; i++)
      rc = add_character(graph, set.devices[i]);
  }
  sysfs_name(device, name);
  if (rc != 0 || strncmp(name, "nvme", 4) != 0)
    return rc;
  (void)snprintf(path, sizeof path, "device/ng%s/dev", name + 4);
  rc = sysfs_read(device, path, text, sizeof text);
  if (rc != 0)
    return rc == -ENOENT ? 0 : rc; /* before Linux 5.13 there is none */
  if (sscanf(text, "%u:%u", &numbers[0], &numbers[1]) != 2)
    return -EINVAL;
  return add_character(graph, makedev(numbers[0], numbers[1]));
}

/* The name that a disk gives itself; no virtual disk has one. */
static bool has_name(dev_t device, char *name, size_t size) {
  bool is_read = sysfs_read(device, "wwid", name, size) == 0 ||
                 sysfs_read(device, "device/wwid", name, size) == 0;
  return is_read && name[0] != '\0' && sysfs_partition_number(device) == 0;
}

/* Two paths to one disk, which no multipath holds, are two disks to the kernel. */
static int walk_paths(struct graph *graph, dev_t device) {
  char name[256];
  char other[256];
  unsigned numbers[2];
  if (!has_name(device, name, sizeof name))
    return 0;
  DIR *folder = opendir("/sys/dev/block");
  if (folder == NULL)
    return -errno;
  int rc = 0;
  for (struct dirent *entry = readdir(folder); entry != NULL && rc == 0; entry = readdir(folder)) {
    if (sscanf(entry->d_name, "%u:%u", &numbers[0], &numbers[1]) != 2)
      continue;
    dev_t found = makedev(numbers[0], numbers[1]);
    if (found != device && has_name(found, other, sizeof other) && strcmp(name, other) == 0)
      rc = add(graph, (struct graph_node){.device = found, .is_whole = true, .is_path = true});
  }
  (void)closedir(folder); /* only read */
  return rc;
}

static int walk(struct graph *graph, uint32_t index) {
  struct graph_node node = graph->nodes[index];
  struct sysfs_set set;
  graph->nodes[index].is_walked = true;
  if (node.kind != GRAPH_DEVICE)
    return 0;
  /* Without sysfs nothing can be proven, and what cannot be proven is rejected. */
  if (!sysfs_has(node.device))
    return -ENOENT;
  int rc = 0;
  if (node.is_whole) {
    rc = sysfs_list(node.device, SYSFS_PARTITIONS, &set);
    rc = rc == 0 ? add_all(graph, &set, true) : rc;
  }
  if (rc == 0 && sysfs_partition_number(node.device) != 0)
    rc = walk_to_disk(graph, node.device);
  if (rc == 0)
    rc = sysfs_list(node.device, SYSFS_SLAVES, &set);
  if (rc == 0)
    rc = add_all(graph, &set, false);
  if (rc == 0 && loop_device_is(node.device))
    rc = walk_loop(graph, node.device);
  if (rc == 0)
    rc = walk_generic(graph, node.device);
  if (rc == 0 && !node.is_path)
    rc = walk_paths(graph, node.device);
  return rc == 0 ? walk_zram(graph, node.device) : rc;
}

int graph_make(struct graph *graph, enum graph_kind kind, dev_t device, ino_t inode) {
  graph->count = 1;
  graph->nodes[0] = (struct graph_node){
      .kind = kind, .is_whole = true, .device = device, .inode = kind == GRAPH_FILE ? inode : 0};
  /* A node that is walked again may lie anywhere before. */
  for (uint32_t i = 0; i < graph->count;) {
    if (graph->nodes[i].is_walked) {
      i++;
      continue;
    }
    int rc = walk(graph, i);
    if (rc != 0)
      return rc;
    i = 0;
  }
  return 0;
}
