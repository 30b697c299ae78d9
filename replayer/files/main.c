/* Runs a plan of file operations in a directory. */
#include "files/options.h"
#include "files/session.h"
#include "replay/stop.h"

int main(int count, char **arguments) {
  struct options options;
  int rc = options_parse(&options, count, arguments);
  if (rc != 0)
    return rc < 0 ? 2 : 0;
  if (stop_install() != 0 || stop_with(options.parent) != 0)
    return 1;
  struct session session;
  return session_run(&session, &options);
}
