/* The BPF program of block.bpf.c: loaded, attached, its records written to a file. */
#ifndef TRACEKIT_CAPTURE_RECORDER_H
#define TRACEKIT_CAPTURE_RECORDER_H

#include <stddef.h>
#include <stdint.h>

struct recorder;

/* Loads the program, with a ring of `ring_bytes`, a power of two. Returns 0 or -errno, after the
 * kernel's or the library's reason on stderr; the caller frees. */
int recorder_open(struct recorder **out, size_t ring_bytes);

/* Records also the disk of that number, major << 20 | minor. Returns 0 or -errno. */
int recorder_add_disk(struct recorder *recorder, uint32_t disk);

/* Makes the file, which must not exist, with its header. Returns 0 or -errno. */
int recorder_write_to(struct recorder *recorder, const char *path);

/* Begins to record. Returns 0 or -errno. */
int recorder_attach(struct recorder *recorder);

/* Waits up to `wait_ms` for many records, then writes those that are there, and what was lost if
 * that changed. Returns 0 or -errno. */
int recorder_take(struct recorder *recorder, int wait_ms);

/* Ends recording; writes what is left, then the requests that are not completed, and syncs the
 * file. Returns 0 or -errno. */
int recorder_end(struct recorder *recorder);

/* NULL is fine. */
void recorder_free(struct recorder *recorder);

#endif
