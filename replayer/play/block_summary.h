/* The JSON summary of a session; INTERFACE.md gives its keys. */
#ifndef TRACEKIT_PLAY_BLOCK_SUMMARY_H
#define TRACEKIT_PLAY_BLOCK_SUMMARY_H

#include "play/block_session.h"

/* Writes the summary to the file that the options name (beside it, then renamed) or to stdout.
 * `error` is the run's result, 0 or -errno. Returns 0 or -errno after a line on stderr. */
int block_summary_write(const struct block_session *session, int error);

#endif
