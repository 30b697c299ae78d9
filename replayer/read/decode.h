/* The decoder of block traces: open descriptors in, an Arrow stream of requests out. A decoder is
 * used by one thread at a time. Nothing is printed; the process never exits. */
#ifndef TRACEKIT_READ_DECODE_H
#define TRACEKIT_READ_DECODE_H

#include <stdint.h>

#include "common/arrow.h"
#include "common/export.h"
#include "read/problem.h"

#define TK_DECODE_ACTIONS 20
#define TK_DECODE_NOTIFIES 3
#define TK_DECODE_UNMATCHED 9
#define TK_DECODE_LAYERS 10

struct tk_decoder;

/* What was read so far, of a text when its stream has ended; every number is a count unless it says
 * otherwise. */
struct tk_decode_stats {
  int64_t bytes;                          /* decoded, after decompression */
  int64_t records;                        /* decoded, notify records included */
  int64_t rows;                           /* of requests, made so far */
  int64_t actions[TK_DECODE_ACTIONS];     /* by enum trace_action */
  int64_t notifies[TK_DECODE_NOTIFIES];   /* by enum trace_notify */
  int64_t unmatched[TK_DECODE_UNMATCHED]; /* by enum unmatched */
  int64_t unknown;                        /* of an action we do not know */
  int64_t passthrough;                    /* of commands that are no block I/O */
  int64_t device_flushes;                 /* cache flushes made by the kernel itself */
  int64_t requeued_remainders;            /* Q of what a split left over */
  int64_t evicted;                        /* rows that left unfinished: the window was full */
  int64_t sequence_gaps, lost_records;    /* places, and records missing there */
  int64_t repeated_records;               /* whose number did not go up */
  int64_t numbered_records;               /* that have a number at all */
  int64_t reordered_records;              /* that stood after a later one */
  int64_t version;                        /* 7 or 8, of all records; 0 when there is none */
  int64_t swapped_files;                  /* files of the other byte order */
  int64_t base_ns, last_ns;               /* raw time of the first and of the last event */
  int64_t wall_ns;                        /* unix time of the first event, see has_wall */
  int64_t has_wall;                       /* 0 or 1 */
  int64_t is_wall_of_start;               /* 1: wall_ns is of the capture's start, not exact */
  int64_t lines, passed_lines, bad_lines; /* of texts: all, no events, wrong ones */
  int64_t told_lost, told_cpus;           /* events lost and CPUs (0 unknown) by the text itself */
  int64_t told_skips;                     /* records that blkparse says it missed, or -1 */
  int64_t is_perf, has_tracer;            /* TEXT_KERNEL: what the lines are of, 0 or 1 */
  int64_t has_nanoseconds;                /* of texts: 1 if a time is no whole microsecond */
  int64_t others[TK_DECODE_LAYERS];       /* events that were passed over, by enum text_layer */
  int64_t commands, fine_commands, unplaced; /* of drivers, see struct text */
};

/* Makes a decoder of `count` open descriptors (files or pipes), which stay the caller's and must
 * stay open. With `keeps_whole` a file that cannot be read on ends there and its cut is reported by
 * tk_decode_cut. Returns 0 or -ENOMEM, -EINVAL (no descriptor). */
TK_EXPORT int tk_decode_open(const int32_t *fds, int64_t count, int32_t keeps_whole,
                             struct tk_decoder **out);

/* Finds which of the texts of events (enum text_format) a file is by its first `size` bytes.
 * Returns the format, or 0. */
TK_EXPORT int64_t tk_decode_detect_text(const char *head, int64_t size);

/* Makes input `file` one of text, or with TEXT_NONE of binary records; before the first batch only.
 * `head` are the bytes, at most 64 KiB, that were read from its descriptor. `form` is the format of
 * blkparse -f for TEXT_FORM, else NULL. `block_bytes` is the size of a logical block of a driver's
 * events, a multiple of 512. Returns 0, -EINVAL, or what text_form_open returns. */
TK_EXPORT int tk_decode_set_text(struct tk_decoder *decoder, int64_t file, int64_t format,
                                 const char *form, int64_t block_bytes, const char *head,
                                 int64_t size);

/* Gives the wrong line number `index` of those of input `file` that were kept: its number from 1
 * and its beginning, ended by a zero byte. Returns 0 when there is none. */
TK_EXPORT int64_t tk_decode_bad_line(const struct tk_decoder *decoder, int64_t file, int64_t index,
                                     const char **text);

/* Names a process or cgroup whose name the trace does not give, or a device; before the first batch
 * only. Names are UTF-8 ended by a zero byte. Return 0 or -ENOMEM. */
TK_EXPORT int tk_decode_name_process(struct tk_decoder *decoder, uint32_t pid, const char *name);
TK_EXPORT int tk_decode_name_cgroup(struct tk_decoder *decoder, uint64_t id, const char *name);
TK_EXPORT int tk_decode_name_device(struct tk_decoder *decoder, uint32_t major, uint32_t minor,
                                    const char *name);

/* Makes the stream of `requests` in queue order; the decoder must outlive it. get_next returns
 * EBADMSG when the input cannot be read on (tk_decode_problem says why) and ENOMEM. Returns 0. */
TK_EXPORT int tk_decode_stream(struct tk_decoder *decoder, struct ArrowArrayStream *out);

TK_EXPORT void tk_decode_stats(const struct tk_decoder *decoder, struct tk_decode_stats *out);
/* What ended the stream, PROBLEM_NONE when nothing did. */
TK_EXPORT void tk_decode_problem(const struct tk_decoder *decoder, struct problem *out);

/* Where input `file` was cut by `keeps_whole`; kind PROBLEM_NONE when it was not. */
TK_EXPORT void tk_decode_cut(const struct tk_decoder *decoder, int64_t file, struct problem *out);

/* Writes the numbers (major << 20 | minor) of up to `capacity` devices that occurred, in order of
 * appearance. Returns how many occurred. */
TK_EXPORT int64_t tk_decode_devices(const struct tk_decoder *decoder, uint32_t *out,
                                    int64_t capacity);

/* Gives the name that a driver's events have for device number `index`, by order of appearance, as
 * `length` bytes, not ended. Returns 1, or 0 when its events name it by numbers. */
TK_EXPORT int32_t tk_decode_device_name(const struct tk_decoder *decoder, int64_t index,
                                        const char **name, int64_t *length);

/* Writes the first `capacity` of the CPUs that have an event, in their order; returns how many. */
TK_EXPORT int64_t tk_decode_cpus(const struct tk_decoder *decoder, uint32_t *out, int64_t capacity);

/* Has completions counted between two readings of the kernel's counters: first and last possible
 * time of the first reading, then of the second, in ns of the records' raw clock; before the first
 * batch only. */
TK_EXPORT void tk_decode_watch(struct tk_decoder *decoder, const int64_t readings_ns[4]);

/* Writes how many requests of device number `device`, by order of appearance, completed between the
 * readings (`certain`), and how many more may have (`perhaps`): reads, writes, discards, flushes of
 * the device. Returns how many numbers it wrote into each: 4, or 0 when there is no such device. */
TK_EXPORT int64_t tk_decode_completed(const struct tk_decoder *decoder, int64_t device,
                                      int64_t *certain, int64_t *perhaps);

/* Frees the decoder; NULL is fine. */
TK_EXPORT void tk_decode_close(struct tk_decoder *decoder);

#endif
