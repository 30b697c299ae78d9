#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/heap.h"
#include "play/clock.h"
#include "play/emulated_device.h"
#include "play/emulation.h"
#include "play/engine.h"

#define BATCH 64U

/* A request in the device. */
struct service {
  uint64_t submit_ns; /* clock value */
  uint64_t due_ns;    /* clock value: when the device is done */
  uint16_t target;
};

/* A request that the backing engine has done, and that the device would still be busy with. */
struct wait {
  uint64_t due_ns; /* clock value */
  uint32_t slot;
  int32_t error;
};

static bool is_due_before(const struct wait *a, const struct wait *b) {
  return a->due_ns < b->due_ns;
}

HEAP_DEFINE(waits, struct wait, 2, is_due_before)

struct engine {
  struct engine_config config;
  const struct engine_ops *ops; /* of the backing engine, which moves the data */
  struct engine *backing;
  struct device *devices[BLOCK_PLAN_TARGETS_MAX]; /* one a target */
  struct service *services;                       /* by slot */
  struct emulation *emulation;                    /* one a target: how late completions were */
  struct wait *waits;                             /* a heap by due_ns */
  uint32_t wait_count;                            /* entries in the heap */
  uint32_t in_backing;                            /* handed over and not yet come back */
  uint64_t overruns; /* the data were seen to have moved after the device was done */
};

static void emulated_close(struct engine *engine) {
  if (engine == NULL)
    return;
  if (engine->backing != NULL)
    engine->ops->close(engine->backing);
  for (uint32_t i = 0; i < engine->config.target_count; i++)
    device_free(engine->devices[i]);
  free(engine->services);
  free(engine->emulation);
  free(engine->waits);
  free(engine);
}

static int allocate(struct engine *engine) {
  uint32_t depth = engine->config.depth;
  engine->services = calloc(depth, sizeof *engine->services);
  engine->waits = calloc(depth, sizeof *engine->waits);
  engine->emulation = emulation_new(engine->config.target_count);
  bool is_short = engine->services == NULL || engine->waits == NULL || engine->emulation == NULL;
  for (uint32_t i = 0; i < engine->config.target_count && !is_short; i++) {
    engine->devices[i] = device_new(&engine->config.devices[i]);
    is_short = engine->devices[i] == NULL;
  }
  return is_short ? -ENOMEM : 0;
}

/* Without a target nothing moves; with targets io_uring moves the data, or threads where the
 * kernel has no io_uring. */
static int open_backing(struct engine *engine) {
  engine->ops = engine_null();
  if (engine->config.targets[0].kind != TARGET_NONE)
    engine->ops = engine_uring();
  int rc = engine->ops->open(&engine->backing, &engine->config);
  if (rc == 0 || engine->config.targets[0].kind == TARGET_NONE)
    return rc;
  engine->ops = engine_threads();
  return engine->ops->open(&engine->backing, &engine->config);
}

static int emulated_open(struct engine **out, const struct engine_config *config) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL)
    return -ENOMEM;
  engine->config = *config;
  engine->config.wake_count = 1; /* a device is done with each by itself */
  int rc = allocate(engine);
  if (rc == 0)
    rc = open_backing(engine);
  if (rc != 0) {
    emulated_close(engine);
    return rc;
  }
  *out = engine;
  return 0;
}

static int emulated_submit(struct engine *engine, const struct request *request) {
  int rc = engine->ops->submit(engine->backing, request);
  if (rc != 0)
    return rc;
  /* From the recorded time on: what submitting takes is the engine's lateness, not the device's. */
  uint64_t due_ns = device_serve(engine->devices[request->target], request, request->submit_ns);
  engine->services[request->slot] = (struct service){request->submit_ns, due_ns, request->target};
  engine->in_backing++;
  return 0;
}

/* Takes what the backing engine has done, waiting until `until_ns` as reap does. */
static int collect(struct engine *engine, uint64_t until_ns) {
  struct completion done[BATCH];
  int count = engine->ops->reap(engine->backing, done, BATCH, until_ns);
  for (int i = 0; i < count; i++) {
    uint64_t due_ns = engine->services[done[i].slot].due_ns;
    engine->overruns += done[i].complete_ns > due_ns && engine->ops != engine_null();
    struct wait wait = {.due_ns = due_ns, .slot = done[i].slot, .error = done[i].error};
    waits_push(engine->waits, engine->wait_count++, wait);
    engine->in_backing--;
  }
  return count < 0 ? count : 0;
}

/* Hands over what the devices are done with at now_ns. */
static uint32_t release(struct engine *engine, struct completion *out, uint32_t capacity,
                        uint64_t now_ns) {
  uint32_t count = 0;
  while (count < capacity && engine->wait_count > 0 && engine->waits[0].due_ns <= now_ns) {
    struct wait wait = engine->waits[0];
    waits_pop(engine->waits, engine->wait_count--);
    const struct service *service = &engine->services[wait.slot];
    if (wait.error == 0)
      emulation_add(&engine->emulation[service->target], wait.due_ns - service->submit_ns,
                    now_ns - wait.due_ns);
    out[count++] =
        (struct completion){.complete_ns = now_ns, .slot = wait.slot, .error = wait.error};
  }
  return count;
}

/* Sleeps towards the next event, once: its last part, the lead of the clock, is spun. */
static int rest(struct engine *engine, uint64_t until_ns, uint64_t now_ns) {
  uint64_t next_ns = until_ns;
  if (engine->wait_count > 0 && engine->waits[0].due_ns < next_ns)
    next_ns = engine->waits[0].due_ns;
  if (next_ns <= now_ns + engine->config.spin_lead_ns)
    return 0;
  uint64_t wake_ns = clock_wake_ns(now_ns, next_ns, engine->config.spin_lead_ns);
  if (engine->in_backing > 0)
    return collect(engine, wake_ns);
  clock_before_sleep(wake_ns - now_ns);
  clock_sleep_until(wake_ns);
  return 0;
}

static int emulated_reap(struct engine *engine, struct completion *out, uint32_t capacity,
                         uint64_t until_ns) {
  for (;;) {
    int rc = engine->in_backing > 0 ? collect(engine, 0) : 0;
    uint64_t now_ns = clock_now_ns();
    uint32_t count = release(engine, out, capacity, now_ns);
    if (count > 0 || rc != 0 || now_ns >= until_ns)
      return count > 0 ? (int)count : rc;
    rc = rest(engine, until_ns, now_ns);
    if (rc != 0)
      return rc;
  }
}

static void emulated_describe(const struct engine *engine, struct engine_report *report) {
  engine->ops->describe(engine->backing, report);
  report->backing = engine->ops->name;
  report->overruns = engine->overruns;
  report->emulation = engine->emulation;
}

const struct engine_ops *engine_emulated(void) {
  static const struct engine_ops ops = {
      .name = "emulated",
      .open = emulated_open,
      .submit = emulated_submit,
      .reap = emulated_reap,
      .describe = emulated_describe,
      .close = emulated_close,
  };
  return &ops;
}
