/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What is behind descriptors. */
#ifndef TRACEKIT_CAPTURE_FILE_DESCRIPTORS_H
#define TRACEKIT_CAPTURE_FILE_DESCRIPTORS_H

#include "file_paths.h"

#define MOST_NAMED 65536

enum { TMPFS = 0x01021994, HUGETLBFS = 0x958458f6 }; /* of linux/magic.h */

struct descriptor {
  __u32 process, number;
};

/* A file without a name in the record is this one still: of the same process, whose number another
 * may have had, and in the same table, of which a process may have several. */
struct opened {
  __u64 file, inode, table, start_ns;
};

/* Descriptors whose paths were passed on. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, MOST_NAMED);
  __type(key, struct descriptor);
  __type(value, struct opened);
} named SEC(".maps");

static __always_inline struct file *file_of(struct task_struct *task, __u32 number) {
  struct fdtable *table = BPF_CORE_READ(task, files, fdt);
  struct file *file = NULL;
  if (number >= BPF_CORE_READ(table, max_fds))
    return NULL;
  bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + number);
  return file;
}

/* Whether the kernel makes the name up, as that of a pipe. */
static __always_inline bool is_nameless(struct dentry *entry) {
  const struct dentry_operations *operations = BPF_CORE_READ(entry, d_op);
  if (!operations || !BPF_CORE_READ(operations, d_dname))
    return false;
  __u64 magic = BPF_CORE_READ(entry, d_sb, s_magic);
  return magic != TMPFS && magic != HUGETLBFS;
}

static __always_inline bool has_path(struct file *file) {
  return file && !is_nameless(BPF_CORE_READ(file, f_path.dentry));
}

static __always_inline bool is_same(const struct opened *one, const struct opened *other) {
  return one->file == other->file && one->inode == other->inode && one->table == other->table &&
         one->start_ns == other->start_ns;
}

/* Gives what is behind a descriptor. With `is_wanted`, or if it was not passed on before, its path
 * becomes the draft's text `place`, and `fresh` what is to be kept once the record has left. */
static __always_inline __u8 describe(struct draft *draft, struct task_struct *task, __u32 number,
                                     int place, bool is_wanted, struct opened *fresh) {
  struct file *file = file_of(task, number);
  if (!file)
    return FILE_NONE;
  struct dentry *entry = BPF_CORE_READ(file, f_path.dentry);
  if (is_nameless(entry))
    return FILE_NAMELESS;
  struct opened now = {(__u64)file, (__u64)BPF_CORE_READ(file, f_inode), (__u64)task->files,
                       BPF_CORE_READ(task, group_leader, start_time)};
  struct descriptor key = {(__u32)task->tgid, number};
  struct opened *before = bpf_map_lookup_elem(&named, &key);
  if (before && is_same(before, &now) && !is_wanted)
    return FILE_PATH;
  add_path(draft, place, BPF_CORE_READ(file, f_path.mnt), entry);
  if (draft->record.text_bytes[place])
    *fresh = now;
  return FILE_PATH;
}

#endif
