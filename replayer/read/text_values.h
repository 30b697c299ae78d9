/* Numbers and dates of texts as they are written by hand and by programs, exactly: nothing goes
 * through a floating-point number. A line ends with '\n', at which every function stops. */
#ifndef TRACEKIT_READ_TEXT_VALUES_H
#define TRACEKIT_READ_TEXT_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#define NUMBER_MOST_DIGITS 9 /* behind the point that a caller may ask for */

/* Reads a whole number below 2^63: 1 to 19 digits, or 0x and hexadecimal ones. `limit` is the end
 * of the text, before which nothing may be missing. Returns false for anything else. */
bool number_integer(const char **at, const char *limit, int64_t *out);

/* Reads a decimal, perhaps with an exponent as in 1.5e-07, in units of 10^-digits, which is 0 to
 * NUMBER_MOST_DIGITS: what is beyond is cut off. `comma` may stand for the point, too.
 * `has_point` is set for a point or an exponent. Returns false for anything else, and for 2^63
 * units or more. */
bool number_decimal(const char **at, const char *limit, unsigned digits, char comma,
                    bool *has_point, int64_t *out);

/* Dates of ISO 8601 and their like as nanoseconds since 1970.
 *
 * Reads YYYY-MM-DD or YYYY/MM/DD, a T or blanks, HH:MM:SS, perhaps a point and digits, of which
 * nine count, and perhaps Z, UTC or a zone as +02:00, +0200 or +02. Without a zone it is UTC. The
 * text must end with '\n'. Returns false, and `*at` is anywhere, for what is no date of 1970 to
 * 2116. */
bool date_read(const char **at, int64_t *out);

#endif
