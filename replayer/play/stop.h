/* Stopping on SIGINT, SIGTERM and SIGHUP: a flag. One thread alone takes the signals. */
#ifndef TRACEKIT_PLAY_STOP_H
#define TRACEKIT_PLAY_STOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Lets SIGINT, SIGTERM and, unless it is ignored already, SIGHUP set the flag, and ignores SIGXFSZ
 * and SIGPIPE, so that these come back as errors of the call. Returns 0, or -errno after a line on
 * stderr. */
int stop_install(void);

/* Lets the end of the process `parent`, which started the program, ask to stop as well; 0: no one's
 * does. Returns 0, or -errno after a line on stderr. */
int stop_with(uint32_t parent);

/* Returns whether a signal asked to stop. Any thread. */
bool stop_requested(void);

/* Starts a thread that takes no signals, so that they interrupt the submitting thread's sleep.
 * Returns 0 or -errno. */
int stop_thread_create(pthread_t *thread, void *(*body)(void *), void *argument);

#endif
