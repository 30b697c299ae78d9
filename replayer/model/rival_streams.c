#include "model/rival_streams.h"

#include <stdlib.h>

#define STREAMS 128u

struct stream {
  int64_t end;     /* one past the last sector; -1: none */
  int64_t sectors; /* in all */
  uint64_t used;   /* larger: later */
  uint32_t device;
};

struct stream *rival_streams_new(void) {
  struct stream *streams = calloc(STREAMS, sizeof *streams);
  for (uint32_t i = 0; streams != NULL && i < STREAMS; i++)
    streams[i].end = -1;
  return streams;
}

bool rival_streams_add(struct stream *streams, const struct issue_request *request,
                       int64_t cutoff) {
  if (cutoff == 0)
    return false;
  struct stream *found = NULL;
  struct stream *oldest = &streams[0];
  uint64_t latest = 0;
  for (uint32_t i = 0; i < STREAMS; i++) {
    struct stream *stream = &streams[i];
    const bool is_own = stream->end == request->sector && stream->device == request->device;
    if (is_own && (found == NULL || stream->used > found->used))
      found = stream;
    oldest = stream->used < oldest->used ? stream : oldest;
    latest = stream->used > latest ? stream->used : latest;
  }
  const int64_t before = found != NULL ? found->sectors : 0;
  *(found != NULL ? found : oldest) = (struct stream){
      request->sector + request->sectors, before + request->sectors, latest + 1, request->device};
  return before + request->sectors >= cutoff;
}

void rival_streams_free(struct stream *streams) { free(streams); }
