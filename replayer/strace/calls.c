#include "strace/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "strace/follow.h"

#define LINES_AT_ONCE 65536
#define READ_BYTES ((size_t)1 << 18)

/* Lines of an open file; all zero but for `fd` is a reader at its file's place. */
struct reader {
  int fd;
  bool is_at_end;
  char *text;
  size_t from, to, capacity; /* of `text`: what was read and not yet given */
  int64_t bytes;             /* given so far */
};

struct decoder {
  struct tk_calls calls; /* the first, so that a pointer to it is one to the decoder */
  struct reader reader;
  bool is_at_end;
};

static struct decoder *decoder_of(struct tk_calls *calls) { return (struct decoder *)calls; }

static int fill(struct reader *reader) {
  if (reader->from) {
    memmove(reader->text, reader->text + reader->from, reader->to - reader->from);
    reader->to -= reader->from;
    reader->from = 0;
  }

  /* A line may be longer than the buffer, which then grows. */
  if (reader->capacity - reader->to < READ_BYTES) {
    size_t capacity = (reader->to + READ_BYTES) * 2;
    char *text = realloc(reader->text, capacity);
    if (!text)
      return -ENOMEM;
    reader->text = text;
    reader->capacity = capacity;
  }
  ssize_t got;
  do
    got = read(reader->fd, reader->text + reader->to, READ_BYTES);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return -errno;
  reader->is_at_end = got == 0;
  reader->to += (size_t)got;
  return 0;
}

/* Gives the next line without its end; a last line without an end is cut and is given. The view
 * is valid until the next call. Returns 1, 0 at the end, -errno. */
static int reader_line(struct reader *reader, struct view *out) {
  size_t looked_at = 0;
  for (;;) {
    size_t held = reader->to - reader->from;
    const char *text = held ? reader->text + reader->from : NULL;
    const char *end = held > looked_at ? memchr(text + looked_at, '\n', held - looked_at) : NULL;
    if (end || (reader->is_at_end && held)) {
      size_t length = end ? (size_t)(end - text) : held;
      *out = (struct view){text, length};
      reader->from += length + (end != NULL);
      reader->bytes += (int64_t)length + (end != NULL);
      return 1;
    }
    if (reader->is_at_end)
      return 0;
    looked_at = held;
    int status = fill(reader);
    if (status)
      return status;
  }
}

/* Frees the memory; the file stays open. */
static void reader_clear(struct reader *reader) {
  free(reader->text);
  *reader = (struct reader){.fd = reader->fd};
}

/* Reads the whole file for its parents, and goes back to its beginning. */
static int find_parents(struct decoder *decoder) {
  struct view line;
  int status;
  while ((status = reader_line(&decoder->reader, &line)) > 0) {
    int noted = thread_parents_note(&decoder->calls.parents, line);
    if (noted)
      return noted;
  }
  if (status == 0 && lseek(decoder->reader.fd, 0, SEEK_SET) < 0)
    status = -errno;
  reader_clear(&decoder->reader);
  return status;
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
  return is_whole ? find_parents(decoder) : -ENOMEM;
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
    int status = reader_line(&decoder->reader, &line);
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
    int64_t oldest = tasks_oldest_head(&calls->tasks, stats->last_ns) - stats->base_ns;
    int64_t until = decoder->is_at_end ? INT64_MAX : oldest;
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
