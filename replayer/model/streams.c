#include "model/streams.h"

#include <errno.h>
#include <stdlib.h>

struct stream {
  int64_t end; /* of the latest item */
  int64_t run; /* items of the latest run; 0: no item yet */
};

struct streams {
  uint32_t count;
  struct stream of[];
};

int tk_streams_new(uint32_t count, struct streams **out) {
  struct streams *streams = calloc(1, sizeof(*streams) + count * sizeof(streams->of[0]));

  if (!streams)
    return -ENOMEM;
  streams->count = count;
  *out = streams;
  return 0;
}

void tk_streams_free(struct streams *streams) { free(streams); }

int tk_streams_add(struct streams *streams, const struct streams_batch *batch, int64_t *distances,
                   int64_t *runs) {
  for (uint64_t i = 0; i < batch->count; i++) {
    /* A distance ends the run before; without one the item goes on with it, or is the first. */
    int64_t begin = batch->begins[i], distance = STREAMS_NONE, ended = STREAMS_NONE;

    if (begin != STREAMS_NONE) {
      struct stream *stream;

      if (batch->streams[i] >= streams->count)
        return -EINVAL;
      stream = &streams->of[batch->streams[i]];
      if (stream->run)
        distance = (int64_t)((uint64_t)begin - (uint64_t)stream->end);
      if (stream->run && distance) {
        ended = stream->run;
        stream->run = 0;
      }
      stream->run++;
      stream->end = batch->ends ? batch->ends[i] : begin;
    }
    distances[i] = distance;
    if (runs)
      runs[i] = ended;
  }
  return 0;
}

void tk_streams_runs(const struct streams *streams, int64_t *runs) {
  for (uint32_t i = 0; i < streams->count; i++)
    runs[i] = streams->of[i].run ? streams->of[i].run : STREAMS_NONE;
}
