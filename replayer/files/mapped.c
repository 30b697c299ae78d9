#include "files/mapped.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* The kernel touches the pages: a page that is not there is an error and no signal. */
static int touch(const struct handles_mapping *mapping, bool only_reads) {
  int advice = only_reads ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
  return madvise(mapping->memory, mapping->bytes, advice) != 0 ? -errno : 0;
}

int64_t mapped_touch(struct handles *handles, const struct plan_record *record, int fd) {
  bool only_reads = (record->flags & (PLAN_FOR_READ | PLAN_FOR_WRITE)) == PLAN_FOR_READ;
  uint64_t before = record->offset % (uint64_t)sysconf(_SC_PAGESIZE);
  struct handles_mapping *mapping = malloc(sizeof *mapping);
  if (mapping == NULL)
    return -ENOMEM;
  mapping->bytes = record->length + before;
  mapping->memory = mmap(NULL, mapping->bytes, only_reads ? PROT_READ : PROT_READ | PROT_WRITE,
                         MAP_SHARED, fd, (off_t)(record->offset - before));
  int rc = mapping->memory == MAP_FAILED ? -errno : 0;
  if (rc != 0) {
    free(mapping);
    return rc;
  }
  rc = touch(mapping, only_reads);
  (void)handles_unmap(handles_exchange_mapping(handles, record->handle, mapping)); /* of ours */
  return rc == 0 ? (int64_t)record->length : rc;
}

int64_t mapped_sync(struct handles *handles, uint32_t handle) {
  const struct handles_mapping *mapping = handles_mapping(handles, handle);
  if (mapping == NULL)
    return -EBADF;
  return msync(mapping->memory, mapping->bytes, MS_SYNC) != 0 ? -errno : 0;
}

int64_t mapped_end(struct handles *handles, uint32_t handle) {
  struct handles_mapping *mapping = handles_exchange_mapping(handles, handle, NULL);
  return mapping == NULL ? -EBADF : handles_unmap(mapping);
}
