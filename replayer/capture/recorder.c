#include "capture/recorder.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/block_record.h"
#include "capture/kernel_programs.h"

#define BUFFER_RECORDS 4096

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
  struct kernel_programs programs;
  struct block_record *buffer;         /* of BUFFER_RECORDS */
  size_t buffered;                     /* records */
  int file;                            /* -1: none */
  int failure;                         /* -errno of the write that failed */
  int disks, open_bios;                /* maps */
  uint64_t lost_before, unseen_before; /* as last written */
};

/* A record that a full disk cut in two ends the file: whole records come before it, and nothing
 * behind it where there is space again. */
static int flush_buffer(struct recorder *recorder) {
  size_t size = recorder->buffered * sizeof(*recorder->buffer);
  recorder->buffered = 0;
  if (recorder->failure == 0)
    recorder->failure = write_whole(recorder->file, recorder->buffer, size);
  return recorder->failure;
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
  struct object_text text = {tracekit_block_bpf, tracekit_block_bpf_end};
  if (recorder->buffer)
    status = programs_open(&recorder->programs, text, ring_bytes, add_from_ring, recorder);
  if (status)
    goto free_recorder;
  recorder->disks = programs_map(&recorder->programs, "disks");
  recorder->open_bios = programs_map(&recorder->programs, "open_bios");
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
  recorder->file = create_file(path);
  return recorder->file < 0 ? recorder->file : write_whole(recorder->file, header, sizeof(header));
}

int recorder_attach(struct recorder *recorder) { return programs_attach(&recorder->programs); }

static int add_losses(struct recorder *recorder) {
  uint64_t lost = 0, unseen = programs_unseen(&recorder->programs);
  int status = programs_lost(&recorder->programs, &lost);
  if (status || (lost == recorder->lost_before && unseen == recorder->unseen_before))
    return status;
  recorder->lost_before = lost;
  recorder->unseen_before = unseen;
  struct block_record record = {.kind = BLOCK_LOST, .sector = lost, .from_sector = unseen};
  return add(recorder, &record);
}

int recorder_take(struct recorder *recorder, int wait_ms) {
  int status = programs_take(&recorder->programs, wait_ms);
  status = status ? status : add_losses(recorder);
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
  programs_detach(&recorder->programs);
  int status = recorder_take(recorder, 0);
  status = status ? status : add_open(recorder);
  status = status ? status : flush_buffer(recorder);
  return status == 0 && fdatasync(recorder->file) ? -errno : status;
}

void recorder_free(struct recorder *recorder) {
  if (!recorder)
    return;
  programs_close(&recorder->programs);
  if (recorder->file >= 0)
    (void)close(recorder->file); /* What matters is synced. */
  free(recorder->buffer);
  free(recorder);
}
