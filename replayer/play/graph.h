/* What a target shares its bytes with: block devices and files below and above it, by number. */
#ifndef TRACEKIT_PLAY_GRAPH_H
#define TRACEKIT_PLAY_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define GRAPH_NODES_MAX 512U

enum graph_kind { GRAPH_DEVICE, GRAPH_FILE, GRAPH_CHARACTER };

/* One place where bytes of the target are. */
struct graph_node {
  enum graph_kind kind;
  bool is_whole;  /* all that is on it shares bytes with the target, not only a part of it */
  bool is_path;   /* another path to a disk that is in the graph */
  bool is_walked; /* what it leads to is in the graph */
  dev_t device;   /* its own number; of a file: that of its file system */
  ino_t inode;    /* of a file */
};

/* The first node is the target itself. */
struct graph {
  uint32_t count;
  struct graph_node nodes[GRAPH_NODES_MAX];
};

/* Fills the graph of a target. From a block device it goes to its partitions, to the disk of a
 * partition, to what it is built of, to the disk's generic character devices, and through loop
 * devices and zram to what is behind them; not to the file system that a file lies on, whose other
 * bytes are not the target's. Returns 0, or -errno when that cannot be known. */
int graph_make(struct graph *graph, enum graph_kind kind, dev_t device, ino_t inode);

/* Adds a file that has the bytes of one that is in the graph. Returns 0 or -E2BIG. */
int graph_add_file(struct graph *graph, dev_t device, ino_t inode);

/* Returns the node that is this block device, NULL when there is none. */
const struct graph_node *graph_device(const struct graph *graph, dev_t device);

/* Returns the node of the file or device that these numbers are of, NULL when there is none. */
const struct graph_node *graph_find(const struct graph *graph, const struct stat *status);

#endif
