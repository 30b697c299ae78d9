#include "play/blkid.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TARGET_FD 3
#define ANSWER_BYTES 8192U
#define EXIT_FOUND 0
#define EXIT_NOTHING 2
#define EXIT_AMBIVALENT 8

/* Names of libblkid (without "_member", in small letters) that are others in our table. */
static const char *const aliases[][2] = {
    {"ext2", "ext"},
    {"ext3", "ext"},
    {"ext4", "ext"},
    {"ext4dev", "ext"},
    {"jbd", "ext"},
    {"crypto_luks", "luks"},
    {"lvm2", "lvm"},
    {"linux_raid", "md"},
    {"ddf_raid", "ddf"},
    {"isw_raid", "isw"},
    {"dos", "mbr"},
    {"pmbr", "mbr"},
    {"reiser4", "reiserfs"},
    {"squashfs3", "squashfs"},
    {"swsuspend", "hibernation"},
    {"swsupend", "hibernation"},
    {"vmfs_volume", "vmfs"},
    {"nss", "netware"},
    {"ceph_bluestore", "bluestore"},
    {"xfs_external_log", "xfs_log"},
    {"dm_snapshot_cow", "dm_snapshot"},
    {"dm_verity_hash", "dm_verity"},
    {"gfs", "gfs2"},
    {"drbdmanage_control_volume", "drbdmanage"},
    {"scoutfs_meta", "scoutfs"},
    {"scoutfs_data", "scoutfs"},
};

/* Adds the value of a line such as TYPE=ext4 by our name. */
static void add_value(struct signature_set *found, const char *value) {
  char name[SIGNATURE_NAME_BYTES] = "";
  for (size_t i = 0; value[i] != '\0' && i < sizeof name - 1; i++)
    name[i] = (char)(isalnum((unsigned char)value[i]) ? tolower((unsigned char)value[i]) : '_');
  char *member = strstr(name, "_member");
  if (member != NULL)
    *member = '\0';
  const char *ours = name;
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(name, aliases[i][0]) == 0)
      ours = aliases[i][1];
  signature_add(found, ours);
}

/* Starts the program with the target as its descriptor 3. Returns its pid or -errno. */
static pid_t start(const char *path, int fd, int answer_fd) {
  char *const words[] = {"blkid", "-p", "-o", "export", "/proc/self/fd/3", NULL};
  char *const no_environment[] = {NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  pid_t pid = -1;
  (void)sigemptyset(&none);
  if (posix_spawn_file_actions_init(&actions) != 0)
    return -ENOMEM;
  if (posix_spawnattr_init(&attributes) != 0) {
    (void)posix_spawn_file_actions_destroy(&actions);
    return -ENOMEM;
  }
  /* What it says of errors comes by the same pipe: nothing found and nothing readable have the same
   * exit code. The pipe is moved first: it may be descriptor 3 itself. */
  int rc = posix_spawn_file_actions_adddup2(&actions, answer_fd, STDOUT_FILENO);
  if (rc == 0)
    rc = posix_spawn_file_actions_adddup2(&actions, answer_fd, STDERR_FILENO);
  if (rc == 0)
    rc = posix_spawn_file_actions_adddup2(&actions, fd, TARGET_FD);
  if (rc == 0)
    rc = posix_spawnattr_setsigmask(&attributes, &none);
  if (rc == 0)
    rc = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  if (rc == 0)
    rc = posix_spawn(&pid, path, &actions, &attributes, words, no_environment);
  (void)posix_spawnattr_destroy(&attributes);
  (void)posix_spawn_file_actions_destroy(&actions);
  return rc == 0 ? pid : -rc;
}

/* Reads until the program closes its end; what does not fit is read and dropped. */
static void read_answer(int fd, char *answer) {
  char rest[512];
  size_t length = 0;
  for (;;) {
    bool fits = length < ANSWER_BYTES - 1;
    ssize_t now =
        read(fd, fits ? answer + length : rest, fits ? ANSWER_BYTES - 1 - length : sizeof rest);
    if (now == 0 || (now < 0 && errno != EINTR))
      break;
    length += now > 0 && fits ? (size_t)now : 0;
  }
  answer[length] = '\0';
}

static int wait_for(pid_t pid) {
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return -EIO;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

/* Takes what the lines say; a type of partition table counts as a type of content does. */
static int take_answer(int code, char *answer, struct signature_set *found) {
  if (code == EXIT_AMBIVALENT)
    signature_add(found, "ambivalent");
  if (code == EXIT_AMBIVALENT || (code == EXIT_NOTHING && answer[0] == '\0'))
    return 0;
  if (code != EXIT_FOUND)
    return -EIO;
  char *rest = NULL;
  for (char *line = strtok_r(answer, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
    if (strncmp(line, "TYPE=", 5) == 0 || strncmp(line, "PTTYPE=", 7) == 0)
      add_value(found, strchr(line, '=') + 1);
  return 0;
}

int blkid_find(int fd, struct signature_set *found) {
  /* Fixed places: the user's PATH decides nothing here. */
  static const char *const paths[] = {"/usr/sbin/blkid", "/sbin/blkid"};
  char answer[ANSWER_BYTES];
  int ends[2];
  /* Whoever started us may have left it ignored, and then nobody could be waited for. */
  (void)signal(SIGCHLD, SIG_DFL);
  if (pipe2(ends, O_CLOEXEC) != 0)
    return -ENOENT;
  /* Descriptor 3 is the program's place for the target, so the pipe must not be there. */
  int answer_fd = fcntl(ends[1], F_DUPFD_CLOEXEC, TARGET_FD + 1);
  (void)close(ends[1]); /* its copy stays */
  pid_t pid = -ENOENT;
  for (size_t i = 0; i < sizeof paths / sizeof *paths && pid < 0 && answer_fd >= 0; i++)
    pid = start(paths[i], fd, answer_fd);
  if (answer_fd >= 0)
    (void)close(answer_fd); /* the program has its own */
  if (pid > 0)
    read_answer(ends[0], answer);
  (void)close(ends[0]); /* only read */
  return pid > 0 ? take_answer(wait_for(pid), answer, found) : -ENOENT;
}
