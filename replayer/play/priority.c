#include "play/priority.h"

#include <errno.h>
#include <limits.h>
#include <linux/ioprio.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "play/diag.h"
#include "play/number.h"

#define LEVEL_USUAL 4U
#define LEVEL_LAST 7U
#define NO_PROCESS INT_MAX /* above the highest number of a process */

/* Linux's numbers of the classes. */
static const char *const names[] = {"none", "rt", "be", "idle"};
#define CLASSES (sizeof names / sizeof *names)

int priority_take(uint16_t priority) {
  long rc = syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, (int)priority);
  return rc == 0 ? 0 : -errno;
}

void priority_name(uint16_t priority, char text[PRIORITY_TEXT_BYTES]) {
  unsigned class = (unsigned)priority >> IOPRIO_CLASS_SHIFT;
  const char *name = class < CLASSES ? names[class] : "none";
  bool has_level = class == IOPRIO_CLASS_RT || class == IOPRIO_CLASS_BE;
  if (has_level)
    (void)snprintf(text, PRIORITY_TEXT_BYTES, "%s:%u", name, priority & LEVEL_LAST);
  else
    (void)snprintf(text, PRIORITY_TEXT_BYTES, "%s", name); /* both always fit */
}

/* Reads CLASS[:LEVEL]. */
static int parse(const char *text, uint16_t *priority) {
  size_t length = strcspn(text, ":");
  uint64_t level = LEVEL_USUAL;
  unsigned class = IOPRIO_CLASS_RT;
  while (class < CLASSES &&
         (strlen(names[class]) != length || strncmp(names[class], text, length) != 0))
    class++;
  bool has_level = text[length] == ':';
  if (class == CLASSES || (has_level && class == IOPRIO_CLASS_IDLE))
    return -EINVAL;
  int rc = has_level ? number_parse(text + length + 1, 0, LEVEL_LAST, &level) : 0;
  level = class == IOPRIO_CLASS_IDLE ? 0 : level;
  *priority = (uint16_t)((class << IOPRIO_CLASS_SHIFT) | (unsigned)level);
  return rc != 0 ? -EINVAL : 0;
}

/* Whether this program may have it. Linux looks at that before it looks for the process. */
static int try(uint16_t priority, const char *text) {
  long rc = syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, NO_PROCESS, (int)priority);
  if (rc == 0 || errno == ESRCH)
    return 0;
  int error = -errno;
  diag("--priority %s: %s; the class rt needs root or CAP_SYS_NICE", text, strerror(-error));
  return error;
}

/* Gives one priority to the targets that it is for. Returns how many, or -errno. */
static int assign(struct target *targets, uint32_t target_count, const char *text, bool is_named) {
  const char *equals = strchr(text, '=');
  uint16_t priority;
  if (parse(equals == NULL ? text : equals + 1, &priority) != 0) {
    diag("--priority %s: not [LABEL=]rt[:0-7], be[:0-7] or idle", text);
    return -EINVAL;
  }
  int rc = try(priority, text);
  int given = 0;
  for (uint32_t i = 0; i < target_count && rc == 0; i++) {
    size_t length = strlen(targets[i].label);
    bool is_meant = !is_named || (length == (size_t)(equals - text) &&
                                  strncmp(targets[i].label, text, length) == 0);
    targets[i].priority = is_meant ? priority : targets[i].priority;
    given += is_meant;
  }
  return rc != 0 ? rc : given;
}

int priority_assign(struct target *targets, uint32_t target_count, const char *const *asked,
                    uint32_t asked_count) {
  /* Those for all first, so that a target's own stands. */
  for (unsigned is_named = 0; is_named < 2; is_named++)
    for (uint32_t i = 0; i < asked_count; i++) {
      if ((strchr(asked[i], '=') != NULL) != (is_named != 0))
        continue;
      int given = assign(targets, target_count, asked[i], is_named != 0);
      if (given == 0)
        diag("--priority %s: the plan has no requests for it", asked[i]);
      if (given <= 0)
        return given == 0 ? -EINVAL : given;
    }
  return 0;
}
