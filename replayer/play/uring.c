#include "play/uring.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "play/clock.h"
#include "play/stop.h"

#define SECOND_NS 1000000000U
#define REFUSED_END_NS SECOND_NS /* after which a kernel that refuses every call has failed */

#define SETUPS 4U

/* Set-ups from the fastest to the plainest; kernels since 6.1, 5.19, 5.18 and 5.11. */
static const uint32_t own_setups[SETUPS] = {
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
        IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_SUBMIT_ALL,
    0,
};

/* The same where a thread of the kernel submits: work is never left to this thread. */
static const uint32_t sqpoll_setups[SETUPS] = {
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER,
    IORING_SETUP_SUBMIT_ALL,
    IORING_SETUP_SUBMIT_ALL,
    0,
};

static uint32_t mode_flags(const struct uring_modes *modes) {
  uint32_t flags = modes->is_polled ? IORING_SETUP_IOPOLL : 0;
  flags |= modes->is_wide ? IORING_SETUP_SQE128 | IORING_SETUP_CQE32 : 0;
  if (modes->is_submitted_for)
    flags |= IORING_SETUP_SQPOLL | (modes->cpu != URING_ANY_CPU ? IORING_SETUP_SQ_AFF : 0);
  return flags;
}

static int setup(uint32_t entries, uint32_t flags, const struct uring_modes *modes,
                 struct io_uring_params *params) {
  memset(params, 0, sizeof *params);
  params->flags = flags | mode_flags(modes) | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
  params->cq_entries = 2 * entries;
  params->sq_thread_cpu = modes->cpu != URING_ANY_CPU ? modes->cpu : 0;
  params->sq_thread_idle = modes->idle_ms;
  long fd = syscall(SYS_io_uring_setup, entries, params);
  return fd < 0 ? -errno : (int)fd;
}

static int setup_best(uint32_t entries, const struct uring_modes *modes,
                      struct io_uring_params *params) {
  const uint32_t *setups = modes->is_submitted_for ? sqpoll_setups : own_setups;
  int fd = -EINVAL;
  for (unsigned i = 0; i < SETUPS && fd == -EINVAL; i++)
    fd = setup(entries, setups[i], modes, params);
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

static size_t sqe_bytes(const struct uring *ring) {
  return ((size_t)ring->entries << ring->shift) * sizeof(struct io_uring_sqe);
}

/* Both rings are one mapping and populated at once, so that the run meets no page fault in them. */
static int map_rings(struct uring *ring, const struct io_uring_params *params) {
  size_t sq_bytes = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
  ring->shift = (params->flags & IORING_SETUP_SQE128) != 0 ? 1 : 0;
  size_t cq_bytes = params->cq_off.cqes +
                    ((size_t)params->cq_entries << ring->shift) * sizeof(struct io_uring_cqe);
  ring->ring_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
  ring->entries = params->sq_entries;
  void *rings = mmap(NULL, ring->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                     ring->fd, (off_t)IORING_OFF_SQ_RING);
  if (rings == MAP_FAILED)
    return -errno;
  ring->rings = rings;
  void *sqes = mmap(NULL, sqe_bytes(ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                    ring->fd, (off_t)IORING_OFF_SQES);
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

/* Spares each call the counting of references to the descriptor; Linux 5.18. */
static void register_ring(struct uring *ring) {
  struct io_uring_rsrc_update update = {.offset = UINT32_MAX, .data = (uint32_t)ring->fd};
  ring->enter_fd = ring->fd;
  ring->enter_flags = 0;
  if (uring_register(ring, IORING_REGISTER_RING_FDS, &update, 1) != 1)
    return;
  ring->enter_fd = (int)update.offset;
  ring->enter_flags = IORING_ENTER_REGISTERED_RING;
}

int uring_open(struct uring *ring, uint32_t entries, const struct uring_modes *modes) {
  const uint32_t needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
  struct io_uring_params params;
  memset(ring, 0, sizeof *ring);
  ring->fd = setup_best(entries, modes, &params);
  if (ring->fd < 0)
    return ring->fd;
  ring->setup_flags = params.flags;
  ring->features = params.features;
  int rc = (params.features & needed) == needed ? map_rings(ring, &params) : -ENOSYS;
  if (rc != 0)
    uring_close(ring);
  else
    register_ring(ring);
  return rc;
}

uint32_t uring_waiting(const struct uring *ring) {
  /* Acquire: the kernel has read the entries before it moved its head. */
  return ring->tail - atomic_load_explicit(ring->sq_head, memory_order_acquire);
}

uint32_t uring_room(const struct uring *ring) { return ring->entries - uring_waiting(ring); }

struct io_uring_sqe *uring_next_sqe(struct uring *ring) {
  struct io_uring_sqe *sqe = &ring->sqes[(ring->tail++ & (ring->entries - 1)) << ring->shift];
  memset(sqe, 0, sizeof *sqe << ring->shift);
  ring->in_flight++;
  return sqe;
}

/* Whether an enter that left everything as it was can be tried again: it was interrupted, or the
 * kernel had too little of something, for no longer than a second. */
static bool is_harmless(struct uring *ring, int error) {
  bool is_refused = error == EAGAIN || error == EBUSY;
  uint64_t now_ns = is_refused ? clock_now_ns() : 0;
  ring->refused += is_refused;
  if (!is_refused || ring->refused_since_ns == 0)
    ring->refused_since_ns = now_ns;
  if (is_refused)
    return now_ns - ring->refused_since_ns <= REFUSED_END_NS;
  return error == 0 || error == EINTR || error == ETIME;
}

static bool is_submitted_for(const struct uring *ring) {
  return (ring->setup_flags & IORING_SETUP_SQPOLL) != 0;
}

bool uring_can_sleep(const struct uring *ring) {
  return (ring->setup_flags & IORING_SETUP_IOPOLL) == 0 || is_submitted_for(ring);
}

static uint32_t flags_of(const struct uring *ring) {
  return atomic_load_explicit(ring->sq_flags, memory_order_relaxed);
}

/* Shows the kernel what was filled. Returns whether its thread sleeps and must be woken for it. */
static bool publish(struct uring *ring) {
  /* Release: the entries are complete before the kernel can see the tail. */
  atomic_store_explicit(ring->sq_tail, ring->tail, memory_order_release);
  if (!is_submitted_for(ring))
    return false;
  /* The thread says that it sleeps, then looks at the tail: one of both sees the other. */
  atomic_thread_fence(memory_order_seq_cst);
  return uring_waiting(ring) > 0 && (flags_of(ring) & IORING_SQ_NEED_WAKEUP) != 0;
}

/* One call: submits, wakes, polls, and waits for `wanted` completions until the end of `argument`.
 */
static int enter(struct uring *ring, bool wakes, uint32_t wanted,
                 struct io_uring_getevents_arg *argument) {
  unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | ring->enter_flags;
  flags |= wakes ? IORING_ENTER_SQ_WAKEUP : 0;
  ring->wakes += wakes;
  uint32_t count = is_submitted_for(ring) ? 0 : uring_waiting(ring);
  stop_go_inside(); /* some file systems wait for their own queues, though they were asked not to */
  long rc =
      syscall(SYS_io_uring_enter, ring->enter_fd, count, wanted, flags, argument, sizeof *argument);
  int error = rc < 0 ? errno : 0;
  stop_come_out();
  return is_harmless(ring, error) ? 0 : -error;
}

/* Whether the kernel waits for a call although nothing has to be woken. */
static bool needs_call(const struct uring *ring) {
  bool is_owed = (flags_of(ring) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
  if (is_submitted_for(ring))
    return is_owed;
  bool must_poll = !uring_can_sleep(ring) && ring->in_flight > 0;
  return is_owed || must_poll || uring_waiting(ring) > 0;
}

int uring_go(struct uring *ring) {
  struct io_uring_getevents_arg argument = {.sigmask_sz = _NSIG / 8};
  bool wakes = publish(ring);
  return wakes || needs_call(ring) ? enter(ring, wakes, 0, &argument) : 0;
}

int uring_wait(struct uring *ring, uint64_t until_ns, uint32_t wanted) {
  uint64_t now = clock_now_ns();
  uint64_t left = until_ns > now ? until_ns - now : 0;
  struct __kernel_timespec timeout = {.tv_sec = (int64_t)(left / SECOND_NS),
                                      .tv_nsec = (int64_t)(left % SECOND_NS)};
  struct io_uring_getevents_arg argument = {.sigmask_sz = _NSIG / 8,
                                            .ts = (uint64_t)(uintptr_t)&timeout};
  bool wakes = publish(ring);
  return enter(ring, wakes, left > 0 ? wanted : 0U, &argument);
}

const struct io_uring_cqe *uring_peek(const struct uring *ring) {
  uint32_t head = atomic_load_explicit(ring->cq_head, memory_order_relaxed);
  /* Acquire: pairs with the kernel's release of the tail after it wrote the entry. */
  if (atomic_load_explicit(ring->cq_tail, memory_order_acquire) == head)
    return NULL;
  return &ring->cqes[(head & ring->cq_mask) << ring->shift];
}

void uring_seen(struct uring *ring) {
  uint32_t head = atomic_load_explicit(ring->cq_head, memory_order_relaxed);
  atomic_store_explicit(ring->cq_head, head + 1, memory_order_release);
  ring->in_flight--;
}

int uring_register(const struct uring *ring, unsigned operation, void *argument, unsigned count) {
  long rc = syscall(SYS_io_uring_register, ring->fd, operation, argument, count);
  return rc < 0 ? -errno : (int)rc;
}

void uring_close(struct uring *ring) {
  if (ring->enter_flags != 0) {
    struct io_uring_rsrc_update update = {.offset = (uint32_t)ring->enter_fd};
    (void)uring_register(ring, IORING_UNREGISTER_RING_FDS, &update, 1);
  }
  if (ring->sqes != NULL)
    (void)munmap(ring->sqes, sqe_bytes(ring));
  if (ring->rings != NULL)
    (void)munmap(ring->rings, ring->ring_bytes);
  if (ring->fd >= 0)
    (void)close(ring->fd); /* the kernel finishes or cancels what is in flight */
  memset(ring, 0, sizeof *ring);
  ring->fd = -1;
}
