/* Marks the functions that the shared library offers to its callers. */
#ifndef TRACEKIT_COMMON_EXPORT_H
#define TRACEKIT_COMMON_EXPORT_H

#define TK_EXPORT __attribute__((visibility("default")))

#endif
