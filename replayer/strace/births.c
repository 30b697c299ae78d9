#include "strace/births.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "strace/line.h"

/* Returns whether the call makes a thread or process. */
static bool is_maker(struct view name) {
  static const char *const makers[] = {"clone", "clone3", "fork", "vfork"};
  for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
    if (name.length == strlen(makers[i]) && memcmp(name.text, makers[i], name.length) == 0)
      return true;
  return false;
}

static uint64_t read_flags(struct view body) {
  struct cursor cursor = {body.text, body.text + body.length};
  int64_t flags = 0;
  if (cursor_find(&cursor, "flags="))
    cursor_number(&cursor, &flags);
  return (uint64_t)flags;
}

static int add(struct births *births, const struct birth *birth) {
  if (births->count == births->capacity) {
    uint32_t capacity = births->capacity ? births->capacity * 2 : 64;
    struct birth *grown = realloc(births->births, capacity * sizeof(*grown));
    if (!grown)
      return -ENOMEM;
    births->births = grown;
    births->capacity = capacity;
  }
  births->births[births->count++] = *birth;
  const uint32_t *last = idmap_get(&births->last, birth->child);
  if (last)
    births->births[*last - 1].next = births->count;
  else if (idmap_set(&births->next, birth->child, births->count))
    return -ENOMEM;
  return idmap_set(&births->last, birth->child, births->count);
}

int births_note(struct births *births, struct view text) {
  struct line line;
  /* Most lines are of other calls: do not look closer at them. */
  if (!memmem(text.text, text.length, "clone", 5) && !memmem(text.text, text.length, "fork", 4))
    return 0;
  line_split(text, &line);
  if (!line.name.length || !is_maker(line.name))
    return 0;
  if (line.kind == LINE_UNFINISHED)
    return idmap_set(&births->pending, line.tid, (uint32_t)read_flags(line.body));
  uint64_t flags = read_flags(line.body);
  const uint32_t *pending = idmap_get(&births->pending, line.tid);
  if (line.kind == LINE_RESUMED && pending)
    flags = *pending;
  struct call call;
  if (!call_read(line.body, &call) || call.value <= 0 || call.value > INT32_MAX)
    return 0;
  struct birth birth = {.child = (uint32_t)call.value, .parent = line.tid, .flags = flags};
  return add(births, &birth);
}

const struct birth *births_take(struct births *births, uint32_t child) {
  uint32_t *next = idmap_get(&births->next, child);
  if (!next || !*next)
    return NULL;
  const struct birth *birth = &births->births[*next - 1];
  *next = birth->next;
  return birth;
}

void births_clear(struct births *births) {
  free(births->births);
  idmap_clear(&births->next);
  idmap_clear(&births->last);
  idmap_clear(&births->pending);
  *births = (struct births){0};
}
