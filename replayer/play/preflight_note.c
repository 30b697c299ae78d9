#include "play/preflight_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SIZE_TEXT_BYTES 48U

struct kind {
  const char *name;
  const char *message;
  const char *advice;
  bool refuses;
  bool is_count; /* the numbers are no bytes */
};

#define NO_CHECK "--no-space-check starts all the same"

static const struct kind kinds[PREFLIGHT_CODES] = {
    [PREFLIGHT_NO_SPACE] = {"no_space", "its file system has too little free space for the writes",
                            "free some, or choose another target; " NO_CHECK, .refuses = true},
    [PREFLIGHT_NO_BACKING_SPACE] =
        {"no_backing_space",
         "the file behind this loop device has holes, and its file system too little free space",
         "free some, or choose another target; " NO_CHECK, .refuses = true},
    [PREFLIGHT_NO_QUOTA] = {"no_quota", "the writes pass the quota of the file's owner",
                            "free some, raise the quota, or choose another target; " NO_CHECK,
                            .refuses = true},
    [PREFLIGHT_FILE_SIZE_LIMIT] = {"file_size_limit",
                                   "writes lie beyond the largest file of this process",
                                   "raise the limit (ulimit -f); " NO_CHECK, .refuses = true},
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
    [PREFLIGHT_APPEND_AS_WRITE] =
        {"append_as_write", "appends are writes where their zone is written next",
         .advice = "use --engine nvme: the kernel appends by commands of NVMe alone"},
    [PREFLIGHT_NO_RESULTS_SPACE] = {"no_results_space",
                                    "there is too little free space for the completions",
                                    "free some, or write them elsewhere; " NO_CHECK,
                                    .refuses = true},
    [PREFLIGHT_RESULTS_SIZE_LIMIT] = {"results_size_limit",
                                      "the completions pass the largest file of this process",
                                      "raise the limit (ulimit -f); " NO_CHECK, .refuses = true},
    [PREFLIGHT_OPEN_FILES_LIMIT] = {"open_files_limit", "this process may open too few files",
                                    "raise the limit (ulimit -n)", .is_count = true},
    [PREFLIGHT_LOCKED_MEMORY_LIMIT] = {"locked_memory_limit", "io_uring may lock too little memory",
                                       .advice = "raise the limit (ulimit -l): each request maps "
                                                 "its buffer without, or threads make it"},
    [PREFLIGHT_ADDRESS_SPACE_LIMIT] = {"address_space_limit",
                                       "this process may map too little memory",
                                       .advice =
                                           "raise the limit (ulimit -v), or use fewer --threads"},
    [PREFLIGHT_DATA_LIMIT] = {"data_limit", "this process may have too little data",
                              .advice = "raise the limit (ulimit -d), or use fewer --threads"},
    [PREFLIGHT_THREADS_LIMIT] = {"threads_limit", "this user may start too few threads",
                                 "raise the limit (ulimit -u), or use fewer --threads",
                                 .is_count = true},
};

void preflight_note_add(struct preflight *preflight, uint32_t place, enum preflight_code code,
                        const struct preflight_note *numbers) {
  struct preflight_note *note = &preflight->notes[place][code];
  *note = *numbers;
  note->is_there = true;
}

bool preflight_note_refuses(enum preflight_code code) { return kinds[code].refuses; }

static void size_text(uint64_t value, bool is_count, char text[SIZE_TEXT_BYTES]) {
  if (is_count)
    (void)snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64, value); /* always fits, as the next two */
  else if (value < UINT64_C(1) << 20)
    (void)snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " bytes", value);
  else
    (void)snprintf(text, SIZE_TEXT_BYTES, "%.1f MiB", (double)value / 1048576.0);
}

const char *preflight_note_text(enum preflight_code code, const struct preflight_note *note,
                                char text[PREFLIGHT_TEXT_BYTES]) {
  const struct kind *kind = &kinds[code];
  char needed[SIZE_TEXT_BYTES];
  char available[SIZE_TEXT_BYTES];
  size_text(note->needed, kind->is_count, needed);
  size_text(note->available, kind->is_count, available);
  bool has_size = note->needed != 0 || note->available != 0;
  (void)snprintf(text, PREFLIGHT_TEXT_BYTES, "%s%s%s%s%s%s", kind->message, has_size ? ": " : "",
                 has_size ? needed : "", has_size ? " needed, " : "", has_size ? available : "",
                 has_size ? " there" : ""); /* always fits, as does the next */
  size_t used = strlen(text);
  if (note->requests != 0)
    (void)snprintf(text + used, PREFLIGHT_TEXT_BYTES - used, "%s%" PRIu64 " request%s",
                   has_size ? ", " : ": ", note->requests, note->requests == 1 ? "" : "s");
  return kind->advice;
}

void preflight_note_write(struct json *json, const struct preflight *preflight, uint32_t place) {
  json_open(json, "fit", '[');
  for (unsigned code = 0; code < PREFLIGHT_CODES; code++) {
    const struct preflight_note *note = &preflight->notes[place][code];
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
