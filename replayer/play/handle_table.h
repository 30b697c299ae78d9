/* The open files and mappings of a plan, by the plan's numbers. Any thread may use any of them. */
#ifndef TRACEKIT_PLAY_HANDLE_TABLE_H
#define TRACEKIT_PLAY_HANDLE_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A range of a file in memory. */
struct handle_mapping {
  void *memory;
  size_t bytes;
};

struct handle_entry {
  _Atomic int fd;                         /* -1: not open */
  struct handle_mapping *_Atomic mapping; /* NULL: none */
};

struct handle_table {
  uint32_t count;
  struct handle_entry *entries;
};

/* Makes `count` handles, none open. Returns 0 or -ENOMEM; end it with handle_table_close. */
int handle_table_open(struct handle_table *handles, uint32_t count);

/* Returns the descriptor of a handle, -1 when it is not open. */
int handle_table_fd(const struct handle_table *handles, uint32_t number);

/* Puts a descriptor, or -1, in the place of the one before and returns that: the caller's to close.
 */
int handle_table_exchange(struct handle_table *handles, uint32_t number, int fd);

/* The same for its mapping; the caller unmaps and frees. */
struct handle_mapping *handle_table_exchange_mapping(struct handle_table *handles, uint32_t number,
                                                     struct handle_mapping *mapping);

/* Returns the mapping of a handle, NULL without one. It is valid until another thread unmaps it. */
struct handle_mapping *handle_table_mapping(const struct handle_table *handles, uint32_t number);

/* Unmaps, and frees; NULL is fine. Returns 0 or -errno. */
int handle_table_unmap(struct handle_mapping *mapping);

/* Closes and unmaps all. */
void handle_table_close(struct handle_table *handles);

#endif
