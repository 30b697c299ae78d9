/* The JSON summary of a run. INTERFACE.md says what its keys mean. */
#ifndef TRACEKIT_FILES_SUMMARY_H
#define TRACEKIT_FILES_SUMMARY_H

#include "files/session.h"

/* Writes the summary where the options say; `error` is that of the run. Returns 0 or -errno after a
 * line on stderr. */
int summary_write(const struct session *session, int error);

#endif
