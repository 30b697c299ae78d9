#include "files/rules.h"

#include <string.h>

#define NAME_MAX_BYTES 255U

/* What an operation goes by. */
enum need { BY_HANDLE, BY_PATH, BY_EITHER, BY_BOTH, BY_TWO_PATHS, BY_NOTHING };

static const uint8_t needs[PLAN_OPERATIONS] = {
    [PLAN_OPEN] = BY_BOTH,        [PLAN_CREATE] = BY_BOTH,
    [PLAN_CLOSE] = BY_HANDLE,     [PLAN_READ] = BY_HANDLE,
    [PLAN_WRITE] = BY_HANDLE,     [PLAN_FSYNC] = BY_HANDLE,
    [PLAN_FDATASYNC] = BY_HANDLE, [PLAN_SYNC_FILE_RANGE] = BY_HANDLE,
    [PLAN_STAT] = BY_EITHER,      [PLAN_RENAME] = BY_TWO_PATHS,
    [PLAN_LINK] = BY_TWO_PATHS,   [PLAN_UNLINK] = BY_PATH,
    [PLAN_MKDIR] = BY_PATH,       [PLAN_RMDIR] = BY_PATH,
    [PLAN_READDIR] = BY_EITHER,   [PLAN_TRUNCATE] = BY_EITHER,
    [PLAN_FALLOCATE] = BY_HANDLE, [PLAN_MMAP] = BY_HANDLE,
    [PLAN_MUNMAP] = BY_HANDLE,    [PLAN_MSYNC] = BY_HANDLE,
    [PLAN_SYNC] = BY_NOTHING,
};

const char *rules_file(const struct plan *plan, uint64_t name_bytes, uint32_t number) {
  const struct plan_file *file = &plan->files[number];
  if (file->name_bytes == 0 || file->name_bytes > NAME_MAX_BYTES ||
      file->name_offset > name_bytes || file->name_bytes > name_bytes - file->name_offset)
    return "has no proper name";
  const char *name = plan->names + file->name_offset;
  bool is_dots =
      name[0] == '.' && (file->name_bytes == 1 || (file->name_bytes == 2 && name[1] == '.'));
  if (is_dots || memchr(name, '/', file->name_bytes) != NULL ||
      memchr(name, '\0', file->name_bytes) != NULL)
    return "has a name that is none: it could leave the directory";
  if (file->kind > PLAN_DIRECTORY || file->is_present > 1)
    return "is of an unknown kind";
  if (file->size_bytes > INT64_MAX)
    return "has an absurd size";
  if (file->parent == PLAN_NONE)
    return NULL;
  if (file->parent >= number || plan->files[file->parent].kind != PLAN_DIRECTORY)
    return "is not below a directory that stands before it";
  if (file->is_present && !plan->files[file->parent].is_present)
    return "is there before its directory is";
  return NULL;
}

const char *rules_step(const struct plan_step *step) {
  size_t length = strnlen(step->label, sizeof step->label);
  if (length == 0 || length == sizeof step->label)
    return "has no proper label";
  for (size_t i = 0; i < length; i++)
    if (step->label[i] <= ' ' || step->label[i] > '~')
      return "has a label that is not plain text";
  return NULL;
}

static const char *wrong_place(const struct plan *plan, const struct plan_record *record) {
  bool has_file = record->file != PLAN_NONE;
  bool has_handle = record->handle != PLAN_NONE;
  if ((has_file && record->file >= plan->file_count) ||
      (record->other != PLAN_NONE && record->other >= plan->file_count))
    return "names a file that the plan does not have";
  if (has_handle && record->handle >= plan->handle_count)
    return "names a handle that the plan does not have";
  enum need need = (enum need)needs[record->operation];
  bool lacks_handle = (need == BY_HANDLE || need == BY_BOTH) && !has_handle;
  bool lacks_path = (need == BY_PATH || need == BY_BOTH || need == BY_TWO_PATHS) && !has_file;
  if (lacks_handle || lacks_path || (need == BY_EITHER && !has_file && !has_handle) ||
      (need == BY_TWO_PATHS && record->other == PLAN_NONE))
    return "lacks the file or the handle of its operation";
  return NULL;
}

static const char *wrong_range(const struct plan *plan, const struct plan_record *record) {
  bool moves = record->operation == PLAN_READ || record->operation == PLAN_WRITE;
  if (moves && record->length > plan->max_transfer_bytes)
    return "is longer than the longest transfer of the header";
  if (record->length > INT64_MAX)
    return "has an absurd length";
  if (record->offset == PLAN_AT_POSITION)
    return moves ? NULL
           : (record->operation == PLAN_MMAP || record->operation == PLAN_FALLOCATE ||
              record->operation == PLAN_SYNC_FILE_RANGE)
               ? "needs an offset"
               : NULL;
  if (record->offset > INT64_MAX - record->length)
    return "lies beyond the end of any file";
  return NULL;
}

const char *rules_record(const struct plan *plan, const struct plan_thread *thread,
                         uint64_t number) {
  const struct plan_record *record = &plan->records[number];
  if (record->operation >= PLAN_OPERATIONS)
    return "has an unknown operation";
  if ((record->flags & ~PLAN_FLAGS) != 0 || record->expected_error > PLAN_ERROR_MAX)
    return "has unknown flags or an unknown error";
  if (record->step != PLAN_NO_STEP && record->step >= plan->step_count)
    return "names a step that the plan does not have";
  if (record->start_ns > plan->duration_ns ||
      (number > thread->first && record->start_ns < record[-1].start_ns))
    return "is out of the order of time in its thread";
  if (record->after != PLAN_NONE &&
      (record->after >= plan->record_count ||
       (record->after >= number &&
        record->after - number < thread->first + thread->count - number)))
    return "waits for a record that comes later in its own thread, or for none";
  const char *wrong = wrong_place(plan, record);
  return wrong != NULL ? wrong : wrong_range(plan, record);
}
