#include <errno.h>
#include <stdlib.h>

#include "play/clock.h"
#include "play/engine.h"

struct engine {
  uint32_t count;   /* requests taken and not yet reaped */
  uint32_t slots[]; /* of these requests */
};

static int null_open(struct engine **out, const struct engine_config *config) {
  struct engine *engine = calloc(1, sizeof *engine + config->depth * sizeof *engine->slots);
  if (engine == NULL)
    return -ENOMEM;
  *out = engine;
  return 0;
}

static int null_submit(struct engine *engine, const struct request *request) {
  engine->slots[engine->count++] = request->slot;
  return 0;
}

static int null_reap(struct engine *engine, struct completion *out, uint32_t capacity,
                     uint64_t until_ns) {
  if (engine->count == 0) {
    if (until_ns != 0)
      clock_sleep_until(until_ns);
    return 0;
  }
  uint64_t now = clock_now_ns();
  uint32_t count = 0;
  while (engine->count > 0 && count < capacity)
    out[count++] = (struct completion){.complete_ns = now, .slot = engine->slots[--engine->count]};
  return (int)count;
}

static void null_describe(const struct engine *engine, struct engine_report *report) {
  (void)engine; /* it has nothing to report */
  report->feature_count = 0;
  report->resubmitted = 0;
}

static void null_close(struct engine *engine) { free(engine); }

const struct engine_ops *engine_null(void) {
  static const struct engine_ops ops = {
      .name = "null",
      .open = null_open,
      .submit = null_submit,
      .reap = null_reap,
      .describe = null_describe,
      .close = null_close,
  };
  return &ops;
}
