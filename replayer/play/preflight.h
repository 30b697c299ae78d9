/* Whether a plan fits its targets, this process and the place of its results, asked before the
 * first request: in a dry run, and at the start of every run. */
#ifndef TRACEKIT_PLAY_PREFLIGHT_H
#define TRACEKIT_PLAY_PREFLIGHT_H

#include "play/block_session.h"

/* Fills session->preflight, and session->beyond with the requests outside of each target. A plan
 * with such requests is rejected unless the options say what to do with them; one that cannot have
 * its space is, too, unless the options let it start. A plan of over 2^22 requests is read for that
 * only where its tables leave it open. Returns 0 or -errno after a line on stderr. */
int preflight_check(struct block_session *session);

/* Prints what the process has too little of, for a run that could not start. */
void preflight_explain(const struct block_session *session);

#endif
