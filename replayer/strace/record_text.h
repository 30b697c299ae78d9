/* A record of tracekit-bpf as strace would print it, so that one decoder follows both. */
#ifndef TRACEKIT_STRACE_RECORD_TEXT_H
#define TRACEKIT_STRACE_RECORD_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/file_record.h"
#include "strace/cursor.h"

/* Each byte of a text takes four at the most; the rest of a line is numbers. */
#define RECORD_TEXT_BYTES (4 * FILE_TEXTS * FILE_PATH_BYTES + 4096)

/* Returns whether the parts of a record of `size` bytes lie within it, its call is known
 * and its times can be. */
bool record_is_whole(const struct file_record *record, size_t size);

/* Writes one line. Of a record that `supersedes` (an exec by another thread than the first) there
 * is a line before its own. */
struct view record_text(const struct file_record *record, int64_t clock_to_wall_ns, bool supersedes,
                        char out[RECORD_TEXT_BYTES]);

/* Returns whether an exec ended the first thread of its process, under whose id it goes on. */
bool record_supersedes(const struct file_record *record);

#endif
