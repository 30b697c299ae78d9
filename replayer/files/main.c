/* Runs a plan of file operations in a directory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "files/options.h"
#include "files/session.h"
#include "replay/diag.h"
#include "replay/stop.h"

#define INTERFACE_VERSION 1

int main(int count, char **arguments) {
  struct options options;
  if (options_parse(&options, count, arguments) != 0)
    return 2;
  if (options.is_help) {
    options_help(stdout);
    return 0;
  }
  if (options.is_version)
    return printf("tracekit-file-replay interface %d\n", INTERFACE_VERSION) > 0 ? 0 : 1;
  int rc = stop_install();
  if (rc != 0) {
    diag("cannot handle signals: %s", strerror(-rc));
    return 1;
  }
  struct session *session = malloc(sizeof *session);
  if (session == NULL) {
    diag("no memory: %s", strerror(ENOMEM));
    return 1;
  }
  int code = session_run(session, &options);
  free(session);
  return code;
}
