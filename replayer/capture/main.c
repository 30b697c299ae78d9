/* tracekit-bpf: records with BPF programs, until its input ends.
 *
 *   tracekit-bpf OUTPUT RING_BYTES DISK...           the block requests of disks, each given as a
 *                                                    number, major << 20 | minor
 *   tracekit-bpf --files OUTPUT RING_BYTES PROCESS   the file system calls of the next child of a
 *                                                    process and of all that come from it; ends
 *                                                    with the last of them
 *   tracekit-bpf --probe | --probe-files             loads and attaches the programs, and ends
 *
 * Answers a line once it records. OUTPUT is described in block_record.h and file_record.h. Exit
 * status: 0, 1 after a message on stderr that says what failed; what was written until then is
 * whole records. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/file_recorder.h"
#include "capture/recorder.h"

#define POLL_MS 100
#define LEAST_RING (1UL << 16)
#define MOST_RING (1UL << 30)

static volatile sig_atomic_t is_asked_to_end;

static void ask_to_end(int number) {
  (void)number;
  is_asked_to_end = 1;
}

static int failed(const char *what, int status) {
  fprintf(stderr, "%s: %s\n", what, strerror(-status));
  return EXIT_FAILURE;
}

/* Reads a number within limits; returns 0 or -EINVAL. */
static int number_from(const char *text, unsigned long most, unsigned long *out) {
  char *end = NULL;
  errno = 0;
  *out = strtoul(text, &end, 10);
  return errno || end == text || *end || *text == '-' || *out > most ? -EINVAL : 0;
}

/* Whether the input has ended: what comes before its end is of no meaning. */
static int has_ended(int file) {
  struct pollfd input = {.fd = file, .events = POLLIN};
  char ignored[64];
  if (poll(&input, 1, 0) <= 0)
    return 0;
  ssize_t count = read(file, ignored, sizeof(ignored));
  return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
}

static int record_until_end(struct recorder *recorder) {
  int status = recorder_attach(recorder);
  if (status)
    return failed("the BPF programs cannot be attached", status);
  if (puts("recording") < 0 || fflush(stdout))
    return failed("the start cannot be answered", -errno);
  while (status == 0 && !is_asked_to_end && !has_ended(STDIN_FILENO))
    status = recorder_take(recorder, POLL_MS);
  int ended = recorder_end(recorder);
  status = status ? status : ended;
  return status ? failed("what the kernel recorded cannot be written", status) : EXIT_SUCCESS;
}

static const char bad_ring[] = "the ring's bytes are no power of two from 65536";

static int ring_from(const char *text, unsigned long *out) {
  int status = number_from(text, MOST_RING, out);
  return status || *out < LEAST_RING || (*out & (*out - 1)) ? -EINVAL : 0;
}

static int record(int count, char **words) {
  unsigned long ring = 0, disk = 0;
  if (ring_from(words[1], &ring))
    return failed(bad_ring, -EINVAL);
  struct recorder *recorder = NULL;
  int status = recorder_open(&recorder, ring);
  if (status)
    return failed("the BPF programs cannot be loaded", status);
  for (int at = 2; at < count && status == 0; at++) {
    status = number_from(words[at], UINT32_MAX, &disk);
    status = status ? status : recorder_add_disk(recorder, (uint32_t)disk);
  }
  status = status ? status : recorder_write_to(recorder, words[0]);
  int code = status ? failed(words[0], status) : record_until_end(recorder);
  recorder_free(recorder);
  return code;
}

#ifdef TRACEKIT_FILES_OBJECT
static int record_files_until_end(struct file_recorder *recorder, unsigned long process) {
  int status = file_recorder_attach(recorder, (pid_t)process);
  if (status)
    return failed("the BPF programs cannot be attached", status);
  if (puts("recording") < 0 || fflush(stdout))
    return failed("the start cannot be answered", -errno);
  bool is_over = false, is_left = false;
  while (status == 0 && !is_asked_to_end && !is_over && !is_left) {
    status = file_recorder_take(recorder, POLL_MS);
    is_left = has_ended(STDIN_FILENO);
    is_over = file_recorder_is_over(recorder);
  }
  /* Where the capture left before its command, nobody knows what that did afterwards. */
  int ended = file_recorder_end(recorder, is_over);
  status = status ? status : ended;
  status = status || is_over || is_left ? status : -EINTR;
  return status ? failed("what the kernel recorded cannot be written", status) : EXIT_SUCCESS;
}

static int record_files(char **words) {
  unsigned long ring = 0, process = 0;
  if (ring_from(words[1], &ring))
    return failed(bad_ring, -EINVAL);
  int status = number_from(words[2], INT32_MAX, &process);
  if (status)
    return failed(words[2], status);
  struct file_recorder *recorder = NULL;
  status = file_recorder_open(&recorder, ring);
  if (status)
    return failed("the BPF programs cannot be loaded", status);
  status = file_recorder_write_to(recorder, words[0]);
  int code = status ? failed(words[0], status) : record_files_until_end(recorder, process);
  file_recorder_free(recorder);
  return code;
}

static int probe_files(void) {
  struct file_recorder *recorder = NULL;
  int status = file_recorder_open(&recorder, LEAST_RING);
  if (status)
    return failed("the BPF programs cannot be loaded", status);
  status = file_recorder_attach(recorder, getpid());
  file_recorder_free(recorder);
  return status ? failed("the BPF programs cannot be attached", status) : EXIT_SUCCESS;
}
#else
static int without_files(void) {
  fprintf(stderr, "file system calls are recorded on x86-64 only\n");
  return EXIT_FAILURE;
}

static int record_files(char **words) {
  (void)words;
  return without_files();
}

static int probe_files(void) { return without_files(); }
#endif

static int probe(void) {
  struct recorder *recorder = NULL;
  int status = recorder_open(&recorder, LEAST_RING);
  if (status)
    return failed("the BPF programs cannot be loaded", status);
  status = recorder_attach(recorder);
  recorder_free(recorder);
  return status ? failed("the BPF programs cannot be attached", status) : EXIT_SUCCESS;
}

int main(int count, char **words) {
  struct sigaction action = {.sa_handler = ask_to_end};
  if (sigaction(SIGINT, &action, NULL) || sigaction(SIGTERM, &action, NULL))
    return failed("signals", -errno);
  if (count == 2 && strcmp(words[1], "--probe") == 0)
    return probe();
  if (count == 2 && strcmp(words[1], "--probe-files") == 0)
    return probe_files();
  if (count == 5 && strcmp(words[1], "--files") == 0)
    return record_files(words + 2);
  if (count >= 4)
    return record(count - 1, words + 1);
  fprintf(stderr, "usage: tracekit-bpf OUTPUT RING_BYTES DISK..."
                  " | --files OUTPUT RING_BYTES PROCESS | --probe | --probe-files\n");
  return EXIT_FAILURE;
}
