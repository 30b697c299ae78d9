#include "play/flow_plan_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "play/diag.h"

_Static_assert(sizeof(struct flow_op) == 128, "an operation of a flow has 128 bytes");
_Static_assert(sizeof(struct flow_set) == 16, "a set has 16 bytes");
_Static_assert(sizeof(struct flow_header) == 64, "the header of a flow has 64 bytes");

#define MEMBERS_MAX (UINT64_C(1) << 32)
#define TABLES_MAX 65536U

/* The record of each kind, which its statistics go by. What only waits has that of a sync. */
static const uint8_t operations[FLOW_KINDS] = {
    [FLOW_OPEN] = FILE_OPEN,
    [FLOW_CREATE] = FILE_CREATE,
    [FLOW_CLOSE] = FILE_CLOSE,
    [FLOW_READ] = FILE_READ,
    [FLOW_WRITE] = FILE_WRITE,
    [FLOW_READ_WHOLE] = FILE_READ,
    [FLOW_WRITE_WHOLE] = FILE_WRITE,
    [FLOW_APPEND] = FILE_WRITE,
    [FLOW_APPEND_RANDOM] = FILE_WRITE,
    [FLOW_DELETE] = FILE_UNLINK,
    [FLOW_STAT] = FILE_STAT,
    [FLOW_SYNC] = FILE_FSYNC,
    [FLOW_SYNC_SET] = FILE_FSYNC,
    [FLOW_MAKE_DIRECTORY] = FILE_MKDIR,
    [FLOW_REMOVE_DIRECTORY] = FILE_RMDIR,
    [FLOW_LIST] = FILE_READDIR,
    [FLOW_DELAY] = FILE_SYNC,
    [FLOW_HOG] = FILE_SYNC,
    [FLOW_EVENT_LIMIT] = FILE_SYNC,
    [FLOW_IO_LIMIT] = FILE_SYNC,
    [FLOW_OPERATION_LIMIT] = FILE_SYNC,
    [FLOW_BYTE_LIMIT] = FILE_SYNC,
    [FLOW_FINISH_ON_COUNT] = FILE_SYNC,
    [FLOW_FINISH_ON_BYTES] = FILE_SYNC,
    [FLOW_SEMAPHORE_WAIT] = FILE_SYNC,
    [FLOW_SEMAPHORE_POST] = FILE_SYNC,
    [FLOW_BLOCK] = FILE_SYNC,
    [FLOW_WAKE] = FILE_SYNC,
    [FLOW_LOOP] = FILE_SYNC,
    [FLOW_LOOP_END] = FILE_SYNC,
    [FLOW_TEMPLATE] = FILE_OPEN,
    [FLOW_AIO_WRITE] = FILE_WRITE,
    [FLOW_AIO_WAIT] = FILE_SYNC,
    [FLOW_AIO_WRITER] = FILE_WRITE,
};

static bool picks(const struct flow_op *op) {
  switch ((enum flow_kind)op->kind) {
  case FLOW_OPEN:
  case FLOW_CREATE:
  case FLOW_SYNC_SET:
  case FLOW_MAKE_DIRECTORY:
  case FLOW_REMOVE_DIRECTORY:
  case FLOW_LIST:
  case FLOW_TEMPLATE:
    return true;
  default:
    return false;
  }
}

static bool is_among(const struct file_thread *thread, uint32_t number) {
  return number >= thread->first && number < thread->first + thread->count;
}

static const char *wrong_value(const struct flow_plan *flow, const struct flow_op *op) {
  const struct flow_value *values[] = {&op->size, &op->iters, &op->value, &op->index};
  for (unsigned i = 0; i < sizeof values / sizeof *values; i++)
    if (values[i]->constant > INT64_MAX ||
        (values[i]->table != FLOW_NONE && values[i]->table >= flow->header->table_count))
      return "has an absurd value, or that of a table that the flow does not have";
  return NULL;
}

/* A wait or block that posts and wakes go to, and all that follow it. */
static bool is_target(const struct file_plan *plan, uint32_t number, enum flow_kind kind) {
  return number < plan->record_count && plan->flow.ops[number].kind == kind;
}

/* Links stay within the thread, but for those from one thread to another. */
static const char *wrong_link(const struct file_plan *plan, const struct file_thread *thread,
                              uint32_t number) {
  const struct flow_op *op = &plan->flow.ops[number];
  bool has_link = op->link != FLOW_NONE;
  bool is_good = !has_link || is_among(thread, op->link);
  switch ((enum flow_kind)op->kind) {
  case FLOW_LOOP:
    is_good =
        has_link && is_good && op->link > number && plan->flow.ops[op->link].kind == FLOW_LOOP_END;
    break;
  case FLOW_LOOP_END:
    is_good =
        has_link && is_good && op->link < number && plan->flow.ops[op->link].kind == FLOW_LOOP;
    break;
  case FLOW_SEMAPHORE_POST:
    is_good = is_target(plan, op->link, FLOW_SEMAPHORE_WAIT);
    break;
  case FLOW_WAKE:
    is_good = is_target(plan, op->link, FLOW_BLOCK);
    break;
  case FLOW_SEMAPHORE_WAIT:
  case FLOW_BLOCK:
    /* Ascending, so that following them ends. */
    is_good = op->other == FLOW_NONE ||
              (op->other > number && is_target(plan, op->other, (enum flow_kind)op->kind));
    break;
  case FLOW_READ:
  case FLOW_WRITE:
  case FLOW_READ_WHOLE:
  case FLOW_WRITE_WHOLE:
  case FLOW_APPEND:
  case FLOW_APPEND_RANDOM:
  case FLOW_AIO_WRITE:
    is_good = is_good && (!has_link || plan->flow.ops[op->link].kind == FLOW_TEMPLATE);
    break;
  default:
    break;
  }
  return is_good ? NULL : "has a link to what cannot be its target";
}

static const char *rules_op(const struct file_plan *plan, uint32_t thread_number, uint32_t number) {
  const struct flow_plan *flow = &plan->flow;
  const struct file_thread *thread = &plan->threads[thread_number];
  const struct file_record *record = &plan->records[number];
  const struct flow_op *op = &flow->ops[number];
  if (op->kind >= FLOW_KINDS || (op->flags & ~FLOW_FLAGS) != 0)
    return "has an unknown kind or flags";
  bool is_data_sync = op->kind == FLOW_SYNC && record->operation == FILE_FDATASYNC;
  if (record->operation != operations[op->kind] && !is_data_sync)
    return "has a record of another operation";
  if (op->fd >= flow->header->fds || op->source_fd >= flow->header->fds)
    return "names a descriptor that its thread does not have";
  if ((op->flags & FLOW_ROTATES) != 0 && flow->header->fds < FLOW_FDS_MAX)
    return "needs 128 descriptors, which its thread does not have";
  if (op->set == FLOW_NONE ? picks(op) : op->set >= flow->header->set_count)
    return "needs a set of files that the flow has";
  if (op->size.table == FLOW_NONE && op->size.constant > plan->max_transfer_bytes)
    return "has calls longer than the longest transfer of the header";
  const char *wrong = wrong_value(flow, op);
  return wrong != NULL ? wrong : wrong_link(plan, thread, number);
}

static bool has_writer(const struct file_plan *plan, uint32_t thread) {
  for (uint32_t i = file_plan_own_threads(plan); i < plan->thread_count; i++)
    if (plan->flow.ops[plan->threads[i].first].other == thread)
      return true;
  return false;
}

/* A thread that submits writes has a writer. */
static const char *wrong_thread(const struct file_plan *plan, uint32_t number) {
  const struct file_thread *thread = &plan->threads[number];
  bool submits = false;
  for (uint64_t i = thread->first; i < thread->first + thread->count; i++) {
    if (plan->flow.ops[i].kind == FLOW_AIO_WRITER)
      return "writes for others, and is not among the last ones";
    submits = submits || plan->flow.ops[i].kind == FLOW_AIO_WRITE;
  }
  return submits && !has_writer(plan, number) ? "has asynchronous writes, and no writer" : NULL;
}

/* One record for each asynchronous write of its thread, in their order and of the same step, so
 * that it counts whichever it performs. */
static const char *wrong_writer(const struct file_plan *plan, uint32_t number) {
  const struct file_thread *writer = &plan->threads[number];
  uint64_t at = writer->first;
  uint64_t end = writer->first + writer->count;
  uint32_t owner = writer->count == 0 ? FLOW_NONE : plan->flow.ops[at].other;
  if (owner >= file_plan_own_threads(plan))
    return "writes for no thread";
  const struct file_thread *thread = &plan->threads[owner];
  for (uint64_t i = thread->first; i < thread->first + thread->count; i++) {
    if (plan->flow.ops[i].kind != FLOW_AIO_WRITE)
      continue;
    bool is_good = at < end && plan->flow.ops[at].kind == FLOW_AIO_WRITER &&
                   plan->flow.ops[at].other == owner &&
                   plan->records[at].step == plan->records[i].step;
    if (!is_good)
      return "has other records than its thread's asynchronous writes";
    at++;
  }
  return at == end ? NULL : "has more records than its thread has asynchronous writes";
}

static const char *rules_thread(const struct file_plan *plan, uint32_t number) {
  return number < file_plan_own_threads(plan) ? wrong_thread(plan, number)
                                              : wrong_writer(plan, number);
}

static const char *rules_set(const struct file_plan *plan, const struct flow_set *set) {
  uint64_t members = plan->flow.header->member_count;
  if (set->count == 0 || set->first > members || set->count > members - set->first)
    return "has no members";
  for (uint32_t i = 0; i < set->count; i++)
    if (plan->flow.members[set->first + i] >= plan->file_count)
      return "has a member that the plan does not have";
  return NULL;
}

static const char *wrong_header(const struct file_plan *plan, uint64_t bytes) {
  const struct flow_header *header = plan->flow.header;
  if (bytes < sizeof *header)
    return "has a flow that is too short";
  if (header->table_count > TABLES_MAX || header->member_count > MEMBERS_MAX ||
      header->end > FLOW_END_ALL || header->fds == 0 || header->fds > FLOW_FDS_MAX ||
      header->writers >= plan->thread_count)
    return "has an absurd flow";
  if ((uint64_t)header->fds * file_plan_own_threads(plan) != plan->handle_count)
    return "has other handles than its flow's descriptors";
  uint64_t needed = sizeof *header + plan->record_count * sizeof *plan->flow.ops +
                    (uint64_t)header->set_count * sizeof *plan->flow.sets +
                    (uint64_t)header->table_count * FLOW_TABLE_VALUES * sizeof *plan->flow.tables +
                    header->member_count * sizeof *plan->flow.members;
  return (needed + 7) / 8 * 8 == bytes ? NULL : "has a flow that is shorter or longer than it says";
}

static int reject(const char *path, const char *what, uint64_t number, const char *wrong) {
  diag("%s: %s %" PRIu64 " of its flow %s", path, what, number, wrong);
  return -EINVAL;
}

int flow_plan_read(struct file_plan *plan, const void *flow, uint64_t bytes, const char *path) {
  struct flow_plan *found = &plan->flow;
  found->header = flow;
  const char *wrong = wrong_header(plan, bytes);
  if (wrong != NULL) {
    diag("%s %s", path, wrong);
    return -EINVAL;
  }
  found->ops = (const struct flow_op *)(found->header + 1);
  found->sets = (const struct flow_set *)(found->ops + plan->record_count);
  found->tables = (const uint64_t *)(found->sets + found->header->set_count);
  found->members =
      (const uint32_t *)(found->tables + (size_t)found->header->table_count * FLOW_TABLE_VALUES);
  for (uint32_t i = 0; i < found->header->set_count; i++)
    if ((wrong = rules_set(plan, &found->sets[i])) != NULL)
      return reject(path, "set", i, wrong);
  for (uint32_t thread = 0; thread < plan->thread_count; thread++) {
    const struct file_thread *range = &plan->threads[thread];
    for (uint64_t i = range->first; i < range->first + range->count; i++)
      if ((wrong = rules_op(plan, thread, (uint32_t)i)) != NULL)
        return reject(path, "operation", i, wrong);
  }
  /* Writers first: the others look at them. */
  for (uint32_t thread = plan->thread_count; thread-- > 0;)
    if ((wrong = rules_thread(plan, thread)) != NULL)
      return reject(path, "thread", thread, wrong);
  return 0;
}
