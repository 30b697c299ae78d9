/* The version of the native interface, checked by its callers before anything else is called. It is
 * raised when a caller of the one before would misread something: a function or struct that the
 * library exports, or a format of INTERFACE.md. */
#ifndef TRACEKIT_COMMON_VERSION_H
#define TRACEKIT_COMMON_VERSION_H

#include <stdint.h>

#include "common/export.h"

#define TK_INTERFACE_VERSION 5

/* Returns TK_INTERFACE_VERSION. Any thread. */
TK_EXPORT uint32_t tk_interface_version(void);

#endif
