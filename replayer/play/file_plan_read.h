/* Reads a file plan and checks every entry of it. */
#ifndef TRACEKIT_PLAY_FILE_PLAN_READ_H
#define TRACEKIT_PLAY_FILE_PLAN_READ_H

#include "play/file_plan.h"

#define FILE_PLAN_MAGIC "TKFILE\r\n"

/* Maps the plan at `path` and checks all of it. Returns 0 or -errno after a line on stderr. The
 * caller ends it with file_plan_close. */
int file_plan_open(struct file_plan *plan, const char *path);

/* Unmaps the plan; one that was never opened, and is all zeroes, is fine. */
void file_plan_close(struct file_plan *plan);

#endif
