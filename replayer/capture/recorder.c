#include "capture/recorder.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/block_record.h"

#define BUFFER_RECORDS 4096
#define MOST_PROGRAMS 32

/* The program as clang made it, held in this one. */
extern const unsigned char tracekit_block_bpf[], tracekit_block_bpf_end[];
__asm__(".pushsection .rodata\n"
        ".balign 8\n"
        ".global tracekit_block_bpf, tracekit_block_bpf_end\n"
        "tracekit_block_bpf:\n"
        ".incbin \"" TRACEKIT_BPF_OBJECT "\"\n"
        "tracekit_block_bpf_end:\n"
        ".popsection\n");

struct recorder {
  struct bpf_object *object;
  struct ring_buffer *ring;
  struct bpf_link *links[MOST_PROGRAMS];
  size_t link_count;
  struct block_record *buffer; /* of BUFFER_RECORDS */
  size_t buffered;             /* records */
  int file;                    /* -1: none */
  int disks, lost, open_bios;  /* maps */
  int cpus;
  uint64_t lost_before, unseen_before; /* as last written */
};

static int write_whole(int file, const void *data, size_t size) {
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

/* A record that a full disk cut in two ends the file: whole records come before it. */
static int flush_buffer(struct recorder *recorder) {
  size_t size = recorder->buffered * sizeof(*recorder->buffer);
  recorder->buffered = 0;
  return write_whole(recorder->file, recorder->buffer, size);
}

static int add(struct recorder *recorder, const struct block_record *record) {
  recorder->buffer[recorder->buffered++] = *record;
  return recorder->buffered == BUFFER_RECORDS ? flush_buffer(recorder) : 0;
}

static int add_from_ring(void *context, void *data, size_t size) {
  if (size < sizeof(struct block_record))
    return -EBADMSG;
  return add(context, data);
}

int recorder_open(struct recorder **out, size_t ring_bytes) {
  struct recorder *recorder = calloc(1, sizeof(*recorder));
  if (!recorder)
    return -ENOMEM;
  recorder->file = -1;
  int status = -ENOMEM;
  recorder->buffer = calloc(BUFFER_RECORDS, sizeof(*recorder->buffer));
  recorder->cpus = libbpf_num_possible_cpus();
  if (!recorder->buffer || recorder->cpus < 1)
    goto free_recorder;
  size_t size = (size_t)(tracekit_block_bpf_end - tracekit_block_bpf);
  recorder->object = bpf_object__open_mem(tracekit_block_bpf, size, NULL);
  status = -errno;
  if (!recorder->object)
    goto free_recorder;
  struct bpf_map *records = bpf_object__find_map_by_name(recorder->object, "records");
  status = bpf_map__set_max_entries(records, (uint32_t)ring_bytes);
  status = status ? status : bpf_object__load(recorder->object);
  if (status)
    goto free_recorder;
  recorder->disks = bpf_object__find_map_fd_by_name(recorder->object, "disks");
  recorder->lost = bpf_object__find_map_fd_by_name(recorder->object, "lost");
  recorder->open_bios = bpf_object__find_map_fd_by_name(recorder->object, "open_bios");
  recorder->ring = ring_buffer__new(bpf_map__fd(records), add_from_ring, recorder, NULL);
  status = -errno;
  if (!recorder->ring)
    goto free_recorder;
  *out = recorder;
  return 0;

free_recorder:
  recorder_free(recorder);
  return status;
}

int recorder_add_disk(struct recorder *recorder, uint32_t disk) {
  unsigned char yes = 1;
  return bpf_map_update_elem(recorder->disks, &disk, &yes, BPF_ANY) ? -errno : 0;
}

#define NAME_AND_TYPE(type, numpy, name) numpy " " #name " "

int recorder_write_to(struct recorder *recorder, const char *path) {
  static const char fields[] = "tracekit-bpf 1 " BLOCK_RECORD_FIELDS(NAME_AND_TYPE) "S16 comm\n";
  char header[BLOCK_HEADER_BYTES] = {0};
  _Static_assert(sizeof(fields) < sizeof(header), "the fields' names need more bytes");
  _Static_assert(BLOCK_COMM_BYTES == 16, "as the header has it");
  memcpy(header, fields, sizeof(fields));
  recorder->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (recorder->file < 0)
    return -errno;
  return write_whole(recorder->file, header, sizeof(header));
}

int recorder_attach(struct recorder *recorder) {
  struct bpf_program *program;
  bpf_object__for_each_program(program, recorder->object) {
    if (recorder->link_count == MOST_PROGRAMS)
      return -E2BIG;
    struct bpf_link *link = bpf_program__attach(program);
    if (!link)
      return -errno;
    recorder->links[recorder->link_count++] = link;
  }
  return 0;
}

static void detach(struct recorder *recorder) {
  while (recorder->link_count)
    bpf_link__destroy(recorder->links[--recorder->link_count]);
}

/* Gives the records for which the ring had no room. */
static int lost_records(struct recorder *recorder, uint64_t *sum) {
  uint32_t zero = 0;
  uint64_t *counts = calloc((size_t)recorder->cpus, sizeof(*counts));
  if (!counts)
    return -ENOMEM;
  int status = bpf_map_lookup_elem(recorder->lost, &zero, counts) ? -errno : 0;
  *sum = 0;
  for (int cpu = 0; cpu < recorder->cpus && status == 0; cpu++)
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

/* Gives how many events of all disks nobody was run for at most: the kernel runs no program inside
 * of itself on a CPU. A program whose name ends so stands behind another, for what that was not run
 * for. */
static uint64_t unseen_events(struct recorder *recorder) {
  static const char second[] = "_again";
  uint64_t sum = 0, before = 0;
  struct bpf_program *program;
  bpf_object__for_each_program(program, recorder->object) {
    uint64_t count = left_out(program);
    sum += count;
    if (strstr(bpf_program__name(program), second)) /* The two together count the fewer. */
      sum -= count > before ? count : before;
    before = count;
  }
  return sum;
}

static int add_losses(struct recorder *recorder) {
  uint64_t lost = 0, unseen = unseen_events(recorder);
  int status = lost_records(recorder, &lost);
  if (status || (lost == recorder->lost_before && unseen == recorder->unseen_before))
    return status;
  recorder->lost_before = lost;
  recorder->unseen_before = unseen;
  struct block_record record = {.kind = BLOCK_LOST, .sector = lost, .from_sector = unseen};
  return add(recorder, &record);
}

int recorder_take(struct recorder *recorder, int wait_ms) {
  int count = ring_buffer__poll(recorder->ring, wait_ms);
  if (count >= 0 || count == -EINTR) /* not woken: what is there is taken all the same */
    count = ring_buffer__consume(recorder->ring);
  int status = count < 0 ? count : add_losses(recorder);
  return status ? status : flush_buffer(recorder);
}

/* Writes the requests that have begun and not ended. */
static int add_open(struct recorder *recorder) {
  uint64_t key = 0, *before = NULL;
  struct block_record record;
  while (bpf_map_get_next_key(recorder->open_bios, before, &key) == 0) {
    before = &key;
    bool is_there = bpf_map_lookup_elem(recorder->open_bios, &key, &record) == 0;
    int status = is_there && (record.queue_ns || record.getrq_ns) ? add(recorder, &record) : 0;
    if (status)
      return status;
  }
  return errno == ENOENT ? 0 : -errno;
}

int recorder_end(struct recorder *recorder) {
  detach(recorder);
  int status = recorder_take(recorder, 0);
  status = status ? status : add_open(recorder);
  status = status ? status : flush_buffer(recorder);
  return status == 0 && fdatasync(recorder->file) ? -errno : status;
}

void recorder_free(struct recorder *recorder) {
  if (!recorder)
    return;
  detach(recorder);
  ring_buffer__free(recorder->ring);
  bpf_object__close(recorder->object);
  if (recorder->file >= 0)
    (void)close(recorder->file); /* What matters is synced. */
  free(recorder->buffer);
  free(recorder);
}
