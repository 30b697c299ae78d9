#include "play/exports.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Attributes that hold the path of what is served. */
static const char *const attributes[] = {
    "/sys/kernel/config/target/core/*/*/udev_path",
    "/sys/kernel/config/target/core/*/*/info",
    "/sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path",
    "/sys/kernel/config/usb_gadget/*/functions/*/*/file",
};

static bool is_node(const struct graph *graph, const char *path) {
  struct stat status;
  return path[0] == '/' && stat(path, &status) == 0 && graph_find(graph, &status) != NULL;
}

/* An attribute is a path alone, or names one after "File: ". */
static int look(const struct graph *graph, const char *attribute) {
  char text[PATH_MAX];
  int fd = open(attribute, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? 0 : -errno;
  ssize_t length = read(fd, text, sizeof text - 1);
  (void)close(fd); /* only read */
  text[length < 0 ? 0 : length] = '\0';
  char *file = strstr(text, "File: ");
  char *path = file == NULL ? text : file + strlen("File: ");
  char *end = file == NULL ? NULL : strstr(path, "  Size: ");
  path[end == NULL ? strcspn(path, "\n") : (size_t)(end - path)] = '\0';
  return is_node(graph, path);
}

int exports_find(const struct graph *graph, char *where, size_t size) {
  int rc = 0;
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes && rc == 0; i++) {
    glob_t found;
    if (glob(attributes[i], GLOB_NOSORT, NULL, &found) != 0)
      continue; /* the kernel serves none of these */
    for (size_t n = 0; n < found.gl_pathc && rc == 0; n++) {
      rc = look(graph, found.gl_pathv[n]);
      if (rc == 1)
        (void)snprintf(where, size, "%s", found.gl_pathv[n]);
    }
    globfree(&found);
  }
  return rc;
}
