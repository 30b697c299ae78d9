#include "play/signature.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "play/fault_guard.h"
#include "play/signature_table.h"

/* A window begins at a multiple of half of it, as O_DIRECT needs, so a magic at any place lies in
 * one of them whole. */
#define WINDOW_BYTES 131072U
#define HALF_BYTES (WINDOW_BYTES / 2)
#define PAGE_BYTES 4096U

/* Where the bytes of a target come from, and those of them that were read last. */
struct source {
  int fd;                      /* -1: mapped */
  const unsigned char *mapped; /* NULL: read */
  uint64_t size_bytes;         /* of the target */
  uint64_t first;              /* byte at which the window begins */
  size_t length;               /* of what is in the window; 0: nothing yet */
  unsigned char *window;       /* WINDOW_BYTES */
};

/* One place of one rule. */
struct place {
  uint64_t offset; /* bytes */
  size_t rule;     /* its index */
};

static void copy(void *to, const void *from, size_t length) { memcpy(to, from, length); }

/* As transfer_read, but the end of a target need not be a multiple of what O_DIRECT moves. */
static int read_window(struct source *source) {
  size_t asked = (source->length + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  size_t done = 0;
  while (done < source->length) {
    ssize_t now =
        pread(source->fd, source->window + done, asked - done, (off_t)(source->first + done));
    if (now < 0 && errno != EINTR)
      return -errno;
    if (now == 0)
      return -ENODATA;
    done += now > 0 ? (size_t)now : 0;
  }
  return 0;
}

static int fill_window(struct source *source, uint64_t offset, uint32_t grain, uint32_t length) {
  source->first = offset - offset % grain;
  uint64_t left = source->size_bytes - source->first;
  source->length = left < length ? (size_t)left : length;
  int rc =
      source->mapped == NULL
          ? read_window(source)
          : fault_guard_copy(copy, source->window, source->mapped + source->first, source->length);
  if (rc != 0)
    source->length = 0;
  return rc;
}

/* Makes sure that the bytes from `offset` on are in the window. Where much cannot be read, what is
 * needed may still be. */
static int move_window(struct source *source, uint64_t offset, size_t length) {
  if (source->length > 0 && offset >= source->first &&
      offset + length <= source->first + source->length)
    return 0;
  int rc = fill_window(source, offset, HALF_BYTES, WINDOW_BYTES);
  return rc == 0 ? 0 : fill_window(source, offset, PAGE_BYTES, 2 * PAGE_BYTES);
}

/* The first place of a rule; false when the target is too small for it. */
static bool first_place(const struct signature_rule *rule, uint64_t size_bytes, uint64_t *offset) {
  if (rule->offset >= 0) {
    *offset = (uint64_t)rule->offset;
    return true;
  }
  uint64_t end = rule->grain == 0 ? size_bytes : size_bytes - size_bytes % rule->grain;
  uint64_t back = (uint64_t)-rule->offset;
  *offset = end - back;
  return end >= back;
}

static uint32_t places_of(const struct signature_rule *rule) {
  return rule->count == 0 ? 1 : rule->count;
}

/* Lists all places within the target. */
static size_t list_places(struct place *places, uint64_t size_bytes) {
  size_t count = 0;
  for (size_t i = 0; i < signature_rule_count; i++) {
    const struct signature_rule *rule = &signature_rules[i];
    uint64_t offset;
    if (!first_place(rule, size_bytes, &offset))
      continue;
    for (uint32_t n = 0; n < places_of(rule); n++, offset += rule->step)
      if (offset + rule->length <= size_bytes)
        places[count++] = (struct place){offset, i};
  }
  return count;
}

static int by_offset(const void *one, const void *other) {
  uint64_t a = ((const struct place *)one)->offset;
  uint64_t b = ((const struct place *)other)->offset;
  return (a > b) - (a < b);
}

static bool has(const struct signature_set *found, const char *name) {
  for (uint32_t i = 0; i < found->count; i++)
    if (strcmp(found->names[i], name) == 0)
      return true;
  return false;
}

void signature_add(struct signature_set *found, const char *name) {
  if (!has(found, name) && found->count < SIGNATURE_NAMES)
    (void)snprintf(found->names[found->count++], SIGNATURE_NAME_BYTES, "%s", name);
}

/* Places are looked at in their order, so that each part of the target is read once. */
static int match_all(struct source *source, struct place *places, bool *matched) {
  size_t count = list_places(places, source->size_bytes);
  uint64_t bad = UINT64_MAX; /* part of the target of which no more copies are tried */
  int rc = 0;
  qsort(places, count, sizeof *places, by_offset);
  for (size_t i = 0; i < count && rc == 0; i++) {
    const struct signature_rule *rule = &signature_rules[places[i].rule];
    uint64_t part = places[i].offset / HALF_BYTES;
    if (rule->may_be_unread && part == bad)
      continue;
    rc = move_window(source, places[i].offset, rule->length);
    if (rc != 0 && rule->may_be_unread) {
      bad = part;
      rc = 0;
    } else if (rc == 0 && memcmp(source->window + (places[i].offset - source->first), rule->magic,
                                 rule->length) == 0) {
      matched[places[i].rule] = true;
    }
  }
  return rc;
}

static int find(struct source *source, struct signature_set *found) {
  size_t total = 0;
  for (size_t i = 0; i < signature_rule_count; i++)
    total += places_of(&signature_rules[i]);
  struct place *places = malloc(total * sizeof *places);
  bool *matched = calloc(signature_rule_count, sizeof *matched);
  source->window = aligned_alloc(HALF_BYTES, WINDOW_BYTES);
  found->count = 0;
  int rc = places == NULL || matched == NULL || source->window == NULL ? -ENOMEM : 0;
  if (rc == 0)
    rc = match_all(source, places, matched);
  for (size_t i = 0; i < signature_rule_count && rc == 0; i++)
    if (matched[i] && (signature_rules[i].unless == NULL || !has(found, signature_rules[i].unless)))
      signature_add(found, signature_rules[i].name);
  free(source->window);
  free(matched);
  free(places);
  return rc;
}

int signature_find(int fd, uint64_t size_bytes, struct signature_set *found) {
  /* What another device on the same bytes wrote is not in this one's cache; a hint, no more. */
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return find(&(struct source){.fd = fd, .size_bytes = size_bytes}, found);
}

int signature_find_mapped(const unsigned char *bytes, uint64_t size_bytes,
                          struct signature_set *found) {
  return find(&(struct source){.fd = -1, .mapped = bytes, .size_bytes = size_bytes}, found);
}
