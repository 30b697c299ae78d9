#include "play/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <unistd.h>

#include "play/number.h"

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
