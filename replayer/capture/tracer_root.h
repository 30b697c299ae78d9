/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Where the paths of the tracer begin: it may be in a chroot. */
#ifndef TRACEKIT_CAPTURE_TRACER_ROOT_H
#define TRACEKIT_CAPTURE_TRACER_ROOT_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "file_kernel_types.h"

struct tracer_root {
  __u64 mount, entry;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct tracer_root);
} tracer_roots SEC(".maps");

static __always_inline struct tracer_root *the_root(void) {
  __u32 zero = 0;
  return bpf_map_lookup_elem(&tracer_roots, &zero);
}

static __always_inline struct mount *mount_of(struct vfsmount *mount) {
  return (void *)mount - bpf_core_field_offset(struct mount, mnt);
}

static __always_inline void note_root(struct task_struct *tracer) {
  struct tracer_root *root = the_root();
  if (!root)
    return;
  root->mount = (__u64)mount_of(BPF_CORE_READ(tracer, fs, root.mnt));
  root->entry = (__u64)BPF_CORE_READ(tracer, fs, root.dentry);
}

#endif
