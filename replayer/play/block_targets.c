#include "play/block_targets.h"

#include <errno.h>
#include <string.h>

#include "play/capabilities.h"
#include "play/diag.h"
#include "play/nvme_device.h"
#include "play/priority.h"

#define GRAIN_SECTORS 8U /* scaled addresses are no finer than 4 KiB, unless the plan is */

/* The path given for a label, or the one given for all others; NULL if there is neither. */
static const char *path_for(const struct options *options, const char *label) {
  const char *path = NULL;
  for (uint32_t i = 0; i < options->target_count; i++) {
    const struct options_target *target = &options->targets[i];
    if (target->label != NULL && strcmp(target->label, label) == 0)
      return target->path;
    if (target->label == NULL)
      path = target->path;
  }
  return path;
}

static bool plan_has(const struct block_plan *plan, const char *label) {
  for (uint32_t i = 0; i < plan->target_count; i++)
    if (strcmp(plan->targets[i].label, label) == 0)
      return true;
  return false;
}

/* A label that is not in the plan is a mistake: its requests would go somewhere else. */
static int check_labels(const struct block_session *session) {
  for (uint32_t i = 0; i < session->options->target_count; i++) {
    const char *label = session->options->targets[i].label;
    if (label != NULL && !plan_has(&session->plan, label)) {
      diag("the plan has no requests for a target '%s'", label);
      return -EINVAL;
    }
  }
  return 0;
}

/* Two targets on the same bytes would overwrite each other. */
static int check_twins(const struct block_session *session, const struct target *target) {
  for (uint32_t i = 0; i < session->target_count; i++) {
    const struct target *other = &session->targets[i];
    /* One may have been made a moment ago and exist for the other. A dry run makes none: there the
     * names must do. */
    bool is_same_object = other->fd >= 0 && target->fd >= 0 && other->device == target->device &&
                          other->inode == target->inode;
    bool is_same = is_same_object ||
                   (other->fd < 0 && target->fd < 0 && strcmp(other->path, target->path) == 0);
    if (is_same) {
      diag("targets %s and %s are the same %s; give each its own", other->label, target->label,
           target_kind_name(other->kind));
      return -EINVAL;
    }
  }
  return 0;
}

/* Gives each target of the plan the device that it is emulated on. */
static int choose_devices(struct block_session *session) {
  const struct options *options = session->options;
  for (uint32_t i = 0; i < options->device_count; i++)
    if (options->devices[i].label != NULL && !plan_has(&session->plan, options->devices[i].label)) {
      diag("the plan has no requests for a device '%s'", options->devices[i].label);
      return -EINVAL;
    }
  for (uint32_t target = 0; options->device_count > 0 && target < session->plan.target_count;
       target++) {
    const char *label = session->plan.targets[target].label;
    const struct options_device *chosen = NULL;
    for (uint32_t i = 0; i < options->device_count; i++) {
      const struct options_device *device = &options->devices[i];
      bool is_named = device->label != NULL && strcmp(device->label, label) == 0;
      if (is_named || (device->label == NULL && chosen == NULL))
        chosen = device;
    }
    if (chosen == NULL) {
      diag("the plan has requests for '%s', but no --emulate serves them", label);
      return -EINVAL;
    }
    session->devices[target] = chosen->spec;
  }
  return 0;
}

static struct target_rules rules_of(const struct options *options) {
  return (struct target_rules){.direct = options->direct,
                               .write_to = options->write_to.texts,
                               .write_to_count = options->write_to.count,
                               .overwrite = options->overwrite.texts,
                               .overwrite_count = options->overwrite.count,
                               .expands = options->expands,
                               .may_create = !options->is_dry_run};
}

int block_targets_check_again(struct block_session *session) {
  struct target_rules rules = rules_of(session->options);
  int rc = 0;
  for (uint32_t i = 0; i < session->target_count && rc == 0; i++)
    rc = target_check_again(&session->targets[i], &rules);
  return rc;
}

/* A target counts as opened even when it is a twin, so that the caller closes it. */
static int open_target(struct block_session *session, uint32_t index) {
  const struct options *options = session->options;
  const struct block_target *plan_target = &session->plan.targets[index];
  struct target *target = &session->targets[index];
  if (options->target_count == 0) { /* the null engine, or a device without memory */
    target_open_none(target, plan_target);
    session->target_count++;
    return 0;
  }
  const char *path = path_for(options, plan_target->label);
  if (path == NULL) {
    diag("the plan has requests for '%s', but no --target takes them", plan_target->label);
    return -EINVAL;
  }
  struct target_rules rules = rules_of(options);
  int rc = target_open(target, path, plan_target, &rules);
  if (rc != 0)
    return rc;
  rc = check_twins(session, target);
  session->target_count++;
  return rc;
}

/* A DAX device has neither reads nor writes, and commands are for namespaces of NVMe alone. */
static int check_kinds(const struct block_session *session, const char *engine) {
  for (uint32_t i = 0; i < session->target_count; i++)
    if (session->targets[i].kind == TARGET_DAX && strcmp(engine, "dax") != 0) {
      diag("target %s=%s is a DAX device: it needs --engine dax", session->targets[i].label,
           session->targets[i].path);
      return -EINVAL;
    }
  for (uint32_t i = 0; i < session->target_count && strcmp(engine, "nvme") == 0; i++) {
    const struct target *target = &session->targets[i];
    struct nvme_device device;
    int rc = target->kind != TARGET_DEVICE
                 ? -ENODEV
                 : nvme_device_open(&device, target->device, target->may_write);
    if (rc != 0) {
      diag("target %s=%s takes no commands of NVMe: %s; name a namespace such as /dev/nvme0n1 or "
           "/dev/ng0n1, or leave --engine nvme out",
           target->label, target->path, strerror(-rc));
      return rc;
    }
    nvme_device_close(&device);
    if (target->is_direct)
      continue;
    diag("target %s=%s takes whole blocks only: %s; add --expand", target->label, target->path,
         target->direct_note);
    return -EINVAL;
  }
  return 0;
}

/* What cannot be polled is rejected before the kernel takes it and uses interrupts all the same. */
static int check_polling(const struct block_session *session) {
  for (uint32_t i = 0; session->options->uring.is_polled && i < session->target_count; i++) {
    const struct target *target = &session->targets[i];
    bool is_direct = target->is_direct || target->kind == TARGET_NONE;
    if (is_direct && (target->fd < 0 || capabilities_polls(target->device)))
      continue;
    const char *why = is_direct ? "its device has no queues for it (an NVMe drive gets them by "
                                  "nvme.poll_queues=N on the kernel's command line)"
                                : "it is buffered, and only O_DIRECT can be";
    diag("target %s=%s cannot be polled: %s; leave --iopoll out", target->label, target->path, why);
    return -EOPNOTSUPP;
  }
  return 0;
}

/* What of a target is used: its whole sectors where they are larger than the plan's. */
static uint64_t usable_bytes(const struct target *target) {
  return target->is_direct ? target->size_bytes - target->size_bytes % target->align_bytes
                           : target->size_bytes;
}

int block_targets_open(struct block_session *session) {
  const struct options *options = session->options;
  const struct options_list *priority = &options->priority;
  int rc = check_labels(session);
  if (rc == 0)
    rc = choose_devices(session);
  for (uint32_t i = 0; i < session->plan.target_count && rc == 0; i++)
    rc = open_target(session, i);
  if (rc == 0)
    rc = check_kinds(session, options->engine);
  if (rc == 0)
    rc = check_polling(session);
  if (rc == 0)
    rc = priority_assign(session->targets, session->target_count, priority->texts, priority->count);
  return rc;
}

struct fit_target block_targets_fit(const struct block_session *session, uint32_t index) {
  const struct target *target = &session->targets[index];
  uint64_t bits = session->plan.targets[index].address_bits | GRAIN_SECTORS;
  uint64_t needed = session->plan.targets[index].needed_bytes / SECTOR_BYTES;
  return (struct fit_target){.size_sectors = usable_bytes(target) / SECTOR_BYTES,
                             .needed_sectors = needed,
                             .grain_sectors = (uint32_t)(bits & (~bits + 1)),
                             .expand_sectors =
                                 target->expands ? target->align_bytes / SECTOR_BYTES : 1};
}

uint64_t block_targets_longest_transfer(const struct block_session *session) {
  uint64_t more = 0;
  for (uint32_t i = 0; i < session->target_count; i++)
    if (session->targets[i].expands && 2 * session->targets[i].align_bytes > more)
      more = 2 * session->targets[i].align_bytes;
  return session->plan.max_transfer_bytes + more;
}
