#include "play/handle_table.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int handle_table_open(struct handle_table *handles, uint32_t count) {
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
int handle_table_fd(const struct handle_table *handles, uint32_t number) {
  return atomic_load_explicit(&handles->entries[number].fd, memory_order_relaxed);
}

int handle_table_exchange(struct handle_table *handles, uint32_t number, int fd) {
  return atomic_exchange_explicit(&handles->entries[number].fd, fd, memory_order_relaxed);
}

struct handle_mapping *handle_table_exchange_mapping(struct handle_table *handles, uint32_t number,
                                                     struct handle_mapping *mapping) {
  return atomic_exchange_explicit(&handles->entries[number].mapping, mapping, memory_order_acq_rel);
}

struct handle_mapping *handle_table_mapping(const struct handle_table *handles, uint32_t number) {
  return atomic_load_explicit(&handles->entries[number].mapping, memory_order_acquire);
}

int handle_table_unmap(struct handle_mapping *mapping) {
  if (mapping == NULL)
    return 0;
  int rc = munmap(mapping->memory, mapping->bytes) != 0 ? -errno : 0;
  free(mapping);
  return rc;
}

void handle_table_close(struct handle_table *handles) {
  for (uint32_t i = 0; i < handles->count; i++) {
    (void)handle_table_unmap(
        handle_table_exchange_mapping(handles, i, NULL)); /* a mapping of ours */
    int fd = handle_table_exchange(handles, i, -1);
    if (fd >= 0)
      (void)close(fd); /* the run is over: what it measured is known */
  }
  free(handles->entries);
  handles->entries = NULL;
  handles->count = 0;
}
