/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The records of bios that have begun and not ended. */
#ifndef TRACEKIT_CAPTURE_OPEN_BIOS_H
#define TRACEKIT_CAPTURE_OPEN_BIOS_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

#include "block_record.h"
#include "record_ring.h"
#include "traced_disks.h"

#define MOST_OPEN 65536
#define MOST_FRONT_MERGES 32

/* Category bits of a record, as blktrace_api.h numbers them. */
enum { READ = 1, WRITE = 2, FLUSH = 4, SYNC = 8, AHEAD = 1 << 11, META = 1 << 12 };
enum { DISCARD = 1 << 13, FUA = 1 << 15 };
enum { OP_FLUSH = 2, OP_DISCARD = 3, OP_SECURE_ERASE = 5 };

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, MOST_OPEN);
  __type(key, __u64);
  __type(value, struct block_record);
} open_bios SEC(".maps");

#define FLAG(flags, name) ((flags) >> bpf_core_enum_value(enum req_flag_bits, __REQ_##name) & 1)

static __always_inline __u16 category_of(__u32 flags) {
  __u32 operation = flags & OP_MASK;
  __u16 bits = operation & 1 ? WRITE : READ;
  bits |= FLAG(flags, SYNC) ? SYNC : 0;
  bits |= FLAG(flags, META) ? META : 0;
  bits |= FLAG(flags, RAHEAD) ? AHEAD : 0;
  bits |= FLAG(flags, FUA) ? FUA : 0;
  bits |= FLAG(flags, PREFLUSH) || operation == OP_FLUSH ? FLUSH : 0;
  bits |= operation == OP_DISCARD || operation == OP_SECURE_ERASE ? DISCARD : 0;
  return bits;
}

static __always_inline __u64 cgroup_of(struct bio *bio) {
  if (!bpf_core_field_exists(bio->bi_blkg))
    return 0;
  struct blkcg_gq *group = bio->bi_blkg;
  if (!group || !group->blkcg || !group->blkcg->css.cgroup || !group->blkcg->css.cgroup->kn)
    return 0;
  return group->blkcg->css.cgroup->kn->id;
}

/* Gives where a request lies; a flush that the kernel made lies nowhere. */
static __always_inline __u64 sector_of(struct request *request) {
  __u64 sector = request->__sector;
  return sector == ~0ULL ? 0 : sector;
}

/* Begins a record, with who runs. */
static __always_inline void begin(struct block_record *record, __u32 device) {
  __builtin_memset(record, 0, sizeof(*record));
  __u64 who = bpf_get_current_pid_tgid();
  record->device = device;
  record->thread = (__u32)who;
  record->process = (__u32)(who >> 32);
  record->queue_cpu = (__u16)bpf_get_smp_processor_id();
  bpf_get_current_comm(record->comm, sizeof(record->comm));
}

static __always_inline void begin_bio(struct block_record *record, struct bio *bio, __u32 device) {
  begin(record, device);
  record->sector = bio->bi_iter.bi_sector;
  record->bytes = bio->bi_iter.bi_size;
  record->category = category_of(bio->bi_opf);
  record->cgroup = cgroup_of(bio);
}

static __always_inline void pass_on(struct block_record *record) {
  pass_on_bytes(record, sizeof(*record), false);
}

static __always_inline struct block_record *find_bio(struct bio *bio) {
  __u64 key = (__u64)bio;
  return bpf_map_lookup_elem(&open_bios, &key);
}

static __always_inline void keep(struct bio *bio, struct block_record *record) {
  __u64 key = (__u64)bio;
  if (bpf_map_update_elem(&open_bios, &key, record, BPF_ANY) != 0)
    pass_on(record); /* What follows of it stands by itself. */
}

static __always_inline void forget(__u64 key) { bpf_map_delete_elem(&open_bios, &key); }

/* Gives the record of a request and in `key` its bio; NULL if its start was not seen. */
static __always_inline struct block_record *find_request(struct request *request, __u64 *key) {
  struct bio *bio = request->bio;
  for (int i = 0; i < MOST_FRONT_MERGES && bio; i++) {
    struct block_record *found = find_bio(bio);
    if (found && found->getrq_ns) {
      *key = (__u64)bio;
      return found;
    }
    bio = bio->bi_next;
  }
  return NULL;
}

#endif
