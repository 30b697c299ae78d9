#include "capture/file_recorder.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/file_calls.h"
#include "capture/file_record.h"
#include "capture/file_rule.h"
#include "capture/kernel_programs.h"

#define BUFFER_BYTES ((size_t)1 << 20)
#define NS 1000000000LL

/* The programs as clang made them, held in this one. */
extern const unsigned char tracekit_files_bpf[], tracekit_files_bpf_end[];
__asm__(".pushsection .rodata\n"
        ".balign 8\n"
        ".global tracekit_files_bpf, tracekit_files_bpf_end\n"
        "tracekit_files_bpf:\n"
        ".incbin \"" TRACEKIT_FILES_OBJECT "\"\n"
        "tracekit_files_bpf_end:\n"
        ".popsection\n");

/* Numbers that are newer than the headers of some systems; the same on all machines. */
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_getxattrat 464
#define __NR_listxattrat 465
#define __NR_removexattrat 466
#endif
#ifndef __NR_file_setattr
#define __NR_file_setattr 469
#endif

#define NUMBER_AND_ARGUMENTS(name, arguments) {__NR_##name, arguments},

static const struct {
  uint32_t number;
  const char *arguments;
} calls[] = {FILE_CALLS(NUMBER_AND_ARGUMENTS)};

struct file_recorder {
  struct kernel_programs programs;
  char *buffer; /* of BUFFER_BYTES */
  size_t buffered;
  int file;    /* -1: none */
  int failure; /* -errno of the write that failed: nothing comes behind what it cut */
  uint64_t told[FILE_LOSSES]; /* as last written */
};

static int flush_buffer(struct file_recorder *recorder) {
  size_t size = recorder->buffered;
  recorder->buffered = 0;
  if (recorder->failure == 0)
    recorder->failure = write_whole(recorder->file, recorder->buffer, size);
  return recorder->failure;
}

static int add_from_ring(void *context, void *data, size_t size) {
  struct file_recorder *recorder = context;
  const struct file_record *record = data;
  if (size < sizeof(*record) || record->size > size || size > BUFFER_BYTES)
    return -EBADMSG;
  int status = 0;
  if (recorder->buffered + record->size > BUFFER_BYTES)
    status = flush_buffer(recorder);
  memcpy(recorder->buffer + recorder->buffered, record, record->size);
  recorder->buffered += record->size;
  return status;
}

static void set_place(uint8_t places[2], size_t place) {
  places[places[0] == FILE_NO_ARGUMENT ? 0 : 1] = (uint8_t)place;
}

/* Makes the rule of a call from its letters. */
static struct file_rule rule_of(uint16_t call, const char *arguments) {
  struct file_rule rule;
  memset(&rule, FILE_NO_ARGUMENT, sizeof(rule));
  rule.call = call;
  rule.flags = FILE_IS_RECORDED;
  rule.is_folder[0] = rule.is_folder[1] = 0;
  for (size_t place = 0; arguments[place]; place++) {
    char letter = arguments[place];
    if (letter == 'f' || letter == 'd') {
      rule.is_folder[rule.fd[0] == FILE_NO_ARGUMENT ? 0 : 1] = letter == 'd';
      set_place(rule.fd, place);
    }
    if (letter == 'p')
      set_place(rule.path, place);
    if (letter == 'o')
      set_place(rule.offset, place);
    uint8_t *single = letter == 's' ? &rule.stat : letter == 'x' ? &rule.statx : &rule.how;
    if (strchr("sxh", letter))
      *single = (uint8_t)place;
    rule.flags |= letter == '!' ? FILE_ONLY_PATHS : 0;
    rule.flags |= letter == '=' ? FILE_MAKES_FD : 0;
    rule.flags |= letter == '@' ? FILE_WORKING_FOLDER : 0;
    rule.flags |= letter == '?' ? FILE_SOME : 0;
  }
  bool is_close = call == FILE_CALL_close || call == FILE_CALL_close_range;
  bool is_copy = call == FILE_CALL_dup || call == FILE_CALL_dup2 || call == FILE_CALL_dup3;
  bool is_other = call == FILE_CALL_fcntl || call == FILE_CALL_ioctl || call == FILE_CALL_unshare;
  if (is_close || is_copy || is_other || (rule.flags & FILE_MAKES_FD))
    rule.flags |= FILE_CHANGES_FDS;
  return rule;
}

static int set_rules(const struct file_recorder *recorder) {
  int map = programs_map(&recorder->programs, "rules");
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    struct file_rule rule = rule_of((uint16_t)i, calls[i].arguments);
    if (bpf_map_update_elem(map, &calls[i].number, &rule, BPF_ANY))
      return -errno;
  }
  return 0;
}

int file_recorder_open(struct file_recorder **out, size_t ring_bytes) {
  struct file_recorder *recorder = calloc(1, sizeof(*recorder));
  if (!recorder)
    return -ENOMEM;
  recorder->file = -1;
  int status = -ENOMEM;
  recorder->buffer = malloc(BUFFER_BYTES);
  struct object_text text = {tracekit_files_bpf, tracekit_files_bpf_end};
  if (recorder->buffer)
    status = programs_open(&recorder->programs, text, ring_bytes, add_from_ring, recorder);
  status = status ? status : set_rules(recorder);
  if (status) {
    file_recorder_free(recorder);
    return status;
  }
  *out = recorder;
  return 0;
}

static int64_t now_ns(clockid_t clock) {
  struct timespec now = {0};
  (void)clock_gettime(clock, &now); /* Both clocks are there. */
  return now.tv_sec * NS + now.tv_nsec;
}

int file_recorder_write_to(struct file_recorder *recorder, const char *path) {
  struct file_header header = {.sign = FILE_SIGN};
  header.clock_to_wall_ns = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC);
  recorder->file = create_file(path);
  return recorder->file < 0 ? recorder->file : write_whole(recorder->file, &header, sizeof(header));
}

int file_recorder_attach(struct file_recorder *recorder, pid_t parent) {
  struct file_thread spawner = {.state = FILE_SPAWNS};
  int process = (int)syscall(SYS_pidfd_open, parent, 0);
  if (process < 0)
    return -errno;
  int map = programs_map(&recorder->programs, "threads");
  int status = bpf_map_update_elem(map, &process, &spawner, BPF_ANY) ? -errno : 0;
  (void)close(process); /* What is kept of the process lies in it. */
  return status ? status : programs_attach(&recorder->programs);
}

static uint64_t count_of(const struct file_recorder *recorder, uint32_t what) {
  uint64_t count = 0;
  int map = programs_map(&recorder->programs, "counts");
  return bpf_map_lookup_elem(map, &what, &count) ? 0 : count;
}

bool file_recorder_is_over(const struct file_recorder *recorder) {
  return count_of(recorder, FILE_COUNT_STARTED) > 0 && count_of(recorder, FILE_COUNT_LIVE) == 0;
}

/* Adds what was lost so far, where that is more than it was; at the end also where nothing was. */
static int add_losses(struct file_recorder *recorder, enum file_phase phase) {
  struct file_record record = {.call = FILE_LOST, .size = sizeof(record), .phase = (__u8)phase};
  uint64_t lost[FILE_LOSSES] = {0};
  int status = programs_lost(&recorder->programs, &lost[FILE_LOST_RECORDS]);
  if (status)
    return status;
  lost[FILE_UNSEEN] = programs_unseen(&recorder->programs);
  lost[FILE_FOREIGN] = count_of(recorder, FILE_COUNT_FOREIGN);
  if (phase == FILE_BEGUN && memcmp(lost, recorder->told, sizeof(lost)) == 0)
    return 0;
  memcpy(recorder->told, lost, sizeof(lost));
  memcpy(record.arguments, lost, sizeof(lost));
  return add_from_ring(recorder, &record, sizeof(record));
}

static int take(struct file_recorder *recorder, int wait_ms, enum file_phase phase) {
  int status = programs_take(&recorder->programs, wait_ms);
  status = status ? status : add_losses(recorder, phase);
  return status ? status : flush_buffer(recorder);
}

int file_recorder_take(struct file_recorder *recorder, int wait_ms) {
  return take(recorder, wait_ms, FILE_BEGUN);
}

int file_recorder_end(struct file_recorder *recorder, bool is_whole) {
  programs_detach(&recorder->programs);
  return take(recorder, 0, is_whole ? FILE_WHOLE : FILE_BEGUN);
}

void file_recorder_free(struct file_recorder *recorder) {
  if (!recorder)
    return;
  programs_close(&recorder->programs);
  if (recorder->file >= 0)
    (void)close(recorder->file); /* Each write was looked at. */
  free(recorder->buffer);
  free(recorder);
}
