/* Those fields of the kernel's structures that files.bpf.c reads, as in kernel_types.h. */
#ifndef TRACEKIT_CAPTURE_FILE_KERNEL_TYPES_H
#define TRACEKIT_CAPTURE_FILE_KERNEL_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
  int counter;
} atomic_t;

struct super_block {
  unsigned long s_magic;
};

struct inode {
  unsigned long i_ino;
};

struct dentry_operations {
  void *d_dname;
};

struct qstr {
  const unsigned char *name;
};

struct dentry {
  struct dentry *d_parent;
  struct qstr d_name;
  const struct dentry_operations *d_op;
  struct super_block *d_sb;
};

struct vfsmount {
  struct dentry *mnt_root;
};

struct mount {
  struct mount *mnt_parent;
  struct dentry *mnt_mountpoint;
  struct vfsmount mnt;
};

struct path {
  struct vfsmount *mnt;
  struct dentry *dentry;
};

struct file {
  struct path f_path;
  struct inode *f_inode;
};

struct fdtable {
  unsigned int max_fds;
  struct file **fd;
};

struct files_struct {
  atomic_t count;
  struct fdtable *fdt;
};

struct fs_struct {
  struct path root, pwd;
};

struct signal_struct {
  atomic_t live;
};

struct thread_info {
  __u32 status;
};

struct task_struct {
  struct thread_info thread_info;
  int pid, tgid;
  __u64 start_time;
  struct task_struct *group_leader;
  struct mm_struct *mm;
  struct fs_struct *fs;
  struct files_struct *files;
  struct signal_struct *signal;
};

struct linux_binprm {
  const char *filename;
};

struct pt_regs {
  unsigned long r10, r9, r8, dx, si, di, orig_ax;
};

#pragma clang attribute pop

#endif
