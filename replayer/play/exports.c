#include "play/exports.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Attributes that hold the path of what is served, and the kernel's module that serves it. */
static const struct {
  const char *module;
  const char *folder;
  const char *attributes;
} servers[] = {
    {"target_core_mod", "/sys/kernel/config/target", "/core/*/*/udev_path"},
    {"target_core_mod", "/sys/kernel/config/target", "/core/*/*/info"},
    {"nvmet", "/sys/kernel/config/nvmet", "/subsystems/*/namespaces/*/device_path"},
    {"usb_f_mass_storage", "/sys/kernel/config/usb_gadget", "/*/functions/*/*/file"},
};

/* What cannot be looked at may be a node: what is served may have lost its name. */
static int is_node(const struct graph *graph, const char *path) {
  struct stat status;
  if (path[0] != '/')
    return 0;
  return stat(path, &status) == 0 ? graph_find(graph, &status) != NULL : -errno;
}

/* An attribute is a path alone, or names one after "File: ". */
static int look(const struct graph *graph, const char *attribute) {
  char text[PATH_MAX];
  int fd = open(attribute, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? 0 : -errno;
  ssize_t length = read(fd, text, sizeof text - 1);
  int rc = length < 0 ? -errno : 0;
  (void)close(fd); /* only read */
  if (rc != 0)
    return rc;
  text[length] = '\0';
  char *file = strstr(text, "File: ");
  char *path = file == NULL ? text : file + strlen("File: ");
  char *end = file == NULL ? NULL : strstr(path, "  Size: ");
  path[end == NULL ? strcspn(path, "\n") : (size_t)(end - path)] = '\0';
  return is_node(graph, path);
}

/* What a module serves is told in one place only, which nobody need have mounted. */
static int check_is_told(const char *module, const char *folder) {
  char path[96];
  (void)snprintf(path, sizeof path, "/sys/module/%.64s", module);
  return access(path, F_OK) == 0 && access(folder, F_OK) != 0 ? -errno : 0;
}

/* What is not there serves nothing; what cannot be read may. */
static int stops_at(const char *folder, int error) {
  (void)folder; /* the pattern is named */
  return error != ENOENT && error != ENOTDIR;
}

static int find_served(const struct graph *graph, size_t server, char *where, size_t size) {
  char pattern[128];
  glob_t found;
  int rc = check_is_told(servers[server].module, servers[server].folder);
  (void)snprintf(where, size, "%s", servers[server].folder);
  if (rc != 0)
    return rc;
  (void)snprintf(pattern, sizeof pattern, "%.60s%.60s", servers[server].folder,
                 servers[server].attributes);
  (void)snprintf(where, size, "%s", pattern);
  rc = glob(pattern, GLOB_NOSORT, stops_at, &found);
  if (rc != 0)
    return rc == GLOB_NOMATCH ? 0 : -EIO;
  for (size_t i = 0; i < found.gl_pathc && rc == 0; i++) {
    rc = look(graph, found.gl_pathv[i]);
    if (rc != 0)
      (void)snprintf(where, size, "%s", found.gl_pathv[i]);
  }
  globfree(&found);
  return rc;
}

int exports_find(const struct graph *graph, char *where, size_t size) {
  int rc = 0;
  for (size_t i = 0; i < sizeof servers / sizeof *servers && rc == 0; i++)
    rc = find_served(graph, i, where, size);
  return rc;
}
