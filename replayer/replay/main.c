/* Runs a plan of I/O requests on real targets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/version.h"
#include "replay/diag.h"
#include "replay/options.h"
#include "replay/session.h"
#include "replay/stop.h"

int main(int count, char **arguments) {
  struct options options;
  if (options_parse(&options, count, arguments) != 0)
    return 2;
  if (options.is_help) {
    options_help(stdout);
    return 0;
  }
  if (options.is_version)
    return printf("tracekit-replay interface %d\n", TK_INTERFACE_VERSION) > 0 ? 0 : 1;
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
