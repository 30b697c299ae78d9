#include "model/slow_memory.h"

#define PS_PER_NS 1000U

/* Lines that the transfer moves, whole ones, and where it ends. */
static uint64_t count_lines(uint64_t line_bytes, struct tk_memory_last *last,
                            const struct tk_memory_transfer *transfer) {
  uint64_t known_end = last->handle == transfer->handle ? last->end : 0;
  uint64_t offset = transfer->offset;
  if (offset == TK_MEMORY_AT_POSITION)
    offset = known_end;
  uint64_t first = offset / line_bytes;
  uint64_t lines = (offset + transfer->bytes - 1) / line_bytes - first + 1;
  *last = (struct tk_memory_last){.end = offset + transfer->bytes, .handle = transfer->handle};
  return known_end > 0 && (known_end - 1) / line_bytes == first ? lines - 1 : lines;
}

/* Takes the next turn of the device, from `start_ps` on; returns when it begins. */
static uint64_t take_turn(uint64_t *busy_until_ps, uint64_t start_ps, uint64_t turn_ps) {
  uint64_t until = __atomic_load_n(busy_until_ps, __ATOMIC_RELAXED);
  uint64_t begin;
  do
    begin = until > start_ps ? until : start_ps;
  while (turn_ps > 0 && !__atomic_compare_exchange_n(busy_until_ps, &until, begin + turn_ps, 1,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return turn_ps > 0 ? begin : start_ps;
}

uint64_t tk_slow_memory_end(const struct tk_slow_memory *memory, uint64_t *busy_until_ps,
                            struct tk_memory_last *last,
                            const struct tk_memory_transfer *transfer) {
  const struct tk_memory_way *way = &memory->ways[transfer->is_write != 0];
  uint64_t lines = count_lines(memory->line_bytes, last, transfer);
  uint64_t further = lines > 1 ? lines - 1 : 0;
  uint64_t own_ps = (uint64_t)way->latency_ns * PS_PER_NS + further * way->line_ps;
  uint64_t turn_ps = lines * way->device_ps;
  uint64_t begin_ps = take_turn(busy_until_ps, transfer->start_ps, turn_ps);
  return begin_ps + (own_ps > turn_ps ? own_ps : turn_ps);
}
