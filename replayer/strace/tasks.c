#include "strace/tasks.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct task *tasks_find(const struct tasks *tasks, uint32_t tid) {
  const uint32_t *place = idmap_get(&tasks->places, tid);
  return place && *place ? &tasks->tasks[*place - 1] : NULL;
}

static uint32_t free_place(struct tasks *tasks) {
  for (uint32_t i = 0; i < tasks->count; i++)
    if (!tasks->tasks[i].is_used)
      return i;
  return tasks->count;
}

struct task *tasks_new(struct tasks *tasks, uint32_t tid) {
  uint32_t place = free_place(tasks);
  if (place == tasks->capacity) {
    uint32_t capacity = tasks->capacity ? tasks->capacity * 2 : 16;
    struct task *grown = realloc(tasks->tasks, capacity * sizeof(*grown));
    if (!grown)
      return NULL;
    tasks->tasks = grown;
    tasks->capacity = capacity;
  }
  if (idmap_set(&tasks->places, tid, place + 1))
    return NULL;
  struct task *task = &tasks->tasks[place];
  *task = (struct task){.tid = tid, .pid = tid, .is_used = true, .process = -1};
  if (place == tasks->count)
    tasks->count++;
  return task;
}

static struct folder *folder_new(struct view path) {
  struct folder *folder = malloc(sizeof(*folder) + path.length);
  if (!folder)
    return NULL;
  folder->users = 1;
  folder->length = path.length;
  memcpy(folder->path, path.text, path.length);
  return folder;
}

static void share(struct task *task, const struct task *parent, struct handles *handles,
                  uint64_t flags) {
  task->descriptors = parent->descriptors;
  task->folder = parent->folder;
  task->maps = parent->maps;
  if (flags & CLONE_FILES)
    task->descriptors->users++;
  else
    task->descriptors = descriptors_copy(parent->descriptors, handles);
  if (flags & CLONE_FS)
    task->folder->users++;
  else
    task->folder = folder_new((struct view){parent->folder->path, parent->folder->length});
  if (flags & CLONE_VM)
    task->maps->users++;
  else
    task->maps = maps_copy(parent->maps);
}

struct task *tasks_clone(struct tasks *tasks, struct handles *handles, uint32_t parent,
                         uint32_t tid, uint64_t flags) {
  struct task *task = tasks_new(tasks, tid);
  const struct task *from = tasks_find(tasks, parent);
  if (!task || !from)
    return NULL;
  task->process = from->process;
  if (flags & CLONE_THREAD)
    task->pid = from->pid;
  share(task, from, handles, flags);
  return task->descriptors && task->folder && task->maps ? task : NULL;
}

int task_own_maps(struct task *task) {
  struct maps *maps = maps_new();
  if (!maps)
    return -ENOMEM;
  if (--task->maps->users == 0)
    maps_free(task->maps);
  task->maps = maps;
  return 0;
}

int task_own_folder(struct task *task) {
  if (task->folder->users == 1)
    return 0;
  struct folder *own = folder_new((struct view){task->folder->path, task->folder->length});
  if (!own)
    return -ENOMEM;
  task->folder->users--;
  task->folder = own;
  return 0;
}

int task_own_descriptors(struct task *task, struct handles *handles) {
  if (task->descriptors->users == 1)
    return 0;
  struct descriptors *own = descriptors_copy(task->descriptors, handles);
  if (!own)
    return -ENOMEM;
  task->descriptors->users--;
  task->descriptors = own;
  return 0;
}

int task_enter(struct tasks *tasks, struct task *task, struct view path) {
  struct folder *old = task->folder;
  struct folder *folder = folder_new(path);
  if (!folder)
    return -ENOMEM;
  folder->users = old ? old->users : 1;
  for (uint32_t i = 0; i < tasks->count; i++)
    if (old && tasks->tasks[i].is_used && tasks->tasks[i].folder == old)
      tasks->tasks[i].folder = folder;
  task->folder = folder;
  free(old);
  return 0;
}

static int append(struct task *task, struct view body) {
  size_t length = task->head_length + body.length;
  if (length > task->head_capacity) {
    char *grown = realloc(task->head, length * 2);
    if (!grown)
      return -ENOMEM;
    task->head = grown;
    task->head_capacity = length * 2;
  }
  if (body.length)
    memcpy(task->head + task->head_length, body.text, body.length);
  task->head_length = length;
  return 0;
}

int task_keep_head(struct task *task, struct view body, int64_t start_ns) {
  task->head_length = 0;
  task->head_ns = start_ns;
  task->has_head = true;
  return append(task, body);
}

int task_add_rest(struct task *task, struct view body) {
  task->has_head = false;
  return append(task, body);
}

struct descriptors *tasks_end(struct tasks *tasks, struct task *task) {
  struct descriptors *left = NULL;
  if (task->descriptors && --task->descriptors->users == 0)
    left = task->descriptors;
  if (task->folder && --task->folder->users == 0)
    free(task->folder);
  if (task->maps && --task->maps->users == 0)
    maps_free(task->maps);
  free(task->head);
  uint32_t *place = idmap_get(&tasks->places, task->tid);
  if (place)
    *place = 0;
  *task = (struct task){0};
  return left;
}

int64_t tasks_oldest_head(const struct tasks *tasks, int64_t none) {
  int64_t oldest = none;
  for (uint32_t i = 0; i < tasks->count; i++) {
    const struct task *task = &tasks->tasks[i];
    if (task->is_used && task->has_head && task->is_head_row && task->head_ns < oldest)
      oldest = task->head_ns;
  }
  return oldest;
}

void tasks_clear(struct tasks *tasks) {
  for (uint32_t i = 0; i < tasks->count; i++)
    if (tasks->tasks[i].is_used)
      descriptors_free(tasks_end(tasks, &tasks->tasks[i]));
  free(tasks->tasks);
  idmap_clear(&tasks->places);
  *tasks = (struct tasks){0};
}
