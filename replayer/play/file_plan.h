/* A file plan: operations by thread, and the paths they name. INTERFACE.md gives it byte by byte.
 */
#ifndef TRACEKIT_PLAY_FILE_PLAN_H
#define TRACEKIT_PLAY_FILE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/slow_memory.h"
#include "play/file_codes.h"
#include "play/flow_plan.h"

#define FILE_NONE UINT32_MAX /* no file, other file, handle or record */
#define FILE_NO_STEP 255U
#define FILE_AT_POSITION UINT64_MAX /* an offset: where the last transfer ended */
#define FILE_PLAN_THREADS_MAX 4096U
#define FILE_PLAN_HANDLES_MAX (1U << 24)
#define FILE_PLAN_TRANSFER_MAX (64U << 20) /* bytes of one read or write */
#define FILE_PLAN_ERROR_MAX 4095U          /* largest errno of Linux */
#define FILE_PLAN_LINE_NS_MAX 1000000U     /* of a line of slower memory */
#define FILE_PLAN_LINE_BYTES_MIN 64U
#define FILE_PLAN_LINE_BYTES_MAX 65536U

enum file_kind { FILE_REGULAR, FILE_DIRECTORY };

/* One operation, as in the file. */
struct file_record {
  uint64_t start_ns; /* from the start of the plan; never decreases within a thread */
  uint64_t think_ns; /* after the end of the record before it in its thread */
  uint64_t offset;   /* bytes, or FILE_AT_POSITION */
  uint64_t length;   /* bytes */
  uint64_t operation_id;
  uint32_t file;  /* this and the next three: or FILE_NONE */
  uint32_t other; /* new name of rename and link */
  uint32_t handle;
  uint32_t after;          /* record of another thread that ends first */
  uint16_t expected_error; /* errno, 0: none */
  uint16_t flags;          /* enum file_flag, or'ed */
  uint8_t operation;       /* enum file_operation */
  uint8_t step;            /* or FILE_NO_STEP */
  uint16_t reserved;
};

struct file_thread {
  uint64_t first; /* record */
  uint64_t count;
  uint32_t pid; /* of the trace */
  uint32_t tid;
};

struct file_step {
  char label[32]; /* NUL-terminated */
};

struct file_entry {
  uint64_t size_bytes;  /* before the first operation */
  uint64_t name_offset; /* in plan.names */
  uint32_t name_bytes;
  uint32_t parent; /* or FILE_NONE: the directory of the run */
  uint8_t kind;    /* enum file_kind */
  uint8_t is_present;
  uint8_t reserved[6];
};

/* A plan in memory; all is checked, so its indices can be used as they are. */
struct file_plan {
  uint64_t record_count;
  uint64_t duration_ns;
  uint64_t max_transfer_bytes;
  uint64_t needed_bytes;
  uint32_t file_count;
  uint32_t thread_count;
  uint32_t step_count;
  uint32_t handle_count;
  bool is_repeatable;
  const struct file_record *records;
  const struct file_thread *threads;
  const struct file_step *steps;
  const struct file_entry *files;
  const struct tk_slow_memory *memory; /* NULL: this machine's */
  const char *names;                   /* not NUL-terminated */
  struct flow_plan flow;
  void *map;
  size_t map_bytes;
};

/* Returns "open", "create" and so on; any thread. */
const char *file_operation_name(enum file_operation operation);

/* Returns how many threads are the workload's own; those that follow perform what these submit. */
uint32_t file_plan_own_threads(const struct file_plan *plan);

/* Returns the thread that a record belongs to. */
uint32_t file_plan_thread_of(const struct file_plan *plan, uint32_t record);

#endif
