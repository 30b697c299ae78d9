/* Dates of ISO 8601 and their like as nanoseconds since 1970. */
#ifndef TRACEKIT_READ_DATE_H
#define TRACEKIT_READ_DATE_H

#include <stdbool.h>
#include <stdint.h>

/* Reads YYYY-MM-DD or YYYY/MM/DD, a T or blanks, HH:MM:SS, perhaps a point and digits, of which
 * nine count, and perhaps Z, UTC or a zone as +02:00, +0200 or +02. Without a zone it is UTC. The
 * text must end with '\n'. Returns false, and `*at` is anywhere, for what is no date of 1970 to
 * 2116. */
bool date_read(const char **at, int64_t *out);

#endif
