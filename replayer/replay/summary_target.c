#include "replay/summary_target.h"

#include "replay/priority.h"

static void write_disk(struct json *json, const struct device_spec *spec) {
  json_number(json, "seek_track_ns", spec->seek_track_ns);
  json_number(json, "seek_root_ns", spec->seek_root_ns);
  json_signed(json, "seek_linear_ns", spec->seek_linear_ns);
  json_number(json, "seek_unknown_ns", spec->seek_unknown_ns);
  json_number(json, "write_settle_ns", spec->write_settle_ns);
  json_number(json, "half_turn_ns", spec->half_turn_ns);
  json_number(json, "track_sectors", spec->track_sectors);
  json_number(json, "capacity_sectors", spec->capacity_sectors);
}

static void write_device(struct json *json, const struct device_spec *spec) {
  json_open(json, "device", '{');
  json_number(json, "read_setup_ns", spec->read_setup_ns);
  json_number(json, "write_setup_ns", spec->write_setup_ns);
  if (spec->sequential_setup_ns != UINT64_MAX)
    json_number(json, "sequential_setup_ns", spec->sequential_setup_ns);
  json_number(json, "read_bytes_s", spec->read_bytes_s);
  json_number(json, "write_bytes_s", spec->write_bytes_s);
  json_number(json, "flush_ns", spec->flush_ns);
  json_number(json, "fua_ns", spec->fua_ns);
  json_number(json, "lanes", spec->lanes);
  if (spec->half_turn_ns > 0)
    write_disk(json, spec);
  json_close(json, '}');
}

static void write_counted(struct json *json, const struct disk_stat *disk) {
  static const char *const names[DISK_KINDS] = {"reads", "writes", "discards", "flushes"};
  if (!disk->is_known)
    return;
  json_open(json, "counted", '{');
  for (unsigned kind = 0; kind < DISK_KINDS; kind++) {
    json_open(json, names[kind], '{');
    json_number(json, "done", disk->done[kind]);
    json_number(json, "merged", disk->merged[kind]);
    json_number(json, "bytes", disk->sectors[kind] * PLAN_SECTOR_BYTES);
    json_close(json, '}');
  }
  json_close(json, '}');
}

void summary_target(struct json *json, const struct session *session, uint32_t index) {
  const struct target *target = &session->targets[index];
  const struct plan_target *planned = &session->plan.targets[index];
  json_open(json, NULL, '{');
  json_text(json, "label", target->label);
  json_text(json, "path", target->path);
  json_text(json, "kind", target_kind_name(target->kind));
  json_bool(json, "is_kept", target->kind != TARGET_MADE_FILE || session->options->keep);
  json_text(json, "confirm_with", target->token[0] == '\0' ? NULL : target->token);
  json_bool(json, "may_write", target->may_write);
  char priority[PRIORITY_TEXT_BYTES];
  priority_name(target->priority, priority);
  json_text(json, "priority", priority);
  json_bool(json, "is_direct", target->is_direct);
  json_bool(json, "expands", target->expands);
  json_text(json, "direct_note", target->direct_note[0] == '\0' ? NULL : target->direct_note);
  json_number(json, "align_bytes", target->align_bytes);
  json_number(json, "needed_bytes", planned->needed_bytes);
  if (target->kind != TARGET_NONE)
    json_number(json, "size_bytes", target->size_bytes);
  json_bool(json, "can_discard", target->can_discard);
  json_bool(json, "can_zero", target->can_zero);
  json_number(json, "out_of_range", session->beyond[index]);
  if (session->options->device_count > 0)
    write_device(json, &session->devices[index]);
  write_counted(json, &session->disks[index]);
  json_open(json, "planned", '{');
  for (unsigned operation = 0; operation < PLAN_OPERATIONS; operation++)
    json_number(json, plan_operation_name((enum plan_operation)operation),
                planned->counts[operation]);
  json_number(json, "read_bytes", planned->bytes[PLAN_READ]);
  json_number(json, "write_bytes", planned->bytes[PLAN_WRITE] + planned->bytes[PLAN_WRITE_ZEROES]);
  json_number(json, "discard_bytes", planned->bytes[PLAN_DISCARD]);
  json_close(json, '}');
  json_close(json, '}');
}
