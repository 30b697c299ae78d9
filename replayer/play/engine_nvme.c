/* Commands of NVMe as they are, past file system and block layer: IORING_OP_URING_CMD on the
 * generic character device of a namespace. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "play/clock.h"
#include "play/engine.h"
#include "play/nvme_command.h"
#include "play/uring.h"

#define FLUSH_PART (UINT64_C(1) << 32) /* in user_data: the flush before the data */
#define ENTRIES_MIN 64U
#define COMMAND_OFFSET 48U /* of the command in a submission entry */

/* A request in flight. */
struct task {
  struct request request;
  struct nvme_range range;
  uint32_t left; /* commands that have not completed */
  int32_t error; /* the first one */
};

struct engine {
  struct uring ring;  /* it is polled if that was asked for */
  struct uring aside; /* for what is not polled: commands without data; open beside a polled one */
  struct engine_config config;
  struct nvme_device devices[BLOCK_PLAN_TARGETS_MAX];
  struct task *tasks; /* one a slot */
  uint32_t *rejected; /* slots of requests that the device would not take */
  uint32_t rejected_count;
  uint64_t unpolled; /* commands of the ring aside */
  uint64_t pieces;   /* commands beyond one a request */
};

static bool has_aside(const struct engine *engine) { return engine->aside.fd >= 0; }

/* Linux before 6.6 polls a command without data by what is none of its memory. */
static struct uring *ring_of(struct engine *engine, const struct nvme_uring_cmd *command) {
  if (!has_aside(engine) || command->data_len > 0)
    return &engine->ring;
  engine->unpolled++;
  return &engine->aside;
}

static int make_room(struct uring *ring) {
  int rc = 0;
  while (uring_room(ring) < 1 && rc == 0)
    rc = uring_go(ring);
  return rc;
}

/* Submits one command of a task. */
static int submit_command(struct engine *engine, struct task *task,
                          const struct nvme_uring_cmd *command, uint64_t user_data) {
  struct uring *ring = ring_of(engine, command);
  int rc = make_room(ring);
  if (rc != 0)
    return rc;
  struct io_uring_sqe *sqe = uring_next_sqe(ring);
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = engine->devices[task->request.target].fd;
  sqe->cmd_op = NVME_URING_CMD_IO;
  sqe->user_data = user_data;
  memcpy((char *)sqe + COMMAND_OFFSET, command, sizeof *command);
  task->left++;
  return 0;
}

/* Ends a request that the device would not take, without a command. */
static int reject(struct engine *engine, struct task *task, int32_t error) {
  task->error = error;
  engine->rejected[engine->rejected_count++] = task->request.slot;
  return 0;
}

/* A request that is longer than a command can be goes out as several at once, as the block layer
 * would send it. */
static int submit_blocks(struct engine *engine, struct task *task) {
  const struct request *request = &task->request;
  const struct nvme_device *device = &engine->devices[request->target];
  struct nvme_transfer transfer = nvme_command_transfer(device, engine->config.buffers, request);
  uint64_t most = transfer.most_bytes;
  if (most == 0)
    return reject(engine, task, -EOPNOTSUPP);
  int rc = 0;
  for (uint64_t done = 0; done < request->length_bytes && rc == 0; done += most) {
    uint64_t left = request->length_bytes - done;
    struct nvme_uring_cmd command =
        nvme_command_piece(device, &transfer, request, done, left < most ? left : most);
    rc = submit_command(engine, task, &command, request->slot);
    engine->pieces += done > 0;
  }
  return rc;
}

/* Submits the request itself; a flush before it has succeeded. */
static int start(struct engine *engine, struct task *task) {
  const struct request *request = &task->request;
  const struct nvme_device *device = &engine->devices[request->target];
  struct nvme_uring_cmd command;
  if (request->operation == BLOCK_FLUSH)
    command = nvme_command_flush(device);
  else if (block_operation_is_zone(request->operation))
    command = nvme_command_zone(device, request);
  else if (request->operation == BLOCK_DISCARD)
    command = nvme_command_discard(device, request, &task->range);
  else
    return submit_blocks(engine, task);
  return submit_command(engine, task, &command, request->slot);
}

static int nvme_submit(struct engine *engine, const struct request *request) {
  const struct nvme_device *device = &engine->devices[request->target];
  struct task *task = &engine->tasks[request->slot];
  *task = (struct task){.request = *request};
  if ((request->offset_bytes | request->length_bytes) % device->block_bytes != 0)
    return reject(engine, task, -EINVAL);
  if (request->operation != BLOCK_WRITE || (request->flags & BLOCK_PREFLUSH) == 0)
    return start(engine, task);
  struct nvme_uring_cmd flush = nvme_command_flush(device);
  return submit_command(engine, task, &flush, request->slot | FLUSH_PART);
}

/* Takes one completion. Returns 1 when its request is finished, 0 or -errno. */
static int take(struct engine *engine, struct uring *ring, const struct io_uring_cqe *cqe,
                struct task **finished) {
  struct task *task = &engine->tasks[(uint32_t)cqe->user_data];
  bool is_flush = (cqe->user_data & FLUSH_PART) != 0;
  int32_t error = nvme_command_error(cqe->res);
  uring_seen(ring);
  *finished = task;
  task->left--;
  task->error = task->error == 0 ? error : task->error;
  if (is_flush && error == 0)
    return start(engine, task);
  return task->left == 0;
}

static int take_rejected(struct engine *engine, struct completion *out, uint32_t capacity) {
  uint32_t count = 0;
  while (count < capacity && engine->rejected_count > 0) {
    uint32_t slot = engine->rejected[--engine->rejected_count];
    out[count++] = (struct completion){
        .complete_ns = clock_now_ns(), .slot = slot, .error = engine->tasks[slot].error};
  }
  return (int)count;
}

/* Takes what is ready in a ring. Returns how many requests are finished, or -errno. */
static int take_ready(struct engine *engine, struct uring *ring, struct completion *out,
                      uint32_t capacity) {
  uint32_t count = 0;
  const struct io_uring_cqe *cqe = uring_peek(ring);
  uint64_t now = cqe != NULL ? clock_now_ns() : 0;
  for (; cqe != NULL && count < capacity; cqe = uring_peek(ring)) {
    struct task *task;
    int rc = take(engine, ring, cqe, &task);
    if (rc < 0)
      return rc;
    if (rc > 0)
      out[count++] =
          (struct completion){.complete_ns = now, .slot = task->request.slot, .error = task->error};
  }
  return (int)count;
}

static int take_all(struct engine *engine, struct completion *out, uint32_t capacity) {
  int count = take_rejected(engine, out, capacity);
  int more = take_ready(engine, &engine->ring, out + count, capacity - (uint32_t)count);
  if (more >= 0 && has_aside(engine)) {
    count += more;
    more = take_ready(engine, &engine->aside, out + count, capacity - (uint32_t)count);
  }
  return more < 0 ? more : count + more;
}

/* The ring whose completions end a sleep; NULL when others could come meanwhile, or some are there.
 */
static struct uring *only_busy(struct engine *engine) {
  bool is_ready = engine->rejected_count > 0 || uring_peek(&engine->ring) != NULL ||
                  (has_aside(engine) && uring_peek(&engine->aside) != NULL);
  if (is_ready)
    return NULL;
  if (!has_aside(engine) || engine->aside.in_flight == 0)
    return uring_can_sleep(&engine->ring) ? &engine->ring : NULL;
  return engine->ring.in_flight == 0 ? &engine->aside : NULL;
}

/* Lets all go on, and looks for completions until there are some. */
static int look(struct engine *engine, struct completion *out, uint32_t capacity,
                uint64_t until_ns) {
  int count;
  do {
    int rc = uring_go(&engine->ring);
    if (rc == 0 && has_aside(engine))
      rc = uring_go(&engine->aside);
    count = rc != 0 ? rc : take_all(engine, out, capacity);
  } while (count == 0 && until_ns != 0 && clock_now_ns() < until_ns);
  return count;
}

static int nvme_reap(struct engine *engine, struct completion *out, uint32_t capacity,
                     uint64_t until_ns) {
  struct uring *ring = until_ns != 0 ? only_busy(engine) : NULL;
  if (ring == NULL)
    return look(engine, out, capacity, until_ns);
  uint32_t most = engine->config.wake_count;
  most = ring->in_flight < most ? ring->in_flight : most;
  int rc = uring_wait(ring, until_ns, most > 0 ? most : 1);
  return rc != 0 ? rc : take_all(engine, out, capacity);
}

static void nvme_close(struct engine *engine) {
  if (engine == NULL)
    return;
  if (engine->ring.fd >= 0)
    uring_close(&engine->ring);
  if (has_aside(engine))
    uring_close(&engine->aside);
  for (uint32_t i = 0; i < engine->config.target_count; i++)
    nvme_device_close(&engine->devices[i]);
  free(engine->rejected);
  free(engine->tasks);
  free(engine);
}

static int open_devices(struct engine *engine) {
  int rc = 0;
  for (uint32_t i = 0; i < engine->config.target_count && rc == 0; i++) {
    const struct target *target = &engine->config.targets[i];
    rc = nvme_device_open(&engine->devices[i], target->device, target->may_write);
  }
  return rc;
}

/* Reads the first block of each target, so that a kernel or a device that takes no commands this
 * way is known before the first request. */
static int probe(struct engine *engine) {
  int rc = 0;
  for (uint32_t i = 0; i < engine->config.target_count && rc == 0; i++) {
    struct request first = {.target = (uint16_t)i, .operation = BLOCK_READ};
    struct completion done = {.error = 0};
    first.length_bytes = engine->devices[i].block_bytes;
    rc = nvme_submit(engine, &first);
    int count = 0;
    while (rc == 0 && count == 0) {
      count = nvme_reap(engine, &done, 1, clock_now_ns() + 1000000000U);
      rc = count < 0 ? count : 0;
    }
    rc = rc != 0 ? rc : done.error;
  }
  return rc;
}

/* The descriptors are -1 before anything can fail, so that closing knows what was opened. */
static int nvme_open(struct engine **out, const struct engine_config *config) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL)
    return -ENOMEM;
  engine->config = *config;
  engine->ring.fd = -1;
  engine->aside.fd = -1;
  for (uint32_t i = 0; i < config->target_count; i++)
    engine->devices[i].fd = -1;
  struct uring_modes modes = config->uring;
  modes.is_wide = true;
  uint32_t entries = config->depth < ENTRIES_MIN ? ENTRIES_MIN : config->depth;
  engine->tasks = calloc(config->depth, sizeof *engine->tasks);
  engine->rejected = calloc(config->depth, sizeof *engine->rejected);
  int rc = engine->tasks == NULL || engine->rejected == NULL ? -ENOMEM : open_devices(engine);
  if (rc == 0)
    rc = uring_open(&engine->ring, entries, &modes);
  const struct uring_modes plain = {.is_wide = true};
  if (rc == 0 && modes.is_polled)
    rc = uring_open(&engine->aside, entries, &plain);
  if (rc == 0)
    rc = probe(engine);
  if (rc != 0) {
    nvme_close(engine);
    return rc;
  }
  *out = engine;
  return 0;
}

static void nvme_describe(const struct engine *engine, struct engine_report *report) {
  uint32_t flags = engine->ring.setup_flags;
  struct engine_feature features[] = {
      {"defer_taskrun", (flags & IORING_SETUP_DEFER_TASKRUN) != 0},
      {"sqpoll", (flags & IORING_SETUP_SQPOLL) != 0},
      {"iopoll", (flags & IORING_SETUP_IOPOLL) != 0},
      {"registered_ring", engine->ring.enter_flags != 0},
  };
  report->feature_count = sizeof features / sizeof *features;
  memcpy(report->features, features, sizeof features);
  report->resubmitted = engine->pieces;
  report->unpolled = engine->unpolled;
  report->wakes = engine->ring.wakes;
}

const struct engine_ops *engine_nvme(void) {
  static const struct engine_ops ops = {
      .name = "nvme",
      .open = nvme_open,
      .submit = nvme_submit,
      .reap = nvme_reap,
      .describe = nvme_describe,
      .close = nvme_close,
  };
  return &ops;
}
