/* Lets every call that may change files wait until another process, which gets the listener, lets
 * it go on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#define ARRAY_LENGTH(array) (sizeof(array) / sizeof *(array))
#define CALL(name) {#name, __NR_##name, -1}
#define OPEN(name, flags_at) {#name, __NR_##name, flags_at}

/* An open counts where its flags, the argument `flags_at`, let it make or empty a file. */
static const struct {
  const char *name;
  int number;
  int flags_at;
} CALLS[] = {
#ifdef __NR_open
    OPEN(open, 1),         CALL(creat),     CALL(rename),   CALL(link),
    CALL(symlink),         CALL(unlink),    CALL(mkdir),    CALL(rmdir),
    CALL(mknod),           CALL(chmod),     CALL(chown),    CALL(lchown),
#endif
#ifdef __NR_renameat
    CALL(renameat),
#endif
    OPEN(openat, 2),       CALL(openat2),   CALL(write),    CALL(pwrite64),
    CALL(writev),          CALL(pwritev),   CALL(pwritev2), CALL(sendfile),
    CALL(copy_file_range), CALL(splice),    CALL(truncate), CALL(ftruncate),
    CALL(fallocate),       CALL(renameat2), CALL(linkat),   CALL(symlinkat),
    CALL(unlinkat),        CALL(mkdirat),   CALL(mknodat),  CALL(fchmod),
    CALL(fchmodat),        CALL(fchown),    CALL(fchownat), CALL(fsync),
    CALL(fdatasync),       CALL(syncfs),    CALL(sync),
};
enum { MAKES = O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY), MOST = 6 * ARRAY_LENGTH(CALLS) + 2 };

static size_t write_filter(struct sock_filter *code) {
  size_t at = 0;
  unsigned number_at = offsetof(struct seccomp_data, nr);
  code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number_at);
  for (size_t n = 0; n < ARRAY_LENGTH(CALLS); n++) {
    unsigned number = (unsigned)CALLS[n].number;
    if (CALLS[n].flags_at < 0) {
      code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    } else {
      unsigned flags_at =
          (unsigned)(offsetof(struct seccomp_data, args) + 8 * (size_t)CALLS[n].flags_at);
      code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4);
      code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags_at);
      code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAKES, 1, 0);
      code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  }
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  return at;
}

/* Returns the listener, or -1 with errno. */
static int install(void) {
  struct sock_filter code[MOST];
  struct sock_fprog program = {.len = (unsigned short)write_filter(code), .filter = code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -1;
  /* Without the second flag, of Linux 5.19, a signal lets a call that waits be counted twice. */
  unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
  long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (fd < 0 && errno == EINVAL)
    fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  return (int)fd;
}

/* Watches this process and all that it will start. The listener goes to `socket`, with a line of
   number and name for each call. Returns 0 or an errno. */
int watch(int socket) {
  char names[4096];
  size_t length = 0;
  for (size_t n = 0; n < ARRAY_LENGTH(CALLS); n++)
    length += (size_t)snprintf(names + length, sizeof names - length, "%d %s\n", CALLS[n].number,
                               CALLS[n].name);
  int listener = install();
  if (listener < 0)
    return errno;
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof listener)];
  } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  control.header.cmsg_len = CMSG_LEN(sizeof listener);
  memcpy(CMSG_DATA(&control.header), &listener, sizeof listener);
  struct iovec text = {.iov_base = names, .iov_len = length};
  struct msghdr message = {
      .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ssize_t sent = sendmsg(socket, &message, 0);
  int error = sent == (ssize_t)length ? 0 : errno;
  close(listener);
  return error;
}
