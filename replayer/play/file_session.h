/* Everything that the run of a plan of files needs. */
#ifndef TRACEKIT_PLAY_FILE_SESSION_H
#define TRACEKIT_PLAY_FILE_SESSION_H

#include "play/fidelity.h"
#include "play/flow.h"
#include "play/free_space.h"
#include "play/options.h"
#include "play/own_mounts.h"
#include "play/process_needs.h"
#include "play/run_folder.h"
#include "play/thread_pool.h"

struct file_session {
  const struct options *options; /* borrowed */
  struct file_plan plan;
  struct file_paths paths;
  struct handle_table handles;
  struct buffers buffers;
  struct run_folder folder;
  struct free_space space;
  char file_system[OWN_MOUNTS_TYPE_BYTES];      /* of the directory, as mounted; "": not known */
  struct preflight_note notes[PREFLIGHT_CODES]; /* what will not go as the plan says */
  struct process_groups groups;                 /* their limits, for the notes */
  struct file_context context;
  struct prepare_report prepared;
  struct results *results;
  struct worker_settings settings;
  struct file_run run;
  struct flow flow;                 /* its plan is NULL without one */
  struct thread_pool_report report; /* its stats is NULL when nothing ran */
  struct timeline timeline;
  struct fidelity_host host; /* what the run took */
};

#endif
