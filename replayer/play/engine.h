/* How requests reach their targets: interchangeable engines behind five functions.
 * All functions of an engine are called by the submitting thread alone. */
#ifndef TRACEKIT_PLAY_ENGINE_H
#define TRACEKIT_PLAY_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "play/buffers.h"
#include "play/target.h"
#include "play/uring_modes.h"

#define ENGINE_FEATURES_MAX 12U

/* One request in flight; the run owns it and keeps it unchanged until it is reaped. */
struct request {
  uint64_t offset_bytes; /* from the start of the target */
  uint64_t length_bytes; /* 0 for a flush */
  uint64_t submit_ns;    /* clock value: the submission as the run records it */
  uint64_t request_id;   /* of the plan */
  uint32_t slot;         /* 0 to depth - 1; names the request while it is in flight */
  uint16_t target;       /* index */
  uint8_t operation;     /* enum block_operation */
  uint8_t flags;         /* enum block_flag */
};

struct device_spec;
struct emulation;

struct completion {
  uint64_t complete_ns; /* when the engine saw it, clock_now_ns */
  uint32_t slot;        /* of the request */
  int32_t error;        /* 0 or -errno; -ENODATA: the read met the end of the file */
  uint32_t late_ns;     /* of that the engine's own: a wake-up, where it slept and knows how long */
};

struct engine_config {
  const struct target *targets;      /* borrowed while the engine is open */
  const struct buffers *buffers;     /* borrowed while the engine is open */
  const struct device_spec *devices; /* one a target; borrowed; only for the emulated engine */
  uint64_t spin_lead_ns;             /* how long before a deadline sleeping ends */
  uint32_t wake_up_ns;               /* what a wake-up takes; 0: not known */
  uint32_t target_count;             /* entries in `targets` */
  uint32_t depth;                    /* most requests in flight */
  uint32_t wake_count;               /* completions that a sleep waits for; 1: as they come */
  uint32_t threads;                  /* for engines that have them */
  struct uring_modes uring;          /* for the io_uring engine alone */
};

struct engine_feature {
  const char *name; /* for example "registered_files" */
  bool is_used;     /* false: the kernel does not have it */
};

struct engine_report {
  uint32_t feature_count;
  struct engine_feature features[ENGINE_FEATURES_MAX];
  uint64_t resubmitted; /* short transfers, and pieces of what is longer than a command */
  uint64_t retried;     /* requests that the kernel refused for the moment, each time */
  const char *backing;  /* engine that moved the data for an emulated one; NULL */
  uint64_t unpolled;    /* flushes and the like, which went past a polled ring */
  uint64_t wakes;       /* times that the kernel's submitting thread slept and had to be woken */
  uint64_t overruns;    /* requests whose data were seen only after the device was done */
  const struct emulation *emulation; /* one a target, while the engine is open; NULL */
};

struct engine; /* each engine has its own */

struct engine_ops {
  const char *name;
  bool is_inline; /* a request is done when submit returns: each needs a clock reading of its own */
  /* Makes the engine. Returns 0 or -errno; -ENOSYS or -EPERM when this machine cannot run it. */
  int (*open)(struct engine **out, const struct engine_config *config);
  /* Takes one request; the caller keeps at most `depth` in flight. Returns 0 or -errno. */
  int (*submit)(struct engine *engine, const struct request *request);
  /* Starts what was taken, then returns up to `capacity` completions in `out`. Waits for the first
   * until `until_ns`, 0: not at all. Returns how many, or -errno; 0 also after a signal. */
  int (*reap)(struct engine *engine, struct completion *out, uint32_t capacity, uint64_t until_ns);
  /* Says what was used. */
  void (*describe)(const struct engine *engine, struct engine_report *report);
  /* Waits for what is in flight and frees the engine; NULL is fine. */
  void (*close)(struct engine *engine);
};

/* Does nothing, at once: measures the replayer itself. */
const struct engine_ops *engine_null(void);

/* A pool of threads with pread, pwrite, fdatasync: runs everywhere. */
const struct engine_ops *engine_threads(void);

/* A device that exists as its service times: each completion comes when that device would be done,
 * and not before the data has moved, if there are targets. */
const struct engine_ops *engine_emulated(void);

/* Loads and stores on mapped targets, such as files of a DAX file system on persistent memory. */
const struct engine_ops *engine_dax(void);

/* io_uring by its system calls. */
const struct engine_ops *engine_uring(void);

/* Commands of NVMe to the generic character devices of namespaces, by an io_uring. */
const struct engine_ops *engine_nvme(void);

#endif
