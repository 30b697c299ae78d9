/* Those fields of the kernel's structures that block.bpf.c reads, in no order and no place of their
 * own: the running kernel's BTF says where each is. */
#ifndef TRACEKIT_CAPTURE_KERNEL_TYPES_H
#define TRACEKIT_CAPTURE_KERNEL_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

enum req_flag_bits {
  __REQ_SYNC = 11,
  __REQ_META = 12,
  __REQ_FUA = 17,
  __REQ_PREFLUSH,
  __REQ_RAHEAD
};

struct gendisk {
  int major, first_minor;
};

struct block_device {
  struct gendisk *bd_disk;
};

struct kernfs_node {
  __u64 id;
};

struct cgroup {
  struct kernfs_node *kn;
};

struct cgroup_subsys_state {
  struct cgroup *cgroup;
};

struct blkcg {
  struct cgroup_subsys_state css;
};

struct blkcg_gq {
  struct blkcg *blkcg;
};

struct bvec_iter {
  __u64 bi_sector;
  unsigned int bi_size;
};

struct bio {
  struct bio *bi_next;
  struct block_device *bi_bdev;
  __u32 bi_opf;
  __u8 bi_status;
  struct bvec_iter bi_iter;
  void *bi_private;
  struct blkcg_gq *bi_blkg;
};

struct request_queue {
  struct gendisk *disk;
};

struct request {
  struct request_queue *q;
  __u32 cmd_flags;
  unsigned int __data_len;
  __u64 __sector;
  struct bio *bio;
};

#pragma clang attribute pop

#endif
