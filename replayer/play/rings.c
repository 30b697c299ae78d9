#include "play/rings.h"

#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "play/processes.h"

#define RING_WORKER 0x00000010UL /* PF_IO_WORKER of the kernel */
#define POLLER "iou-sqp-"

static bool has(const struct rings_set *set, uint64_t number) {
  for (uint32_t i = 0; i < set->count; i++)
    if (set->numbers[i] == number)
      return true;
  return false;
}

static void add(struct rings_set *set, uint64_t number) {
  if (!has(set, number) && set->count < RINGS_MAX)
    set->numbers[set->count++] = number;
}

/* Whether the second set has all of the first, and both are known. */
static bool is_within(const struct rings_set *some, const struct rings_set *all) {
  for (uint32_t i = 0; i < some->count; i++)
    if (!has(all, some->numbers[i]))
      return false;
  return some->count < RINGS_MAX;
}

void rings_clear(struct rings *rings) {
  rings->held.count = rings->mapped.count = rings->pollers.count = rings->threads.count = 0;
  rings->is_used = rings->has_users = false;
}

void rings_add_held(struct rings *rings, uint64_t inode, const struct rings_report *report) {
  add(&rings->held, inode);
  rings->is_used |= !report->is_unused;
  if (report->poller != 0)
    add(&rings->pollers, report->poller);
}

void rings_add_mapped(struct rings *rings, uint64_t inode) { add(&rings->mapped, inode); }

/* Whether a thread waits in a ring that it names by its number among those that are registered. */
static bool waits(int task) {
  char text[512];
  long call;
  unsigned long flags;
  return processes_text(task, "syscall", text, sizeof text) &&
         sscanf(text, "%ld 0x%*x 0x%*x 0x%*x 0x%lx", &call, &flags) == 2 &&
         call == SYS_io_uring_enter && (flags & IORING_ENTER_REGISTERED_RING) != 0;
}

/* A ring in memory of its own that is registered has neither a descriptor nor a mapping. It shows
 * by threads that the kernel made for it, and by one that waits in it. */
void rings_add_thread(struct rings *rings, int task, uint64_t thread) {
  char name[32];
  unsigned long kind = processes_flags(task);
  if (kind == ~0UL) /* it has ended */
    return;
  if ((kind & RING_WORKER) == 0)
    rings->has_users |= waits(task);
  else if (processes_text(task, "comm", name, sizeof name) &&
           strncmp(name, POLLER, strlen(POLLER)) == 0)
    add(&rings->threads, thread);
  else
    rings->has_users = true;
}

bool rings_have_hidden(const struct rings *rings) {
  return !is_within(&rings->mapped, &rings->held) || !is_within(&rings->threads, &rings->pollers) ||
         (rings->has_users && !rings->is_used);
}
