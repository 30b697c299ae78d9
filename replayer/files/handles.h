/* The open files and mappings of a plan, by the plan's numbers. Any thread may use any of them. */
#ifndef TRACEKIT_FILES_HANDLES_H
#define TRACEKIT_FILES_HANDLES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A range of a file in memory. */
struct handles_mapping {
  void *memory;
  size_t bytes;
};

struct handles_entry {
  _Atomic int fd;                          /* -1: not open */
  struct handles_mapping *_Atomic mapping; /* NULL: none */
};

struct handles {
  uint32_t count;
  struct handles_entry *entries;
};

/* Makes `count` handles, none open. Returns 0 or -ENOMEM; end it with handles_close. */
int handles_open(struct handles *handles, uint32_t count);

/* Returns the descriptor of a handle, -1 when it is not open. */
int handles_fd(const struct handles *handles, uint32_t number);

/* Puts a descriptor, or -1, in the place of the one before and returns that: the caller's to close.
 */
int handles_exchange(struct handles *handles, uint32_t number, int fd);

/* The same for its mapping; the caller unmaps and frees. */
struct handles_mapping *handles_exchange_mapping(struct handles *handles, uint32_t number,
                                                 struct handles_mapping *mapping);

/* Returns the mapping of a handle, NULL without one. It is valid until another thread unmaps it. */
struct handles_mapping *handles_mapping(const struct handles *handles, uint32_t number);

/* Unmaps, and frees; NULL is fine. Returns 0 or -errno. */
int handles_unmap(struct handles_mapping *mapping);

/* Closes and unmaps all. */
void handles_close(struct handles *handles);

#endif
