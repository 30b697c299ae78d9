#include "strace/follow.h"

#include <errno.h>
#include <string.h>

#include "strace/call_table.h"

static void note_bad(struct tk_calls *calls, struct view text) {
  if (calls->stats.bad_lines++ == 0) {
    size_t length = text.length < TK_CALLS_TEXT - 1 ? text.length : TK_CALLS_TEXT - 1;
    calls->stats.first_bad_line = calls->stats.lines;
    memcpy(calls->bad_line, text.text, length);
    calls->bad_line[length] = '\0';
  }
}

static bool is_exit(struct view name) {
  return (name.length == 4 && memcmp(name.text, "exit", 4) == 0) ||
         (name.length == 10 && memcmp(name.text, "exit_group", 10) == 0);
}

/* Takes a whole call in; `body` is what follows its opening bracket. */
static int follow_call(struct tk_calls *calls, struct task *task, const struct line *line,
                       struct view body, int64_t start_ns) {
  struct step step = {.calls = calls, .task = task, .name = line->name, .start_ns = start_ns};
  if (!call_read(body, &step.call)) {
    note_bad(calls, body);
    return 0;
  }
  calls->stats.calls++;
  if (!step.call.has_result) {
    calls->stats.abandoned += !is_exit(line->name);
    return 0;
  }
  const struct known_call *known = known_call(line->name);
  if (!known)
    return leave_out(calls, line->name);
  step.at = step.call.arguments;
  step.detail = known->detail;
  step.end_ns = step.call.duration_ns >= 0   ? start_ns + step.call.duration_ns
                : line->kind == LINE_RESUMED ? line->time_ns
                                             : NOTHING;
  int status = known->handle(&step);
  if (status == -EINVAL) {
    note_bad(calls, body);
    return 0;
  }
  return status;
}

/* Returns whether the first part of a call can become a row: what waits for a pipe cannot. */
static bool may_be_row(const struct line *line) {
  const struct known_call *known = known_call(line->name);
  struct cursor cursor = {line->body.text, line->body.text + line->body.length};
  struct described first;
  if (!known || !known->makes_rows)
    return false;
  return !cursor_described(&cursor, &first) || !first.path.length || first.path.text[0] == '/';
}

/* Makes the first thread, or one whose maker the trace does not show. */
static struct task *new_task(struct tk_calls *calls, uint32_t tid) {
  bool is_first = calls->inherited != NULL;
  struct task *task = tasks_new(&calls->tasks, tid);
  if (!task)
    return NULL;
  calls->stats.orphan_threads += !is_first;
  task->descriptors = is_first ? calls->inherited : descriptors_new();
  calls->inherited = NULL;
  task->maps = maps_new();
  struct view folder = {calls->folder, strlen(calls->folder)};
  if (!task->descriptors || !task->maps || task_enter(&calls->tasks, task, folder))
    return NULL;
  return task;
}

static struct task *find_task(struct tk_calls *calls, uint32_t tid) {
  struct task *task = tasks_find(&calls->tasks, tid);
  if (task)
    return task;
  const struct thread_parent *link = thread_parents_take(&calls->parents, tid);
  if (link && tasks_find(&calls->tasks, link->parent))
    return tasks_clone(&calls->tasks, &calls->handles, link->parent, tid, link->flags);
  return new_task(calls, tid);
}

/* Takes in the first part of a call that is interrupted by other lines. */
static int follow_head(struct task *task, const struct line *line) {
  struct cursor at = {line->body.text, line->body.text + line->body.length};
  struct described closed;
  bool is_close = line->name.length == 5 && memcmp(line->name.text, "close", 5) == 0;
  if (is_close && cursor_described(&at, &closed))
    begin_close(task, closed.fd);
  task->is_head_row = may_be_row(line);
  return task_keep_head(task, line->body, line->time_ns);
}

/* Closes what an ended thread was the last to have open. */
static int end_task(struct tk_calls *calls, struct task *task, int64_t time_ns) {
  struct task ended = *task;
  struct step step = {.calls = calls, .task = &ended, .start_ns = time_ns, .end_ns = NOTHING};
  struct descriptors *left = tasks_end(&calls->tasks, task);
  int status = ended.closing.handle ? drop_handle(&step, ended.closing.handle - 1) : 0;
  for (int64_t fd = 0; left && fd < left->capacity && !status; fd++)
    status = close_descriptor(&step, left, fd);
  descriptors_free(left);
  return status;
}

/* Another thread has called exec, and goes on under the id of this one. */
static int supersede(struct tk_calls *calls, const struct line *line) {
  struct task *other = tasks_find(&calls->tasks, line->other_tid);
  struct task *task = tasks_find(&calls->tasks, line->tid);
  if (!other || !task)
    return 0;
  struct view head = {other->head, other->head_length};
  int status = other->has_head ? task_keep_head(task, head, other->head_ns) : 0;
  if (!status)
    status = end_task(calls, other, line->time_ns);
  return status;
}

static int follow_resumed(struct tk_calls *calls, struct task *task, const struct line *line) {
  if (!task->has_head) {
    calls->stats.orphan_ends++;
    return 0;
  }
  if (task_add_rest(task, line->body))
    return -ENOMEM;
  calls->stats.joined++;
  /* The text outlives the call: a handler may move the table of threads, not what it points at. */
  struct view body = {task->head, task->head_length};
  return follow_call(calls, task, line, body, task->head_ns);
}

static void take_time(struct tk_calls *calls, struct line *line) {
  struct tk_calls_stats *stats = &calls->stats;
  if (calls->is_by_end)
    return;
  if (stats->base_ns == 0)
    stats->base_ns = stats->last_ns = line->time_ns;
  if (line->time_ns < stats->last_ns) {
    stats->backwards++;
    line->time_ns = stats->last_ns;
  }
  stats->last_ns = line->time_ns;
}

int follow_line(struct tk_calls *calls, struct view text) {
  struct line line;
  calls->stats.lines++;
  line_split(text, &line);
  if (line.kind == LINE_BAD) {
    note_bad(calls, text);
    return 0;
  }
  take_time(calls, &line);
  struct task *task = tasks_find(&calls->tasks, line.tid);
  if (line.kind == LINE_ENDED)
    return task ? end_task(calls, task, line.time_ns) : 0;
  if (line.kind == LINE_SUPERSEDED)
    return supersede(calls, &line);
  if (line.kind == LINE_OTHER)
    return 0;

  /* A line of a call: of a thread that may be new, whole, or one of two parts. */
  task = task ? task : find_task(calls, line.tid);
  if (!task)
    return -ENOMEM;
  if (line.kind == LINE_RESUMED)
    return follow_resumed(calls, task, &line);
  if (line.kind == LINE_CALL)
    return follow_call(calls, task, &line, line.body, line.time_ns);
  return follow_head(task, &line);
}
