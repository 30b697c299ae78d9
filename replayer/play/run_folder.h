/* The directory of a run: made for it, below the one that the user named, and removed after it.
 * Nothing else on the file system is ever written. */
#ifndef TRACEKIT_PLAY_RUN_FOLDER_H
#define TRACEKIT_PLAY_RUN_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#define RUN_FOLDER_NAME "tracekit-files"
#define RUN_FOLDER_INODES 3U /* that it takes itself, with its mark and the directory in it */

/* What was there before the run, and was removed. */
enum run_folder_found { RUN_FOLDER_NOTHING, RUN_FOLDER_KILLED, RUN_FOLDER_KEPT };

struct run_folder {
  int target_fd; /* what the user named */
  int own_fd;    /* RUN_FOLDER_NAME in it */
  int mark_fd;   /* locked while the run is on; by its name a run under way differs from one kept */
  int run_fd;    /* where the plan's paths begin */
  enum run_folder_found found;
  uint64_t left_bytes;  /* that this takes, as run_folder_look has found */
  uint64_t left_inodes; /* the same */
};

/* Makes RUN_FOLDER_NAME below `target`, with a mark that it is ours. One whose mark says that its
 * run was killed is removed first, `replaces`: also one that was kept; never one without a mark or
 * in use. Returns 0 or -errno after a line on stderr; end it with run_folder_close in both cases.
 */
int run_folder_open(struct run_folder *folder, const char *target, bool replaces);

/* The same without making or removing anything: whether run_folder_open would, and what it would
 * remove. Only `target_fd` is open then. */
int run_folder_look(struct run_folder *folder, const char *target, bool replaces);

/* Removes all that was made, or marks it as kept if `keeps`, and closes. Returns 0, also where a
 * line says that the time to remove it was up, or -errno after a line. */
int run_folder_close(struct run_folder *folder, const char *target, bool keeps);

#endif
