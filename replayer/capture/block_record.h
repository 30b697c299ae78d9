/* What the BPF program passes on: one record a request, completed or merged. An event that belongs
 * to no request whose start was seen has a record of its own, in which only its time is set.
 *
 * The fields stand here once: a recording begins with a line that names them, with their types as
 * numpy has them, and padded to BLOCK_HEADER_BYTES. All numbers are in the machine's byte order.
 * times: nanoseconds of CLOCK_MONOTONIC, 0 for an event that was not seen. sectors: 512 bytes, from
 * the start of the disk. device: major << 20 | minor. category: the low 16 category bits of
 * include/uapi/linux/blktrace_api.h that come from the operation and its flags. */
#ifndef TRACEKIT_CAPTURE_BLOCK_RECORD_H
#define TRACEKIT_CAPTURE_BLOCK_RECORD_H

#define BLOCK_COMM_BYTES 16
#define BLOCK_HEADER_BYTES 1024

/* FIELD(C type, numpy type, name) */
#define BLOCK_RECORD_FIELDS(FIELD)                                                                 \
  FIELD(__u64, "u8", queue_ns) /* of a split or requeue: its own time */                           \
  FIELD(__u64, "u8", getrq_ns)                                                                     \
  FIELD(__u64, "u8", merge_ns) /* into another request */                                          \
  FIELD(__u64, "u8", insert_ns)                                                                    \
  FIELD(__u64, "u8", issue_ns) /* the first time */                                                \
  FIELD(__u64, "u8", complete_ns)                                                                  \
  FIELD(__u64, "u8", sector)        /* as queued; behind a split what is left */                   \
  FIELD(__u64, "u8", insert_sector) /* of the whole request, with all that was merged into it */   \
  FIELD(__u64, "u8", issue_sector)                                                                 \
  FIELD(__u64, "u8", complete_sector)                                                              \
  FIELD(__u64, "u8", from_sector) /* remapped from; of a split where the rest begins */            \
  FIELD(__u64, "u8", cgroup)      /* id of the kernel's file, 0: unknown */                        \
  FIELD(__u32, "u4", device)                                                                       \
  FIELD(__u32, "u4", from_device) /* remapped from, 0: nothing was remapped */                     \
  FIELD(__u32, "u4", bytes)                                                                        \
  FIELD(__u32, "u4", insert_bytes)                                                                 \
  FIELD(__u32, "u4", issue_bytes)                                                                  \
  FIELD(__u32, "u4", complete_bytes)                                                               \
  FIELD(__u32, "u4", thread) /* that queued it */                                                  \
  FIELD(__u32, "u4", process)                                                                      \
  FIELD(__s32, "i4", error) /* of the completion: blk_status_t or -errno */                        \
  FIELD(__u32, "u4", kind)  /* enum block_record_kind */                                           \
  FIELD(__u16, "u2", category)                                                                     \
  FIELD(__u16, "u2", insert_category)                                                              \
  FIELD(__u16, "u2", issue_category)                                                               \
  FIELD(__u16, "u2", complete_category)                                                            \
  FIELD(__u16, "u2", queue_cpu)                                                                    \
  FIELD(__u16, "u2", insert_cpu)                                                                   \
  FIELD(__u16, "u2", issue_cpu)                                                                    \
  FIELD(__u16, "u2", complete_cpu)

enum block_record_kind {
  BLOCK_REQUEST,      /* merged: into the end of another */
  BLOCK_FRONT_MERGED, /* the same, into the beginning */
  BLOCK_SPLIT,
  BLOCK_REQUEUE,
  BLOCK_LOST, /* no event: from user space. In `sector` what was lost so far, in `from_sector` what
               * the kernel did not show */
};

#define BLOCK_RECORD_MEMBER(type, numpy, name) type name;

struct block_record {
  BLOCK_RECORD_FIELDS(BLOCK_RECORD_MEMBER)
  char comm[BLOCK_COMM_BYTES]; /* the thread's name when it queued */
};

#endif
