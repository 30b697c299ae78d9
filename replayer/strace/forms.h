/* In what form a call has its arguments: bits of `detail` in the dispatch table. */
#ifndef TRACEKIT_STRACE_FORMS_H
#define TRACEKIT_STRACE_FORMS_H

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
  FORM_VECTOR = 512, /* of a transfer: parts, whose lengths are not told */
  FORM_SEND = 1024,  /* of copy: sendfile */
};

#endif
