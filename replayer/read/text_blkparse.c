/* blkparse's default format and the blk tracer's, which has no sequence numbers:
 *
 *   maj,min cpu sequence seconds.nanoseconds pid action rwbs ...
 *   maj,min cpu          seconds.nanoseconds pid action rwbs ... */
#include "read/text.h"
#include "read/text_body.h"
#include "read/text_scan.h"

#define MOST_CPU 65535u

/* Says whether the body is of a command that is no block I/O: it has bytes but no place. */
static bool is_command(const struct text_body *body, const struct record *record) {
  switch (record->action) {
  case ACTION_QUEUE:
  case ACTION_INSERT:
  case ACTION_ISSUE:
  case ACTION_BOUNCE:
    return body->has_command || (body->has_sector && !body->has_sectors);
  case ACTION_COMPLETE:
  case ACTION_REQUEUE:
    return !body->has_sector && !body->has_bytes;
  default:
    return false;
  }
}

enum text_status text_columns(const char *at, const char *end, struct record *out) {
  struct text_body body;
  if (!text_action(&at, out) || !is_blank(*at))
    return TEXT_BAD;
  if (out->category & CATEGORY_NOTIFY)
    return TEXT_EVENT;
  if (!text_rwbs(&at, out) || !is_blank(*at) || !text_body(at, end, &body))
    return TEXT_BAD;
  if (is_command(&body, out)) {
    out->category |= CATEGORY_PASSTHROUGH;
    return body.word ? TEXT_EVENT : TEXT_BAD;
  }
  /* "sector (elapsed time) [error]" of blkparse -t and a completion without bytes. */
  if (body.has_bytes) {
    body.sector = body.bytes;
    body.bytes = 0;
  }
  return text_fill(&body, out) ? TEXT_EVENT : TEXT_BAD;
}

static bool read_head(const char **at, bool has_sequence, struct record *out) {
  if (!scan_device(at, &out->device))
    return false;
  *at = skip_blanks(*at);
  if (!scan_u32(at, MOST_CPU, &out->cpu))
    return false;
  *at = skip_blanks(*at);
  if (has_sequence && !scan_u32(at, UINT32_MAX, &out->sequence))
    return false;
  if (!scan_time(at, &out->time_ns))
    return false;
  *at = skip_blanks(*at);
  return scan_u32(at, INT32_MAX, &out->pid);
}

enum text_status text_blkparse(struct text *text, const char *line, const char *end,
                               struct record *out) {
  (void)text;
  return read_head(&line, true, out) ? text_columns(line, end, out) : TEXT_BAD;
}

enum text_status text_tracer(struct text *text, const char *line, const char *end,
                             struct record *out) {
  (void)text;
  return read_head(&line, false, out) ? text_columns(line, end, out) : TEXT_BAD;
}
