#include "play/quantiles.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "play/number.h"

#define PART_CHARS 48U
#define UNIT_BITS 53 /* of a double */

/* Reads the decimal number that is all of `text`. */
static int take_probability(const char *text, double *out) {
  char *end;
  bool is_decimal = text[0] != '\0' && strspn(text, "0123456789.") == strlen(text);
  *out = strtod(text, &end);
  return is_decimal && *end == '\0' && *out <= 1.0 ? 0 : -EINVAL;
}

/* Reads one "PROBABILITY@NS"; what is before it is smaller. */
static int take(char *part, uint64_t maximum_ns, struct quantiles *out) {
  char *at = strchr(part, '@');
  uint64_t time_ns;
  double probability;
  if (at == NULL || out->count == QUANTILES_MAX)
    return -EINVAL;
  *at = '\0';
  if (take_probability(part, &probability) != 0 ||
      number_parse(at + 1, 1, maximum_ns, &time_ns) != 0)
    return -EINVAL;
  uint32_t last = out->count - 1;
  bool is_in_order = out->count == 0 ? probability == 0.0
                                     : probability > out->probability[last] &&
                                           (double)time_ns >= out->time_ns[last];
  out->probability[out->count] = probability;
  out->time_ns[out->count++] = (double)time_ns;
  return is_in_order ? 0 : -EINVAL;
}

int quantiles_parse(const char *text, size_t length, uint64_t maximum_ns, struct quantiles *out) {
  const char *end = text + length;
  out->count = 0;
  while (text < end) {
    const char *plus = memchr(text, '+', (size_t)(end - text));
    size_t chars = plus == NULL ? (size_t)(end - text) : (size_t)(plus - text);
    char part[PART_CHARS];
    if (chars >= sizeof part || plus == end - 1)
      return -EINVAL;
    memcpy(part, text, chars);
    part[chars] = '\0';
    if (take(part, maximum_ns, out) != 0)
      return -EINVAL;
    text += chars + (plus != NULL);
  }
  return out->count >= 2 && out->probability[out->count - 1] == 1.0 ? 0 : -EINVAL;
}

uint64_t quantiles_draw_ns(const struct quantiles *quantiles, uint64_t random) {
  double unit = ldexp((double)(random >> (64 - UNIT_BITS)), -UNIT_BITS); /* from 0 to below 1 */
  uint32_t i = 0;
  while (unit >= quantiles->probability[i + 1])
    i++;
  double from = quantiles->probability[i];
  double share = (unit - from) / (quantiles->probability[i + 1] - from);
  double low_ns = quantiles->time_ns[i];
  return (uint64_t)(low_ns * pow(quantiles->time_ns[i + 1] / low_ns, share) + 0.5);
}
