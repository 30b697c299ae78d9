/* Whether the limits of this process and of its control groups let a plan of blocks run. */
#ifndef TRACEKIT_PLAY_PREFLIGHT_PROCESS_H
#define TRACEKIT_PLAY_PREFLIGHT_PROCESS_H

#include "play/block_session.h"

/* Raises the limit of open files as far as is needed and allowed, and adds to session->preflight
 * what is less than the run needs, about. */
void preflight_process(struct block_session *session);

#endif
