/* What this process may do: its resource limits and privileges. */
#ifndef TRACEKIT_PLAY_PROCESS_LIMITS_H
#define TRACEKIT_PLAY_PROCESS_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the soft limit of a resource of getrlimit(2), UINT64_MAX when there is none. */
uint64_t process_limits_get(int resource);

/* Raises the limit of open files to `needed` as far as is allowed. Returns what it is then. */
uint64_t process_limits_raise_files(uint64_t needed);

/* Raises the limit of the first thread's stack to `needed` bytes as far as is allowed. Returns what
 * it is then; UINT64_MAX when there is none. */
uint64_t process_limits_raise_stack(uint64_t needed);

/* Returns whether the process has a privilege, CAP_* of linux/capability.h, of the first 32. */
bool process_limits_may(unsigned capability);

/* Returns the address space that is mapped, in bytes; 0 when the kernel does not report it. */
uint64_t process_limits_mapped_bytes(void);

/* Returns what of it RLIMIT_DATA counts, in bytes, about; 0 as above. */
uint64_t process_limits_data_bytes(void);

/* Returns how many more threads RLIMIT_NPROC lets the user have, by those that /proc shows;
 * UINT64_MAX where that is no limit, as for root. */
uint64_t process_limits_threads_left(void);

#endif
