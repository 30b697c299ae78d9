#include "play/json.h"

#include <inttypes.h>

/* A stream remembers its errors; whoever opened it asks with ferror when all is written. */

static void quote(FILE *out, const char *text) {
  (void)fputc('"', out);
  for (; *text != '\0'; text++) {
    unsigned char byte = (unsigned char)*text;
    if (byte == '"' || byte == '\\')
      (void)fprintf(out, "\\%c", byte);
    else if (byte < ' ' || byte == 0x7F)
      (void)fprintf(out, "\\u%04x", byte);
    else
      (void)fputc(byte, out); /* bytes of a path beyond ASCII pass as they are */
  }
  (void)fputc('"', out);
}

static void new_line(struct json *json) {
  (void)fputc('\n', json->out);
  for (unsigned i = 0; i < json->depth; i++)
    (void)fputs("  ", json->out);
}

static void start(struct json *json, const char *key) {
  if (json->depth > 0) {
    if (!json->is_first)
      (void)fputc(',', json->out);
    new_line(json);
  }
  json->is_first = false;
  if (key != NULL) {
    quote(json->out, key);
    (void)fputs(": ", json->out);
  }
}

void json_open(struct json *json, const char *key, char bracket) {
  start(json, key);
  (void)fputc(bracket, json->out);
  json->depth++;
  json->is_first = true;
}

void json_close(struct json *json, char bracket) {
  json->depth--;
  if (!json->is_first)
    new_line(json);
  (void)fputc(bracket, json->out);
  json->is_first = false;
  if (json->depth == 0)
    (void)fputc('\n', json->out);
}

void json_number(struct json *json, const char *key, uint64_t value) {
  start(json, key);
  (void)fprintf(json->out, "%" PRIu64, value);
}

void json_signed(struct json *json, const char *key, int64_t value) {
  start(json, key);
  (void)fprintf(json->out, "%" PRId64, value);
}

void json_real(struct json *json, const char *key, double value) {
  start(json, key);
  (void)fprintf(json->out, "%.1f", value);
}

void json_fine(struct json *json, const char *key, double value) {
  start(json, key);
  (void)fprintf(json->out, "%.9f", value);
}

void json_bool(struct json *json, const char *key, bool value) {
  start(json, key);
  (void)fputs(value ? "true" : "false", json->out);
}

void json_text(struct json *json, const char *key, const char *value) {
  start(json, key);
  if (value == NULL)
    (void)fputs("null", json->out);
  else
    quote(json->out, value);
}
