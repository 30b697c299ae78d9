#include "play/file_preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "play/capabilities.h"
#include "play/diag.h"
#include "play/own_mounts.h"
#include "play/stop.h"

#define OWN_BYTES (UINT64_C(1) << 20) /* what each run has, about */
#define TRIED_BYTES 4096

/* What the plan asks of the file system. */
struct asks {
  uint64_t direct;           /* opens with O_DIRECT */
  uint64_t unaligned;        /* reads and writes of what they open, and not whole blocks */
  uint64_t allocates;        /* fallocate that makes its file longer */
  uint64_t allocates_within; /* that does not */
  uint64_t punches;          /* that frees */
  uint64_t longest_name;     /* bytes */
  uint32_t align_bytes;      /* of O_DIRECT; 1: not known, or none */
  bool *is_direct;           /* one a handle */
};

/* Adds what one operation asks; of a transfer, whether its handle was opened with O_DIRECT. */
static void ask(struct asks *asks, const struct file_record *record) {
  bool is_direct = record->handle != FILE_NONE && asks->is_direct[record->handle];
  uint64_t place = record->offset == FILE_AT_POSITION ? 0 : record->offset;
  switch (record->operation) {
  case FILE_OPEN:
  case FILE_CREATE:
    is_direct = (record->flags & FILE_IS_DIRECT) != 0;
    asks->is_direct[record->handle] = is_direct;
    asks->direct += is_direct;
    break;
  case FILE_READ:
  case FILE_WRITE:
    asks->unaligned += is_direct && (place | record->length) % asks->align_bytes != 0;
    break;
  case FILE_FALLOCATE:
    if ((record->flags & FILE_PUNCHES_HOLE) != 0)
      asks->punches++;
    else if ((record->flags & FILE_KEEPS_SIZE) != 0)
      asks->allocates_within++;
    else
      asks->allocates++;
    break;
  default:
    break;
  }
}

/* Threads that pass a handle to each other are read one after the other: what is counted of such a
 * handle may be of another open of it. */
static int ask_all(const struct file_plan *plan, struct asks *asks) {
  asks->is_direct = calloc((size_t)plan->handle_count + 1, sizeof *asks->is_direct);
  if (asks->is_direct == NULL)
    return -ENOMEM;
  for (uint64_t i = 0; i < plan->record_count; i++)
    if (plan->records[i].expected_error == 0)
      ask(asks, &plan->records[i]);
  for (uint32_t i = 0; i < plan->file_count; i++)
    if (plan->files[i].name_bytes > asks->longest_name)
      asks->longest_name = plan->files[i].name_bytes;
  free(asks->is_direct);
  asks->is_direct = NULL;
  return 0;
}

/* Whether the file system knows no such call; other errors are the run's to find. */
static bool rejects(int scratch, int mode) {
  return scratch >= 0 && fallocate(scratch, mode, 0, TRIED_BYTES) != 0 &&
         (errno == EOPNOTSUPP || errno == ENOSYS);
}

static bool rejects_direct(int scratch) {
  int flags = fcntl(scratch, F_GETFL);
  return flags >= 0 && fcntl(scratch, F_SETFL, flags | O_DIRECT) != 0 && errno == EINVAL;
}

/* What can be tried is tried on a file without a name, which is gone when it is closed. */
static int note_abilities(struct file_session *session) {
  const int keep = FALLOC_FL_KEEP_SIZE;
  struct statvfs status;
  struct asks asks = {.align_bytes = 1};
  int scratch = openat(session->folder.target_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  bool is_known = scratch >= 0 && capabilities_known_alignment(scratch, &asks.align_bytes);
  bool has_no_direct = (is_known && asks.align_bytes == 0) || rejects_direct(scratch);
  asks.align_bytes = asks.align_bytes == 0 ? 1 : asks.align_bytes;
  int rc = ask_all(&session->plan, &asks);
  uint64_t ranges =
      (asks.allocates > 0 && rejects(scratch, 0) ? asks.allocates : 0) +
      (asks.allocates_within > 0 && rejects(scratch, keep) ? asks.allocates_within : 0) +
      (asks.punches > 0 && rejects(scratch, keep | FALLOC_FL_PUNCH_HOLE) ? asks.punches : 0);
  bool is_asked = fstatvfs(session->folder.target_fd, &status) == 0;
  struct preflight_note name = {.needed = asks.longest_name,
                                .available = is_asked ? status.f_namemax : asks.longest_name};
  struct preflight_note unaligned = {.requests = asks.unaligned};
  if (name.needed > name.available)
    preflight_note_add(session->notes, PREFLIGHT_LONG_NAMES, &name);
  if (has_no_direct && asks.direct > 0)
    preflight_note_add(session->notes, PREFLIGHT_NO_DIRECT,
                       &(struct preflight_note){.requests = asks.direct});
  else if (asks.unaligned > 0)
    preflight_note_add(session->notes, PREFLIGHT_UNALIGNED_DIRECT, &unaligned);
  if (ranges > 0)
    preflight_note_add(session->notes, PREFLIGHT_NO_FALLOCATE,
                       &(struct preflight_note){.requests = ranges});
  if (scratch >= 0)
    (void)close(scratch); /* nothing in it */
  return rc;
}

static bool is_in_memory(const char *type) {
  return strcmp(type, "tmpfs") == 0 || strcmp(type, "ramfs") == 0;
}

/* Beside the plan and its paths, which are there. A thread touches of its buffer what the longest
 * read needs. */
static void note_process(struct file_session *session) {
  const struct file_plan *plan = &session->plan;
  uint64_t longest = plan->max_transfer_bytes;
  uint64_t transfer = longest > PREPARE_CHUNK_BYTES ? longest : PREPARE_CHUNK_BYTES;
  uint64_t shared = OWN_BYTES + BUFFERS_PERIOD_BYTES + 2 * transfer +
                    plan->handle_count * sizeof(struct handle_entry);
  uint64_t each = 0;
  for (uint32_t i = 0; i < plan->thread_count; i++)
    each += sizeof(struct worker) + sizeof(struct results_block) +
            file_stats_bytes(plan, &plan->threads[i]);
  struct process_needs needs = {
      .threads = plan->thread_count,
      .data_bytes = shared + each + transfer + plan->thread_count * (transfer + STOP_STACK_BYTES),
      .used_bytes = shared + each + plan->thread_count * (longest + PROCESS_NEEDS_THREAD_BYTES)};
  needs.mapped_bytes = needs.data_bytes;
  if (is_in_memory(session->file_system))
    needs.used_bytes += session->space.needed_bytes;
  process_needs_check(&needs, &session->groups, session->notes);
}

/* Prints each reason why the run cannot succeed. */
static int reject(const struct file_session *session) {
  int rc = 0;
  for (unsigned code = 0; code < PREFLIGHT_CODES; code++) {
    const struct preflight_note *note = &session->notes[code];
    char text[PREFLIGHT_TEXT_BYTES];
    if (!note->is_there || !preflight_note_refuses((enum preflight_code)code, true))
      continue;
    const char *advice = preflight_note_text((enum preflight_code)code, note, text);
    bool is_said = preflight_note_refuses((enum preflight_code)code, false);
    diag("%s; %s%s", text, advice, is_said ? "" : "; " PREFLIGHT_NO_CHECK);
    rc = -ENOSPC;
  }
  return rc;
}

int file_preflight_check(struct file_session *session) {
  const struct options *options = session->options;
  own_mounts_type(session->folder.target_fd, session->file_system);
  int rc =
      free_space_check(&session->space, &session->plan, &session->folder, options->ignores_space);
  if (rc != 0)
    return rc;
  rc = note_abilities(session);
  if (rc != 0) {
    diag("no memory to look through %s: %s", options->plan_path, strerror(-rc));
    return rc;
  }
  note_process(session);
  return options->ignores_space ? 0 : reject(session);
}
