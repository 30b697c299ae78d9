#include "replay/uring.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "replay/clock.h"

#define SECOND_NS 1000000000U

/* Set-ups from the fastest to the plainest; kernels since 6.1, 5.19, 5.18 and 5.11. */
static const uint32_t setups[] = {
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
        IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_SUBMIT_ALL,
    0,
};

static int setup(uint32_t entries, uint32_t flags, struct io_uring_params *params) {
  memset(params, 0, sizeof *params);
  params->flags = flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
  params->cq_entries = 2 * entries;
  long fd = syscall(SYS_io_uring_setup, entries, params);
  return fd < 0 ? -errno : (int)fd;
}

static int setup_best(uint32_t entries, struct io_uring_params *params) {
  int fd = -EINVAL;
  for (size_t i = 0; i < sizeof setups / sizeof *setups && fd == -EINVAL; i++)
    fd = setup(entries, setups[i], params);
  return fd;
}

static _Atomic uint32_t *number_at(const struct uring *ring, uint32_t offset) {
  return (_Atomic uint32_t *)(void *)((char *)ring->rings + offset);
}

/* Entries are used in order, so the indirection array is filled once and never touched again. */
static void fill_array(const struct uring *ring, const struct io_uring_params *params) {
  uint32_t *array = (uint32_t *)(void *)((char *)ring->rings + params->sq_off.array);
  for (uint32_t i = 0; i < params->sq_entries; i++)
    array[i] = i;
}

static int map_rings(struct uring *ring, const struct io_uring_params *params) {
  size_t sq_bytes = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
  size_t cq_bytes = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
  ring->ring_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
  ring->entries = params->sq_entries;
  void *rings = mmap(NULL, ring->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                     ring->fd, (off_t)IORING_OFF_SQ_RING);
  if (rings == MAP_FAILED)
    return -errno;
  ring->rings = rings;
  void *sqes = mmap(NULL, params->sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, ring->fd, (off_t)IORING_OFF_SQES);
  if (sqes == MAP_FAILED)
    return -errno;
  ring->sqes = sqes;
  ring->sq_head = number_at(ring, params->sq_off.head);
  ring->sq_tail = number_at(ring, params->sq_off.tail);
  ring->sq_flags = number_at(ring, params->sq_off.flags);
  ring->cq_head = number_at(ring, params->cq_off.head);
  ring->cq_tail = number_at(ring, params->cq_off.tail);
  ring->cq_mask = params->cq_entries - 1;
  ring->cqes = (struct io_uring_cqe *)(void *)((char *)ring->rings + params->cq_off.cqes);
  fill_array(ring, params);
  return 0;
}

int uring_open(struct uring *ring, uint32_t entries) {
  const uint32_t needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
  struct io_uring_params params;
  memset(ring, 0, sizeof *ring);
  ring->fd = setup_best(entries, &params);
  if (ring->fd < 0)
    return ring->fd;
  ring->setup_flags = params.flags;
  ring->features = params.features;
  int rc = (params.features & needed) == needed ? map_rings(ring, &params) : -ENOSYS;
  if (rc != 0)
    uring_close(ring);
  return rc;
}

static uint32_t waiting(const struct uring *ring) {
  /* Acquire: the kernel has read the entries before it moved its head. */
  return ring->tail - atomic_load_explicit(ring->sq_head, memory_order_acquire);
}

uint32_t uring_room(const struct uring *ring) { return ring->entries - waiting(ring); }

struct io_uring_sqe *uring_next_sqe(struct uring *ring) {
  struct io_uring_sqe *sqe = &ring->sqes[ring->tail++ & (ring->entries - 1)];
  memset(sqe, 0, sizeof *sqe);
  return sqe;
}

/* A failed enter that leaves everything as it was and can be tried again. */
static bool is_harmless(int error) {
  return error == EINTR || error == ETIME || error == EAGAIN || error == EBUSY;
}

int uring_enter(struct uring *ring, uint64_t until_ns, uint32_t wanted) {
  uint64_t now = until_ns == 0 ? 0 : clock_now_ns();
  uint64_t left = until_ns > now ? until_ns - now : 0;
  struct __kernel_timespec timeout = {.tv_sec = (int64_t)(left / SECOND_NS),
                                      .tv_nsec = (int64_t)(left % SECOND_NS)};
  struct io_uring_getevents_arg argument = {.sigmask_sz = _NSIG / 8,
                                            .ts = (uint64_t)(uintptr_t)&timeout};
  /* Release: the entries are complete before the kernel can see the tail. */
  atomic_store_explicit(ring->sq_tail, ring->tail, memory_order_release);
  unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
  long rc = syscall(SYS_io_uring_enter, ring->fd, waiting(ring), left > 0 ? wanted : 0U, flags,
                    &argument, sizeof argument);
  return rc < 0 && !is_harmless(errno) ? -errno : 0;
}

bool uring_needs_enter(const struct uring *ring) {
  uint32_t flags = atomic_load_explicit(ring->sq_flags, memory_order_relaxed);
  return waiting(ring) > 0 || (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

const struct io_uring_cqe *uring_peek(const struct uring *ring) {
  uint32_t head = atomic_load_explicit(ring->cq_head, memory_order_relaxed);
  /* Acquire: pairs with the kernel's release of the tail after it wrote the entry. */
  if (atomic_load_explicit(ring->cq_tail, memory_order_acquire) == head)
    return NULL;
  return &ring->cqes[head & ring->cq_mask];
}

void uring_seen(struct uring *ring) {
  uint32_t head = atomic_load_explicit(ring->cq_head, memory_order_relaxed);
  atomic_store_explicit(ring->cq_head, head + 1, memory_order_release);
}

int uring_register(const struct uring *ring, unsigned operation, void *argument, unsigned count) {
  long rc = syscall(SYS_io_uring_register, ring->fd, operation, argument, count);
  return rc < 0 ? -errno : (int)rc;
}

void uring_close(struct uring *ring) {
  if (ring->sqes != NULL)
    (void)munmap(ring->sqes, ring->entries * sizeof *ring->sqes);
  if (ring->rings != NULL)
    (void)munmap(ring->rings, ring->ring_bytes);
  if (ring->fd >= 0)
    (void)close(ring->fd); /* the kernel finishes or cancels what is in flight */
  memset(ring, 0, sizeof *ring);
  ring->fd = -1;
}
