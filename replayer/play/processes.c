#include "play/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "play/number.h"

/* Longer than any line: a path has at most 4096 bytes, each of four characters. */
#define PIECE_BYTES 65536U

int processes_visit(int (*visit)(int folder, int pid, void *context), void *context) {
  DIR *all = opendir("/proc");
  if (all == NULL)
    return -errno;
  int rc = 0;
  for (struct dirent *entry = readdir(all); entry != NULL && rc == 0; entry = readdir(all)) {
    uint64_t pid;
    if (number_parse(entry->d_name, 1, INT_MAX, &pid) != 0)
      continue;
    int folder = openat(dirfd(all), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
      continue; /* it has ended */
    rc = visit(folder, (int)pid, context);
    (void)close(folder); /* only a place */
  }
  (void)closedir(all); /* only read */
  return rc;
}

int processes_lines(int folder, const char *name, int (*visit)(void *context, char *line),
                    void *context) {
  char piece[PIECE_BYTES];
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  size_t kept = 0;
  ssize_t now;
  int rc = 0;
  while (rc == 0 && kept < PIECE_BYTES - 1 &&
         (now = read(fd, piece + kept, PIECE_BYTES - 1 - kept)) > 0) {
    char *line = piece;
    size_t length = kept + (size_t)now;
    piece[length] = '\0';
    for (char *end = strchr(line, '\n'); end != NULL && rc == 0; end = strchr(line, '\n')) {
      *end = '\0';
      rc = visit(context, line);
      line = end + 1;
    }
    kept = length - (size_t)(line - piece);
    memmove(piece, line, kept);
  }
  (void)close(fd); /* only read */
  return rc;
}

bool processes_text(int folder, const char *name, char *text, size_t size) {
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t length = read(fd, text, size - 1);
  (void)close(fd); /* only read */
  text[length < 0 ? 0 : length] = '\0';
  return length > 0;
}

unsigned long processes_flags(int folder) {
  char text[512];
  unsigned long flags;
  if (!processes_text(folder, "stat", text, sizeof text))
    return ~0UL;
  const char *end = strrchr(text, ')');
  bool is_read = end != NULL && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1;
  return is_read ? flags : 0;
}
