#include "files/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int handles_open(struct handles *handles, uint32_t count) {
  handles->count = 0;
  handles->entries = calloc((size_t)count + 1, sizeof *handles->entries);
  if (handles->entries == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < count; i++)
    atomic_init(&handles->entries[i].fd, -1);
  handles->count = count;
  return 0;
}

/* Relaxed is enough everywhere: a descriptor is a number, and a plan whose threads pass a handle to
 * each other orders them by `after`, which acquires. */
int handles_fd(const struct handles *handles, uint32_t number) {
  return atomic_load_explicit(&handles->entries[number].fd, memory_order_relaxed);
}

int handles_exchange(struct handles *handles, uint32_t number, int fd) {
  return atomic_exchange_explicit(&handles->entries[number].fd, fd, memory_order_relaxed);
}

struct handles_mapping *handles_exchange_mapping(struct handles *handles, uint32_t number,
                                                 struct handles_mapping *mapping) {
  return atomic_exchange_explicit(&handles->entries[number].mapping, mapping, memory_order_acq_rel);
}

struct handles_mapping *handles_mapping(const struct handles *handles, uint32_t number) {
  return atomic_load_explicit(&handles->entries[number].mapping, memory_order_acquire);
}

int handles_unmap(struct handles_mapping *mapping) {
  if (mapping == NULL)
    return 0;
  int rc = munmap(mapping->memory, mapping->bytes) != 0 ? -errno : 0;
  free(mapping);
  return rc;
}

void handles_close(struct handles *handles) {
  for (uint32_t i = 0; i < handles->count; i++) {
    (void)handles_unmap(handles_exchange_mapping(handles, i, NULL)); /* a mapping of ours */
    int fd = handles_exchange(handles, i, -1);
    if (fd >= 0)
      (void)close(fd); /* the run is over: what it measured is known */
  }
  free(handles->entries);
  handles->entries = NULL;
  handles->count = 0;
}
