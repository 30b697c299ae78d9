#include "model/best_flush.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t line_of(const struct best_trace *trace, uint32_t line) {
  return (size_t)line * (trace->flush_count + 1ul);
}

/* What a flush that finds writes takes more than one that does not. */
static int64_t more_ps(const struct best_trace *trace, uint32_t line) {
  const int64_t *ps = trace->setup.prices.flush_ps[line == trace->setup.device_count];
  return ps[TK_FLUSH_WRITTEN] - ps[TK_FLUSH_EMPTY];
}

int best_flushes_init(struct best_flushes *flushes, const struct best_trace *trace,
                      const struct tk_best_prices *prices) {
  const size_t count = line_of(trace, trace->setup.device_count + 1);
  flushes->trace = trace;
  const bool is_made = flushes->writes != NULL && flushes->next != NULL && flushes->found != NULL;
  if (is_made || !best_has_empty(prices))
    return 0;
  best_flushes_free(flushes);
  flushes->writes = calloc(count, sizeof *flushes->writes);
  flushes->next = calloc(count, sizeof *flushes->next);
  flushes->found = calloc(count, sizeof *flushes->found);
  return flushes->writes != NULL && flushes->next != NULL && flushes->found != NULL ? 0 : -ENOMEM;
}

void best_flushes_clear(struct best_flushes *flushes) {
  const struct best_trace *trace = flushes->trace;
  if (!trace->has_empty)
    return;
  memset(flushes->writes, 0,
         line_of(trace, trace->setup.device_count + 1) * sizeof *flushes->writes);
  for (uint32_t i = 0; i < trace->stuck_count; i++)
    flushes->writes[line_of(trace, trace->stuck[i].device) + trace->stuck[i].epoch]++;
}

void best_flushes_count(struct best_flushes *flushes, const struct best_request *request,
                        bool is_nvm, int change) {
  const struct best_trace *trace = flushes->trace;
  const uint32_t line = is_nvm ? trace->setup.device_count : trace->stream_of[request->first];
  const size_t begin = line_of(trace, line);
  flushes->writes[begin + request->epoch] += (uint32_t)change;
  const uint32_t next = flushes->next[begin + request->epoch];
  if (next == trace->flush_count)
    return;
  uint32_t *found = &flushes->found[begin + next];
  const bool was_written = *found > 0;
  *found += (uint32_t)change;
  if (was_written != (*found > 0))
    flushes->ps += was_written ? -more_ps(trace, line) : more_ps(trace, line);
}

/* Adds up for each flush that goes to a device what it finds there. */
static void direct_line(struct best_flushes *flushes, uint32_t line) {
  const struct best_trace *trace = flushes->trace;
  const size_t begin = line_of(trace, line);
  const bool is_nvm = line == trace->setup.device_count;
  uint32_t next = trace->flush_count;
  flushes->next[begin + next] = next;
  for (uint32_t i = trace->flush_count; i-- > 0;) {
    const struct best_flush *flush = &trace->flush_list[i];
    flushes->found[begin + i] = 0;
    if (flushes->goes[is_nvm][flush->role] && (is_nvm || flush->device == line))
      next = i;
    flushes->next[begin + i] = next;
    if (next < trace->flush_count)
      flushes->found[begin + next] += flushes->writes[begin + i];
  }
  for (uint32_t i = 0; i < trace->flush_count; i++)
    if (flushes->found[begin + i] > 0)
      flushes->ps += more_ps(trace, line);
}

void best_flushes_direct(struct best_flushes *flushes, const int64_t role_on[TK_ROLES],
                         bool is_new) {
  const struct best_trace *trace = flushes->trace;
  bool goes[2][TK_ROLES];
  for (int role = 0; role < TK_ROLES; role++) {
    goes[0][role] = role_on[role] == 0 || role_on[role] < trace->role_blocks[role];
    goes[1][role] = role_on[role] > 0;
  }
  if (!is_new && memcmp(goes, flushes->goes, sizeof goes) == 0)
    return;
  memcpy(flushes->goes, goes, sizeof goes);
  flushes->ps = 0;
  for (int role = 0; role < TK_ROLES; role++)
    for (int place = 0; place < 2; place++)
      if (goes[place][role])
        flushes->ps += trace->flushes[role] * trace->setup.prices.flush_ps[place][TK_FLUSH_EMPTY];
  for (uint32_t line = 0; line <= trace->setup.device_count && trace->has_empty; line++)
    direct_line(flushes, line);
}

void best_flushes_free(struct best_flushes *flushes) {
  free(flushes->writes);
  free(flushes->next);
  free(flushes->found);
}
