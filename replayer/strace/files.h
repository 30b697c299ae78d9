/* What is known of each file: whether it was there before the first operation, and its size then
 * and now. Paths are names of nodes, so that a size goes with a rename and is shared by links. */
#ifndef TRACEKIT_STRACE_FILES_H
#define TRACEKIT_STRACE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "strace/paths.h"

enum file_kind { KIND_UNKNOWN, KIND_FILE, KIND_DIRECTORY, KIND_OTHER };

/* What a size before the first operation is known by; in the order of EVIDENCE in
 * tracekit/tables.py. */
enum evidence {
  EVIDENCE_UNKNOWN,
  EVIDENCE_ABSENT,    /* it was not there */
  EVIDENCE_SNAPSHOT,  /* looked at before the command began */
  EVIDENCE_UNCHANGED, /* looked at afterwards; nothing had changed since */
  EVIDENCE_STAT,      /* a stat of the trace, before anything changed */
  EVIDENCE_SEEK,      /* a seek to the end, likewise */
  EVIDENCE_END,       /* a read that met the end, likewise */
  EVIDENCE_AFTER,     /* its size afterwards, less what the trace added */
  EVIDENCE_READS,     /* at least as large as what was read */
};

#define NODE_NEW (-1)    /* not looked up yet */
#define NODE_ABSENT (-2) /* there is no such file now */

struct file {
  int32_t node; /* what the path names now */
  uint8_t kind, evidence;
  bool is_born;        /* afterwards it was there and made since the start */
  bool is_gone;        /* afterwards it was not there */
  bool is_used;        /* some row names it */
  int64_t first_bytes; /* size before the first operation, or -1 */
  int64_t last_bytes;  /* size afterwards, or -1 */
};

struct node {
  int64_t bytes;    /* size now, -1 when it is not known */
  int64_t reached;  /* end of the last byte that was written at a known place */
  int64_t read_to;  /* end of the last byte that was read, before anything changed */
  int64_t appended; /* bytes appended at places that are not known */
  int32_t origin;   /* the file that it was before the first operation, or -1 */
  bool is_changed, is_cut;
};

/* Embedded by its owner, with `start_ns` set; all zero otherwise. */
struct files {
  struct paths paths;
  struct file *files;
  struct node *nodes;
  int32_t count, capacity; /* of files */
  int32_t node_count, node_capacity;
  int64_t start_ns; /* unix time before which nothing of the trace happened; 0: do not look */
  char *below;      /* everything below this folder was in the snapshot, NULL for none */
};

/* Returns the number of the path, looked at if it is new; -ENOMEM on failure. */
int32_t files_find(struct files *files, struct view path);

/* Says what was at a path before the command began; before anything else only. 0 or -ENOMEM. */
int files_know(struct files *files, struct view path, enum file_kind kind, int64_t bytes,
               enum evidence evidence);

/* A file turned out to be there: gives it a node if it has none. Returns the node or -ENOMEM. */
int32_t files_present(struct files *files, int32_t file);

/* A file turned out not to be there. */
void files_absent(struct files *files, int32_t file);

/* A file was made: it is there, and empty. Returns the node or -ENOMEM. */
int32_t files_made(struct files *files, int32_t file);

/* The path of a file leads to nothing any more. */
void files_removed(struct files *files, int32_t file);

/* What `from` names is now named by `to` as well, or (rename) instead, with all below a folder.
 * Returns 0 or -ENOMEM. */
int files_linked(struct files *files, int32_t from, int32_t to);
int files_renamed(struct files *files, int32_t from, int32_t to);

/* The trace reports a node's size. */
void node_set_size(struct files *files, int32_t node, int64_t bytes, enum evidence evidence);

/* A node was written to up to `end`, cut or extended to `bytes`. */
void node_written(struct files *files, int32_t node, int64_t end);
void node_cut(struct files *files, int32_t node, int64_t bytes);

/* Works out, at the end, what sizes follow from the sizes afterwards and from reads. */
void files_conclude(struct files *files);

void files_clear(struct files *files);

#endif
