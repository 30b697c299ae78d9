/* Files of a run by what they are for: what it writes must be nothing else. */
#ifndef TRACEKIT_PLAY_OUTPUT_CHECK_H
#define TRACEKIT_PLAY_OUTPUT_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct output_use {
  const char *what; /* for people, such as "the plan" */
  const char *path; /* NULL: there is none */
  bool is_output;   /* it is replaced at the end of the run */
};

/* Rejects an output that is also something else of the list, whatever it is called there, since it
 * would be replaced; and one in a folder that is not there or cannot be written, so that this is
 * not found out after the run. What is neither a file nor a disk, such as a pipe, is fine. Returns
 * 0 or -errno after a line on stderr. */
int output_check(const struct output_use *uses, uint32_t count);

#endif
