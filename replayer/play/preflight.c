#include "play/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/block_targets.h"
#include "play/capabilities.h"
#include "play/completions.h"
#include "play/diag.h"
#include "play/disk_space.h"
#include "play/plan_scan.h"
#include "play/preflight_process.h"
#include "play/process_limits.h"

#define RESULTS_HEADER_BYTES 64U
#define SCANNED_MAX (UINT64_C(1) << 22) /* requests: a longer plan starts as soon */

/* Where the space of one target comes from. */
struct source {
  int fd;      /* the file, that behind a loop device, or the folder of one to be made; -1: none */
  bool is_new; /* it is made for the run, and has no blocks */
  bool is_behind;        /* a loop device */
  uint64_t offset_bytes; /* of the target in it */
  struct disk_space space;
  uint64_t preallocated_bytes;
  const struct group_limit *group; /* that limits it, as its files are in memory; NULL: none */
};

struct check {
  struct block_session *session;
  struct source sources[BLOCK_PLAN_TARGETS_MAX];
  struct scan_target scanned[BLOCK_PLAN_TARGETS_MAX];
  bool is_scanned;
};

static int open_folder_of(const char *path) {
  char folder[PATH_MAX];
  int rc = capabilities_folder_of(path, folder, sizeof folder);
  int fd = rc == 0 ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : rc;
  return fd == -1 ? -errno : fd;
}

/* Files in memory take that of the control group. */
static void limit_to_group(struct block_session *session, struct source *source) {
  struct group_limit *group = &session->groups.limits[GROUP_LIMIT_MEMORY];
  group_limits_find(GROUP_LIMIT_MEMORY, group);
  if (group->left >= source->space.free_bytes)
    return;
  source->space.free_bytes = group->left;
  source->group = group;
}

/* What cannot be asked, such as the file behind another user's loop device, is left to the run. */
static void find_source(struct block_session *session, const struct target *target,
                        struct source *source) {
  *source = (struct source){.fd = -1, .is_new = target->kind == TARGET_MADE_FILE};
  if (!target->may_write)
    return;
  if (source->is_new)
    source->fd = open_folder_of(target->path);
  else if (target->kind == TARGET_FILE)
    source->fd = fcntl(target->fd, F_DUPFD_CLOEXEC, 0);
  else if (target->kind == TARGET_DEVICE)
    source->fd = disk_space_behind_loop(target->device, &source->offset_bytes);
  source->is_behind = target->kind == TARGET_DEVICE;
  if (source->fd >= 0 && disk_space_of(source->fd, &source->space) != 0) {
    (void)close(source->fd); /* only read */
    source->fd = -1;
  } else if (source->fd >= 0 && source->space.is_memory) {
    limit_to_group(session, source);
  }
}

/* The most that the writes of a target can take, by the plan's tables. */
static uint64_t bound_bytes(const struct block_session *session, uint32_t index,
                            const struct source *source) {
  const struct block_target *planned = &session->plan.targets[index];
  const struct target *target = &session->targets[index];
  uint64_t block = source->space.block_bytes;
  uint64_t step = block > target->align_bytes ? block : target->align_bytes;
  uint64_t count = planned->counts[BLOCK_WRITE] + planned->counts[BLOCK_WRITE_ZEROES];
  uint64_t bytes = planned->bytes[BLOCK_WRITE] + planned->bytes[BLOCK_WRITE_ZEROES];
  uint64_t written = bytes + 2 * step * count;
  uint64_t size = target->size_bytes + 2 * block;
  return written < size && source->space.has_holes ? written : size;
}

static uint64_t results_bytes(const struct block_session *session) {
  return RESULTS_HEADER_BYTES +
         (session->window.end - session->window.first) * sizeof(struct completions_record);
}

/* Whether all that may be written to a file system certainly fits. */
static bool has_plenty(const struct check *check, uint32_t index) {
  const struct disk_space *space = &check->sources[index].space;
  uint64_t bound = results_bytes(check->session); /* they may be on the same one */
  for (uint32_t i = 0; i < check->session->target_count; i++)
    if (check->sources[i].fd >= 0 && check->sources[i].space.device == space->device)
      bound += bound_bytes(check->session, i, &check->sources[i]);
  return bound <= space->free_bytes && bound <= space->quota_bytes;
}

static void start_map(struct check *check, uint32_t index) {
  struct source *source = &check->sources[index];
  const struct target *target = &check->session->targets[index];
  struct scan_target *scanned = &check->scanned[index];
  uint64_t size = target->size_bytes;
  if (source->fd < 0 || has_plenty(check, index))
    return;
  scanned->map = block_map_new(size, source->space.block_bytes);
  if (scanned->map == NULL)
    preflight_note_add(check->session->preflight.notes[index], PREFLIGHT_SPACE_UNKNOWN,
                       &(struct preflight_note){0});
  else if (!source->space.has_holes && source->is_new)
    block_map_take(scanned->map, 0, size);
  else if (!source->is_new)
    source->preallocated_bytes =
        disk_space_begin(source->fd, source->offset_bytes, size, scanned->map);
}

static bool is_odd(const struct block_session *session, uint32_t index) {
  const struct target *target = &session->targets[index];
  const struct block_target *planned = &session->plan.targets[index];
  uint64_t zoned = 0;
  for (unsigned operation = BLOCK_ZONE_APPEND; operation < BLOCK_OPERATIONS; operation++)
    zoned += planned->counts[operation];
  return planned->address_bits * SECTOR_BYTES % target->align_bytes != 0 ||
         (zoned > 0 && !target_has_zones(target)) ||
         (planned->counts[BLOCK_DISCARD] > 0 && !target->can_discard) ||
         (planned->counts[BLOCK_WRITE_ZEROES] > 0 && !target->can_zero) || !target->may_write;
}

/* A run waits for the scan only where it decides whether the run begins, or is short. */
static bool must_scan(const struct check *check) {
  const struct block_session *session = check->session;
  bool is_short = session->plan.record_count <= SCANNED_MAX || session->options->is_dry_run;
  for (uint32_t i = 0; i < session->target_count; i++) {
    const struct scan_target *scanned = &check->scanned[i];
    uint64_t needed = session->plan.targets[i].needed_bytes;
    uint64_t usable = block_targets_fit(session, i).size_sectors * SECTOR_BYTES;
    if (scanned->map != NULL || scanned->zones != NULL || needed > usable ||
        needed > scanned->limit_bytes || (is_short && is_odd(session, i)))
      return true;
  }
  return false;
}

/* Of a long plan that was not read, its tables know the operations. */
static int scan(struct check *check) {
  const struct block_session *session = check->session;
  check->is_scanned = must_scan(check);
  if (check->is_scanned)
    return plan_scan(session, check->scanned);
  for (uint32_t i = 0; i < session->target_count; i++) {
    const uint64_t *planned = session->plan.targets[i].counts;
    uint64_t *counts = check->scanned[i].counts;
    counts[SCAN_DISCARDS] = planned[BLOCK_DISCARD];
    counts[SCAN_ZEROES] = planned[BLOCK_WRITE_ZEROES];
    counts[SCAN_WRITES] =
        planned[BLOCK_WRITE] + planned[BLOCK_DISCARD] + planned[BLOCK_WRITE_ZEROES];
  }
  return 0;
}

/* Notes what of `needed` bytes is more than a file system still has, and leaves it less for those
 * that come after. */
static void charge(struct check *check, uint32_t place, enum preflight_code code, uint64_t needed,
                   dev_t device, uint64_t free_bytes) {
  uint64_t charged = 0;
  struct preflight_note note = {.needed = needed};
  for (uint32_t i = 0; i < check->session->target_count; i++) {
    struct source *source = &check->sources[i];
    if (source->fd < 0 || source->space.device != device || source->space.free_bytes == UINT64_MAX)
      continue;
    free_bytes = source->space.free_bytes; /* the same for all on it */
    note.limit = source->group == NULL ? 0 : source->group->limit;
    note.where = source->group == NULL ? NULL : source->group->path;
    charged = needed < free_bytes ? needed : free_bytes;
    source->space.free_bytes -= charged;
  }
  note.available = free_bytes;
  if (needed > free_bytes)
    preflight_note_add(check->session->preflight.notes[place], code, &note);
}

static void note_space(struct check *check, uint32_t index) {
  const struct source *source = &check->sources[index];
  struct scan_target *scanned = &check->scanned[index];
  if (scanned->map == NULL)
    return;
  uint64_t peak = block_map_peak_bytes(scanned->map);
  uint64_t needed = peak > source->preallocated_bytes ? peak - source->preallocated_bytes : 0;
  struct preflight_note quota = {.needed = needed, .available = source->space.quota_bytes};
  if (needed > quota.available)
    preflight_note_add(check->session->preflight.notes[index], PREFLIGHT_NO_QUOTA, &quota);
  charge(check, index, source->is_behind ? PREFLIGHT_NO_BACKING_SPACE : PREFLIGHT_NO_SPACE, needed,
         source->space.device, source->space.free_bytes);
}

static bool is_file(const struct target *target) {
  return target->kind == TARGET_FILE || target->kind == TARGET_MADE_FILE;
}

static struct preflight_note counted(uint64_t requests) {
  return (struct preflight_note){.requests = requests};
}

/* One row a note: whether it holds, and its numbers. */
static void note_target(struct check *check, uint32_t index) {
  struct block_session *session = check->session;
  const struct target *target = &session->targets[index];
  const uint64_t *counts = check->scanned[index].counts;
  const struct block_target *planned = &session->plan.targets[index];
  struct preflight_note size = {.needed = planned->needed_bytes,
                                .available = target->size_bytes,
                                .requests = counts[SCAN_BEYOND]};
  struct preflight_note align = {
      .needed = target->align_bytes,
      .available = (planned->address_bits & (~planned->address_bits + 1)) * SECTOR_BYTES,
      .requests = counts[SCAN_UNALIGNED]};
  struct preflight_note limit = {.needed = planned->needed_bytes,
                                 .available = check->scanned[index].limit_bytes,
                                 .requests = counts[SCAN_TOO_FAR]};
  struct preflight_note range = align;
  range.requests = counts[SCAN_UNALIGNED_RANGE];
  const struct {
    enum preflight_code code;
    bool holds;
    struct preflight_note note;
  } found[] = {
      {PREFLIGHT_FILE_SIZE_LIMIT, counts[SCAN_TOO_FAR] > 0, limit},
      {PREFLIGHT_READ_ONLY, counts[SCAN_WRITES] > 0 && capabilities_is_read_only(target->fd),
       counted(counts[SCAN_WRITES])},
      {PREFLIGHT_TOO_SMALL, counts[SCAN_BEYOND] > 0, size},
      {PREFLIGHT_UNALIGNED,
       counts[SCAN_UNALIGNED] > 0 && !target->expands && session->options->direct != DIRECT_OFF,
       align},
      {PREFLIGHT_UNALIGNED_RANGE, counts[SCAN_UNALIGNED_RANGE] > 0 && target->kind == TARGET_DEVICE,
       range},
      {PREFLIGHT_NO_DISCARD, counts[SCAN_DISCARDS] > 0 && !target->can_discard,
       counted(counts[SCAN_DISCARDS])},
      {PREFLIGHT_NO_ZEROES, counts[SCAN_ZEROES] > 0 && !target->can_zero,
       counted(counts[SCAN_ZEROES])},
      {PREFLIGHT_NO_ZONES, counts[SCAN_ZONE_OPERATIONS] > 0 && !target_has_zones(target),
       counted(counts[SCAN_ZONE_OPERATIONS])},
      {PREFLIGHT_ZONE_POINTER, counts[SCAN_ZONE_POINTER] > 0, counted(counts[SCAN_ZONE_POINTER])},
      {PREFLIGHT_ZONE_CROSSING, counts[SCAN_ZONE_CROSSING] > 0,
       counted(counts[SCAN_ZONE_CROSSING])},
      {PREFLIGHT_ZONE_LIMIT, counts[SCAN_ZONE_MORE] > 0, counted(counts[SCAN_ZONE_MORE])},
      {PREFLIGHT_APPEND_AS_WRITE,
       counts[SCAN_APPENDS] > 0 && target->zones != NULL &&
           strcmp(session->options->engine, "nvme") != 0,
       counted(counts[SCAN_APPENDS])},
      {PREFLIGHT_NO_MAP_SYNC,
       strcmp(session->options->engine, "dax") == 0 && is_file(target) &&
           !capabilities_map_sync(target->fd, target->path),
       {0}},
  };
  session->beyond[index] = counts[SCAN_BEYOND];
  for (size_t i = 0; i < sizeof found / sizeof *found; i++)
    if (found[i].holds)
      preflight_note_add(session->preflight.notes[index], found[i].code, &found[i].note);
}

/* Completions go to a file beside their name. */
static void note_results(struct check *check) {
  struct block_session *session = check->session;
  const char *path = session->options->completions_path;
  struct preflight_note note = {.needed = results_bytes(session),
                                .available = process_limits_get(RLIMIT_FSIZE)};
  struct disk_space space;
  struct stat status;
  if (path == NULL || (stat(path, &status) == 0 && !S_ISREG(status.st_mode)))
    return;
  if (note.needed > note.available)
    preflight_note_add(session->preflight.notes[PREFLIGHT_OF_RUN], PREFLIGHT_RESULTS_SIZE_LIMIT,
                       &note);
  int fd = open_folder_of(path);
  if (fd < 0)
    return; /* options_check_outputs has seen that it can be written to */
  if (disk_space_of(fd, &space) == 0)
    charge(check, PREFLIGHT_OF_RUN, PREFLIGHT_NO_RESULTS_SPACE, note.needed, space.device,
           space.free_bytes);
  (void)close(fd); /* only read */
}

/* Prints each reason why the run cannot succeed. */
static int reject(const struct block_session *session, uint32_t place) {
  int rc = 0;
  for (unsigned code = 0; code < PREFLIGHT_CODES; code++) {
    const struct preflight_note *note = &session->preflight.notes[place][code];
    char text[PREFLIGHT_TEXT_BYTES];
    if (!note->is_there || !preflight_note_refuses((enum preflight_code)code, false))
      continue;
    const char *advice = preflight_note_text((enum preflight_code)code, note, text);
    bool is_of_results = code == PREFLIGHT_NO_RESULTS_SPACE || code == PREFLIGHT_RESULTS_SIZE_LIMIT;
    if (place == PREFLIGHT_OF_RUN && is_of_results)
      diag("%s: %s; %s", session->options->completions_path, text, advice);
    else if (place == PREFLIGHT_OF_RUN)
      diag("%s; %s", text, advice);
    else
      diag("target %s=%s is refused: %s; %s", session->targets[place].label,
           session->targets[place].path, text, advice);
    rc = -ENOSPC;
  }
  return rc;
}

void preflight_explain(const struct block_session *session) {
  const struct preflight_note *notes = session->preflight.notes[PREFLIGHT_OF_RUN];
  for (unsigned code = 0; code < PREFLIGHT_CODES; code++) {
    char text[PREFLIGHT_TEXT_BYTES];
    if (!notes[code].is_there)
      continue;
    const char *advice = preflight_note_text((enum preflight_code)code, &notes[code], text);
    diag("%s; %s", text, advice);
  }
}

static int check_range(const struct block_session *session) {
  for (uint32_t i = 0; i < session->target_count; i++) {
    const struct target *target = &session->targets[i];
    if (session->beyond[i] == 0 || session->options->out_of_range != FIT_REFUSE)
      continue;
    diag("target %s=%s is too small: %" PRIu64 " %s beyond its %" PRIu64
         " bytes, the plan needs %" PRIu64
         "; choose a larger one or --out-of-range wrap, fold, scale, clip or skip",
         target->label, target->path, session->beyond[i],
         session->beyond[i] == 1 ? "request lies" : "requests lie",
         block_targets_fit(session, i).size_sectors * SECTOR_BYTES,
         session->plan.targets[i].needed_bytes);
    return -ERANGE;
  }
  return 0;
}

static int check_all(struct check *check) {
  struct block_session *session = check->session;
  for (uint32_t i = 0; i < session->target_count; i++)
    find_source(session, &session->targets[i], &check->sources[i]);
  for (uint32_t i = 0; i < session->target_count; i++) {
    const struct target *target = &session->targets[i];
    bool is_stored = strcmp(session->options->engine, "dax") == 0; /* not written by a call */
    bool is_limited = is_file(target) && target->may_write && !is_stored;
    check->scanned[i].limit_bytes = is_limited ? process_limits_get(RLIMIT_FSIZE) : UINT64_MAX;
    start_map(check, i);
    bool is_cut = strcmp(session->options->engine, "nvme") != 0;
    bool is_zoned = target->may_write && target->zones != NULL;
    int rc = is_zoned ? zone_map_open(&check->scanned[i].zones, target->fd, is_cut) : 0;
    if (rc != 0)
      return rc;
  }
  int rc = scan(check);
  if (rc != 0)
    return rc;
  note_results(check);
  for (uint32_t i = 0; i < session->target_count; i++) {
    note_space(check, i);
    note_target(check, i);
  }
  preflight_process(session);
  rc = check_range(session);
  for (uint32_t i = 0; i <= PREFLIGHT_OF_RUN && rc == 0 && !session->options->ignores_space; i++)
    rc = reject(session, i);
  return rc;
}

int preflight_check(struct block_session *session) {
  struct check check = {.session = session};
  for (uint32_t i = 0; i < session->target_count; i++)
    check.sources[i].fd = -1;
  int rc = check_all(&check);
  for (uint32_t i = 0; i < session->target_count; i++) {
    if (check.sources[i].fd >= 0)
      (void)close(check.sources[i].fd); /* only read */
    block_map_free(check.scanned[i].map);
    zone_map_close(check.scanned[i].zones);
  }
  return rc;
}
