#include "play/mapping.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* A handler of signals is given nothing, so it must find the way back here. */
static _Thread_local sigjmp_buf way_back;
static _Thread_local volatile sig_atomic_t is_copying;

static void on_fault(int number) {
  if (is_copying)
    siglongjmp(way_back, 1);
  (void)signal(number, SIG_DFL); /* not ours: let it end the program as it would have */
  (void)raise(number);
}

int mapping_guard_faults(void) {
  struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
  (void)sigemptyset(&action.sa_mask); /* cannot fail */
  return sigaction(SIGBUS, &action, NULL) == 0 ? 0 : -errno;
}

int mapping_copy(void (*copy)(void *to, const void *from, size_t length), void *to,
                 const void *from, size_t length) {
  if (sigsetjmp(way_back, 0) != 0) {
    is_copying = 0;
    return -EIO;
  }
  is_copying = 1;
  copy(to, from, length);
  is_copying = 0;
  return 0;
}

static uint64_t free_memory_bytes(void) {
  long pages = sysconf(_SC_AVPHYS_PAGES);
  long size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static bool prefault(const struct mapping *mapping, bool may_write) {
  if (!mapping->is_synchronous && mapping->length_bytes > free_memory_bytes() / 2)
    return false;
  int advice = may_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  return madvise(mapping->bytes, (size_t)mapping->length_bytes, advice) == 0;
}

int mapping_open(struct mapping *mapping, const struct target *target, uint64_t needed_bytes) {
  /* Only MAP_SYNC promises that a flush of the caches is all that a store needs to last. */
  *mapping = (struct mapping){0};
  uint64_t length = needed_bytes < target->size_bytes ? needed_bytes : target->size_bytes;
  if (length == 0)
    return 0; /* only flushes */
  int protection = PROT_READ | (target->may_write ? PROT_WRITE : 0);
  uint64_t align = target->map_align_bytes;
  size_t size = (size_t)((length + align - 1) / align * align);
  void *bytes = mmap(NULL, size, protection, MAP_SHARED_VALIDATE | MAP_SYNC, target->fd, 0);
  mapping->is_synchronous = bytes != MAP_FAILED;
  if (bytes == MAP_FAILED)
    bytes = mmap(NULL, size, protection, MAP_SHARED, target->fd, 0);
  if (bytes == MAP_FAILED)
    return -errno;
  mapping->bytes = bytes;
  mapping->length_bytes = length;
  mapping->mapped_bytes = size;
  mapping->is_prefaulted = prefault(mapping, target->may_write);
  return 0;
}

void mapping_close(struct mapping *mapping) {
  if (mapping->bytes != NULL)
    (void)munmap(mapping->bytes, (size_t)mapping->mapped_bytes); /* ours, so it cannot fail */
  mapping->bytes = NULL;
}
