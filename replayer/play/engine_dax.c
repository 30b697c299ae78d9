/* Loads and stores instead of system calls: each request is done when submit returns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "play/blocking.h"
#include "play/clock.h"
#include "play/engine.h"
#include "play/fault_guard.h"
#include "play/persist.h"
#include "play/stop.h"

/* A target in memory: its pages are the device's own where the file system grants it. */
struct mapping {
  unsigned char *bytes;  /* NULL: not mapped */
  uint64_t length_bytes; /* of the target; what is mapped may be a little more */
  uint64_t mapped_bytes;
  bool is_synchronous; /* MAP_SYNC: stores that left the caches are durable */
  bool is_prefaulted;  /* no page is missing when the clock starts */
};

struct engine {
  const struct target *targets;
  const struct buffers *buffers;
  struct persist persist;
  uint32_t target_count;
  uint32_t count; /* requests done and not yet reaped */
  struct mapping mappings[BLOCK_PLAN_TARGETS_MAX];
  struct completion done[];
};

static uint64_t free_memory_bytes(void) {
  long pages = sysconf(_SC_AVPHYS_PAGES);
  long size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static bool prefault(const struct mapping *mapping, bool may_write) {
  if (!mapping->is_synchronous && mapping->length_bytes > free_memory_bytes() / 2)
    return false;
  int advice = may_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  return madvise(mapping->bytes, (size_t)mapping->length_bytes, advice) == 0;
}

/* Maps the first `needed_bytes` of a target, with MAP_SYNC if the kernel grants it, and touches all
 * of its pages. A mapping without MAP_SYNC that does not fit into free memory is not touched
 * before. Returns 0 or -errno. */
static int mapping_open(struct mapping *mapping, const struct target *target,
                        uint64_t needed_bytes) {
  /* Only MAP_SYNC promises that a flush of the caches is all that a store needs to last. */
  *mapping = (struct mapping){0};
  uint64_t length = needed_bytes < target->size_bytes ? needed_bytes : target->size_bytes;
  if (length == 0)
    return 0; /* only flushes */
  int protection = PROT_READ | (target->may_write ? PROT_WRITE : 0);
  uint64_t align = target->map_align_bytes;
  size_t size = (size_t)((length + align - 1) / align * align);
  void *bytes = mmap(NULL, size, protection, MAP_SHARED_VALIDATE | MAP_SYNC, target->fd, 0);
  mapping->is_synchronous = bytes != MAP_FAILED;
  if (bytes == MAP_FAILED)
    bytes = mmap(NULL, size, protection, MAP_SHARED, target->fd, 0);
  if (bytes == MAP_FAILED)
    return -errno;
  mapping->bytes = bytes;
  mapping->length_bytes = length;
  mapping->mapped_bytes = size;
  mapping->is_prefaulted = prefault(mapping, target->may_write);
  return 0;
}

static void mapping_close(struct mapping *mapping) {
  if (mapping->bytes != NULL)
    (void)munmap(mapping->bytes, (size_t)mapping->mapped_bytes); /* ours, so it cannot fail */
  mapping->bytes = NULL;
}

static void copy_out(void *to, const void *from, size_t length) { memcpy(to, from, length); }

static void dax_close(struct engine *engine) {
  if (engine == NULL)
    return;
  for (uint32_t i = 0; i < engine->target_count; i++)
    mapping_close(&engine->mappings[i]);
  persist_close(&engine->persist);
  free(engine);
}

static int map_targets(struct engine *engine) {
  int rc = fault_guard_install();
  for (uint32_t i = 0; rc == 0 && i < engine->target_count; i++)
    rc = mapping_open(&engine->mappings[i], &engine->targets[i], engine->targets[i].needed_bytes);
  return rc;
}

static int dax_open(struct engine **out, const struct engine_config *config) {
  struct engine *engine = calloc(1, sizeof *engine + config->depth * sizeof *engine->done);
  if (engine == NULL)
    return -ENOMEM;
  engine->targets = config->targets;
  engine->buffers = config->buffers;
  engine->target_count = config->target_count;
  int rc = persist_open(&engine->persist);
  if (rc == 0)
    rc = map_targets(engine);
  if (rc != 0) {
    dax_close(engine);
    return rc;
  }
  *out = engine;
  return 0;
}

static bool is_device(const struct engine *engine, const struct request *request) {
  return engine->targets[request->target].kind == TARGET_DAX;
}

/* What was stored is durable already with MAP_SYNC, and on a device that has nothing between;
 * else the page cache must be written. */
static int flush(const struct engine *engine, const struct request *request) {
  struct request alone = {.target = request->target, .operation = BLOCK_FLUSH};
  if (engine->mappings[request->target].is_synchronous || is_device(engine, request))
    return 0;
  return blocking_run(&engine->targets[request->target], engine->buffers, NULL, &alone);
}

static int store(const struct engine *engine, const struct request *request) {
  unsigned char *to = engine->mappings[request->target].bytes + request->offset_bytes;
  const unsigned char *from = buffers_pattern_at(engine->buffers, request->offset_bytes);
  int rc = (request->flags & BLOCK_PREFLUSH) != 0 ? flush(engine, request) : 0;
  if (rc == 0)
    rc = fault_guard_copy(engine->persist.copy, to, from, (size_t)request->length_bytes);
  if (rc == 0 && (request->flags & BLOCK_FUA) != 0)
    rc = flush(engine, request);
  return rc;
}

static int load(const struct engine *engine, const struct request *request) {
  const unsigned char *from = engine->mappings[request->target].bytes + request->offset_bytes;
  return fault_guard_copy(copy_out, engine->buffers->sink, from, (size_t)request->length_bytes);
}

/* Zeroes by hand, a buffer at a time: a DAX device has no file system that could. */
static int store_zeroes(const struct engine *engine, const struct request *request) {
  unsigned char *to = engine->mappings[request->target].bytes + request->offset_bytes;
  const struct buffers *buffers = engine->buffers;
  int rc = 0;
  for (uint64_t done = 0; done < request->length_bytes && rc == 0;) {
    uint64_t left = request->length_bytes - done;
    uint64_t size = left < buffers->transfer_bytes ? left : buffers->transfer_bytes;
    rc = fault_guard_copy(engine->persist.copy, to + done, buffers->zeroes, (size_t)size);
    done += size;
  }
  return rc;
}

/* What is neither load nor store goes to the file behind the mapping by a system call. */
static int perform(const struct engine *engine, const struct request *request) {
  const struct mapping *mapping = &engine->mappings[request->target];
  bool zeroes = request->operation == BLOCK_WRITE_ZEROES && is_device(engine, request);
  bool moves_data = request->operation == BLOCK_READ || request->operation == BLOCK_WRITE || zeroes;
  if (moves_data && request->offset_bytes + request->length_bytes > mapping->length_bytes)
    return -ENODATA;
  switch ((enum block_operation)request->operation) {
  case BLOCK_READ:
    return load(engine, request);
  case BLOCK_WRITE:
    return store(engine, request);
  case BLOCK_FLUSH:
    return flush(engine, request);
  case BLOCK_WRITE_ZEROES:
    if (zeroes)
      return store_zeroes(engine, request);
    break;
  case BLOCK_ZONE_APPEND: /* what is mapped has no zones: these are left out before */
  case BLOCK_ZONE_RESET:
  case BLOCK_ZONE_RESET_ALL:
  case BLOCK_ZONE_OPEN:
  case BLOCK_ZONE_CLOSE:
  case BLOCK_ZONE_FINISH:
    return -EOPNOTSUPP;
  case BLOCK_DISCARD:
    break; /* only the file system can */
  }
  return blocking_run(&engine->targets[request->target], engine->buffers, NULL, request);
}

static int dax_submit(struct engine *engine, const struct request *request) {
  stop_go_inside();
  int error = perform(engine, request);
  stop_come_out();
  engine->done[engine->count++] =
      (struct completion){.complete_ns = clock_now_ns(), .slot = request->slot, .error = error};
  return 0;
}

static int dax_reap(struct engine *engine, struct completion *out, uint32_t capacity,
                    uint64_t until_ns) {
  if (engine->count == 0 && until_ns != 0)
    clock_sleep_until(until_ns);
  uint32_t count = 0;
  while (engine->count > 0 && count < capacity)
    out[count++] = engine->done[--engine->count];
  return (int)count;
}

static void dax_describe(const struct engine *engine, struct engine_report *report) {
  bool is_synchronous = true;
  bool is_prefaulted = true;
  for (uint32_t i = 0; i < engine->target_count; i++) {
    bool is_mapped = engine->mappings[i].bytes != NULL;
    is_synchronous = is_synchronous && (!is_mapped || engine->mappings[i].is_synchronous);
    is_prefaulted = is_prefaulted && (!is_mapped || engine->mappings[i].is_prefaulted);
  }
  const struct engine_feature features[] = {
      {"map_sync", is_synchronous},
      {"prefaulted", is_prefaulted},
      {"libpmem", engine->persist.library != NULL},
      {"non_temporal_stores", strcmp(engine->persist.name, "non-temporal stores") == 0},
  };
  memcpy(report->features, features, sizeof features);
  report->feature_count = sizeof features / sizeof *features;
}

const struct engine_ops *engine_dax(void) {
  static const struct engine_ops ops = {
      .name = "dax",
      .is_inline = true,
      .open = dax_open,
      .submit = dax_submit,
      .reap = dax_reap,
      .describe = dax_describe,
      .close = dax_close,
  };
  return &ops;
}
