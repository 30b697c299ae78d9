/* The BPF programs of files.bpf.c: loaded, attached, their records written to a file that
 * file_record.h describes. */
#ifndef TRACEKIT_CAPTURE_FILE_RECORDER_H
#define TRACEKIT_CAPTURE_FILE_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct file_recorder;

/* Loads the programs, with a ring of `ring_bytes`, a power of two. Returns 0 or -errno, after the
 * kernel's or the library's reason on stderr; the caller frees. */
int file_recorder_open(struct file_recorder **out, size_t ring_bytes);

/* Makes the file, which must not exist, with its header. Returns 0 or -errno. */
int file_recorder_write_to(struct file_recorder *recorder, const char *path);

/* Begins to record: the next child of the process, from its exec on, and all that come from it.
 * Returns 0 or -errno. */
int file_recorder_attach(struct file_recorder *recorder, pid_t parent);

/* Waits up to `wait_ms` for many records, then writes those that are there. 0 or -errno. */
int file_recorder_take(struct file_recorder *recorder, int wait_ms);

/* Returns whether all threads that were recorded have ended; false before the first one. */
bool file_recorder_is_over(const struct file_recorder *recorder);

/* Ends recording; writes what is left, and what was lost, as the last of it if the recording is
 * whole, that is, to the end of all threads. Returns 0 or -errno. */
int file_recorder_end(struct file_recorder *recorder, bool is_whole);

/* NULL is fine. */
void file_recorder_free(struct file_recorder *recorder);

#endif
