/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Follows each I/O of the traced disks in the kernel, from the bio that is queued to its
 * completion, and passes one record of it on. It is built for no kernel in particular: where a
 * field lies is asked of the running kernel's BTF at load time (CO-RE).
 *
 * The key of what is open is the bio. A request's own is found from the request, whose first bio it
 * is but for bios that were merged into the request's front. What was merged ends with its merge.
 */
#include "open_bios.h"

char LICENSE[] SEC("license") = "GPL";

SEC("tp_btf/block_bio_remap")
int BPF_PROG(bio_remapped, struct bio *bio, __u32 from_device, __u64 from_sector) {
  __u32 device = disk_of_bio(bio);
  if (!device)
    return 0;
  struct block_record record;
  __builtin_memset(&record, 0, sizeof(record));
  record.from_device = from_device;
  record.from_sector = from_sector;
  record.device = device;
  struct block_record *old = find_bio(bio);
  if (old && (old->queue_ns || old->getrq_ns))
    pass_on(old);
  keep(bio, &record);
  return 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(bio_queued, struct bio *bio) {
  __u32 device = disk_of_bio(bio);
  if (!device)
    return 0;
  struct block_record record;
  begin_bio(&record, bio, device);
  record.queue_ns = bpf_ktime_get_ns();
  struct block_record *old = find_bio(bio);
  if (old && (old->queue_ns || old->getrq_ns)) {
    pass_on(old); /* Its end was not seen. */
  } else if (old && old->device == device) {
    record.from_device = old->from_device;
    record.from_sector = old->from_sector;
  }
  keep(bio, &record);
  return 0;
}

/* The front of a bio becomes a bio of its own, whose private pointer is the rest. */
SEC("tp_btf/block_split")
int BPF_PROG(bio_split, struct bio *front, unsigned int rest_sector) {
  __u32 device = disk_of_bio(front);
  if (!device)
    return 0;
  struct block_record record;
  begin_bio(&record, front, device);
  struct bio *rest = (struct bio *)BPF_CORE_READ(front, bi_private);
  __u64 key = (__u64)rest;
  struct block_record *whole = bpf_map_lookup_elem(&open_bios, &key);
  if (whole) {
    record.thread = whole->thread;
    record.process = whole->process;
    record.queue_cpu = whole->queue_cpu;
    __builtin_memcpy(record.comm, whole->comm, sizeof(record.comm));
    pass_on(whole);
  }
  record.kind = BLOCK_SPLIT;
  record.queue_ns = bpf_ktime_get_ns();
  record.bytes = front->bi_iter.bi_size;
  record.from_sector = rest_sector;
  pass_on(&record);
  record.kind = BLOCK_REQUEST;
  record.queue_ns = record.from_sector = 0;
  keep(front, &record);
  if (whole) {
    record.sector = BPF_CORE_READ(rest, bi_iter.bi_sector);
    record.bytes = BPF_CORE_READ(rest, bi_iter.bi_size);
    bpf_map_update_elem(&open_bios, &key, &record, BPF_ANY);
  }
  return 0;
}

SEC("tp_btf/block_getrq")
int BPF_PROG(request_taken, struct bio *bio) {
  __u32 device = disk_of_bio(bio);
  if (!device)
    return 0;
  struct block_record *found = find_bio(bio);
  if (found) {
    found->getrq_ns = bpf_ktime_get_ns();
    return 0;
  }
  struct block_record record;
  begin_bio(&record, bio, device);
  record.getrq_ns = bpf_ktime_get_ns();
  keep(bio, &record);
  return 0;
}

static __always_inline int bio_merged(struct bio *bio, enum block_record_kind kind) {
  __u32 device = disk_of_bio(bio);
  if (!device)
    return 0;
  struct block_record *found = find_bio(bio);
  if (found) {
    found->kind = kind;
    found->merge_ns = bpf_ktime_get_ns();
    pass_on(found);
    forget((__u64)bio);
    return 0;
  }
  struct block_record record;
  begin_bio(&record, bio, device);
  record.kind = kind;
  record.merge_ns = bpf_ktime_get_ns();
  pass_on(&record);
  return 0;
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(bio_back_merged, struct bio *bio) { return bio_merged(bio, BLOCK_REQUEST); }

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(bio_front_merged, struct bio *bio) { return bio_merged(bio, BLOCK_FRONT_MERGED); }

/* Begins a record of one event of a request, whose own record is `found`, if any. */
static __always_inline void begin_event(struct block_record *event, struct request *request,
                                        __u32 device, struct block_record *found) {
  begin(event, device);
  event->sector = sector_of(request);
  event->bytes = request->__data_len;
  event->category = category_of(request->cmd_flags);
  if (found)
    event->thread = found->thread;
}

SEC("tp_btf/block_rq_merge")
int BPF_PROG(request_merged, struct request *request) {
  __u32 device = disk_of_request(request);
  if (!device)
    return 0;
  __u64 key;
  struct block_record *found = find_request(request, &key), event;
  begin_event(&event, request, device, found);
  event.merge_ns = bpf_ktime_get_ns();
  if (found) {
    pass_on(found);
    forget(key);
  }
  pass_on(&event);
  return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(request_requeued, struct request *request) {
  __u32 device = disk_of_request(request);
  if (!device)
    return 0;
  __u64 key;
  struct block_record *found = find_request(request, &key), event;
  begin_event(&event, request, device, found);
  event.kind = BLOCK_REQUEUE;
  event.queue_ns = bpf_ktime_get_ns();
  pass_on(&event);
  return 0;
}

static __always_inline void set_insert(struct block_record *record, struct request *request) {
  record->insert_ns = bpf_ktime_get_ns();
  record->insert_sector = sector_of(request);
  record->insert_bytes = request->__data_len;
  record->insert_category = category_of(request->cmd_flags);
  record->insert_cpu = (__u16)bpf_get_smp_processor_id();
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(request_inserted, struct request *request) {
  __u32 device = disk_of_request(request);
  if (!device)
    return 0;
  __u64 key;
  struct block_record *found = find_request(request, &key), event;
  if (found && !found->insert_ns) {
    set_insert(found, request);
    return 0;
  }
  begin_event(&event, request, device, found);
  set_insert(&event, request);
  pass_on(&event);
  return 0;
}

static __always_inline void set_issue(struct block_record *record, struct request *request) {
  record->issue_ns = bpf_ktime_get_ns();
  record->issue_sector = sector_of(request);
  record->issue_bytes = request->__data_len;
  record->issue_category = category_of(request->cmd_flags);
  record->issue_cpu = (__u16)bpf_get_smp_processor_id();
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_issued, struct request *request) {
  __u32 device = disk_of_request(request);
  if (!device)
    return 0;
  __u64 key;
  struct block_record *found = find_request(request, &key), event;
  if (found && !found->issue_ns) {
    set_issue(found, request);
    return 0;
  }
  begin_event(&event, request, device, found);
  set_issue(&event, request);
  pass_on(&event);
  return 0;
}

static __always_inline void set_complete(struct block_record *record, __u64 sector, __u32 bytes,
                                         __u32 flags, int error) {
  record->complete_ns = bpf_ktime_get_ns();
  record->complete_sector = sector;
  record->complete_bytes = bytes;
  record->complete_category = category_of(flags);
  record->complete_cpu = (__u16)bpf_get_smp_processor_id();
  record->error = error;
}

static __always_inline void complete_request(struct request *request, __u32 device, int error,
                                             unsigned int bytes) {
  __u64 key;
  struct block_record *found = find_request(request, &key), event;
  if (found) {
    set_complete(found, sector_of(request), bytes, request->cmd_flags, error);
    pass_on(found);
    forget(key);
    return;
  }
  begin_event(&event, request, device, NULL);
  set_complete(&event, sector_of(request), bytes, request->cmd_flags, error);
  pass_on(&event);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_completed, struct request *request, int error, unsigned int bytes) {
  __u32 device = disk_of_request(request);
  if (device)
    complete_request(request, device, error, bytes);
  return 0;
}

/* Completions come from interrupts, and the kernel runs no program on a CPU that is in the same
 * one. So each has two programs, one after the other: what is still open for the second is what the
 * first was not run for. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_completed_again, struct request *request, int error, unsigned int bytes) {
  __u32 device = disk_of_request(request);
  __u64 key;
  if (device && find_request(request, &key))
    complete_request(request, device, error, bytes);
  return 0;
}

static __always_inline void complete_bio(struct bio *bio, __u32 device) {
  struct block_record *found = find_bio(bio), event;
  __u64 sector = bio->bi_iter.bi_sector;
  if (found) {
    set_complete(found, sector, bio->bi_iter.bi_size, bio->bi_opf, bio->bi_status);
    pass_on(found);
    forget((__u64)bio);
    return;
  }
  begin_bio(&event, bio, device);
  set_complete(&event, sector, bio->bi_iter.bi_size, bio->bi_opf, bio->bi_status);
  pass_on(&event);
}

/* Of a device without requests, and of a bio that failed before it had one. */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(bio_completed, struct request_queue *queue, struct bio *bio) {
  __u32 device = disk_of_bio(bio);
  if (device)
    complete_bio(bio, device);
  return 0;
}

SEC("tp_btf/block_bio_complete")
int BPF_PROG(bio_completed_again, struct request_queue *queue, struct bio *bio) {
  __u32 device = disk_of_bio(bio);
  if (device && find_bio(bio))
    complete_bio(bio, device);
  return 0;
}
