/* Writes one JSON value to a stream, with indentation. */
#ifndef TRACEKIT_PLAY_JSON_H
#define TRACEKIT_PLAY_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
  FILE *out;      /* borrowed */
  unsigned depth; /* open objects and arrays */
  bool is_first;  /* nothing written yet in the innermost one */
};

/* In an object every value has a key; in an array and at the top `key` is NULL. */
void json_open(struct json *json, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket);                 /* '}' or ']' */
void json_number(struct json *json, const char *key, uint64_t value);
void json_signed(struct json *json, const char *key, int64_t value);
void json_real(struct json *json, const char *key, double value); /* one decimal */
void json_fine(struct json *json, const char *key, double value); /* nine decimals */
void json_bool(struct json *json, const char *key, bool value);
void json_text(struct json *json, const char *key, const char *value); /* NULL: null */

#endif
