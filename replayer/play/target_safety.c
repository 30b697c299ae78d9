#include "play/target_safety.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/blkid.h"
#include "play/dax_device.h"
#include "play/diag.h"
#include "play/overlay.h"
#include "play/signature.h"

int target_fail(const struct target *target, const char *what, int error) {
  diag("target %s=%s: %s: %s", target->label, target->path, what, strerror(error));
  return -error;
}

int target_reject(const struct target *target, int error, const char *why) {
  diag("target %s=%s is refused: %s", target->label, target->path, why);
  return -error;
}

static bool listed(const char *const *list, uint32_t count, const char *text) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(list[i], text) == 0)
      return true;
  return false;
}

int target_safety_begin(struct target *target, const struct target_rules *rules) {
  struct stat status;
  if (fstat(target->fd, &status) != 0)
    return target_fail(target, "cannot look at it", errno);
  target->may_write = listed(rules->write_to, rules->write_to_count, target->token);
  target->guard = (struct guard){.kind = target->kind == TARGET_DEVICE ? GRAPH_DEVICE
                                         : target->kind == TARGET_DAX  ? GRAPH_CHARACTER
                                                                       : GRAPH_FILE,
                                 .device = target->device,
                                 .inode = target->inode,
                                 .is_written = target->may_write,
                                 .is_owner = geteuid() == 0 || status.st_uid == geteuid()};
  struct stat below;
  int rc = target->kind == TARGET_FILE ? overlay_below(target->fd, &below) : 0;
  if (rc < 0)
    return target_fail(target, "cannot find the file below that of the overlay", -rc);
  if (rc == 1) {
    target->guard.below_device = below.st_dev;
    target->guard.below_inode = below.st_ino;
  }
  return 0;
}

int target_check_use(struct target *target) {
  int rc = guard_check(&target->guard);
  return rc == 0 ? 0 : target_reject(target, -rc, target->guard.why);
}

/* Rejects a target that holds something which the user has not named. */
static int reject_unnamed(const struct target *target, const struct target_rules *rules,
                          const struct signature_set *found) {
  char names[512] = "";
  char options[1024] = "";
  for (uint32_t i = 0; i < found->count; i++) {
    const char *name = found->names[i];
    if (listed(rules->overwrite, rules->overwrite_count, name))
      continue;
    size_t used = strlen(names);
    size_t typed = strlen(options);
    (void)snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : " and ", name);
    (void)snprintf(options + typed, sizeof options - typed, " --overwrite-signature %s", name);
  }
  if (names[0] == '\0')
    return 0;
  diag("target %s=%s is refused: it holds %s; to destroy it:%s", target->label, target->path, names,
       options);
  return -EPERM;
}

/* What libblkid knows and what our table knows, together: neither knows all. */
static int check_signatures(struct target *target, const struct target_rules *rules) {
  struct signature_set found;
  int rc = target->kind == TARGET_DAX
               ? dax_device_signatures(target->fd, target->size_bytes, &found)
               : signature_find(target->fd, target->size_bytes, &found);
  if (rc != 0)
    return target_fail(target, "cannot look for signatures", -rc);
  rc = target->kind == TARGET_DAX ? -ENOENT : blkid_find(target->fd, &found);
  if (rc != 0 && rc != -ENOENT)
    return target_reject(target, -rc, "blkid(8) failed on it, so what it holds is not known");
  target->is_probed = rc == 0;
  return reject_unnamed(target, rules, &found);
}

/* Openers come last: blkid is one for a moment. */
int target_check_content(struct target *target, const struct target_rules *rules, bool again) {
  if (!target->may_write)
    return 0;
  int rc = check_signatures(target, rules);
  if (rc != 0)
    return rc;
  rc = guard_check_openers(&target->guard, target->fd, again);
  return rc == 0 ? 0 : target_reject(target, -rc, target->guard.why);
}

int target_check_again(struct target *target, const struct target_rules *rules) {
  bool is_ours = target->kind == TARGET_NONE || target->kind == TARGET_MADE_FILE;
  int rc = is_ours ? 0 : target_check_use(target);
  return rc != 0 || is_ours ? rc : target_check_content(target, rules, false);
}
