#include "model/best_bound.h"

#define NONE UINT32_MAX

/* Of what was written since a device's flush before: by role, the group that has least a block of
 * those whose requests left something to flush there, and the one that has most of those that did
 * so on NVM, where every device's flush is one. */
struct written {
  uint32_t least[TK_ROLES];
  uint32_t most[TK_ROLES];
  bool is_any;
  bool is_stuck; /* on the base device, wherever the groups are */
};

static const struct written nothing = {.least = {NONE, NONE, NONE, NONE, NONE},
                                       .most = {NONE, NONE, NONE, NONE, NONE}};
_Static_assert(TK_ROLES == 5, "nothing has one of each role");

static bool is_less(const struct best_bound *bound, uint32_t group, uint32_t than) {
  return than == NONE || best_bound_value(bound, group) < best_bound_value(bound, than);
}

static void note(const struct best_bound *bound, struct written *written,
                 const struct best_request *request, bool is_on_nvm) {
  const struct best_trace *trace = bound->trace;
  const uint32_t ends[] = {request->first, request->last};
  written->is_any = true;
  written->is_stuck |= (request->kind & BEST_STUCK) != 0;
  for (int end = 0; end < 2; end++) {
    const uint8_t role = trace->setup.roles[trace->first_block[ends[end]]];
    if (is_less(bound, ends[end], written->least[role]))
      written->least[role] = ends[end];
    const uint32_t most = written->most[role];
    if (is_on_nvm && (most == NONE || is_less(bound, most, ends[end])))
      written->most[role] = ends[end];
  }
}

/* Of the role if there is one of it: where all of the role leaves, it is not saved twice. */
static uint32_t least_of(const struct best_bound *bound, const struct written *written,
                         uint8_t role) {
  uint32_t least = written->least[role];
  for (int other = 0; other < TK_ROLES && written->least[role] == NONE; other++)
    if (written->least[other] != NONE && is_less(bound, written->least[other], least))
      least = written->least[other];
  return least;
}

/* The more that it costs with writes is saved with the least group, and paid by the one with most.
 */
static void divide_flush(struct best_bound *bound, const struct written *written, uint8_t role) {
  const int64_t (*ps)[TK_FLUSHES] = bound->trace->setup.prices.flush_ps;
  const double base_ps = (double)ps[0][written->is_any ? TK_FLUSH_WRITTEN : TK_FLUSH_EMPTY];
  const uint32_t least = least_of(bound, written, role);
  bound->constant_ps += base_ps;
  bound->flush_ps[role] += base_ps;
  if (least != NONE && !written->is_stuck) {
    const double more_ps = (double)(ps[0][TK_FLUSH_WRITTEN] - ps[0][TK_FLUSH_EMPTY]);
    bound->weights[least] += more_ps;
    bound->flush_ps[role] -= least == written->least[role] ? more_ps : 0;
  }
  if (written->most[role] != NONE)
    bound->weights[written->most[role]] -=
        (double)(ps[1][TK_FLUSH_WRITTEN] - ps[1][TK_FLUSH_EMPTY]);
}

void best_bound_divide_written(struct best_bound *bound) {
  const struct best_trace *trace = bound->trace;

  /* One pass a device, as its requests and flushes are in two lists. */
  for (uint32_t device = 0; device < trace->setup.device_count; device++) {
    const struct best_stream *stream = &trace->streams[device];
    const struct best_stuck *stuck = trace->stuck;
    struct written written = nothing;
    uint32_t next = 0;
    for (uint32_t i = 0; i < trace->flush_count; i++) {
      const struct best_flush *flush = &trace->flush_list[i];
      if (flush->device != device)
        continue;
      for (; next < stream->count && stream->requests[next].epoch <= i; next++) {
        const struct best_request *request = &stream->requests[next];
        if (flush_is_due_after(request->kind & BEST_WRITE, request->kind & BEST_FUA))
          note(bound, &written, request, request->epoch == i);
      }
      for (; stuck < trace->stuck + trace->stuck_count && stuck->epoch <= i; stuck++)
        written.is_stuck |= stuck->device == device;
      written.is_any |= written.is_stuck;
      divide_flush(bound, &written, flush->role);
      written = nothing;
    }
  }
}
