/* Follows a trace line by line. */
#ifndef TRACEKIT_STRACE_FOLLOW_H
#define TRACEKIT_STRACE_FOLLOW_H

#include "strace/step.h"

/* Takes one line in. Returns 0 or -ENOMEM. */
int follow_line(struct tk_calls *calls, struct view text);

#endif
