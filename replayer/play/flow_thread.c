/* A thread of a flow: what its operations do with files. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "play/flow_writes.h"

#define CALLS_LEAST 4 /* that an operation makes before the end of the run cuts it */

static uint64_t draw(struct worker *worker, const struct flow_value *value) {
  uint64_t random = value->table == FLOW_NONE ? 0 : flow_random(worker);
  return flow_value_of(&worker->run->plan->flow, value, random);
}

/* What one call can move of so much. */
static uint64_t of_one_call(const struct worker *worker, uint64_t bytes) {
  uint64_t most = worker->run->plan->max_transfer_bytes;
  return bytes < most ? bytes : most;
}

static uint32_t handle_of(const struct worker *worker, uint32_t fd) {
  return worker->number * worker->run->plan->flow.header->fds + fd;
}

static struct flow_fd *fd_of(const struct worker *worker, uint32_t fd) {
  return &worker->run->flow->fds[handle_of(worker, fd)];
}

static uint32_t file_of(const struct flow_plan *plan, uint32_t set, uint32_t member) {
  return plan->members[plan->sets[set].first + member];
}

/* Starts the record of an operation, by handle or by path. */
static struct file_record *begin(struct worker *worker, uint32_t number, uint32_t handle,
                                 uint32_t file) {
  worker->own = worker->run->plan->records[number];
  worker->own.handle = handle;
  worker->own.file = file;
  return &worker->own;
}

static struct file_record *begin_on_fd(struct worker *worker, uint32_t number, uint32_t fd) {
  const struct flow_fd *place = fd_of(worker, fd);
  uint32_t file = place->set == FLOW_NONE
                      ? FILE_NONE
                      : file_of(&worker->run->plan->flow, place->set, place->member);
  return begin(worker, number, handle_of(worker, fd), file);
}

/* One operation has ended. */
static bool count(struct worker *worker, uint32_t number, uint64_t bytes) {
  struct flow *flow = worker->run->flow;
  struct flow_state *state = &flow->states[number];
  uint8_t operation = worker->run->plan->records[number].operation;
  state->count++;
  state->bytes += bytes;
  (void)atomic_fetch_add_explicit(&flow->count, 1, memory_order_relaxed);
  (void)atomic_fetch_add_explicit(&flow->bytes, bytes, memory_order_relaxed);
  if (operation == FILE_READ || operation == FILE_WRITE) {
    (void)atomic_fetch_add_explicit(&flow->data_count, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&flow->data_bytes, bytes, memory_order_relaxed);
  }
  return true;
}

static uint64_t moved(int64_t result) { return result > 0 ? (uint64_t)result : 0; }

/* Ends the thread that found no file, and by the plan's rule the run. */
static bool end_without_file(struct worker *worker, uint32_t number, enum flow_found found) {
  struct flow *flow = worker->run->flow;
  uint32_t none = FLOW_NONE;
  if (found == FLOW_BUSY)
    return false; /* the run is over */
  worker->is_done = true;
  (void)atomic_compare_exchange_strong(&flow->empty_record, &none, number);
  enum flow_end end = (enum flow_end)flow->plan->flow.header->end;
  if (end != FLOW_END_ALL)
    worker_end_run(worker->run, end == FLOW_END_FIRST ? RUN_END_PLAN : RUN_END_FILES);
  return false;
}

static enum flow_found choose(struct worker *worker, const struct flow_op *op, bool is_present,
                              uint32_t *member) {
  struct flow_files *files = &worker->run->flow->files[op->set];
  bool is_indexed = (op->flags & FLOW_IS_INDEXED) != 0;
  uint32_t rotor = (op->flags & FLOW_ROTATES) != 0 ? worker->number + 1 : 0;
  uint64_t index = is_indexed ? draw(worker, &op->index) % files->count : rotor;
  struct flow_choice choice = {.is_present = is_present,
                               .is_closed = (op->flags & FLOW_SPARES_OPEN) != 0,
                               .is_indexed = is_indexed,
                               .start = (uint32_t)index};
  for (;;) {
    enum flow_found found = flow_files_choose(files, &choice, member);
    if (found != FLOW_BUSY || worker_is_over(worker))
      return found;
  }
}

static uint32_t choose_fd(struct worker *worker, const struct flow_op *op) {
  if (op->fd > 0 || (op->flags & FLOW_ROTATES) == 0)
    return op->fd;
  worker->fd_rotor = worker->fd_rotor == 0 ? FLOW_FDS_MAX - 1 : worker->fd_rotor - 1;
  return worker->fd_rotor;
}

/* `number` is that of an open, a create, or a template; it counts as one of `counts_as`. */
static bool open_file(struct worker *worker, uint32_t number, uint32_t fd, uint32_t counts_as) {
  struct flow *flow = worker->run->flow;
  const struct flow_op *op = &flow->plan->flow.ops[number];
  struct flow_fd *place = fd_of(worker, fd);
  bool makes = op->kind == FLOW_CREATE;
  uint32_t member;
  if (!flow_writes_settle(worker, fd))
    return false;
  enum flow_found found = choose(worker, op, !makes, &member);
  if (found != FLOW_FOUND)
    return end_without_file(worker, counts_as, found);
  if (place->is_open) /* the call closes it */
    flow_files_closed(&flow->files[place->set], place->member);
  uint32_t file = file_of(&flow->plan->flow, op->set, member);
  struct file_record *record = begin(worker, number, handle_of(worker, fd), file);
  bool is_open = worker_perform(worker, record) >= 0;
  *place = (struct flow_fd){.set = op->set, .member = member, .is_open = is_open};
  struct flow_change change = {
      .sets_present = makes && is_open, .is_present = true, .opened = is_open};
  flow_files_give(&flow->files[op->set], member, change);
  if (is_open && (op->flags & FLOW_NO_READAHEAD) != 0) /* only advice */
    (void)posix_fadvise(handle_table_fd(worker->run->context->handles, record->handle), 0, 0,
                        POSIX_FADV_RANDOM);
  return count(worker, counts_as, 0);
}

static bool close_file(struct worker *worker, uint32_t number, uint32_t fd) {
  struct flow_fd *place = fd_of(worker, fd);
  if (!flow_writes_settle(worker, fd))
    return false;
  (void)worker_perform(worker, begin_on_fd(worker, number, fd));
  if (place->is_open)
    flow_files_closed(&worker->run->flow->files[place->set], place->member);
  place->is_open = false;
  return count(worker, number, 0);
}

/* Opens a file for an operation that finds its descriptor closed. */
static bool make_open(struct worker *worker, uint32_t number, uint32_t fd) {
  const struct flow_op *op = &worker->run->plan->flow.ops[number];
  if (fd_of(worker, fd)->is_open || op->link == FLOW_NONE)
    return true;
  return open_file(worker, op->link, fd, number);
}

static uint64_t working_set(const struct worker *worker, const struct flow_op *op, uint32_t fd) {
  const struct flow_fd *place = fd_of(worker, fd);
  const struct file_plan *plan = worker->run->plan;
  if (op->working_set_bytes != 0 || place->set == FLOW_NONE)
    return op->working_set_bytes;
  return plan->files[file_of(&plan->flow, place->set, place->member)].size_bytes;
}

/* Where the next transfer at the position begins; an error is that of the transfer. */
static void seek(const struct worker *worker, uint32_t fd, int whence) {
  int file = handle_table_fd(worker->run->context->handles, handle_of(worker, fd));
  if (file >= 0)
    (void)lseek(file, 0, whence);
}

/* At the position, or at a random multiple of its size. */
static struct file_record *begin_transfer(struct worker *worker, uint32_t number, uint32_t fd,
                                          uint64_t size) {
  const struct flow_op *op = &worker->run->plan->flow.ops[number];
  uint64_t bytes = working_set(worker, op, fd);
  struct file_record *record = begin_on_fd(worker, number, fd);
  record->length = size;
  record->offset = FILE_AT_POSITION;
  if ((op->flags & FLOW_IS_RANDOM) != 0)
    record->offset =
        size == 0 || bytes <= size ? 0 : flow_random_below(worker, bytes - size) / size * size;
  return record;
}

static bool transfer(struct worker *worker, uint32_t number, uint32_t fd, uint64_t size) {
  int64_t result = worker_perform(worker, begin_transfer(worker, number, fd, size));
  if (result == 0 && worker->run->plan->flow.ops[number].kind == FLOW_READ)
    seek(worker, fd, SEEK_SET);
  return count(worker, number, moved(result));
}

/* It counts from here on, as in filebench, whatever becomes of it. */
static bool submit(struct worker *worker, uint32_t number, uint32_t fd, uint64_t size) {
  const struct file_record *record = begin_transfer(worker, number, fd, size);
  return flow_writes_submit(worker, record, fd) && count(worker, number, size);
}

/* A short operation that has begun is finished; a long one is cut, and its last call ends it. */
static bool may_go_on(struct worker *worker, uint64_t calls) {
  return calls < CALLS_LEAST || !worker_is_over(worker);
}

/* From the start until a call reads nothing. */
static bool read_whole(struct worker *worker, uint32_t number, uint32_t fd, uint64_t size) {
  const struct flow_op *op = &worker->run->plan->flow.ops[number];
  struct file_record *record;
  uint64_t bytes = 0;
  uint64_t calls = 0;
  seek(worker, fd, SEEK_SET);
  do {
    record = begin_on_fd(worker, number, fd);
    record->offset = FILE_AT_POSITION;
    record->length = size > 0 ? size : of_one_call(worker, working_set(worker, op, fd));
    record->flags |= may_go_on(worker, ++calls) ? FILE_CONTINUES : 0;
    bytes += moved(worker_perform(worker, record));
  } while ((record->flags & FILE_CONTINUES) != 0);
  return count(worker, number, bytes);
}

/* In calls that all have the full size once the file is longer than one. */
static bool write_whole(struct worker *worker, uint32_t number, uint32_t fd, uint64_t size) {
  const struct flow_op *op = &worker->run->plan->flow.ops[number];
  uint64_t wanted = fd_of(worker, op->source_fd)->set == FLOW_NONE
                        ? working_set(worker, op, fd)
                        : working_set(worker, &(struct flow_op){0}, op->source_fd);
  uint64_t call = of_one_call(worker, size == 0 || size > wanted ? wanted : size);
  struct file_record *record;
  uint64_t bytes = 0;
  uint64_t calls = 0;
  do {
    record = begin_on_fd(worker, number, fd);
    record->offset = FILE_AT_POSITION;
    record->length = call;
    bool is_last = !may_go_on(worker, ++calls) || calls * call >= wanted;
    record->flags |= is_last ? 0 : FILE_CONTINUES;
    bytes += moved(worker_perform(worker, record));
  } while ((record->flags & FILE_CONTINUES) != 0);
  return count(worker, number, bytes);
}

static bool append(struct worker *worker, uint32_t number, uint32_t fd, uint64_t size) {
  seek(worker, fd, SEEK_END);
  return transfer(worker, number, fd, size);
}

static bool move_data(struct worker *worker, uint32_t number) {
  const struct flow_op *op = &worker->run->plan->flow.ops[number];
  uint64_t size = of_one_call(worker, draw(worker, &op->size));
  if (op->kind == FLOW_APPEND_RANDOM)
    size = size == 0 ? 0 : flow_random_below(worker, size);
  uint32_t fd = choose_fd(worker, op);
  if (!make_open(worker, number, fd))
    return false;
  switch ((enum flow_kind)op->kind) {
  case FLOW_READ_WHOLE:
    return read_whole(worker, number, fd, size);
  case FLOW_WRITE_WHOLE:
    return write_whole(worker, number, fd, size);
  case FLOW_APPEND:
  case FLOW_APPEND_RANDOM:
    return append(worker, number, fd, size);
  case FLOW_AIO_WRITE:
    return submit(worker, number, fd, size);
  default:
    return transfer(worker, number, fd, size);
  }
}

/* The file of the descriptor, open or not any more, else the next one. One that others have open
 * stays, and is not counted. */
static bool delete_file(struct worker *worker, uint32_t number) {
  const struct flow_op *op = &worker->run->plan->flow.ops[number];
  struct flow *flow = worker->run->flow;
  struct flow_fd *place = fd_of(worker, op->fd);
  bool by_fd = op->fd > 0 && place->set != FLOW_NONE;
  uint32_t set = by_fd ? place->set : op->set;
  uint32_t member = place->member;
  enum flow_found found = FLOW_EMPTY;
  if (by_fd)
    while ((found = flow_files_take(&flow->files[set], member)) == FLOW_BUSY &&
           !worker_is_over(worker)) {
      /* It waited a while itself. */
    }
  else if (set != FLOW_NONE)
    found = choose(worker, op, true, &member);
  if (found != FLOW_FOUND)
    return end_without_file(worker, number, found);
  place->set = by_fd ? FLOW_NONE : place->set;
  if (flow_files_is_open(&flow->files[set], member, by_fd)) {
    flow_files_give(&flow->files[set], member, (struct flow_change){0});
    return true;
  }
  uint32_t file = file_of(&flow->plan->flow, set, member);
  bool is_gone = worker_perform(worker, begin(worker, number, FILE_NONE, file)) >= 0;
  flow_files_give(&flow->files[set], member, (struct flow_change){.sets_present = is_gone});
  return count(worker, number, 0);
}

/* A call on the path of a file or directory that is chosen for it. */
static bool by_path(struct worker *worker, uint32_t number) {
  const struct flow_op *op = &worker->run->plan->flow.ops[number];
  struct flow *flow = worker->run->flow;
  bool makes = op->kind == FLOW_MAKE_DIRECTORY;
  bool removes = op->kind == FLOW_REMOVE_DIRECTORY;
  uint32_t member;
  enum flow_found found = op->set == FLOW_NONE ? FLOW_EMPTY : choose(worker, op, !makes, &member);
  if (found != FLOW_FOUND)
    return end_without_file(worker, number, found);
  uint32_t file = file_of(&flow->plan->flow, op->set, member);
  bool is_done = worker_perform(worker, begin(worker, number, FILE_NONE, file)) >= 0;
  struct flow_change change = {.sets_present = (makes || removes) && is_done, .is_present = makes};
  flow_files_give(&flow->files[op->set], member, change);
  return count(worker, number, 0);
}

static bool sync_set(struct worker *worker, uint32_t number) {
  const struct flow_plan *plan = &worker->run->plan->flow;
  for (uint32_t fd = 0; fd < plan->header->fds; fd++) {
    const struct flow_fd *place = fd_of(worker, fd);
    if (!place->is_open || place->set != plan->ops[number].set)
      continue;
    (void)worker_perform(worker, begin_on_fd(worker, number, fd));
    (void)count(worker, number, 0);
  }
  return true;
}

/* A call on what is open; its result is in the statistics. */
static bool on_fd(struct worker *worker, uint32_t number, uint32_t fd) {
  (void)worker_perform(worker, begin_on_fd(worker, number, fd));
  return count(worker, number, 0);
}

/* A stat goes by its descriptor only while that is open. */
static bool do_one(struct worker *worker, uint32_t number) {
  const struct flow_op *op = &worker->run->plan->flow.ops[number];
  switch ((enum flow_kind)op->kind) {
  case FLOW_OPEN:
  case FLOW_CREATE:
    return open_file(worker, number, choose_fd(worker, op), number);
  case FLOW_CLOSE:
    return close_file(worker, number, choose_fd(worker, op));
  case FLOW_READ:
  case FLOW_WRITE:
  case FLOW_READ_WHOLE:
  case FLOW_WRITE_WHOLE:
  case FLOW_APPEND:
  case FLOW_APPEND_RANDOM:
  case FLOW_AIO_WRITE:
    return move_data(worker, number);
  case FLOW_AIO_WAIT:
    return flow_writes_wait(worker) && count(worker, number, 0);
  case FLOW_DELETE:
    return delete_file(worker, number);
  case FLOW_STAT:
    return op->fd > 0 && fd_of(worker, op->fd)->is_open ? on_fd(worker, number, op->fd)
                                                        : by_path(worker, number);
  case FLOW_SYNC:
    return on_fd(worker, number, choose_fd(worker, op));
  case FLOW_SYNC_SET:
    return sync_set(worker, number);
  case FLOW_MAKE_DIRECTORY:
  case FLOW_REMOVE_DIRECTORY:
  case FLOW_LIST:
    return by_path(worker, number);
  default:
    return flow_control(worker, number);
  }
}

/* Once through the operations; false when the thread ends. */
static bool run_turn(struct worker *worker) {
  const struct flow_plan *plan = &worker->run->plan->flow;
  const struct file_thread *thread = &worker->run->plan->threads[worker->number];
  struct flow_state *states = worker->run->flow->states;
  for (uint64_t i = thread->first; i < thread->first + thread->count; i++) {
    const struct flow_op *op = &plan->ops[i];
    if (worker_is_over(worker))
      return false;
    if (op->kind == FLOW_LOOP) {
      states[i].left = draw(worker, &op->iters);
      i = states[i].left == 0 ? op->link : i;
    } else if (op->kind == FLOW_LOOP_END) {
      i = --states[op->link].left > 0 ? op->link : i;
    } else if (op->kind != FLOW_TEMPLATE) {
      uint64_t times = draw(worker, &op->iters);
      for (uint64_t turn = 0; turn < times; turn++)
        if (worker_is_over(worker) || !do_one(worker, (uint32_t)i))
          return false;
    }
  }
  return true;
}

void flow_run(struct worker *worker) {
  if (worker->number >= file_plan_own_threads(worker->run->plan)) {
    flow_writes_run(worker);
    return;
  }
  flow_seed(worker);
  while (run_turn(worker))
    worker->cycle += worker->cycle < UINT32_MAX;
  flow_writes_end(worker);
}
