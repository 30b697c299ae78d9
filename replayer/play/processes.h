/* The processes of the machine, as far as /proc shows them. */
#ifndef TRACEKIT_PLAY_PROCESSES_H
#define TRACEKIT_PLAY_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>

/* Calls `visit` for each process, ours too, until it returns something else than 0. `folder` is a
 * descriptor of its folder in /proc. Returns what it returned last, or -errno when the processes
 * cannot be listed. */
int processes_visit(int (*visit)(int folder, int pid, void *context), void *context);

/* Calls `visit` for each line of a file of a process, without its newline, until it returns
 * something else than 0. `folder` is a descriptor of the process's folder. Returns what it returned
 * last, or -errno when the file cannot be opened. */
int processes_lines(int folder, const char *name, int (*visit)(void *context, char *line),
                    void *context);

/* Reads the beginning of a file of a process or thread into `text`, which it ends. Returns whether
 * there was any. */
bool processes_text(int folder, const char *name, char *text, size_t size);

/* Returns the kernel's flags of a process or thread: all of them once it has ended, none when they
 * cannot be read. */
unsigned long processes_flags(int folder);

#endif
