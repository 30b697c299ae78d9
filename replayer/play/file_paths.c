#include "play/file_paths.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "play/diag.h"

/* Bytes of each path without its NUL, 0 for one that is too long. */
static int measure(const struct file_plan *plan, uint32_t *lengths, uint64_t *total) {
  *total = 0;
  for (uint32_t i = 0; i < plan->file_count; i++) {
    const struct file_entry *file = &plan->files[i];
    lengths[i] = file->name_bytes + (file->parent == FILE_NONE ? 0 : lengths[file->parent] + 1);
    if (lengths[i] >= PATH_MAX) {
      diag("file %" PRIu32 " of the plan has a path of %" PRIu32 " bytes, more than Linux takes", i,
           lengths[i]);
      return -ENAMETOOLONG;
    }
    *total += lengths[i] + 1;
  }
  return 0;
}

static void fill(struct file_paths *paths, const struct file_plan *plan, const uint32_t *lengths) {
  char *end = paths->bytes;
  for (uint32_t i = 0; i < plan->file_count; i++) {
    const struct file_entry *file = &plan->files[i];
    paths->text[i] = end;
    paths->kinds[i] = file->kind;
    if (file->parent != FILE_NONE) {
      memcpy(end, paths->text[file->parent], lengths[file->parent]);
      end += lengths[file->parent];
      *end++ = '/';
    }
    memcpy(end, plan->names + file->name_offset, file->name_bytes);
    end += file->name_bytes;
    *end++ = '\0';
  }
}

int file_paths_open(struct file_paths *paths, const struct file_plan *plan) {
  /* All paths are text before the run, so that no operation has to put one together. */
  uint64_t total;
  memset(paths, 0, sizeof *paths);
  uint32_t *lengths = calloc((size_t)plan->file_count + 1, sizeof *lengths);
  int rc = lengths == NULL ? -ENOMEM : measure(plan, lengths, &total);
  if (rc == 0) {
    paths->text = calloc((size_t)plan->file_count + 1, sizeof *paths->text);
    paths->kinds = malloc((size_t)plan->file_count + 1);
    paths->bytes = malloc(total + 1);
    bool is_short = paths->text == NULL || paths->kinds == NULL || paths->bytes == NULL;
    rc = is_short ? -ENOMEM : 0;
  }
  if (rc == 0)
    fill(paths, plan, lengths);
  else
    file_paths_close(paths);
  free(lengths);
  return rc;
}

void file_paths_close(struct file_paths *paths) {
  free(paths->text);
  free(paths->kinds);
  free(paths->bytes);
  memset(paths, 0, sizeof *paths);
}
