#include "strace/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

static uint64_t hash_path(struct view path) {
  uint64_t hash = path.length;
  for (size_t i = 0; i < path.length; i++)
    hash = (hash ^ (uint8_t)path.text[i]) * 0x100000001b3ULL;
  return hash_mix(hash);
}

struct view paths_get(const struct paths *paths, int32_t number) {
  int64_t from = number ? paths->ends[number - 1] : 0;
  return (struct view){paths->text + from, (size_t)(paths->ends[number] - from)};
}

/* Returns the slot that holds the path or the free one where it belongs. */
static uint32_t *find_slot(const struct paths *paths, struct view path) {
  uint32_t mask = paths->buckets - 1;
  for (uint32_t place = (uint32_t)hash_path(path) & mask;; place = (place + 1) & mask) {
    uint32_t *slot = &paths->slots[place];
    if (*slot == 0)
      return slot;
    struct view held = paths_get(paths, (int32_t)(*slot - 1));
    if (held.length == path.length && memcmp(held.text, path.text, path.length) == 0)
      return slot;
  }
}

static int grow_slots(struct paths *paths) {
  uint32_t buckets = paths->buckets ? paths->buckets * 2 : 256;
  uint32_t *slots = calloc(buckets, sizeof(*slots));
  if (!slots)
    return -ENOMEM;
  free(paths->slots);
  paths->slots = slots;
  paths->buckets = buckets;
  for (uint32_t i = 0; i < paths->count; i++)
    *find_slot(paths, paths_get(paths, (int32_t)i)) = i + 1;
  return 0;
}

static int reserve(struct paths *paths, size_t length) {
  size_t used = paths->count ? (size_t)paths->ends[paths->count - 1] : 0;

  /* The text, the ends and the slots each double when they are full. */
  if (!paths->text || used + length > paths->text_size) {
    size_t size = (used + length) * 2 + 4096;
    char *text = realloc(paths->text, size);
    if (!text)
      return -ENOMEM;
    paths->text = text;
    paths->text_size = size;
  }
  if (paths->count == paths->capacity) {
    uint32_t capacity = paths->capacity ? paths->capacity * 2 : 64;
    int64_t *ends = realloc(paths->ends, capacity * sizeof(*ends));
    if (!ends)
      return -ENOMEM;
    paths->ends = ends;
    paths->capacity = capacity;
  }
  return paths->count * 2 >= paths->buckets ? grow_slots(paths) : 0;
}

int32_t paths_add(struct paths *paths, struct view path) {
  if (paths->count == INT32_MAX || reserve(paths, path.length))
    return -ENOMEM;
  uint32_t *slot = find_slot(paths, path);
  if (*slot)
    return (int32_t)(*slot - 1);
  int64_t used = paths->count ? paths->ends[paths->count - 1] : 0;
  if (path.length)
    memcpy(paths->text + used, path.text, path.length);
  paths->ends[paths->count] = used + (int64_t)path.length;
  *slot = ++paths->count;
  return (int32_t)(*slot - 1);
}

/* Adds one part of a path to the `length` bytes in `out`; `..` takes one away. */
static size_t add_part(char *out, size_t length, struct view part) {
  if (part.length == 0 || (part.length == 1 && part.text[0] == '.'))
    return length;
  if (part.length == 2 && part.text[0] == '.' && part.text[1] == '.') {
    const char *slash = length ? memrchr(out, '/', length) : NULL;
    return slash ? (size_t)(slash - out) : 0;
  }
  out[length] = '/';
  memcpy(out + length + 1, part.text, part.length);
  return length + 1 + part.length;
}

int64_t paths_resolve(struct view folder, struct view path, char out[PATH_BYTES]) {
  size_t length = 0;
  if (folder.length + path.length + 2 > PATH_BYTES)
    return -2;

  /* A relative path begins at the folder; symbolic links are not known and stay as they are. */
  if (path.length == 0 || path.text[0] != '/') {
    memcpy(out, folder.text, folder.length);
    length = folder.length == 1 ? 0 : folder.length;
  }
  const char *end = path.text + path.length;
  for (const char *at = path.text; at < end;) {
    const char *slash = memchr(at, '/', (size_t)(end - at));
    const char *stop = slash ? slash : end;
    length = add_part(out, length, (struct view){at, (size_t)(stop - at)});
    at = stop + 1;
  }
  if (length == 0)
    out[length++] = '/';
  return (int64_t)length;
}

int path_is_below(struct view path, struct view folder) {
  size_t length = folder.length == 1 ? 0 : folder.length;
  return path.length >= length && memcmp(path.text, folder.text, length) == 0 &&
         (path.length == length || path.text[length] == '/');
}

void paths_clear(struct paths *paths) {
  free(paths->text);
  free(paths->ends);
  free(paths->slots);
  *paths = (struct paths){0};
}
