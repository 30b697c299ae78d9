#include "play/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "play/diag.h"

#define STACK_BYTES (256U << 10)

/* The only global: a signal handler has no other way to learn where to write. */
static _Atomic sig_atomic_t stop_flag;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler may not take a lock");

static void on_signal(int number) {
  (void)number;
  atomic_store_explicit(&stop_flag, 1, memory_order_relaxed);
}

/* A program started with nohup goes on when its terminal closes. */
static int catch_hangup(const struct sigaction *stop) {
  struct sigaction before;
  if (sigaction(SIGHUP, NULL, &before) != 0)
    return -errno;
  if (before.sa_handler == SIG_IGN)
    return 0;
  return sigaction(SIGHUP, stop, NULL) != 0 ? -errno : 0;
}

static int catch_all(void) {
  struct sigaction stop = {.sa_handler = on_signal};
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  (void)sigemptyset(&stop.sa_mask); /* cannot fail */
  (void)sigemptyset(&ignore.sa_mask);
  if (sigaction(SIGINT, &stop, NULL) != 0 || sigaction(SIGTERM, &stop, NULL) != 0 ||
      sigaction(SIGXFSZ, &ignore, NULL) != 0 || sigaction(SIGPIPE, &ignore, NULL) != 0)
    return -errno;
  return catch_hangup(&stop);
}

int stop_install(void) {
  int rc = catch_all();
  if (rc != 0)
    diag("cannot handle signals: %s", strerror(-rc));
  return rc;
}

int stop_with(uint32_t parent) {
  if (parent == 0)
    return 0;
  if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0) {
    int rc = -errno;
    diag("cannot learn when process %u ends: %s", parent, strerror(-rc));
    return rc;
  }
  /* It may have ended before the signal was set. */
  if (getppid() != (pid_t)parent)
    on_signal(SIGTERM);
  return 0;
}

bool stop_requested(void) { return atomic_load_explicit(&stop_flag, memory_order_relaxed) != 0; }

int stop_thread_create(pthread_t *thread, void *(*body)(void *), void *argument) {
  /* A new thread inherits the mask, so all signals are blocked while it starts. */
  sigset_t all;
  sigset_t before;
  pthread_attr_t attributes;
  int rc = pthread_attr_init(&attributes);
  if (rc != 0)
    return -rc;
  (void)sigfillset(&all); /* cannot fail */
  rc = pthread_attr_setstacksize(&attributes, STACK_BYTES);
  if (rc == 0)
    rc = pthread_sigmask(SIG_SETMASK, &all, &before);
  if (rc != 0)
    goto destroy_attributes;
  rc = pthread_create(thread, &attributes, body, argument);
  /* Restoring a mask that was in force a moment ago cannot fail. */
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
destroy_attributes:
  (void)pthread_attr_destroy(&attributes); /* cannot fail for an initialized one */
  return -rc;
}
