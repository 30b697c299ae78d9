/* The system calls that make rows or change what later ones mean, by name, and their handlers. */
#ifndef TRACEKIT_STRACE_CALL_TABLE_H
#define TRACEKIT_STRACE_CALL_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "strace/step.h"

/* In what form a call has its arguments: bits of `detail`. */
enum form {
  FORM_PATH = 1,     /* a path */
  FORM_AT = 2,       /* a folder's descriptor and a path */
  FORM_HANDLE = 4,   /* a descriptor */
  FORM_LINK = 8,     /* of two names: link, not rename */
  FORM_FOLDER = 16,  /* of remove: rmdir */
  FORM_CREAT = 32,   /* of open: no flags */
  FORM_HOW = 64,     /* of open: flags in a structure */
  FORM_WRITE = 128,  /* of a transfer */
  FORM_PLACED = 256, /* of a transfer: with an offset */
  FORM_VECTOR = 512, /* of a transfer: parts, whose lengths are not printed */
  FORM_SEND = 1024,  /* of copy: sendfile */
  FORM_VALUE = 2048, /* of metadata: a name, a buffer and its size */
  FORM_LIST = 4096,  /* of metadata: a buffer and its size */
};

#define FORM_BITS 16 /* of `detail`; above them stands the operation of a call on metadata */
#define OF_OPERATION(operation, form) ((operation) << FORM_BITS | (form))

/* Handles a call that returned. Returns 0 or -ENOMEM; -EINVAL when it cannot be understood. */
typedef int (*handler)(struct step *step);

struct known_call {
  const char *name;
  handler handle;
  int32_t detail;
  bool makes_rows;
};

/* Returns what is known of a call, or NULL. */
const struct known_call *known_call(struct view name);

/* Returns whether the call is of a descriptor: behind that of a folder stands no path. */
bool is_of_handle(const struct step *step);

/* Handlers, by file. */
int on_open(struct step *step);
int on_close(struct step *step);
int on_close_range(struct step *step);
int on_dup(struct step *step);
int on_fcntl(struct step *step);
int on_transfer(struct step *step);
int on_copy(struct step *step);
int on_seek(struct step *step);
int on_sync(struct step *step);
int on_truncate(struct step *step);
int on_allocate(struct step *step);
int on_readdir(struct step *step);
int on_stat(struct step *step);
int on_two_names(struct step *step);
int on_remove(struct step *step);
int on_mkdir(struct step *step);
int on_mknod(struct step *step);
int on_symlink(struct step *step);
int on_metadata(struct step *step);
int on_ioctl(struct step *step);
int on_submit(struct step *step);
int on_map(struct step *step);
int on_unmap(struct step *step);
int on_remap(struct step *step);
int on_clone(struct step *step);
int on_exec(struct step *step);
int on_unshare(struct step *step);
int on_chdir(struct step *step);
int on_name(struct step *step);

#endif
