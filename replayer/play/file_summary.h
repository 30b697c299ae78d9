/* The JSON summary of a run. INTERFACE.md says what its keys mean. */
#ifndef TRACEKIT_PLAY_FILE_SUMMARY_H
#define TRACEKIT_PLAY_FILE_SUMMARY_H

#include "play/file_session.h"

/* Writes the summary where the options say; `error` is that of the run. Returns 0 or -errno after a
 * line on stderr. */
int file_summary_write(const struct file_session *session, int error);

#endif
