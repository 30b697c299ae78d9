/* Loads and stores instead of system calls: each request is done when submit returns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "play/blocking.h"
#include "play/clock.h"
#include "play/engine.h"
#include "play/mapping.h"
#include "play/persist.h"

struct engine {
  const struct target *targets;
  const struct buffers *buffers;
  struct persist persist;
  uint32_t target_count;
  uint32_t count; /* requests done and not yet reaped */
  struct mapping mappings[BLOCK_PLAN_TARGETS_MAX];
  struct completion done[];
};

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
  int rc = mapping_guard_faults();
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
    rc = mapping_copy(engine->persist.copy, to, from, (size_t)request->length_bytes);
  if (rc == 0 && (request->flags & BLOCK_FUA) != 0)
    rc = flush(engine, request);
  return rc;
}

static int load(const struct engine *engine, const struct request *request) {
  const unsigned char *from = engine->mappings[request->target].bytes + request->offset_bytes;
  return mapping_copy(copy_out, engine->buffers->sink, from, (size_t)request->length_bytes);
}

/* Zeroes by hand, a buffer at a time: a DAX device has no file system that could. */
static int store_zeroes(const struct engine *engine, const struct request *request) {
  unsigned char *to = engine->mappings[request->target].bytes + request->offset_bytes;
  const struct buffers *buffers = engine->buffers;
  int rc = 0;
  for (uint64_t done = 0; done < request->length_bytes && rc == 0;) {
    uint64_t left = request->length_bytes - done;
    uint64_t size = left < buffers->transfer_bytes ? left : buffers->transfer_bytes;
    rc = mapping_copy(engine->persist.copy, to + done, buffers->zeroes, (size_t)size);
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
  case BLOCK_DISCARD:
    break; /* only the file system can */
  }
  return blocking_run(&engine->targets[request->target], engine->buffers, NULL, request);
}

static int dax_submit(struct engine *engine, const struct request *request) {
  int error = perform(engine, request);
  engine->done[engine->count++] =
      (struct completion){.complete_ns = clock_now_ns(), .slot = request->slot, .error = error};
  return 0;
}

static int dax_reap(struct engine *engine, struct completion *out, uint32_t room,
                    uint64_t until_ns) {
  if (engine->count == 0 && until_ns != 0)
    clock_sleep_until(until_ns);
  uint32_t count = 0;
  while (engine->count > 0 && count < room)
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
