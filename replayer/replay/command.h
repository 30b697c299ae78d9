/* The command line of a program: a table of long options, read by getopt_long. */
#ifndef TRACEKIT_REPLAY_COMMAND_H
#define TRACEKIT_REPLAY_COMMAND_H

#include <stdint.h>
#include <stdio.h>

struct options; /* each program's own */

struct command_option {
  const char *name;                                  /* without the dashes */
  const char *value;                                 /* what it takes; NULL: nothing */
  const char *help;                                  /* one line */
  int (*take)(struct options *options, char *value); /* 0 or -EINVAL */
};

struct command {
  const struct command_option *options;
  uint32_t count;                                          /* of options, at most 64 */
  int (*take_place)(struct options *options, char *place); /* an argument that is no option */
};

/* Gives each argument to its function. Returns 0 or -EINVAL after a line on stderr. Once a
 * process. */
int command_parse(const struct command *command, struct options *options, int count,
                  char **arguments);

/* Prints one line an option, the texts from column `width` on. */
void command_help(const struct command *command, FILE *out, int width);

/* Finds `value` among three words in the order of an enum. Returns 0 or -EINVAL. */
int command_choose(const char *value, const char *const words[3], unsigned *chosen);

#endif
