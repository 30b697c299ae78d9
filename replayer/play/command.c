#include "play/command.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "play/diag.h"
#include "play/number.h"

#define MOST_OPTIONS 64U
#define FIRST_CODE 256 /* above all letters, which getopt_long returns for short options */
#define PLACE 1        /* what it returns for an argument that is no option */

/* What was asked for instead of a run. */
struct wish {
  bool is_version;
  bool is_help;
};

int command_flag(const struct command_option *option, void *place, char *value) {
  (void)option;
  (void)value;
  bool *flag = place;
  *flag = true;
  return 0;
}

int command_text(const struct command_option *option, void *place, char *value) {
  (void)option;
  const char **text = place;
  *text = value;
  return 0;
}

int command_number(const struct command_option *option, void *place, char *value) {
  return number_parse(value, option->minimum, option->maximum, place);
}

int command_small(const struct command_option *option, void *place, char *value) {
  assert(option->maximum <= UINT32_MAX);
  uint64_t number = 0;
  int rc = number_parse(value, option->minimum, option->maximum, &number);
  uint32_t *small = place;
  *small = (uint32_t)number;
  return rc;
}

int command_descriptor(const struct command_option *option, void *place, char *value) {
  (void)option;
  uint64_t number = 0;
  int rc = number_parse(value, 0, INT_MAX, &number);
  int *fd = place;
  *fd = (int)number;
  return rc;
}

int command_fraction(const struct command_option *option, void *place, char *value) {
  (void)option;
  return fraction_parse(value, place);
}

int command_word(const struct command_option *option, void *place, char *value) {
  for (unsigned i = 0; option->words[i] != NULL; i++)
    if (strcmp(value, option->words[i]) == 0) {
      memcpy(place, &i, sizeof i); /* such an enum is an unsigned int */
      return 0;
    }
  return -EINVAL;
}

static const struct command_option own[] = {
    {0, "version", NULL, "print the version of the files it reads and writes", command_flag,
     .offset = offsetof(struct wish, is_version)},
    {0, "help", NULL, "print this", command_flag, .offset = offsetof(struct wish, is_help)},
};

#define OWN_COUNT ((uint32_t)(sizeof own / sizeof *own))

/* Option number `at`: the program's, then the own. */
static const struct command_option *option_at(const struct command *command, uint32_t at) {
  return at < command->count ? &command->options[at] : &own[at - command->count];
}

static void fill(const struct command *command, struct option *known) {
  uint32_t count = command->count + OWN_COUNT;
  assert(count <= MOST_OPTIONS);
  for (uint32_t i = 0; i < count; i++)
    known[i] = (struct option){.name = option_at(command, i)->name,
                               .has_arg = option_at(command, i)->value != NULL,
                               .val = FIRST_CODE + (int)i};
  known[count] = (struct option){.name = NULL};
}

/* `base` is what the option's offset counts from. */
static int take(const struct command_option *option, void *base, char *value) {
  if (option->take(option, (char *)base + option->offset, value) == 0)
    return 0;
  diag("--%s does not take '%s': %s", option->name, value == NULL ? "" : value, option->help);
  return -EINVAL;
}

/* Reports what is wrong with an argument that getopt_long has rejected with `code`. */
static int reject(const struct command *command, int code, const char *argument) {
  int at = optopt - FIRST_CODE;
  bool is_known = at >= 0 && (uint32_t)at < command->count + OWN_COUNT;
  if (code == ':' && is_known)
    diag("--%s needs a value: %s", option_at(command, (uint32_t)at)->name,
         option_at(command, (uint32_t)at)->value);
  else if (is_known)
    diag("--%s takes no value", option_at(command, (uint32_t)at)->name);
  else
    diag("there is no option %s; see --help", argument);
  return -EINVAL;
}

/* The "-" of its options makes getopt_long hand over other arguments where they stand. */
static int take_all(const struct command *command, struct options *options, uint64_t *given,
                    struct wish *wish, int count, char **arguments) {
  struct option known[MOST_OPTIONS + 1];
  fill(command, known);
  opterr = 0; /* the lines on stderr are ours */
  for (;;) {
    int at = optind;
    int code = getopt_long(count, arguments, "-:", known, NULL);
    if (code == -1)
      break;
    uint32_t number = (uint32_t)(code - FIRST_CODE);
    int rc = 0;
    if (code >= FIRST_CODE)
      rc = take(option_at(command, number), number < command->count ? (void *)options : wish,
                optarg);
    else if (code == PLACE)
      rc = command->take_place(options, optarg);
    else
      rc = reject(command, code, arguments[at]);
    if (rc != 0)
      return rc;
    if (code >= FIRST_CODE)
      *given |= UINT64_C(1) << number;
  }
  for (; optind < count; optind++) /* what follows "--" */
    if (command->take_place(options, arguments[optind]) != 0)
      return -EINVAL;
  return 0;
}

static void help_option(const struct command *command, const struct command_option *option) {
  int column = printf("  --%s %s", option->name, option->value == NULL ? "" : option->value);
  (void)printf("%*s%s\n", column < command->width ? command->width - column : 1, "", option->help);
}

static void help(const struct command *command) {
  (void)fputs(command->about, stdout);
  for (unsigned group = 0; command->groups[group] != NULL; group++) {
    (void)printf("\n%s\n", command->groups[group]);
    for (uint32_t i = 0; i < command->count + OWN_COUNT; i++)
      if (option_at(command, i)->group == group)
        help_option(command, option_at(command, i));
  }
  (void)fputs(command->codes, stdout);
}

int command_parse(const struct command *command, struct options *options, uint64_t *given,
                  int count, char **arguments) {
  struct wish wish = {.is_help = false};
  int rc = take_all(command, options, given, &wish, count, arguments);
  if (rc != 0)
    return rc;
  if (wish.is_help)
    help(command);
  else if (wish.is_version)
    (void)printf("%s interface %d\n", program_invocation_short_name, command->interface);
  return wish.is_help || wish.is_version;
}
