#include "play/fault_guard.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

/* A handler of signals is given nothing, so it must find the way back here. */
static _Thread_local sigjmp_buf way_back;
static _Thread_local volatile sig_atomic_t is_copying;

static void on_fault(int number) {
  if (is_copying)
    siglongjmp(way_back, 1);
  (void)signal(number, SIG_DFL); /* not ours: let it end the program as it would have */
  (void)raise(number);
}

int fault_guard_install(void) {
  struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
  (void)sigemptyset(&action.sa_mask); /* cannot fail */
  return sigaction(SIGBUS, &action, NULL) == 0 ? 0 : -errno;
}

int fault_guard_copy(void (*copy)(void *to, const void *from, size_t length), void *to,
                     const void *from, size_t length) {
  if (sigsetjmp(way_back, 0) != 0) {
    is_copying = 0;
    return -EIO;
  }
  is_copying = 1;
  copy(to, from, length);
  is_copying = 0;
  return 0;
}
