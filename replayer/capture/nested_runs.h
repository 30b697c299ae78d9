/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Completions that interrupt the program that handles completions. */
#ifndef TRACEKIT_CAPTURE_NESTED_RUNS_H
#define TRACEKIT_CAPTURE_NESTED_RUNS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#define MOST_NESTED 16

/* Completions come from interrupts, and the kernel runs no program on a CPU that is in the same
 * one. So each has two programs, one after the other, and the second handles what the first was not
 * run for: the first notes what it has seen. Interrupts end in the opposite order in which they
 * began. */
struct nested {
  __u32 count;
  __u64 seen[MOST_NESTED];
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct nested);
} nested SEC(".maps");

static __always_inline void note_seen(void *what) {
  __u32 zero = 0;
  struct nested *found = bpf_map_lookup_elem(&nested, &zero);
  if (!found)
    return;
  /* What a second program was not run for in its turn stays, and goes when there are too many. */
  __u32 at = found->count < MOST_NESTED ? found->count : 0;
  found->seen[at] = (__u64)what;
  found->count = at + 1;
}

static __always_inline bool was_seen(void *what) {
  __u32 zero = 0;
  struct nested *found = bpf_map_lookup_elem(&nested, &zero);
  if (!found)
    return false;
  __u32 at = found->count - 1;
  if (at >= MOST_NESTED || found->seen[at] != (__u64)what)
    return false;
  found->count = at;
  return true;
}

#endif
