#include "strace/thread_parents.h"

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

static int add(struct thread_parents *parents, const struct thread_parent *link) {
  if (parents->count == parents->capacity) {
    uint32_t capacity = parents->capacity ? parents->capacity * 2 : 64;
    struct thread_parent *grown = realloc(parents->links, capacity * sizeof(*grown));
    if (!grown)
      return -ENOMEM;
    parents->links = grown;
    parents->capacity = capacity;
  }
  parents->links[parents->count++] = *link;
  const uint32_t *last = idmap_get(&parents->last, link->child);
  if (last)
    parents->links[*last - 1].next = parents->count;
  else if (idmap_set(&parents->next, link->child, parents->count))
    return -ENOMEM;
  return idmap_set(&parents->last, link->child, parents->count);
}

int thread_parents_note(struct thread_parents *parents, struct view text) {
  struct line line;
  /* Most lines are of other calls: do not look closer at them. */
  if (!memmem(text.text, text.length, "clone", 5) && !memmem(text.text, text.length, "fork", 4))
    return 0;

  /* The flags stand in the first part of an interrupted call and the new thread in the second. */
  line_split(text, &line);
  if (!line.name.length || !is_maker(line.name))
    return 0;
  if (line.kind == LINE_UNFINISHED)
    return idmap_set(&parents->pending, line.tid, (uint32_t)read_flags(line.body));
  uint64_t flags = read_flags(line.body);
  const uint32_t *pending = idmap_get(&parents->pending, line.tid);
  if (line.kind == LINE_RESUMED && pending)
    flags = *pending;
  struct call call;
  if (!call_read(line.body, &call) || call.value <= 0 || call.value > INT32_MAX)
    return 0;
  struct thread_parent link = {.child = (uint32_t)call.value, .parent = line.tid, .flags = flags};
  return add(parents, &link);
}

const struct thread_parent *thread_parents_take(struct thread_parents *parents, uint32_t child) {
  uint32_t *next = idmap_get(&parents->next, child);
  if (!next || !*next)
    return NULL;
  const struct thread_parent *link = &parents->links[*next - 1];
  *next = link->next;
  return link;
}

void thread_parents_clear(struct thread_parents *parents) {
  free(parents->links);
  idmap_clear(&parents->next);
  idmap_clear(&parents->last);
  idmap_clear(&parents->pending);
  *parents = (struct thread_parents){0};
}
