/* Runs a plan of I/O requests on real targets, or of file operations in a directory. */
#include "play/block_player.h"
#include "play/file_player.h"
#include "play/options.h"
#include "play/stop.h"

int main(int count, char **arguments) {
  struct options options;
  int rc = options_parse(&options, count, arguments);
  if (rc != 0)
    return rc < 0 ? 2 : 0;
  if (stop_install(options.parent) != 0 || options_check_outputs(&options) != 0)
    return 1;
  return options.kind == PLAN_OF_FILES ? file_player_run(&options) : block_player_run(&options);
}
