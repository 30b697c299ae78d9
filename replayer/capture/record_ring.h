/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The ring through which records leave the kernel, and what is lost of them. */
#ifndef TRACEKIT_CAPTURE_RECORD_RING_H
#define TRACEKIT_CAPTURE_RECORD_RING_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#define WAKE_PART 4 /* of the ring: one of so many */

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
} records SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} lost SEC(".maps");

static void count_lost(void) {
  __u32 zero = 0;
  __u64 *count = bpf_map_lookup_elem(&lost, &zero);
  if (count)
    __sync_fetch_and_add(count, 1); /* An interrupt may count here, too. */
}

/* Passes bytes on, and counts them when the ring has no space. Returns whether it had. */
static __always_inline bool pass_on_bytes(void *data, __u32 size, bool is_urgent) {
  /* The reader looks by itself, and is woken when much waits for it. */
  bool is_much = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) * WAKE_PART >=
                 bpf_ringbuf_query(&records, BPF_RB_RING_SIZE);
  __u64 flags = is_much || is_urgent ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
  if (bpf_ringbuf_output(&records, data, size, flags) == 0)
    return true;
  count_lost();
  return false;
}

#endif
