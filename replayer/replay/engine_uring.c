#include <errno.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "replay/clock.h"
#include "replay/engine.h"
#include "replay/uring.h"

/* Linux 6.12; older headers do not have it. */
#ifndef BLOCK_URING_CMD_DISCARD
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif

#define FLUSH_PART (UINT64_C(1) << 32) /* in user_data: the flush before the data */
#define PROBE_WAIT_NS 1000000000U

enum buffer { BUFFER_PATTERN, BUFFER_SINK, BUFFER_ZEROES, BUFFERS };

/* A request in flight and how far it is. */
struct task {
  struct request request;
  uint64_t done_bytes; /* transferred so far */
  int32_t error;
};

struct engine {
  struct uring ring;
  struct engine_config config;
  struct task *tasks; /* one a slot */
  uint64_t resubmitted;
  uint32_t in_flight; /* requests */
  bool has_files;     /* descriptors are registered */
  bool has_buffers;   /* buffers are registered */
  bool has_discard;   /* devices take discards by command */
};

static bool transfers(const struct engine *engine, const struct request *request) {
  bool zeroes_by_hand =
      request->operation == PLAN_WRITE_ZEROES && !engine->config.targets[request->target].can_zero;
  return request->operation == PLAN_READ || request->operation == PLAN_WRITE || zeroes_by_hand;
}

static struct io_uring_sqe *next_sqe(struct engine *engine, const struct request *request,
                                     uint8_t opcode) {
  struct io_uring_sqe *sqe = uring_next_sqe(&engine->ring);
  sqe->opcode = opcode;
  sqe->user_data = request->slot;
  sqe->fd = engine->has_files ? request->target : engine->config.targets[request->target].fd;
  sqe->flags = engine->has_files ? IOSQE_FIXED_FILE : 0;
  return sqe;
}

static struct io_uring_sqe *prepare_flush(struct engine *engine, const struct request *request) {
  struct io_uring_sqe *sqe = next_sqe(engine, request, IORING_OP_FSYNC);
  sqe->fsync_flags = IORING_FSYNC_DATASYNC;
  return sqe;
}

/* The memory of a transfer that goes on at byte `offset` of the target. */
static const unsigned char *memory_of(const struct engine *engine, enum buffer buffer,
                                      uint64_t offset) {
  const struct buffers *buffers = engine->config.buffers;
  switch (buffer) {
  case BUFFER_PATTERN:
    return buffers_pattern_at(buffers, offset);
  case BUFFER_SINK:
    return buffers->sink;
  case BUFFER_ZEROES:
  case BUFFERS:
    break;
  }
  return buffers->zeroes;
}

/* What is left of a transfer, or its first piece. */
static void prepare_transfer(struct engine *engine, const struct task *task) {
  const struct request *request = &task->request;
  bool is_read = request->operation == PLAN_READ;
  enum buffer buffer = is_read                            ? BUFFER_SINK
                       : request->operation == PLAN_WRITE ? BUFFER_PATTERN
                                                          : BUFFER_ZEROES;
  uint64_t offset = request->offset_bytes + task->done_bytes;
  uint64_t left = request->length_bytes - task->done_bytes;
  uint64_t limit = engine->config.buffers->transfer_bytes;
  uint8_t plain = is_read ? IORING_OP_READ : IORING_OP_WRITE;
  uint8_t fixed = is_read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
  struct io_uring_sqe *sqe = next_sqe(engine, request, engine->has_buffers ? fixed : plain);
  sqe->off = offset;
  sqe->len = (uint32_t)(left < limit ? left : limit);
  sqe->addr = (uint64_t)(uintptr_t)memory_of(engine, buffer, offset);
  sqe->buf_index = engine->has_buffers ? (uint16_t)buffer : 0;
  sqe->rw_flags = (request->flags & PLAN_FUA) != 0 && !is_read ? RWF_DSYNC : 0;
}

static void prepare_allocate(struct engine *engine, const struct request *request, int mode) {
  struct io_uring_sqe *sqe = next_sqe(engine, request, IORING_OP_FALLOCATE);
  sqe->off = request->offset_bytes;
  sqe->addr = request->length_bytes;
  sqe->len = (uint32_t)(mode | FALLOC_FL_KEEP_SIZE);
}

static void prepare_discard(struct engine *engine, const struct request *request) {
  bool is_device = engine->config.targets[request->target].kind == TARGET_DEVICE;
  if (!is_device || !engine->has_discard) {
    prepare_allocate(engine, request, FALLOC_FL_PUNCH_HOLE);
    return;
  }
  struct io_uring_sqe *sqe = next_sqe(engine, request, IORING_OP_URING_CMD);
  sqe->cmd_op = BLOCK_URING_CMD_DISCARD;
  sqe->addr = request->offset_bytes;
  sqe->addr3 = request->length_bytes;
}

/* What the request itself does, without the flush before it. */
static void prepare(struct engine *engine, const struct task *task) {
  const struct request *request = &task->request;
  if (transfers(engine, request))
    prepare_transfer(engine, task);
  else if (request->operation == PLAN_FLUSH)
    (void)prepare_flush(engine, request);
  else if (request->operation == PLAN_DISCARD)
    prepare_discard(engine, request);
  else
    prepare_allocate(engine, request, FALLOC_FL_ZERO_RANGE);
}

static int make_room(struct engine *engine) {
  int rc = 0;
  while (uring_room(&engine->ring) < 1 && rc == 0)
    rc = uring_enter(&engine->ring, 0, 0);
  return rc;
}

static int uring_submit(struct engine *engine, const struct request *request) {
  int rc = make_room(engine);
  if (rc != 0)
    return rc;
  struct task *task = &engine->tasks[request->slot];
  *task = (struct task){.request = *request};
  engine->in_flight++;
  /* Not linked by the kernel: Linux (seen with 6.18) starts what is linked to a failed flush. */
  if (request->operation == PLAN_WRITE && (request->flags & PLAN_PREFLUSH) != 0)
    prepare_flush(engine, request)->user_data |= FLUSH_PART;
  else
    prepare(engine, task);
  return 0;
}

/* Takes one result into the task. Returns whether the data must be submitted again. */
static bool take_result(const struct engine *engine, struct task *task, int32_t result) {
  bool is_transfer = transfers(engine, &task->request);
  if (result == -EAGAIN || result == -EINTR)
    return true;
  if (result < 0)
    task->error = result;
  else if (is_transfer && result == 0)
    task->error = task->request.operation == PLAN_READ ? -ENODATA : -ENOSPC;
  else if (is_transfer)
    task->done_bytes += (uint32_t)result;
  return is_transfer && task->error == 0 && task->done_bytes < task->request.length_bytes;
}

/* Submits what is left of a task. */
static int go_on(struct engine *engine, const struct task *task) {
  int rc = make_room(engine);
  if (rc == 0)
    prepare(engine, task);
  return rc;
}

/* Takes the oldest completion. Returns 1 with its task when that is now finished, 0 or -errno. */
static int take(struct engine *engine, const struct io_uring_cqe *cqe, struct task **finished) {
  struct task *task = &engine->tasks[(uint32_t)cqe->user_data];
  bool is_flush = (cqe->user_data & FLUSH_PART) != 0;
  int32_t result = cqe->res;
  uring_seen(&engine->ring);
  *finished = task;
  if (is_flush && result < 0)
    task->error = result;
  else if (is_flush)
    return go_on(engine, task);
  else if (take_result(engine, task, result)) {
    engine->resubmitted++;
    return go_on(engine, task);
  }
  return 1;
}

static int take_ready(struct engine *engine, struct completion *out, uint32_t room) {
  const struct io_uring_cqe *cqe = uring_peek(&engine->ring);
  uint64_t now = cqe != NULL ? clock_now_ns() : 0;
  uint32_t count = 0;
  for (; cqe != NULL && count < room; cqe = uring_peek(&engine->ring)) {
    struct task *task = NULL;
    int rc = take(engine, cqe, &task);
    if (rc < 0)
      return rc;
    if (rc > 0)
      out[count++] =
          (struct completion){.complete_ns = now, .slot = task->request.slot, .error = task->error};
  }
  engine->in_flight -= count;
  return (int)count;
}

/* How many completions to sleep for: never more than can come. */
static uint32_t wanted(const struct engine *engine) {
  uint32_t most = engine->config.wake_count;
  if (engine->in_flight < most)
    most = engine->in_flight;
  return most > 0 ? most : 1;
}

static int uring_reap(struct engine *engine, struct completion *out, uint32_t room,
                      uint64_t until_ns) {
  bool must_wait = until_ns != 0 && uring_peek(&engine->ring) == NULL;
  if (must_wait || uring_needs_enter(&engine->ring)) {
    int rc = uring_enter(&engine->ring, must_wait ? until_ns : 0, wanted(engine));
    if (rc != 0)
      return rc;
  }
  return take_ready(engine, out, room);
}

static bool probe_operations(const struct engine *engine) {
  static const uint8_t needed[] = {IORING_OP_READ,        IORING_OP_WRITE, IORING_OP_READ_FIXED,
                                   IORING_OP_WRITE_FIXED, IORING_OP_FSYNC, IORING_OP_FALLOCATE};
  const unsigned limit = 256;
  struct io_uring_probe *probe = calloc(1, sizeof *probe + limit * sizeof *probe->ops);
  if (probe == NULL)
    return false;
  bool has_all = uring_register(&engine->ring, IORING_REGISTER_PROBE, probe, limit) >= 0;
  for (size_t i = 0; i < sizeof needed && has_all; i++)
    has_all =
        needed[i] < probe->ops_len && (probe->ops[needed[i]].flags & IO_URING_OP_SUPPORTED) != 0;
  free(probe);
  return has_all;
}

/* A discard of nothing is an error that tells apart who knows the command and who does not. */
static bool probe_discard(struct engine *engine, uint16_t target) {
  struct request nothing = {.target = target, .operation = PLAN_DISCARD};
  engine->has_discard = true;
  prepare_discard(engine, &nothing);
  int rc = uring_enter(&engine->ring, clock_now_ns() + PROBE_WAIT_NS, 1);
  const struct io_uring_cqe *cqe = uring_peek(&engine->ring);
  if (rc != 0 || cqe == NULL)
    return false;
  bool is_known = cqe->res == -EINVAL;
  uring_seen(&engine->ring);
  return is_known;
}

static bool register_files(struct engine *engine) {
  int descriptors[PLAN_TARGETS_MAX];
  for (uint32_t i = 0; i < engine->config.target_count; i++)
    descriptors[i] = engine->config.targets[i].fd;
  return uring_register(&engine->ring, IORING_REGISTER_FILES, descriptors,
                        engine->config.target_count) == 0;
}

static bool register_buffers(struct engine *engine) {
  const struct buffers *buffers = engine->config.buffers;
  struct iovec memory[BUFFERS] = {
      [BUFFER_PATTERN] = {buffers->pattern, BUFFERS_PERIOD_BYTES + buffers->transfer_bytes},
      [BUFFER_SINK] = {buffers->sink, buffers->transfer_bytes},
      [BUFFER_ZEROES] = {buffers->zeroes, buffers->transfer_bytes},
  };
  return uring_register(&engine->ring, IORING_REGISTER_BUFFERS, memory, BUFFERS) == 0;
}

static void uring_engine_close(struct engine *engine) {
  if (engine == NULL)
    return;
  /* The kernel takes a ring apart after the program has ended. What is given back here is free at
   * once, so that the next run finds its target unused. */
  if (engine->has_files)
    (void)uring_register(&engine->ring, IORING_UNREGISTER_FILES, NULL, 0);
  uring_close(&engine->ring);
  free(engine->tasks);
  free(engine);
}

static void probe_features(struct engine *engine) {
  engine->has_files = register_files(engine);
  engine->has_buffers = register_buffers(engine);
  for (uint32_t i = 0; i < engine->config.target_count; i++)
    if (engine->config.targets[i].kind == TARGET_DEVICE && engine->config.targets[i].may_write) {
      engine->has_discard = probe_discard(engine, (uint16_t)i);
      return;
    }
}

static int uring_engine_open(struct engine **out, const struct engine_config *config) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL)
    return -ENOMEM;
  engine->config = *config;
  int rc = uring_open(&engine->ring, config->depth < 64 ? 64 : config->depth);
  if (rc != 0)
    engine->ring.fd = -1;
  engine->tasks = calloc(config->depth, sizeof *engine->tasks);
  if (rc == 0 && engine->tasks == NULL)
    rc = -ENOMEM;
  if (rc == 0 && !probe_operations(engine))
    rc = -ENOSYS;
  if (rc != 0) {
    uring_engine_close(engine);
    return rc;
  }
  probe_features(engine);
  *out = engine;
  return 0;
}

static void uring_describe(const struct engine *engine, struct engine_report *report) {
  uint32_t flags = engine->ring.setup_flags;
  struct engine_feature features[] = {
      {"defer_taskrun", (flags & IORING_SETUP_DEFER_TASKRUN) != 0},
      {"coop_taskrun", (flags & IORING_SETUP_COOP_TASKRUN) != 0},
      {"registered_files", engine->has_files},
      {"registered_buffers", engine->has_buffers},
      {"discard_command", engine->has_discard},
  };
  report->feature_count = sizeof features / sizeof *features;
  memcpy(report->features, features, sizeof features);
  report->resubmitted = engine->resubmitted;
}

const struct engine_ops *engine_uring(void) {
  static const struct engine_ops ops = {
      .name = "io_uring",
      .open = uring_engine_open,
      .submit = uring_submit,
      .reap = uring_reap,
      .describe = uring_describe,
      .close = uring_engine_close,
  };
  return &ops;
}
