#include "play/preflight_note.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SIZE_TEXT_BYTES 48U

struct kind {
  const char *name;
  const char *message;
  const char *advice;
  bool refuses;
  bool refuses_files; /* only a run that makes files first */
  bool is_count;      /* the numbers are no bytes */
  bool of_operations; /* of files, and not of requests */
};

static const struct kind kinds[PREFLIGHT_CODES] = {
    [PREFLIGHT_NO_SPACE] = {"no_space", "its file system has too little free space for the writes",
                            "free some, or choose another target; " PREFLIGHT_NO_CHECK,
                            .refuses = true},
    [PREFLIGHT_NO_BACKING_SPACE] =
        {"no_backing_space",
         "the file behind this loop device has holes, and its file system too little free space",
         "free some, or choose another target; " PREFLIGHT_NO_CHECK, .refuses = true},
    [PREFLIGHT_NO_QUOTA] =
        {"no_quota", "the writes pass the quota of the file's owner",
         "free some, raise the quota, or choose another target; " PREFLIGHT_NO_CHECK,
         .refuses = true},
    [PREFLIGHT_FILE_SIZE_LIMIT] = {"file_size_limit",
                                   "writes lie beyond the largest file of this process",
                                   "raise the limit (ulimit -f); " PREFLIGHT_NO_CHECK,
                                   .refuses = true},
    [PREFLIGHT_SPACE_UNKNOWN] = {"space_unknown",
                                 "whether its file system has enough free space is not known",
                                 .advice = "raise the limit of memory (ulimit -v)"},
    [PREFLIGHT_READ_ONLY] = {"read_only", "it can only be read",
                             .advice = "writes are skipped: choose another target to replay them"},
    [PREFLIGHT_TOO_SMALL] = {"too_small", "requests lie beyond its end",
                             .advice = "they go where --out-of-range says; choose a larger target"},
    [PREFLIGHT_UNALIGNED] = {"unaligned", "addresses or lengths are no whole blocks of it",
                             .advice =
                                 "it is buffered: add --expand to widen them and use O_DIRECT"},
    [PREFLIGHT_UNALIGNED_RANGE] = {"unaligned_range",
                                   "discards or write zeroes are no whole blocks of it",
                                   .advice =
                                       "they will fail: choose a target with blocks of 512 bytes"},
    [PREFLIGHT_NO_DISCARD] = {"no_discard", "it takes no discards",
                              .advice = "they are skipped: choose a target that takes them"},
    [PREFLIGHT_NO_ZEROES] = {"no_write_zeroes", "it cannot zero a range",
                             .advice = "zeroes are written instead: choose a target that can"},
    [PREFLIGHT_NO_MAP_SYNC] = {"no_map_sync", "the kernel grants no MAP_SYNC",
                               .advice =
                                   "use a file on a DAX file system: stores are not durable by "
                                   "themselves"},
    [PREFLIGHT_NO_ZONES] =
        {"no_zones", "it has no zones",
         .advice = "operations on zones and appends are skipped: choose a zoned device"},
    [PREFLIGHT_ZONE_POINTER] = {"zone_write_pointer",
                                "writes do not begin where their zone is written next",
                                .advice = "they will fail: the trace is not of a device with such "
                                          "zones, or the zones need a reset"},
    [PREFLIGHT_ZONE_CROSSING] = {"zone_crossing", "writes pass the end of their zone",
                                 .advice = "they will fail: choose a device with larger zones"},
    [PREFLIGHT_ZONE_LIMIT] =
        {"zone_limit", "more zones are open, or begun and not full, than it can have at once",
         .advice = "they will fail: choose a device that can have more (max_open_zones and "
                   "max_active_zones of its queue in sysfs)"},
    [PREFLIGHT_APPEND_AS_WRITE] =
        {"append_as_write", "appends are writes where their zone is written next",
         .advice = "use --engine nvme: the kernel appends by commands of NVMe alone"},
    [PREFLIGHT_NO_RESULTS_SPACE] = {"no_results_space",
                                    "there is too little free space for the completions",
                                    "free some, or write them elsewhere; " PREFLIGHT_NO_CHECK,
                                    .refuses = true},
    [PREFLIGHT_RESULTS_SIZE_LIMIT] = {"results_size_limit",
                                      "the completions pass the largest file of this process",
                                      "raise the limit (ulimit -f); " PREFLIGHT_NO_CHECK,
                                      .refuses = true},
    [PREFLIGHT_OPEN_FILES_LIMIT] = {"open_files_limit", "this process may open too few files",
                                    "raise the limit (ulimit -n)", .is_count = true},
    [PREFLIGHT_LOCKED_MEMORY_LIMIT] = {"locked_memory_limit", "io_uring may lock too little memory",
                                       .advice = "raise the limit (ulimit -l): each request maps "
                                                 "its buffer without, or threads make it"},
    [PREFLIGHT_ADDRESS_SPACE_LIMIT] = {"address_space_limit",
                                       "this process may map too little memory",
                                       "raise the limit (ulimit -v), or use fewer threads",
                                       .refuses_files = true},
    [PREFLIGHT_DATA_LIMIT] = {"data_limit", "this process may have too little data",
                              "raise the limit (ulimit -d), or use fewer threads",
                              .refuses_files = true},
    [PREFLIGHT_THREADS_LIMIT] = {"threads_limit", "this user may start too few threads",
                                 "raise the limit (ulimit -u), or use fewer threads",
                                 .refuses_files = true, .is_count = true},
    [PREFLIGHT_GROUP_THREADS_LIMIT] =
        {"group_threads_limit", "the control group may start too few threads",
         "write a larger number there, run in another group, or use fewer threads",
         .refuses_files = true, .is_count = true},
    [PREFLIGHT_GROUP_MEMORY_LIMIT] =
        {"group_memory_limit", "the control group may have too little memory",
         "write a larger number there, run in another group, or use fewer threads: the kernel "
         "would kill the run; " PREFLIGHT_NO_CHECK,
         .refuses = true},
    [PREFLIGHT_GROUP_MEMORY_HIGH] =
        {"group_memory_high", "the control group may have too little memory without being slowed",
         .advice = "write a larger number there, or run in another group: the kernel would slow "
                   "the run down"},
    [PREFLIGHT_LONG_NAMES] = {"long_names", "names are longer than the file system takes",
                              "choose a directory on another one", .refuses_files = true,
                              .of_operations = true},
    [PREFLIGHT_NO_DIRECT] = {"no_direct", "the file system opens no file with O_DIRECT",
                             .advice = "these will fail: choose a directory on another one",
                             .of_operations = true},
    [PREFLIGHT_UNALIGNED_DIRECT] =
        {"unaligned_direct",
         "reads and writes with O_DIRECT are no whole blocks of the file system",
         .advice = "these will fail: choose a directory on one with smaller blocks",
         .of_operations = true},
    [PREFLIGHT_NO_FALLOCATE] = {"no_fallocate", "the file system cannot allocate or free ranges so",
                                .advice = "these will fail: choose a directory on another one",
                                .of_operations = true},
};

void preflight_note_add(struct preflight_note *notes, enum preflight_code code,
                        const struct preflight_note *numbers) {
  notes[code] = *numbers;
  notes[code].is_there = true;
}

bool preflight_note_refuses(enum preflight_code code, bool makes_files) {
  return kinds[code].refuses || (makes_files && kinds[code].refuses_files);
}

static void size_text(uint64_t value, bool is_count, char text[SIZE_TEXT_BYTES]) {
  if (is_count)
    (void)snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64, value); /* always fits, as the next two */
  else if (value < UINT64_C(1) << 20)
    (void)snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " bytes", value);
  else
    (void)snprintf(text, SIZE_TEXT_BYTES, "%.1f MiB", (double)value / 1048576.0);
}

/* Writes behind the text, as far as there is space. */
__attribute__((format(printf, 2, 3))) static void add(char text[PREFLIGHT_TEXT_BYTES],
                                                      const char *format, ...) {
  size_t used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text + used, PREFLIGHT_TEXT_BYTES - used, format, arguments); /* cut is fine */
  va_end(arguments);
}

const char *preflight_note_text(enum preflight_code code, const struct preflight_note *note,
                                char text[PREFLIGHT_TEXT_BYTES]) {
  const struct kind *kind = &kinds[code];
  char needed[SIZE_TEXT_BYTES];
  char available[SIZE_TEXT_BYTES];
  char limit[SIZE_TEXT_BYTES];
  size_text(note->needed, kind->is_count, needed);
  size_text(note->available, kind->is_count, available);
  size_text(note->limit, kind->is_count, limit);
  bool has_size = note->needed != 0 || note->available != 0;
  text[0] = '\0';
  add(text, "%s", kind->message);
  if (has_size)
    add(text, ": %s needed, %s there", needed, available);
  if (note->where != NULL)
    add(text, " of %s by %s", limit, note->where);
  if (note->requests != 0)
    add(text, "%s%" PRIu64 " %s%s", has_size ? ", " : ": ", note->requests,
        kind->of_operations ? "operation" : "request", note->requests == 1 ? "" : "s");
  return kind->advice;
}

void preflight_note_write(struct json *json, const struct preflight_note *notes) {
  json_open(json, "fit", '[');
  for (unsigned code = 0; code < PREFLIGHT_CODES; code++) {
    const struct preflight_note *note = &notes[code];
    char text[PREFLIGHT_TEXT_BYTES];
    if (!note->is_there)
      continue;
    const char *advice = preflight_note_text((enum preflight_code)code, note, text);
    json_open(json, NULL, '{');
    json_text(json, "code", kinds[code].name);
    json_number(json, "needed", note->needed);
    json_number(json, "available", note->available);
    json_number(json, "requests", note->requests);
    json_text(json, "message", text);
    json_text(json, "advice", advice);
    json_close(json, '}');
  }
  json_close(json, ']');
}
