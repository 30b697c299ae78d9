/* Runs a plan of I/O requests on real targets, or of file operations in a directory. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "play/block_player.h"
#include "play/diag.h"
#include "play/file_player.h"
#include "play/options.h"
#include "play/process_limits.h"
#include "play/stop.h"

#define STACK_BYTES (UINT64_C(256) << 10) /* of this thread, with space to spare */

/* A stack that ends too early is a fault without a word. */
static int check_stack(void) {
  uint64_t limit = process_limits_raise_stack(STACK_BYTES);
  if (limit >= STACK_BYTES)
    return 0;
  diag("the stack of this process is too small: %" PRIu64 " bytes needed, %" PRIu64
       " by RLIMIT_STACK; raise the limit (ulimit -s %" PRIu64 ")",
       STACK_BYTES, limit, STACK_BYTES / 1024);
  return -1;
}

static int run(struct options *options, int count, char **arguments) {
  int rc = options_parse(options, count, arguments);
  if (rc != 0)
    return rc < 0 ? 2 : 0;
  if (stop_install(options->parent) != 0 || options_check_outputs(options) != 0)
    return 1;
  return options->kind == PLAN_OF_FILES ? file_player_run(options) : block_player_run(options);
}

int main(int count, char **arguments) {
  if (check_stack() != 0)
    return 1;
  struct options *options = malloc(sizeof *options);
  if (options == NULL) {
    diag("no memory for the options: %s", strerror(errno));
    return 1;
  }
  int code = run(options, count, arguments);
  free(options);
  return code;
}
