#include "play/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "play/clock.h"
#include "play/diag.h"

#define BY_ITSELF_NS 300000000U /* in which a thread that does not hang has reached its end */
#define CLOSE_NS 3000000000U    /* the same for closing what hung, after one signal alone */
#define LOOK_NS 10000000U       /* between two looks at whether it has */
#define SECOND_NS UINT64_C(1000000000)
#define PARTIAL 3           /* exit code */
#define WAKE SIGRTMIN       /* ends a sleep of the main thread */
#define ORPHANED (WAKE + 1) /* the parent has ended: it comes once for each of its threads */

/* The only global: signals are of the whole program. */
static struct {
  uint32_t parent;
  pthread_t main;  /* thread: woken when the end is asked for */
  sigset_t set;    /* of the signals that ask for it */
  int from_parent; /* how many it sent, its end being the first; of the signal thread, as the next
                    */
  int from_others;
  _Atomic bool is_requested;
  _Atomic uint64_t requested_ns; /* when */
  _Atomic bool is_forced;        /* by a second signal, or because the first is too long ago */
  _Atomic bool has_hung;         /* it was forced before the results were saved */
  _Atomic int phase;             /* enum stop_phase */
  _Atomic int code;              /* to exit with in STOP_CLOSE */
  void (*end)(void *argument);
  void *argument;
} stop;

/* Where a thread that is watched is. */
enum { OUTSIDE, INSIDE, ABANDONED };

static _Thread_local struct stop_watch *watched; /* of the calling thread; NULL: it is not */

bool stop_requested(void) { return atomic_load_explicit(&stop.is_requested, memory_order_relaxed); }

bool stop_is_overdue(void) {
  return stop_requested() &&
         clock_now_ns() >= atomic_load(&stop.requested_ns) + STOP_REMOVE_S * SECOND_NS;
}

bool stop_is_forced(void) { return atomic_load_explicit(&stop.is_forced, memory_order_relaxed); }

void stop_enter(enum stop_phase phase) {
  int now = atomic_load(&stop.phase);
  while (now != STOP_TAKEN && !atomic_compare_exchange_weak(&stop.phase, &now, (int)phase)) {
    /* `now` is what it is now. */
  }
  while (now == STOP_TAKEN)
    (void)pause(); /* until the other thread has ended the program */
}

static bool is_main(void) { return pthread_equal(pthread_self(), stop.main) != 0; }

void stop_go_inside(void) {
  int from = STOP_RUN;
  if (watched != NULL)
    atomic_store(&watched->place, INSIDE);
  if (!is_main())
    return;
  (void)atomic_compare_exchange_strong(&stop.phase, &from,
                                       STOP_INSIDE); /* before the run: as it is */
}

void stop_come_out(void) {
  int from = STOP_INSIDE;
  int inside = INSIDE;
  if (watched != NULL && !atomic_compare_exchange_strong(&watched->place, &inside, OUTSIDE))
    for (;;)
      (void)pause(); /* until the program has ended without this thread */
  if (!is_main())
    return;
  if (!atomic_compare_exchange_strong(&stop.phase, &from, STOP_RUN) && from == STOP_TAKEN)
    stop_enter(STOP_RUN);
}

void stop_watch_me(struct stop_watch *watch) { watched = watch; }

bool stop_abandon(struct stop_watch *watch) {
  int inside = INSIDE;
  return atomic_compare_exchange_strong(&watch->place, &inside, ABANDONED);
}

void stop_on_hang(void (*end)(void *argument), void *argument) {
  stop.end = end;
  stop.argument = argument;
}

void stop_saved(int code) {
  atomic_store(&stop.has_hung, stop_is_forced());
  atomic_store(&stop.code, code);
  stop_enter(STOP_CLOSE);
}

void stop_leave(int code) {
  /* Whoever waits for the end of the output need not wait for a thread that the kernel cannot end.
   */
  (void)close(STDOUT_FILENO);
  (void)close(STDERR_FILENO);
  _exit(code);
}

static bool take_over(int from) {
  return atomic_compare_exchange_strong(&stop.phase, &from, STOP_TAKEN);
}

static bool is_second(void) { return stop.from_parent > 1 || stop.from_others > 1; }

/* Takes a signal within `timeout_ns` if one comes. Ctrl-C reaches the parent and this program, and
 * the parent passes it on: that is one signal. */
static void take_signal(uint64_t timeout_ns) {
  struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / SECOND_NS),
                             .tv_nsec = (long)(timeout_ns % SECOND_NS)};
  siginfo_t info;
  if (sigtimedwait(&stop.set, &info, &timeout) <= 0)
    return;
  bool is_parent = stop.parent != 0 && info.si_pid == (pid_t)stop.parent;
  if (info.si_signo != ORPHANED)
    *(is_parent ? &stop.from_parent : &stop.from_others) += 1;
  else if (stop.from_parent == 0)
    stop.from_parent = 1;
  if (!stop_requested())
    atomic_store(&stop.requested_ns, clock_now_ns());
  atomic_store(&stop.is_requested, true);
  if (is_second())
    atomic_store(&stop.is_forced, true);
  (void)pthread_kill(stop.main, WAKE); /* it sleeps, or not */
}

/* Ends the program where the main thread does not, if nothing is lost by it. */
static void end_for_main(uint64_t *closing_ns) {
  if (take_over(STOP_BEFORE)) {
    diag("stopped before anything was run");
    stop_leave(PARTIAL);
  }
  if (stop.end != NULL && take_over(STOP_INSIDE))
    stop.end(stop.argument);
  bool may_hang = is_second() || atomic_load(&stop.has_hung);
  if (!may_hang || atomic_load(&stop.phase) != STOP_CLOSE)
    return;
  uint64_t now_ns = clock_now_ns();
  *closing_ns = *closing_ns == 0 ? now_ns : *closing_ns;
  if (now_ns - *closing_ns > (is_second() ? BY_ITSELF_NS : CLOSE_NS))
    stop_leave(atomic_load(&stop.code));
}

/* Body of the thread that takes the signals: the main thread cannot while it hangs in a call. */
static void *see_to_the_end(void *argument) {
  (void)argument;
  uint64_t closing_ns = 0;
  while (!stop_requested())
    take_signal(UINT32_MAX * SECOND_NS);
  uint64_t grace_ns = clock_now_ns() + STOP_GRACE_S * SECOND_NS;
  for (uint64_t now_ns = 0; !stop_is_forced() && now_ns < grace_ns;) {
    now_ns = clock_now_ns();
    take_signal(grace_ns > now_ns ? grace_ns - now_ns : 0);
  }
  atomic_store(&stop.is_forced, true);
  uint64_t forced_ns = clock_now_ns();
  for (;;) {
    take_signal(LOOK_NS);
    if (clock_now_ns() - forced_ns > BY_ITSELF_NS)
      end_for_main(&closing_ns);
  }
  return NULL;
}

static void on_wake(int number) { (void)number; /* it ends a sleep */ }

/* Lets one thread alone take the signals. A program started with nohup goes on when its terminal
 * closes. */
static int choose_signals(void) {
  struct sigaction before;
  struct sigaction wake = {.sa_handler = on_wake};
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  (void)sigemptyset(&wake.sa_mask); /* cannot fail, as the next ones */
  (void)sigemptyset(&ignore.sa_mask);
  (void)sigemptyset(&stop.set);
  (void)sigaddset(&stop.set, SIGINT);
  (void)sigaddset(&stop.set, SIGTERM);
  (void)sigaddset(&stop.set, ORPHANED);
  if (sigaction(SIGHUP, NULL, &before) != 0 || sigaction(WAKE, &wake, NULL) != 0 ||
      sigaction(SIGXFSZ, &ignore, NULL) != 0 || sigaction(SIGPIPE, &ignore, NULL) != 0)
    return -errno;
  if (before.sa_handler != SIG_IGN)
    (void)sigaddset(&stop.set, SIGHUP);
  return -pthread_sigmask(SIG_BLOCK, &stop.set, NULL);
}

/* Its end sends a signal; it may have ended before that was asked for. */
static int follow_parent(void) {
  if (stop.parent == 0)
    return 0;
  if (prctl(PR_SET_PDEATHSIG, ORPHANED, 0, 0, 0) != 0)
    return -errno;
  return getppid() != (pid_t)stop.parent && kill(getpid(), ORPHANED) != 0 ? -errno : 0;
}

int stop_install(uint32_t parent) {
  pthread_t thread;
  stop.parent = parent;
  stop.main = pthread_self();
  int rc = choose_signals();
  if (rc == 0)
    rc = stop_thread_create(&thread, see_to_the_end, NULL);
  if (rc == 0)
    rc = follow_parent();
  if (rc != 0)
    diag("cannot handle signals: %s", strerror(-rc));
  else
    (void)pthread_detach(thread); /* it ends with the program */
  return rc;
}

int stop_thread_create(pthread_t *thread, void *(*body)(void *), void *argument) {
  /* A new thread inherits the mask, so all signals are blocked while it starts. */
  sigset_t all;
  sigset_t before;
  pthread_attr_t attributes;
  int rc = pthread_attr_init(&attributes);
  if (rc != 0)
    return -rc;
  (void)sigfillset(&all); /* cannot fail */
  rc = pthread_attr_setstacksize(&attributes, STOP_STACK_BYTES);
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
