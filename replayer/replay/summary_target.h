/* What the summary says of one target. */
#ifndef TRACEKIT_REPLAY_SUMMARY_TARGET_H
#define TRACEKIT_REPLAY_SUMMARY_TARGET_H

#include "replay/json.h"
#include "replay/session.h"

/* Writes the object of target `index`. */
void summary_target(struct json *json, const struct session *session, uint32_t index);

#endif
