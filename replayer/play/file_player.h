/* Runs a plan of files: opens what it needs in order, runs it, and closes in reverse. */
#ifndef TRACEKIT_PLAY_FILE_PLAYER_H
#define TRACEKIT_PLAY_FILE_PLAYER_H

#include "play/options.h"

/* Runs the plan as the options say and writes the summary. Returns the exit code: 0 all done, 1
 * failed or rejected (after a line on stderr), 3 interrupted, full, or some operations failed. */
int file_player_run(const struct options *options);

#endif
