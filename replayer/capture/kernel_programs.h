/* BPF programs with a ring of records: loaded, attached, and what they lost. */
#ifndef TRACEKIT_CAPTURE_KERNEL_PROGRAMS_H
#define TRACEKIT_CAPTURE_KERNEL_PROGRAMS_H

#include <bpf/libbpf.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_PROGRAMS 32

/* Embedded by its owner; all zero is valid and closed. */
struct kernel_programs {
  struct bpf_object *object;
  struct ring_buffer *ring;
  struct bpf_link *links[MOST_PROGRAMS];
  size_t link_count;
  int lost; /* map */
  int cpus;
};

/* What clang made, held in this program. */
struct object_text {
  const unsigned char *begin, *end;
};

/* Loads the programs, with a ring of `ring_bytes`, a power of two, whose records `take` gets.
 * Returns 0 or -errno, after the kernel's or the library's reason on stderr; the caller closes. */
int programs_open(struct kernel_programs *programs, struct object_text text, size_t ring_bytes,
                  ring_buffer_sample_fn take, void *context);

/* Returns the descriptor of a map, or -errno. */
int programs_map(const struct kernel_programs *programs, const char *name);

/* Begins, and ends, to run the programs. programs_attach returns 0 or -errno. */
int programs_attach(struct kernel_programs *programs);
void programs_detach(struct kernel_programs *programs);

/* Waits up to `wait_ms` for many records, then takes those that are there. 0 or -errno. */
int programs_take(struct kernel_programs *programs, int wait_ms);

/* Gives the records for which the ring had no space. Returns 0 or -errno. */
int programs_lost(struct kernel_programs *programs, uint64_t *sum);

/* Returns how many events no program was run for at most: the kernel runs no program inside of
 * itself on a CPU. A program whose name ends with `_again` stands behind another, for what that was
 * not run for. */
uint64_t programs_unseen(const struct kernel_programs *programs);

void programs_close(struct kernel_programs *programs);

/* Makes a file, which must not exist. Returns its descriptor or -errno. */
int create_file(const char *path);

/* Writes all of it. Returns 0 or -errno. */
int write_whole(int file, const void *data, size_t size);

#endif
