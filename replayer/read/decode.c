#include "read/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "read/batch.h"
#include "read/merge.h"
#include "read/pair.h"
#include "read/text_driver.h"

#define MOST_BLOCK_BYTES (1 << 20)
#define BATCH_ROWS 65536
#define SECOND_NS 1000000000u

_Static_assert((int)TK_DECODE_ACTIONS == (int)ACTION_END, "one count for each action");
_Static_assert((int)TK_DECODE_NOTIFIES == (int)NOTIFY_END, "one count for each notify");
_Static_assert((int)TK_DECODE_LAYERS == (int)LAYER_END, "one count for each layer");
_Static_assert((int)TK_DECODE_UNMATCHED == (int)UNMATCHED_END, "one count for each reason");

struct tk_decoder {
  struct merge merge;
  struct pairing pairing;
  struct problem problem;
  bool is_at_end; /* all records are paired */
};

int tk_decode_open(const int32_t *fds, int64_t count, int32_t keeps_whole,
                   struct tk_decoder **out) {
  if (count <= 0)
    return -EINVAL;
  struct tk_decoder *decoder = calloc(1, sizeof(*decoder));
  if (!decoder)
    return -ENOMEM;
  int merge_status = merge_open(&decoder->merge, fds, (size_t)count, keeps_whole != 0);
  int pair_status = pair_open(&decoder->pairing);
  if (merge_status || pair_status) {
    tk_decode_close(decoder);
    return -ENOMEM;
  }
  *out = decoder;
  return 0;
}

void tk_decode_close(struct tk_decoder *decoder) {
  if (!decoder)
    return;
  merge_close(&decoder->merge);
  pair_close(&decoder->pairing);
  free(decoder);
}

int64_t tk_decode_detect_text(const char *head, int64_t size) {
  return size > 0 ? (int64_t)text_detect(head, (size_t)size) : TEXT_NONE;
}

int tk_decode_set_text(struct tk_decoder *decoder, int64_t file, int64_t format, const char *form,
                       int64_t block_bytes, const char *head, int64_t size) {
  if (file < 0 || (size_t)file >= decoder->merge.count || size < 0 || format < TEXT_NONE ||
      format > TEXT_SCSI || (format == TEXT_FORM) != (form != NULL) || block_bytes < 512 ||
      block_bytes > MOST_BLOCK_BYTES || block_bytes % 512 != 0)
    return -EINVAL;
  struct source *source = &decoder->merge.sources[file];
  source->text.block_bytes = (uint32_t)block_bytes;
  int status = form ? text_form_open(&source->text.form, form) : 0;
  return status ? status : source_set_text(source, (enum text_format)format, head, (size_t)size);
}

int64_t tk_decode_bad_line(const struct tk_decoder *decoder, int64_t file, int64_t index,
                           const char **text) {
  if (file < 0 || (size_t)file >= decoder->merge.count || index < 0 || index >= TEXT_EXAMPLES)
    return 0;
  const struct text_example *example = &decoder->merge.sources[file].text.examples[index];
  *text = example->text;
  return example->line;
}

int tk_decode_name_process(struct tk_decoder *decoder, uint32_t pid, const char *name) {
  return pair_name_process(&decoder->pairing, pid, name, strlen(name)) < 0 ? -ENOMEM : 0;
}

int tk_decode_name_cgroup(struct tk_decoder *decoder, uint64_t id, const char *name) {
  return cgroups_name(&decoder->pairing.cgroups, id, name);
}

int tk_decode_name_device(struct tk_decoder *decoder, uint32_t major, uint32_t minor,
                          const char *name) {
  uint32_t number = major << 20 | minor;
  return pair_name_device(&decoder->pairing, number, name, strlen(name)) < 0 ? -ENOMEM : 0;
}

void tk_decode_watch(struct tk_decoder *decoder, const int64_t readings_ns[4]) {
  struct watch *watch = &decoder->pairing.watch;
  for (int i = 0; i < 2; i++) {
    watch->begin_ns[i] = (uint64_t)readings_ns[i];
    watch->end_ns[i] = (uint64_t)readings_ns[2 + i];
  }
}

/* Finds the name of a disk that drivers name, in the one input that is text. */
static bool driver_name(const struct tk_decoder *decoder, uint32_t number, const char **name,
                        size_t *length) {
  const struct drivers *drivers = decoder->merge.sources[0].text.drivers;
  uint32_t index = number & ((1u << 20) - 1);
  if (!drivers || number >> 20 != DRIVER_MAJOR || index >= drivers->disks.count)
    return false;
  int32_t begin = index ? drivers->disks.ends[index - 1] : 0;
  *name = drivers->disks.text + begin;
  *length = (size_t)(drivers->disks.ends[index] - begin);
  return true;
}

int32_t tk_decode_device_name(const struct tk_decoder *decoder, int64_t index, const char **name,
                              int64_t *length) {
  size_t bytes = 0;
  bool is_named = index >= 0 && index < decoder->pairing.device_count &&
                  driver_name(decoder, decoder->pairing.devices[index].number, name, &bytes);
  *length = (int64_t)bytes;
  return is_named;
}

static int name_driver_device(struct tk_decoder *decoder, uint32_t number) {
  const char *name;
  size_t length;
  if (number >> 20 != DRIVER_MAJOR || idmap_get(&decoder->pairing.device_alias, number) ||
      !driver_name(decoder, number, &name, &length))
    return 0;
  return pair_name_device(&decoder->pairing, number, name, length) < 0 ? -ENOMEM : 0;
}

/* Pairs on until a batch is ready or the input ends. Returns 0, -EBADMSG, -ENOMEM. */
static int fill_window(struct tk_decoder *decoder) {
  struct pairing *pairing = &decoder->pairing;
  while (!decoder->is_at_end && pairing->rows.ready - pairing->rows.head < BATCH_ROWS) {
    const struct record *record;
    int status = merge_next(&decoder->merge, &record, &decoder->problem);
    if (status < 0)
      return status;
    if (status == 0) {
      pair_end(pairing);
      decoder->is_at_end = true;
      break;
    }
    if (name_driver_device(decoder, record->device) || pair_record(pairing, record)) {
      decoder->problem.kind = PROBLEM_MEMORY;
      return -ENOMEM;
    }
    rows_advance(&pairing->rows);
    while (rows_is_full(&pairing->rows))
      pair_evict(pairing);
  }
  return 0;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  (void)stream;
  return -batch_schema(out);
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  struct tk_decoder *decoder = stream->private_data;
  int status = fill_window(decoder);
  if (status)
    return -status;
  uint64_t ready = decoder->pairing.rows.ready - decoder->pairing.rows.head;
  if (ready == 0) {
    /* An array without a release callback is the end of the stream. */
    *out = (struct ArrowArray){0};
    return 0;
  }
  return -batch_take(&decoder->pairing, (int64_t)(ready < BATCH_ROWS ? ready : BATCH_ROWS), out);
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
  const struct tk_decoder *decoder = stream->private_data;
  return decoder->problem.kind == PROBLEM_MEMORY ? "no memory" : "the input cannot be read on";
}

static void release(struct ArrowArrayStream *stream) { stream->release = NULL; }

int tk_decode_stream(struct tk_decoder *decoder, struct ArrowArrayStream *out) {
  *out = (struct ArrowArrayStream){.get_schema = get_schema,
                                   .get_next = get_next,
                                   .get_last_error = get_last_error,
                                   .release = release,
                                   .private_data = decoder};
  return 0;
}

static void add_sources(const struct merge *merge, struct tk_decode_stats *out) {
  /* Counts are sums; a property of the text or of the file holds if one input has it. */
  for (size_t i = 0; i < merge->count; i++) {
    const struct source *source = &merge->sources[i];
    out->bytes += (int64_t)source->offset;
    out->records += (int64_t)source->records;
    out->sequence_gaps += (int64_t)source->sequence.gaps;
    out->lost_records += (int64_t)source->sequence.lost;
    out->repeated_records += (int64_t)source->sequence.repeated;
    out->numbered_records += (int64_t)source->sequence.numbered;
    out->reordered_records += (int64_t)source->reordered;
    out->lines += source->text.lines;
    out->passed_lines += source->text.passed;
    out->bad_lines += source->text.bad;
    out->told_lost += source->text.lost;
    out->told_cpus += source->text.cpus;
    out->told_skips += source->text.has_skips ? source->text.skips : -1;
    out->is_perf |= source->text.is_perf;
    out->has_tracer |= source->text.has_tracer;
    out->has_nanoseconds |= source->text.has_nanoseconds;
    for (unsigned layer = 0; layer < LAYER_END; layer++)
      out->others[layer] += source->text.others[layer];
    out->commands += source->text.commands;
    out->fine_commands += source->text.fine_commands;
    out->unplaced += source->text.unplaced;
    out->unmatched[UNMATCHED_COMPLETE] += source->text.orphans;
    if (source->version)
      out->version = source->version;
    out->swapped_files += source->is_swapped;
  }
}

/* The clock is read before the first event. A reading that claims to be later has another clock
 * than events whose times were made relative: the capture's start stands for its first event then.
 */
static void set_wall(const struct pair_counts *counts, struct tk_decode_stats *out) {
  if (!counts->has_wall)
    return;
  out->is_wall_of_start =
      counts->wall_at_ns > counts->base_ns && counts->wall_at_ns - counts->base_ns > SECOND_NS;
  uint64_t passed_ns = out->is_wall_of_start ? 0 : counts->base_ns - counts->wall_at_ns;
  out->wall_ns = (int64_t)((uint64_t)counts->wall_ns + passed_ns);
}

void tk_decode_stats(const struct tk_decoder *decoder, struct tk_decode_stats *out) {
  /* First what the pairing counted, then what the inputs did. */
  const struct pair_counts *counts = &decoder->pairing.counts;
  *out = (struct tk_decode_stats){
      .rows = (int64_t)decoder->pairing.rows.tail,
      .unknown = counts->unknown,
      .passthrough = counts->passthrough,
      .device_flushes = counts->device_flushes,
      .requeued_remainders = counts->requeued_remainders,
      .evicted = counts->evicted,
      .base_ns = (int64_t)counts->base_ns,
      .last_ns = (int64_t)counts->last_ns,
      .has_wall = counts->has_wall,
  };
  memcpy(out->actions, counts->actions, sizeof(out->actions));
  memcpy(out->notifies, counts->notifies, sizeof(out->notifies));
  memcpy(out->unmatched, counts->unmatched, sizeof(out->unmatched));
  set_wall(counts, out);
  add_sources(&decoder->merge, out);
}

void tk_decode_problem(const struct tk_decoder *decoder, struct problem *out) {
  *out = decoder->problem;
}

void tk_decode_cut(const struct tk_decoder *decoder, int64_t file, struct problem *out) {
  *out = (struct problem){0};
  if (file >= 0 && (size_t)file < decoder->merge.count)
    *out = decoder->merge.sources[file].cut;
}

int64_t tk_decode_devices(const struct tk_decoder *decoder, uint32_t *out, int64_t capacity) {
  int64_t count = decoder->pairing.device_count;
  for (int64_t i = 0; i < count && i < capacity; i++)
    out[i] = decoder->pairing.devices[i].number;
  return count;
}

int64_t tk_decode_cpus(const struct tk_decoder *decoder, uint32_t *out, int64_t capacity) {
  const uint64_t *cpus = decoder->pairing.counts.cpus;
  int64_t count = 0;
  for (uint32_t cpu = 0; cpu < 64 * (sizeof(decoder->pairing.counts.cpus) / 8); cpu++)
    if (cpus[cpu / 64] >> cpu % 64 & 1 && count++ < capacity)
      out[count - 1] = cpu;
  return count;
}

int64_t tk_decode_completed(const struct tk_decoder *decoder, int64_t device, int64_t *certain,
                            int64_t *perhaps) {
  if (device < 0 || device >= decoder->pairing.device_count)
    return 0;
  const struct device *found = &decoder->pairing.devices[device];
  memcpy(certain, found->completed, sizeof(found->completed));
  memcpy(perhaps, found->at_edge, sizeof(found->at_edge));
  return COUNTED_END;
}
