/* Calls that make threads and processes and change what they are. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

#include "strace/call_table.h"

#define COMM_BYTES 15 /* of a process's name in Linux */

int on_clone(struct step *step) {
  struct tk_calls *calls = step->calls;
  if (step->call.value <= 0 || tasks_find(&calls->tasks, (uint32_t)step->call.value))
    return 0;
  const struct thread_parent *link =
      thread_parents_take(&calls->parents, (uint32_t)step->call.value);
  /* It may have begun and ended before its maker's call returned. */
  if (!link || link->parent != step->task->tid)
    return 0;
  return tasks_clone(&calls->tasks, &calls->handles, link->parent, link->child, link->flags)
             ? 0
             : -ENOMEM;
}

static int name_task(struct step *step, struct view name) {
  if (name.length > COMM_BYTES)
    name.length = COMM_BYTES;
  int32_t place = names_add(&step->calls->processes, name.text, name.length);
  if (place >= 0)
    step->task->process = place;
  return place < 0 ? place : 0;
}

int on_exec(struct step *step) {
  if (step->call.value != 0)
    return 0;
  int32_t number = read_file(step, step->detail & FORM_AT);
  if (number < 0)
    return number;

  /* The new program has its own table of descriptors, without those marked close-on-exec. */
  int status = task_own_maps(step->task);
  status = status ? status : task_own_descriptors(step->task, &step->calls->handles);
  struct step closing = *step;
  closing.end_ns = NOTHING;
  struct descriptors *descriptors = step->task->descriptors;
  for (int64_t fd = 0; fd < descriptors->capacity && !status; fd++)
    if (descriptors->slots[fd].handle && descriptors->slots[fd].is_closed_by_exec)
      status = close_descriptor(&closing, descriptors, fd);
  if (status)
    return status;
  struct view path = paths_get(&step->calls->files.paths, number);
  const char *slash = memrchr(path.text, '/', path.length);
  const char *name = slash ? slash + 1 : path.text;
  return name_task(step, (struct view){name, (size_t)(path.text + path.length - name)});
}

int on_unshare(struct step *step) {
  int64_t flags;
  if (!read_number(step, &flags))
    return -EINVAL;
  if (step->call.value != 0)
    return 0;
  int status = 0;
  if (flags & CLONE_FILES)
    status = task_own_descriptors(step->task, &step->calls->handles);
  if (flags & (CLONE_FS | CLONE_NEWNS | CLONE_NEWUSER)) /* the new namespaces want an own one */
    status = status ? status : task_own_folder(step->task);
  return status;
}

int on_chdir(struct step *step) {
  int32_t number;
  if (step->call.value != 0)
    return 0;

  /* fchdir names the directory by its descriptor. */
  if (step->detail & FORM_HANDLE) {
    int32_t place;
    int status = read_handle(step, &place);
    if (status || place < 0)
      return status;
    number = step->calls->handles.handles[place].file;
  } else {
    number = read_file(step, false);
    if (number < 0)
      return number;
  }
  struct view path = paths_get(&step->calls->files.paths, number);
  return task_enter(&step->calls->tasks, step->task, path);
}

int on_name(struct step *step) {
  char name[PATH_BYTES];
  int64_t option;
  if (!read_number(step, &option))
    return -EINVAL;
  if (option != PR_SET_NAME || step->call.value != 0)
    return 0;
  int64_t length = cursor_text(&step->at, name, sizeof(name));
  return length < 0 ? 0 : name_task(step, (struct view){name, (size_t)length});
}
