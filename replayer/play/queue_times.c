#include "play/queue_times.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGES 8U /* of the ring: about 2000 events, and it is read in each turn */
#define TEXT_BYTES 32U

struct queue_times {
  struct perf_event_mmap_page *page;
  const unsigned char *data; /* the ring behind it */
  size_t page_bytes;
  int fd;
};

/* Returns the tracepoint's number, -1 where there is none to be read. */
static int64_t read_id(const char *path) {
  char text[TEXT_BYTES] = "";
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  ssize_t bytes = read(fd, text, sizeof text - 1);
  (void)close(fd); /* only read */
  return bytes > 0 ? strtol(text, NULL, 10) : -1;
}

static int64_t find_id(void) {
  int64_t id = read_id("/sys/kernel/tracing/events/block/block_bio_queue/id");
  return id >= 0 ? id : read_id("/sys/kernel/debug/tracing/events/block/block_bio_queue/id");
}

static int open_event(uint64_t id) {
  struct perf_event_attr attributes = {.type = PERF_TYPE_TRACEPOINT,
                                       .size = sizeof attributes,
                                       .config = id,
                                       .sample_period = 1,
                                       .sample_type = PERF_SAMPLE_TIME,
                                       .use_clockid = 1,
                                       .clockid = CLOCK_MONOTONIC,
                                       .watermark = 1,
                                       .wakeup_watermark = UINT32_MAX};
  return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int queue_times_open(struct queue_times **out) {
  struct queue_times *times = calloc(1, sizeof *times);
  if (times == NULL)
    return -ENOMEM;
  int64_t id = find_id();
  times->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  times->fd = id < 0 ? -1 : open_event((uint64_t)id);
  int rc = id < 0 ? -ENOENT : times->fd < 0 ? -errno : 0;
  if (rc == 0) {
    void *made = mmap(NULL, (1 + PAGES) * times->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      times->fd, 0);
    rc = made == MAP_FAILED ? -errno : 0;
    times->page = rc == 0 ? made : NULL;
  }
  if (rc != 0) {
    queue_times_close(times);
    return rc;
  }
  times->data = (const unsigned char *)times->page + times->page_bytes;
  *out = times;
  return 0;
}

/* Returns 8 bytes of the ring, whose records begin and end at multiples of them. */
static uint64_t word_at(const struct queue_times *times, uint64_t position) {
  return *(const uint64_t *)(const void *)(times->data + position % (PAGES * times->page_bytes));
}

uint32_t queue_times_read(struct queue_times *times, uint64_t *queued_ns, uint32_t capacity) {
  /* Acquire: the kernel has written the records before it moved the head. */
  uint64_t head = __atomic_load_n(&times->page->data_head, __ATOMIC_ACQUIRE);
  uint64_t tail = times->page->data_tail;
  uint32_t count = 0;
  while (tail < head) {
    uint64_t word = word_at(times, tail);
    struct perf_event_header header;
    _Static_assert(sizeof header == sizeof word, "a record begins with one word");
    memcpy(&header, &word, sizeof header);
    if (header.type == PERF_RECORD_SAMPLE && count < capacity)
      queued_ns[count++] = word_at(times, tail + sizeof header);
    tail += header.size;
  }
  /* Release: the records were read before the kernel may write there. */
  __atomic_store_n(&times->page->data_tail, tail, __ATOMIC_RELEASE);
  return count;
}

void queue_times_close(struct queue_times *times) {
  if (times == NULL)
    return;
  if (times->page != NULL)
    (void)munmap(times->page, (1 + PAGES) * times->page_bytes);
  if (times->fd >= 0)
    (void)close(times->fd); /* only read */
  free(times);
}
