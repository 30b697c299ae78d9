/* Whether a plan of files fits its directory, this process and its control groups, asked before any
 * file is made: in a dry run, and at the start of every run. */
#ifndef TRACEKIT_PLAY_FILE_PREFLIGHT_H
#define TRACEKIT_PLAY_FILE_PREFLIGHT_H

#include "play/file_session.h"

/* Fills session->space and session->notes; the directory of the user is open. Returns 0, or -errno
 * after a line on stderr for each reason why the run cannot succeed, unless the options let it
 * start. */
int file_preflight_check(struct file_session *session);

#endif
