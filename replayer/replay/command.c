#include "replay/command.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <string.h>

#include "replay/diag.h"

#define MOST_OPTIONS 64U
#define FIRST_CODE 256 /* above all letters, which getopt_long returns for short options */
#define PLACE 1        /* what it returns for an argument that is no option */

int command_choose(const char *value, const char *const words[3], unsigned *chosen) {
  for (*chosen = 0; *chosen < 3; (*chosen)++)
    if (strcmp(value, words[*chosen]) == 0)
      return 0;
  return -EINVAL;
}

static void fill(const struct command *command, struct option *known) {
  assert(command->count <= MOST_OPTIONS);
  for (uint32_t i = 0; i < command->count; i++)
    known[i] = (struct option){.name = command->options[i].name,
                               .has_arg = command->options[i].value != NULL,
                               .val = FIRST_CODE + (int)i};
  known[command->count] = (struct option){.name = NULL};
}

static int take(const struct command_option *option, struct options *options, char *value) {
  if (option->take(options, value) == 0)
    return 0;
  diag("--%s does not take '%s': %s", option->name, value == NULL ? "" : value, option->help);
  return -EINVAL;
}

/* Says what is wrong with an argument that getopt_long has refused with `code`. */
static int refuse(const struct command *command, int code, const char *argument) {
  int at = optopt - FIRST_CODE;
  bool is_known = at >= 0 && (uint32_t)at < command->count;
  if (code == ':' && is_known)
    diag("--%s needs a value: %s", command->options[at].name, command->options[at].value);
  else if (is_known)
    diag("--%s takes no value", command->options[at].name);
  else
    diag("there is no option %s; see --help", argument);
  return -EINVAL;
}

int command_parse(const struct command *command, struct options *options, int count,
                  char **arguments) {
  struct option known[MOST_OPTIONS + 1];
  fill(command, known);
  opterr = 0; /* the lines on stderr are ours */
  for (;;) {
    int at = optind;
    int code = getopt_long(count, arguments, "-:", known, NULL);
    if (code == -1)
      break;
    int rc = 0;
    if (code >= FIRST_CODE)
      rc = take(&command->options[code - FIRST_CODE], options, optarg);
    else if (code == PLACE)
      rc = command->take_place(options, optarg);
    else
      rc = refuse(command, code, arguments[at]);
    if (rc != 0)
      return rc;
  }
  for (; optind < count; optind++) /* what follows "--" */
    if (command->take_place(options, arguments[optind]) != 0)
      return -EINVAL;
  return 0;
}

void command_help(const struct command *command, FILE *out, int width) {
  for (uint32_t i = 0; i < command->count; i++) {
    const struct command_option *option = &command->options[i];
    const char *value = option->value == NULL ? "" : option->value;
    int column = fprintf(out, "  --%s %s", option->name, value);
    (void)fprintf(out, "%*s%s\n", column < width ? width - column : 1, "", option->help);
  }
}
