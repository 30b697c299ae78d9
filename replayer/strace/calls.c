#include "strace/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "strace/follow.h"
#include "strace/reader.h"
#include "strace/records.h"

#define LINES_AT_ONCE 65536

/* Makes rows of a text or of a recording. */
struct decoder {
  struct tk_calls calls; /* the first, so that a pointer to it is one to the decoder */
  struct reader reader;
  struct records records; /* where the file is no text */
  bool is_at_end;
};

static struct decoder *decoder_of(struct tk_calls *calls) { return (struct decoder *)calls; }

/* Takes in what the whole recording says. */
static int survey(struct decoder *decoder) {
  struct records_summary summary = {0};
  struct tk_calls *calls = &decoder->calls;
  int status = records_survey(&decoder->records, &decoder->reader, &calls->parents, &summary);
  calls->is_by_end = true;
  calls->stats.base_ns = summary.first_ns;
  calls->stats.last_ns = summary.last_ns;
  calls->stats.lost = summary.lost;
  calls->stats.unseen = summary.unseen;
  calls->stats.foreign = summary.foreign;
  calls->stats.endless = !summary.has_end;
  return status;
}

static int find_parents(struct decoder *decoder) {
  struct view line;
  int status;
  while ((status = reader_line(&decoder->reader, &line)) > 0) {
    int noted = thread_parents_note(&decoder->calls.parents, line);
    if (noted)
      return noted;
  }
  return status;
}

/* Reads the whole file for what must be known before, and goes back to its beginning. */
static int look_ahead(struct decoder *decoder) {
  int status = records_open(&decoder->records, &decoder->reader);
  if (status)
    return status;
  status = decoder->records.is_there ? survey(decoder) : find_parents(decoder);
  if (status == 0 && lseek(decoder->reader.fd, 0, SEEK_SET) < 0)
    status = -errno;
  reader_clear(&decoder->reader);
  if (status == 0 && decoder->records.is_there)
    status = records_open(&decoder->records, &decoder->reader);
  return status;
}

static int next_line(struct decoder *decoder, struct view *out) {
  return decoder->records.is_there ? records_line(&decoder->records, &decoder->reader, out)
                                   : reader_line(&decoder->reader, out);
}

static int prepare(struct decoder *decoder, const struct tk_calls_options *options) {
  struct tk_calls *calls = &decoder->calls;
  calls->folder = strdup(options->folder);
  calls->below = options->below ? strdup(options->below) : NULL;
  calls->inherited = descriptors_new();
  calls->files.start_ns = options->start_ns;
  if (options->is_snapshot && options->below)
    calls->files.below = strdup(options->below);
  bool is_whole = calls->folder && (calls->below || !options->below) && calls->inherited;
  return is_whole ? look_ahead(decoder) : -ENOMEM;
}

int tk_calls_open(int32_t fd, const struct tk_calls_options *options, struct tk_calls **out) {
  struct decoder *decoder = calloc(1, sizeof(*decoder));
  if (!decoder)
    return -ENOMEM;
  decoder->reader.fd = fd;
  int status = prepare(decoder, options);
  if (status) {
    tk_calls_close(&decoder->calls);
    return status;
  }
  *out = &decoder->calls;
  return 0;
}

int tk_calls_know(struct tk_calls *calls, const char *path, int64_t length, int32_t kind,
                  int64_t bytes, int32_t evidence) {
  struct view view = {path, (size_t)length};
  return files_know(&calls->files, view, (enum file_kind)kind, bytes, (enum evidence)evidence);
}

int tk_calls_inherit(struct tk_calls *calls, int32_t fd, const char *path, int64_t position,
                     int32_t open_flags) {
  int32_t number = files_find(&calls->files, (struct view){path, strlen(path)});
  int32_t node = number < 0 ? number : files_present(&calls->files, number);
  if (node < 0)
    return -ENOMEM;
  struct handle like = {.position = position, .file = number, .node = node};
  like.flags = (open_flags & O_APPEND ? FLAG_APPEND : 0) | (open_flags & O_DSYNC ? FLAG_SYNC : 0);
  int32_t place = handles_new(&calls->handles, &like);
  if (place < 0)
    return place;
  struct slot slot = {place + 1, false};
  return descriptors_set(calls->inherited, &calls->handles, fd, slot);
}

static int read_lines(struct decoder *decoder) {
  for (int i = 0; i < LINES_AT_ONCE; i++) {
    struct view line;
    int status = next_line(decoder, &line);
    if (status == 0) {
      decoder->is_at_end = true;
      for (uint32_t place = 0; place < decoder->calls.tasks.count; place++)
        decoder->calls.stats.unfinished += decoder->calls.tasks.tasks[place].has_head;
      files_conclude(&decoder->calls.files);
      return 0;
    }
    status = status < 0 ? status : follow_line(&decoder->calls, line);
    if (status)
      return status;
  }
  return 0;
}

int64_t tk_calls_next(struct tk_calls *calls, struct tk_operation *out, int64_t capacity) {
  struct decoder *decoder = decoder_of(calls);
  for (;;) {
    const struct tk_calls_stats *stats = &calls->stats;
    int64_t oldest = calls->is_by_end ? records_oldest(&decoder->records)
                                      : tasks_oldest_head(&calls->tasks, stats->last_ns);
    int64_t until = decoder->is_at_end ? INT64_MAX : oldest - stats->base_ns;
    int64_t count = window_take(&calls->window, until, out, capacity, &calls->stats.forced);
    if (count || decoder->is_at_end)
      return count;
    int status = read_lines(decoder);
    if (status)
      return status;
  }
}

void tk_calls_stats(const struct tk_calls *calls, struct tk_calls_stats *out) {
  *out = calls->stats;
  out->bytes = ((const struct decoder *)calls)->reader.bytes;
}

int64_t tk_calls_files(const struct tk_calls *calls, struct tk_calls_file *out, int64_t *ends,
                       const char **text) {
  const struct files *files = &calls->files;
  *text = files->paths.text;
  for (int32_t i = 0; out && i < files->count; i++) {
    const struct file *file = &files->files[i];
    out[i] = (struct tk_calls_file){file->first_bytes, file->kind, file->evidence, file->is_used};
    ends[i] = files->paths.ends[i];
  }
  return files->count;
}

static void copy_text(const char *text, size_t length, char out[TK_CALLS_TEXT]) {
  length = length < TK_CALLS_TEXT - 1 ? length : TK_CALLS_TEXT - 1;
  memcpy(out, text, length);
  out[length] = '\0';
}

int tk_calls_word(const struct tk_calls *calls, int32_t list, int64_t place,
                  char out[TK_CALLS_TEXT], int64_t *count) {
  const struct names *names = list == 0 ? &calls->processes : &calls->left_out;
  *count = 0;
  if (list == 2) {
    copy_text(calls->bad_line, strlen(calls->bad_line), out);
    return place ? -ENOENT : 0;
  }
  if (place < 0 || place >= names->count)
    return -ENOENT;
  int32_t from = place ? names->ends[place - 1] : 0;
  copy_text(names->text + from, (size_t)(names->ends[place] - from), out);
  if (list == 1 && place < MOST_LEFT_OUT)
    *count = calls->left_out_counts[place];
  return 0;
}

void tk_calls_close(struct tk_calls *calls) {
  if (!calls)
    return;
  struct decoder *decoder = decoder_of(calls);
  reader_clear(&decoder->reader);
  records_clear(&decoder->records);
  thread_parents_clear(&calls->parents);
  tasks_clear(&calls->tasks);
  descriptors_free(calls->inherited);
  handles_clear(&calls->handles);
  files_clear(&calls->files);
  names_clear(&calls->processes);
  names_clear(&calls->left_out);
  window_clear(&calls->window);
  free(calls->folder);
  free(calls->below);
  free(decoder);
}
