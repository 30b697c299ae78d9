/* The command line of a program: a table of long options, read by getopt_long. */
#ifndef TRACEKIT_PLAY_COMMAND_H
#define TRACEKIT_PLAY_COMMAND_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct options; /* the program's own */

struct command_option {
  unsigned group;    /* index in the groups of the program */
  const char *name;  /* without the dashes */
  const char *value; /* what it takes; NULL: nothing */
  const char *help;  /* one line */
  /* Reads `value` into `place`, which is at `offset` of the program's options. 0 or -errno. */
  int (*take)(const struct command_option *option, void *place, char *value);
  size_t offset;
  uint64_t minimum; /* of command_number and command_small */
  uint64_t maximum;
  const char *const *words; /* of command_word: in the order of the enum, ended by NULL */
};

/* Each reads one kind of value: what `place` must point to stands behind it. */
typedef int command_take(const struct command_option *option, void *place, char *value);
command_take command_flag;       /* bool, set to true */
command_take command_text;       /* const char *, borrowed from the command line */
command_take command_number;     /* uint64_t */
command_take command_small;      /* uint32_t */
command_take command_descriptor; /* int, a file descriptor */
command_take command_fraction;   /* struct fraction */
command_take command_word;       /* an enum without negative values */

struct command {
  const char *about;         /* printed before the options by --help */
  const char *const *groups; /* headings of the options there */
  const char *codes;         /* printed after them: the exit codes */
  int width;                 /* of the options' names there */
  int interface; /* printed by --version: of the files that the program reads and writes */
  const struct command_option *options; /* of the program; --version and --help are added */
  uint32_t count;                       /* of options, at most 62 */
  int (*take_place)(struct options *options, char *place); /* an argument that is no option */
};

/* Gives each argument to its function and sets bit N of *given for each option number N that is
 * there. Returns 0, 1 when --help or --version was asked for and
 * printed, or -EINVAL after a line on stderr. Once a process. */
int command_parse(const struct command *command, struct options *options, uint64_t *given,
                  int count, char **arguments);

#endif
