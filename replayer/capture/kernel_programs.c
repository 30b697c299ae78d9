#include "capture/kernel_programs.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int programs_open(struct kernel_programs *programs, struct object_text text, size_t ring_bytes,
                  ring_buffer_sample_fn take, void *context) {
  programs->cpus = libbpf_num_possible_cpus();
  if (programs->cpus < 1)
    return programs->cpus;
  size_t size = (size_t)(text.end - text.begin);
  programs->object = bpf_object__open_mem(text.begin, size, NULL);
  if (!programs->object)
    return -errno;
  struct bpf_map *records = bpf_object__find_map_by_name(programs->object, "records");
  int status = bpf_map__set_max_entries(records, (uint32_t)ring_bytes);
  status = status ? status : bpf_object__load(programs->object);
  if (status)
    return status;
  programs->lost = programs_map(programs, "lost");
  programs->ring = ring_buffer__new(bpf_map__fd(records), take, context, NULL);
  return programs->ring ? 0 : -errno;
}

int programs_map(const struct kernel_programs *programs, const char *name) {
  return bpf_object__find_map_fd_by_name(programs->object, name);
}

int programs_attach(struct kernel_programs *programs) {
  struct bpf_program *program;
  bpf_object__for_each_program(program, programs->object) {
    if (programs->link_count == MOST_PROGRAMS)
      return -E2BIG;
    struct bpf_link *link = bpf_program__attach(program);
    if (!link)
      return -errno;
    programs->links[programs->link_count++] = link;
  }
  return 0;
}

void programs_detach(struct kernel_programs *programs) {
  while (programs->link_count)
    bpf_link__destroy(programs->links[--programs->link_count]);
}

int programs_take(struct kernel_programs *programs, int wait_ms) {
  int count = ring_buffer__poll(programs->ring, wait_ms);
  if (count >= 0 || count == -EINTR) /* not woken: what is there is taken all the same */
    count = ring_buffer__consume(programs->ring);
  return count < 0 ? count : 0;
}

int programs_lost(struct kernel_programs *programs, uint64_t *sum) {
  uint32_t zero = 0;
  uint64_t *counts = calloc((size_t)programs->cpus, sizeof(*counts));
  if (!counts)
    return -ENOMEM;
  int status = bpf_map_lookup_elem(programs->lost, &zero, counts) ? -errno : 0;
  *sum = 0;
  for (int cpu = 0; cpu < programs->cpus && status == 0; cpu++)
    *sum += counts[cpu];
  free(counts);
  return status;
}

static uint64_t left_out(const struct bpf_program *program) {
  struct bpf_prog_info info = {0};
  uint32_t size = sizeof(info);
  int status = bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size);
  return status ? 0 : info.recursion_misses;
}

uint64_t programs_unseen(const struct kernel_programs *programs) {
  static const char second[] = "_again";
  uint64_t sum = 0, before = 0;
  struct bpf_program *program;
  bpf_object__for_each_program(program, programs->object) {
    uint64_t count = left_out(program);
    sum += count;
    if (strstr(bpf_program__name(program), second)) /* The two together count the fewer. */
      sum -= count > before ? count : before;
    before = count;
  }
  return sum;
}

void programs_close(struct kernel_programs *programs) {
  programs_detach(programs);
  ring_buffer__free(programs->ring);
  bpf_object__close(programs->object);
  *programs = (struct kernel_programs){0};
}

int create_file(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  return file < 0 ? -errno : file;
}

int write_whole(int file, const void *data, size_t size) {
  const char *at = data;
  while (size) {
    ssize_t count = write(file, at, size);
    if (count < 0 && errno != EINTR)
      return -errno;
    if (count > 0) {
      at += count;
      size -= (size_t)count;
    }
  }
  return 0;
}
