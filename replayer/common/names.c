#include "common/names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/arrow_build.h"
#include "common/hash.h"

#define LONGEST_NAME 255 /* bytes; a comm has 15, a device name fewer than 64 */

static int32_t start_of(const struct names *names, uint32_t index) {
  return index ? names->ends[index - 1] : 0;
}

static uint64_t hash_text(const char *text, size_t length) {
  uint64_t hash = length;
  for (size_t i = 0; i < length; i++)
    hash = hash * 0x100000001b3ULL + (uint8_t)text[i];
  return hash_mix(hash);
}

/* Returns the slot that holds the string or the free one where it belongs. */
static uint32_t *find_slot(const struct names *names, const char *text, size_t length) {
  uint32_t mask = names->buckets - 1;
  for (uint32_t place = (uint32_t)hash_text(text, length) & mask;; place = (place + 1) & mask) {
    uint32_t *slot = &names->slots[place];
    if (*slot == 0)
      return slot;
    int32_t start = start_of(names, *slot - 1);
    size_t held = (size_t)(names->ends[*slot - 1] - start);
    if (held == length && memcmp(names->text + start, text, length) == 0)
      return slot;
  }
}

static int grow_slots(struct names *names) {
  uint32_t buckets = names->buckets ? names->buckets * 2 : 64;
  uint32_t *slots = calloc(buckets, sizeof(*slots));
  if (!slots)
    return -ENOMEM;
  free(names->slots);
  names->slots = slots;
  names->buckets = buckets;
  for (uint32_t i = 0; i < names->count; i++) {
    int32_t start = start_of(names, i);
    *find_slot(names, names->text + start, (size_t)(names->ends[i] - start)) = i + 1;
  }
  return 0;
}

/* Makes space for one more string of `length` bytes. */
static int reserve(struct names *names, size_t length) {
  size_t used = (size_t)start_of(names, names->count);
  if (used + length > INT32_MAX)
    return -E2BIG;
  if (!names->text || used + length > names->text_size) {
    size_t size = (used + length) * 2 + 64;
    char *text = realloc(names->text, size);
    if (!text)
      return -ENOMEM;
    names->text = text;
    names->text_size = size;
  }
  if (names->count == names->capacity) {
    uint32_t capacity = names->capacity ? names->capacity * 2 : 16;
    int32_t *ends = realloc(names->ends, capacity * sizeof(*ends));
    if (!ends)
      return -ENOMEM;
    names->ends = ends;
    names->capacity = capacity;
  }
  return names->count * 2 >= names->buckets ? grow_slots(names) : 0;
}

/* Returns the bytes of the UTF-8 sequence at `text`, 0 when it is not one. */
static size_t sequence_length(const uint8_t *text, size_t length) {
  size_t more = text[0] < 0x80   ? 0
                : text[0] < 0xc2 ? 9
                : text[0] < 0xe0 ? 1
                : text[0] < 0xf0 ? 2
                                 : 3;
  if (more == 9 || text[0] > 0xf4 || more >= length)
    return more == 0 ? 1 : 0;
  for (size_t i = 1; i <= more; i++)
    if ((text[i] & 0xc0) != 0x80)
      return 0;
  /* Overlong forms, surrogates and values beyond U+10FFFF are rejected by the second byte. */
  bool overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
  bool beyond = (text[0] == 0xed && text[1] > 0x9f) || (text[0] == 0xf4 && text[1] > 0x8f);
  return overlong || beyond ? 0 : more + 1;
}

static void copy_clean(char *out, const char *text, size_t length) {
  for (size_t i = 0; i < length;) {
    size_t step = sequence_length((const uint8_t *)text + i, length - i);
    if (step == 0) {
      out[i++] = '?';
      continue;
    }
    memcpy(out + i, text + i, step);
    i += step;
  }
}

int32_t names_add(struct names *names, const char *text, size_t length) {
  char clean[LONGEST_NAME];
  if (length > LONGEST_NAME)
    length = LONGEST_NAME;
  copy_clean(clean, text, length);
  int status = reserve(names, length);
  if (status)
    return status;
  uint32_t *slot = find_slot(names, clean, length);
  if (*slot == 0) {
    int32_t start = start_of(names, names->count);
    memcpy(names->text + start, clean, length);
    names->ends[names->count++] = start + (int32_t)length;
    *slot = names->count;
  }
  return (int32_t)(*slot - 1);
}

int names_export(const struct names *names, struct ArrowArray *out) {
  int64_t count = (int64_t)names->count;
  size_t used = (size_t)start_of(names, names->count);
  if (arrow_array_new(out, count, 3))
    return -ENOMEM;
  int32_t *offsets = arrow_array_buffer(out, 1, ((size_t)count + 1) * sizeof(*offsets));
  char *text = arrow_array_buffer(out, 2, used + 1);
  if (!offsets || !text) {
    out->release(out);
    return -ENOMEM;
  }

  /* An Arrow array of strings has one offset more than strings: where each begins, and the end. */
  offsets[0] = 0;
  if (count) {
    memcpy(offsets + 1, names->ends, (size_t)count * sizeof(*offsets));
    memcpy(text, names->text, used);
  }
  return 0;
}

void names_clear(struct names *names) {
  free(names->text);
  free(names->ends);
  free(names->slots);
  *names = (struct names){0};
}
