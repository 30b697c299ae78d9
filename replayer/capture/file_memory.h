/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What the arguments of a call point at in the caller's memory, read when the call has returned:
 * the kernel has looked at it by then, so that it is there. */
#ifndef TRACEKIT_CAPTURE_FILE_MEMORY_H
#define TRACEKIT_CAPTURE_FILE_MEMORY_H

#include <linux/bpf.h>

#include <asm/stat.h>
#include <bpf/bpf_helpers.h>
#include <linux/stat.h>

#include "file_calls.h"
#include "file_descriptors.h"
#include "file_rule.h"

enum { CLONE_FILE = 0x40049409, CLONE_RANGE = 0x4020940d }; /* FICLONE, FICLONERANGE */

/* Reads the path at an argument as the text `place`. */
static __always_inline void read_path(struct draft *draft, int place, __u64 argument) {
  struct file_record *record = &draft->record;
  barrier_var(argument); /* so that the verifier sees the number that is compared */
  if (argument >= FILE_ARGUMENTS || !record->arguments[argument])
    return;
  const void *from = (const void *)record->arguments[argument];
  long bytes = bpf_probe_read_user_str(draft->text + text_end(record), FILE_PATH_BYTES, from);
  if (bytes < 1)
    record->unread |= 1 << argument;
  else
    record->text_bytes[place] = (__u16)(bytes - 1);
}

static __always_inline void read_user(struct file_record *record, __u64 argument, void *into,
                                      __u32 size, __u32 offset) {
  barrier_var(argument);
  if (argument >= FILE_ARGUMENTS)
    return;
  if (bpf_probe_read_user(into, size, (const void *)(record->arguments[argument] + offset)))
    record->unread |= 1 << argument;
}

/* An offset has moved by what the call did. */
static __always_inline void read_offset(struct file_record *record, __u64 argument) {
  __u64 place = 0;
  barrier_var(argument);
  if (argument >= FILE_ARGUMENTS)
    return;
  if (!record->arguments[argument]) {
    record->arguments[argument] = FILE_NO_PLACE;
    return;
  }
  read_user(record, argument, &place, sizeof(place), 0);
  record->arguments[argument] = place - (record->result > 0 ? (__u64)record->result : 0);
}

/* Puts the mode and the size that a call returned in the place of the argument. */
static __always_inline void read_stat(struct file_record *record, const struct file_rule *rule) {
  __u64 argument = rule->stat, bytes = 0;
  __u32 mode = 0;
  __u16 short_mode = 0;
  if (rule->stat != FILE_NO_ARGUMENT) {
    read_user(record, argument, &mode, sizeof(mode), __builtin_offsetof(struct stat, st_mode));
    read_user(record, argument, &bytes, sizeof(bytes), __builtin_offsetof(struct stat, st_size));
  } else {
    argument = rule->statx;
    read_user(record, argument, &short_mode, sizeof(short_mode),
              __builtin_offsetof(struct statx, stx_mode));
    read_user(record, argument, &bytes, sizeof(bytes), __builtin_offsetof(struct statx, stx_size));
    mode = short_mode;
  }
  barrier_var(argument);
  if (argument < FILE_ARGUMENTS)
    record->arguments[argument] = mode;
  record->arguments[FILE_OTHER_FACT] = bytes;
}

/* Puts what arguments point at in their place. */
static __always_inline void read_memory(struct file_record *record, const struct file_rule *rule) {
  if (record->result >= 0 && (rule->stat & rule->statx) != FILE_NO_ARGUMENT)
    read_stat(record, rule);
  read_offset(record, rule->offset[0]);
  read_offset(record, rule->offset[1]);
  __u64 how = rule->how, flags = 0;
  barrier_var(how);
  if (how < FILE_ARGUMENTS) {
    read_user(record, how, &flags, sizeof(flags), 0);
    record->arguments[how] = flags;
  }

  /* The source, its place, the length and the target's place. */
  if (rule->call == FILE_CALL_ioctl && (__u32)record->arguments[1] == CLONE_RANGE)
    read_user(record, 2, &record->arguments[2], 4 * sizeof(__u64), 0);
}

#endif
