/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The record that is being made, and the paths that the kernel knows.
 */
#ifndef TRACEKIT_CAPTURE_FILE_PATHS_H
#define TRACEKIT_CAPTURE_FILE_PATHS_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "file_record.h"
#include "tracer_root.h"

#define MOST_PARTS 256
#define PART_BYTES 256   /* the longest name, with its end */
#define TEXT_MASK 0x3fff /* FILE_TEXTS times FILE_PATH_BYTES */

struct draft {
  struct file_record record;
  char text[TEXT_MASK + 1 + FILE_PATH_BYTES];
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct draft);
} drafts SEC(".maps");

static __always_inline struct draft *the_draft(void) {
  __u32 zero = 0;
  return bpf_map_lookup_elem(&drafts, &zero);
}

/* Gives the bytes of the draft's texts. */
static __always_inline __u32 text_end(const struct file_record *record) {
  __u32 end = 0;
  for (int i = 0; i < FILE_TEXTS; i++)
    end += record->text_bytes[i];
  return end & TEXT_MASK;
}

/* The way from a directory entry up to the root. */
struct walk {
  struct mount *mount;
  struct dentry *at;
  __u32 end; /* of the text */
  __u32 is_done;
};

static long walk_part(__u32 index, struct walk *walk) {
  struct draft *draft = the_draft();
  const struct tracer_root *root = the_root();
  struct dentry *at = walk->at;
  struct mount *mount = walk->mount;
  if (!draft || !root)
    return 1;
  walk->is_done = root->entry == (__u64)at && root->mount == (__u64)mount;
  if (walk->is_done)
    return 1;
  if (at == BPF_CORE_READ(mount, mnt.mnt_root)) {
    struct mount *above = BPF_CORE_READ(mount, mnt_parent);
    walk->is_done = above == mount;
    walk->at = BPF_CORE_READ(mount, mnt_mountpoint);
    walk->mount = above;
    return walk->is_done ? 1 : 0;
  }

  /* What hangs nowhere, such as a file of memfd_create, has a name and no folder. */
  long bytes = bpf_probe_read_kernel_str(draft->text + (walk->end & TEXT_MASK), PART_BYTES,
                                         BPF_CORE_READ(at, d_name.name));
  if (bytes <= 0)
    return 1;
  walk->end += (__u32)bytes;
  walk->at = BPF_CORE_READ(at, d_parent);
  walk->is_done = walk->at == at;
  return walk->is_done ? 1 : 0;
}

/* Writes the path of a directory entry as the draft's text `place`; none where it is too long. */
static __always_inline void add_path(struct draft *draft, int place, struct vfsmount *mount,
                                     struct dentry *entry) {
  __u32 begin = text_end(&draft->record);
  struct walk walk = {.at = entry, .end = begin};
  walk.mount = mount_of(mount);
  bpf_loop(MOST_PARTS, walk_part, &walk, 0);
  if (walk.end == begin) /* the root: one part without a name */
    draft->text[walk.end++ & TEXT_MASK] = 0;
  if (walk.is_done && walk.end - begin <= FILE_PATH_BYTES)
    draft->record.text_bytes[place] = (__u16)(walk.end - begin);
}

#endif
