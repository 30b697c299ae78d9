/* Stopping on SIGINT, SIGTERM and SIGHUP. The first signal asks for an end in good order, which
 * waits for what is under way; a second one, or STOP_GRACE_S after the first, forces the end. One
 * thread alone takes the signals, and sees to the end where the main thread hangs in a call. */
#ifndef TRACEKIT_PLAY_STOP_H
#define TRACEKIT_PLAY_STOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define STOP_GRACE_S 10U
#define STOP_REMOVE_S 3U
#define STOP_STACK_BYTES (256U << 10) /* of a thread of stop_thread_create */

/* Where the program is, as the main thread says it. */
enum stop_phase {
  STOP_BEFORE, /* nothing has run: a forced end leaves nothing behind */
  STOP_RUN,    /* the main thread runs, and ends by itself when the end is forced */
  STOP_INSIDE, /* the same, but in a call that may hang for ever */
  STOP_SAVE,   /* results are being written: they are waited for */
  STOP_CLOSE,  /* results are complete */
  STOP_TAKEN   /* the main thread hangs, and the other one ends the program */
};

/* Lets SIGINT, SIGTERM and, unless it is ignored already, SIGHUP ask for the end and wake the
 * calling thread, which is the main thread below, from a sleep, and ignores
 * SIGXFSZ and SIGPIPE, so that these come back as errors of the call. `parent` is the process that
 * started the program, whose end asks for it as well; 0: no one's does. A signal that comes from it
 * and the same one from elsewhere, as Ctrl-C sends both, are one. Returns 0, or -errno after a line
 * on stderr. */
int stop_install(uint32_t parent);

/* Returns whether a signal asked for the end. Any thread. */
bool stop_requested(void);

/* Returns whether that was STOP_REMOVE_S ago or more: removing files does not go on. Any thread. */
bool stop_is_overdue(void);

/* Returns whether what is under way is not to be waited for any more. Any thread. */
bool stop_is_forced(void);

/* Says where the program is. Does not return where the end was taken over. Main thread only. */
void stop_enter(enum stop_phase phase);

/* Around a call of the run that may hang: in it the end can be taken over, of the main thread, or
 * the thread be abandoned, of one that is watched. They do nothing before the run, and in all other
 * threads. The second does not return where either has happened. */
void stop_go_inside(void);
void stop_come_out(void);

/* Whether a thread is in such a call, as the thread says it; all zeroes: it is not. */
struct stop_watch {
  _Atomic int place;
};

/* Lets `watch` show where the calling thread is, which is not the main one, for as long as it
 * lives. */
void stop_watch_me(struct stop_watch *watch);

/* Leaves the thread for good if it hangs in such a call; returns whether. If it does not, it goes
 * on, and ends by itself. Any thread. */
bool stop_abandon(struct stop_watch *watch);

/* Lets `end` be called with `argument` by another thread when the end is forced while the main
 * thread hangs in STOP_INSIDE: it saves the results and ends the program. */
void stop_on_hang(void (*end)(void *argument), void *argument);

/* Results are complete: from here a second signal ends the program with `code`. */
void stop_saved(int code);

/* Ends the program without waiting for other threads or for requests in the kernel. Any thread. */
_Noreturn void stop_leave(int code);

/* Starts a thread that takes no signals. Returns 0 or -errno. */
int stop_thread_create(pthread_t *thread, void *(*body)(void *), void *argument);

#endif
