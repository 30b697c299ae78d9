#include "strace/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NS 1000000000

static int32_t add_node(struct files *files, int64_t bytes, int32_t origin) {
  if (files->node_count == files->node_capacity) {
    int32_t capacity = files->node_capacity ? files->node_capacity * 2 : 64;
    struct node *nodes = realloc(files->nodes, (size_t)capacity * sizeof(*nodes));
    if (!nodes)
      return -ENOMEM;
    files->nodes = nodes;
    files->node_capacity = capacity;
  }
  files->nodes[files->node_count] = (struct node){.bytes = bytes, .origin = origin};
  return files->node_count++;
}

static int64_t time_of(struct statx_timestamp time) {
  return (int64_t)time.tv_sec * NS + time.tv_nsec;
}

static enum file_kind kind_of(uint32_t mode) {
  return S_ISREG(mode) ? KIND_FILE : S_ISDIR(mode) ? KIND_DIRECTORY : KIND_OTHER;
}

/* Looks at a file after the capture: if nothing has happened to it since the start, it was so
 * before. */
static int look(struct files *files, int32_t number, struct view path) {
  char name[PATH_BYTES + 1];
  struct statx found;
  struct file *file = &files->files[number];
  memcpy(name, path.text, path.length);
  name[path.length] = '\0';
  unsigned wanted = STATX_BASIC_STATS | STATX_BTIME;
  if (statx(AT_FDCWD, name, 0, wanted, &found)) {
    file->is_gone = true;
    return 0;
  }
  file->kind = (uint8_t)kind_of(found.stx_mode);
  file->last_bytes = file->kind == KIND_FILE ? (int64_t)found.stx_size : -1;
  file->is_born = (found.stx_mask & STATX_BTIME) && time_of(found.stx_btime) >= files->start_ns;
  if (time_of(found.stx_ctime) >= files->start_ns)
    return 0;
  file->evidence = EVIDENCE_UNCHANGED;
  file->first_bytes = file->last_bytes;
  file->node = add_node(files, file->last_bytes, number);
  return file->node < 0 ? file->node : 0;
}

/* Returns whether a path is one of the kernel's own, which has no size of its own. */
static bool is_pseudo(struct view path) {
  static const char *const beginnings[] = {"/proc/", "/sys/", "/memfd:", "/SYSV", "/anon_hugepage"};
  for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
    size_t length = strlen(beginnings[i]);
    if (path.length >= length && memcmp(path.text, beginnings[i], length) == 0)
      return true;
  }
  return false;
}

static int add_file(struct files *files, bool is_looked_at) {
  int32_t number = files->count;
  if (number == files->capacity) {
    int32_t capacity = files->capacity ? files->capacity * 2 : 64;
    struct file *grown = realloc(files->files, (size_t)capacity * sizeof(*grown));
    if (!grown)
      return -ENOMEM;
    files->files = grown;
    files->capacity = capacity;
  }
  files->files[number] = (struct file){.node = NODE_NEW, .first_bytes = -1, .last_bytes = -1};
  files->count++;

  /* A file that is new here may have been there before: the file system is asked, if it may be. */
  struct view path = paths_get(&files->paths, number);
  struct view below = {files->below, files->below ? strlen(files->below) : 0};
  if (is_pseudo(path))
    files->files[number].kind = KIND_OTHER;
  if (!is_looked_at || is_pseudo(path))
    return 0;
  if (files->start_ns) {
    int status = look(files, number, path);
    if (status)
      return status;
  }
  if (files->below && path_is_below(path, below))
    files_absent(files, number);
  return 0;
}

int32_t files_find(struct files *files, struct view path) {
  int32_t number = paths_add(&files->paths, path);
  if (number == files->count && add_file(files, true))
    return -ENOMEM;
  return number;
}

int files_know(struct files *files, struct view path, enum file_kind kind, int64_t bytes,
               enum evidence evidence) {
  int32_t number = paths_add(&files->paths, path);
  if (number < 0 || number != files->count)
    return number < 0 ? number : 0;
  if (add_file(files, false))
    return -ENOMEM;
  struct file *file = &files->files[number];
  file->kind = (uint8_t)kind;
  file->evidence = (uint8_t)evidence;
  file->first_bytes = kind == KIND_FILE ? bytes : -1;
  file->node = add_node(files, file->first_bytes, number);
  return file->node < 0 ? file->node : 0;
}

int32_t files_present(struct files *files, int32_t number) {
  struct file *file = &files->files[number];
  if (file->node < 0) {
    /* What is there although it should not be came in a way that the trace does not show. */
    int32_t origin = file->node == NODE_NEW ? number : -1;
    int32_t node = add_node(files, -1, origin);
    if (node < 0)
      return node;
    files->files[number].node = node;
  }
  return files->files[number].node;
}

void files_absent(struct files *files, int32_t number) {
  struct file *file = &files->files[number];
  if (file->node != NODE_NEW)
    return;
  file->evidence = EVIDENCE_ABSENT;
  file->node = NODE_ABSENT;
}

int32_t files_made(struct files *files, int32_t number) {
  files_absent(files, number);
  int32_t node = add_node(files, 0, -1);
  if (node < 0)
    return node;
  files->files[number].node = node;
  files->nodes[node].is_changed = true;
  return node;
}

void files_removed(struct files *files, int32_t number) { files->files[number].node = NODE_ABSENT; }

int files_linked(struct files *files, int32_t from, int32_t to) {
  int32_t node = files_present(files, from);
  if (node < 0)
    return node;
  files_absent(files, to);
  files->files[to].node = node;
  if (files->files[to].kind == KIND_UNKNOWN)
    files->files[to].kind = files->files[from].kind;
  return 0;
}

/* Moves what is below a folder with it. */
static int rename_below(struct files *files, int32_t from, int32_t to) {
  char path[PATH_BYTES];
  int32_t count = files->count;
  for (int32_t i = 0; i < count; i++) {
    struct view old = paths_get(&files->paths, from);
    struct view held = paths_get(&files->paths, i);
    if (i == from || files->files[i].node < 0 || !path_is_below(held, old))
      continue;
    struct view target = paths_get(&files->paths, to);
    size_t rest = held.length - old.length;
    if (target.length + rest > sizeof(path))
      continue;
    memcpy(path, target.text, target.length);
    memcpy(path + target.length, held.text + old.length, rest);
    int32_t moved = files_find(files, (struct view){path, target.length + rest});
    if (moved < 0 || files_linked(files, i, moved))
      return -ENOMEM;
    files_removed(files, i);
  }
  return 0;
}

int files_renamed(struct files *files, int32_t from, int32_t to) {
  if (from == to)
    return 0;
  int status = files_linked(files, from, to);
  if (status)
    return status;
  files_removed(files, from);
  return files->files[from].kind == KIND_FILE ? 0 : rename_below(files, from, to);
}

void node_set_size(struct files *files, int32_t number, int64_t bytes, enum evidence evidence) {
  struct node *node = &files->nodes[number];
  node->bytes = bytes;
  if (node->is_changed || node->origin < 0)
    return;
  struct file *file = &files->files[node->origin];
  if (file->evidence == EVIDENCE_UNKNOWN) {
    file->first_bytes = bytes;
    file->evidence = (uint8_t)evidence;
  }
}

void node_written(struct files *files, int32_t number, int64_t end) {
  struct node *node = &files->nodes[number];
  node->is_changed = true;
  if (end > node->reached)
    node->reached = end;
  if (node->bytes >= 0 && end > node->bytes)
    node->bytes = end;
}

void node_cut(struct files *files, int32_t number, int64_t bytes) {
  struct node *node = &files->nodes[number];
  node->is_changed = true;
  node->is_cut = true;
  node->bytes = bytes;
}

static void conclude(struct file *file, const struct node *node) {
  int64_t grown = file->last_bytes - node->appended;
  if (file->evidence != EVIDENCE_UNKNOWN || file->kind == KIND_DIRECTORY)
    return;
  bool is_of_after = file->last_bytes >= 0 && !file->is_born && !node->is_cut;
  if (is_of_after && grown >= 0 && grown > node->reached) {
    file->first_bytes = grown;
    file->evidence = EVIDENCE_AFTER;
  } else if (node->read_to > 0) {
    file->first_bytes = node->read_to;
    file->evidence = EVIDENCE_READS;
  }
}

void files_conclude(struct files *files) {
  for (int32_t i = 0; i < files->node_count; i++) {
    const struct node *node = &files->nodes[i];
    /* Afterwards another file may bear its name. */
    if (node->origin >= 0 && files->files[node->origin].node == i)
      conclude(&files->files[node->origin], node);
    else if (node->origin >= 0 && node->read_to > 0 &&
             files->files[node->origin].evidence == EVIDENCE_UNKNOWN) {
      files->files[node->origin].first_bytes = node->read_to;
      files->files[node->origin].evidence = EVIDENCE_READS;
    }
  }
}

void files_clear(struct files *files) {
  paths_clear(&files->paths);
  free(files->files);
  free(files->nodes);
  free(files->below);
  *files = (struct files){0};
}
