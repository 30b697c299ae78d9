#include "play/held_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/clock.h"
#include "play/mounts.h"
#include "play/overlay.h"
#include "play/processes.h"

#define RING "anon_inode:[io_uring]"

/* A ring in use keeps its files to itself: it is asked so often, with pauses. */
#define RING_TRIES 50U
#define RING_PAUSE_NS 1000000U

/* Lines of a ring: the registered files stand in those between two of its own. */
struct search {
  const struct graph *graph;
  int folder;
  bool is_list;   /* these lines are reached */
  bool is_told;   /* they were there */
  int poller;     /* the thread that polls for it; at most 0: none */
  unsigned zeros; /* of the two counters of what was requested and completed */
};

static bool leads_to_node(const struct search *search, const char *path, bool *is_there) {
  struct stat status;
  if (fstatat(search->folder, path, &status, 0) != 0)
    return false;
  *is_there = true;
  return graph_find(search->graph, &status) != NULL ||
         (S_ISREG(status.st_mode) && major(status.st_dev) == 0 &&
          overlay_is_node(search->graph, search->folder, search->folder, path));
}

/* Whether a path may lead to a node: as the process sees it, or as we do. What leads nowhere may
 * have lost its name. */
static bool may_be_node(const struct search *search, const char *path) {
  char from_root[PATH_MAX];
  bool is_there = false;
  int length = snprintf(from_root, sizeof from_root, "root%s", path);
  bool is_short = length > 0 && (size_t)length < sizeof from_root;
  return (is_short && leads_to_node(search, from_root, &is_there)) ||
         leads_to_node(search, path, &is_there) || !is_there;
}

/* "UserFiles: 2" and "    0: /dev/sda" below; pipes and sockets have a colon and no slash. */
static int look_at_line(void *context, char *line) {
  struct search *search = context;
  unsigned places = 0;
  unsigned number = 0;
  int name_at = 0;
  if (line[0] != ' ') {
    (void)sscanf(line, "SqThread: %d", &search->poller); /* it is another line, or there is none */
    bool is_counter = sscanf(line, "CachedSqHead: %u", &number) == 1 ||
                      sscanf(line, "CachedCqTail: %u", &number) == 1;
    search->zeros += is_counter && number == 0;
    search->is_list = sscanf(line, "UserFiles: %u", &places) == 1;
    search->is_told = search->is_told || (search->is_list && places == 0);
    return 0;
  }
  if (!search->is_list || sscanf(line, " %*u: %n", &name_at) < 0 || name_at == 0)
    return 0;
  search->is_told = true;
  char *name = line + name_at;
  mounts_unescape(name);
  /* Older kernels show the last part of a path alone. */
  if (name[0] != '/')
    return strchr(name, ':') == NULL && strcmp(name, "<none>") != 0;
  return may_be_node(search, name);
}

/* What was closed meanwhile holds nothing. */
static bool is_unknown(int rc) { return rc < 0 && rc != -ENOENT && rc != -ESRCH; }

static enum held_files look_at_ring(const struct graph *graph, int folder, const char *info,
                                    struct rings_report *report) {
  for (unsigned tries = 0; tries < RING_TRIES; tries++) {
    struct search search = {.graph = graph, .folder = folder};
    int rc = processes_lines(folder, info, look_at_line, &search);
    report->poller = search.poller > 0 ? (uint64_t)search.poller : 0;
    report->is_unused = search.zeros == 2;
    if (rc == 1 || is_unknown(rc))
      return HELD_MAYBE;
    if (rc < 0 || search.is_told)
      return HELD_RING;
    clock_sleep_until(clock_now_ns() + RING_PAUSE_NS);
  }
  return HELD_MAYBE;
}

static int count_sent(void *context, char *line) {
  unsigned *count = context;
  return sscanf(line, "scm_fds: %u", count) == 1;
}

enum held_files held_files_look(const struct graph *graph, int folder, const char *descriptor,
                                mode_t mode, struct rings_report *report) {
  char name[64];
  char link[sizeof RING + 1];
  unsigned sent = 0;
  (void)snprintf(name, sizeof name, "fdinfo/%.32s", descriptor);
  if (S_ISSOCK(mode)) {
    int rc = processes_lines(folder, name, count_sent, &sent);
    return sent > 0 || is_unknown(rc) ? HELD_MAYBE : HELD_NONE;
  }
  /* Of a ring the kernel shows no type. */
  if ((mode & S_IFMT) != 0)
    return HELD_NONE;
  char place[64];
  (void)snprintf(place, sizeof place, "fd/%.32s", descriptor);
  ssize_t length = readlinkat(folder, place, link, sizeof link);
  if (length != sizeof RING - 1 || memcmp(link, RING, sizeof RING - 1) != 0)
    return HELD_NONE;
  return look_at_ring(graph, folder, name, report);
}
