/* The decoder of strace's output: an open file in, rows of file operations and files out.
 *
 * The text is what `strace -f -y -s 0 -X raw` writes with nanoseconds (tracekit/capture/strace.py
 * has the whole command). A recording of tracekit-bpf (capture/file_record.h) is followed as the
 * text that it stands for. A decoder is used by one thread at a time. Nothing is printed; the
 * process never exits. */
#ifndef TRACEKIT_STRACE_CALLS_H
#define TRACEKIT_STRACE_CALLS_H

#include <stdint.h>

#include "common/export.h"
#include "strace/operation.h"

#define TK_CALLS_TEXT 200

struct tk_calls;

/* What was read so far; every number is a count unless it says otherwise. */
struct tk_calls_stats {
  int64_t bytes, lines;
  int64_t calls;            /* whole ones, joined ones among them */
  int64_t joined;           /* whose two parts stood on different lines */
  int64_t rows;             /* made; those that the filter left out are not among them */
  int64_t filtered;         /* rows of files that are not below the folder asked for */
  int64_t bad_lines;        /* that are no line of strace, or cannot be understood */
  int64_t first_bad_line;   /* its number from 1, 0 when there is none */
  int64_t orphan_ends;      /* second parts of a call without a first one */
  int64_t unfinished;       /* calls that had not returned when the trace ended */
  int64_t abandoned;        /* calls that never returned: the thread ended in them */
  int64_t left_out;         /* calls that no operation stands for, by name: tk_calls_word */
  int64_t adopted;          /* descriptors that were used and never seen opened */
  int64_t cloned;           /* ranges of files that share the blocks of others since (FICLONE) */
  int64_t submitted;        /* operations handed to io_uring and libaio, which have no row */
  int64_t unplaced;         /* reads and writes whose offset is not known */
  int64_t guessed_creates;  /* files taken for new ones, which nothing confirms */
  int64_t backwards;        /* lines with a time before the line before */
  int64_t forced;           /* rows that left before an older call had ended */
  int64_t orphan_threads;   /* threads that no call made */
  int64_t lost;             /* of a recording: calls and events for which there was no space */
  int64_t unseen;           /* of a recording: at most so many that the kernel did not show */
  int64_t foreign;          /* of a recording: calls of 32-bit programs, at least */
  int64_t unnamed;          /* uses of descriptors that neither the trace nor the call names */
  int64_t endless;          /* 1: a recording that was cut: more may be lost than is counted */
  int64_t base_ns, last_ns; /* unix time of the first line and of the last */
};

struct tk_calls_options {
  const char *folder;  /* where the command began: an absolute path */
  const char *below;   /* rows of files below this folder only; NULL: all */
  int64_t start_ns;    /* unix time before the command began, to look at the files that are still
                          there; 0: they are not looked at */
  int32_t is_snapshot; /* 1: tk_calls_know reports everything that was below `below` */
};

/* What is known of a file; `kind` is enum file_kind and `evidence` enum evidence. */
struct tk_calls_file {
  int64_t first_bytes; /* before the first operation, or -1 */
  int32_t kind, evidence;
  int32_t is_used; /* a row names it */
};

/* Makes a decoder of a descriptor at its first byte that can be read twice, and that stays the
 * caller's. Returns 0, -ENOMEM, -EBADMSG for a damaged recording, or the errno of a failed read. */
TK_EXPORT int tk_calls_open(int32_t fd, const struct tk_calls_options *options,
                            struct tk_calls **out);

/* Says what was at an absolute path before the command began, or what its descriptor `fd` led
 * to. Before the first rows only. Return 0 or -ENOMEM, -EBADF. */
TK_EXPORT int tk_calls_know(struct tk_calls *calls, const char *path, int64_t length, int32_t kind,
                            int64_t bytes, int32_t evidence);
TK_EXPORT int tk_calls_inherit(struct tk_calls *calls, int32_t fd, const char *path,
                               int64_t position, int32_t open_flags);

/* Writes up to `capacity` rows in order of start. Returns how many, 0 at the end, -errno. */
TK_EXPORT int64_t tk_calls_next(struct tk_calls *calls, struct tk_operation *out, int64_t capacity);

TK_EXPORT void tk_calls_stats(const struct tk_calls *calls, struct tk_calls_stats *out);

/* Writes the files, whose place is their file number, and where each path ends in `text`, which
 * stays the decoder's. Returns how many there are; `out` and `ends` may be NULL. */
TK_EXPORT int64_t tk_calls_files(const struct tk_calls *calls, struct tk_calls_file *out,
                                 int64_t *ends, const char **text);

/* Writes a word and how often it occurred: of list 0, names of processes (not counted); 1, calls
 * left out; 2, the first bad line. Returns 0, -ENOENT beyond the last one. */
TK_EXPORT int tk_calls_word(const struct tk_calls *calls, int32_t list, int64_t place,
                            char out[TK_CALLS_TEXT], int64_t *count);

TK_EXPORT void tk_calls_close(struct tk_calls *calls);

#endif
