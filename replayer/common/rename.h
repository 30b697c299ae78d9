/* Renames that take no name from anybody: rename(2) replaces what it finds. */
#ifndef TRACEKIT_COMMON_RENAME_H
#define TRACEKIT_COMMON_RENAME_H

#include "common/export.h"

/* Renames `from` to the free name `to`. Returns 0, -EEXIST when the name is taken, whatever has it;
 * -EINVAL or -ENOSYS where the file system or the kernel has no such rename, or another negative
 * errno. Nothing has changed after an error. Any thread. */
TK_EXPORT int tk_rename_new(const char *from, const char *to);

/* Exchanges two names in one step, so that neither is ever missing. Returns 0, -ENOENT when one is
 * missing, or as tk_rename_new. Any thread. */
TK_EXPORT int tk_rename_exchange(const char *one, const char *other);

#endif
