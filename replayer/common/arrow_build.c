#include "common/arrow_build.h"

#include <errno.h>
#include <stdlib.h>

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    struct ArrowSchema *child = schema->children[i];
    if (child && child->release)
      child->release(child);
    free(child);
  }
  free(schema->children);
  if (schema->dictionary && schema->dictionary->release)
    schema->dictionary->release(schema->dictionary);
  free(schema->dictionary);
  schema->release = NULL;
}

static struct ArrowSchema *new_field(const char *name, const char *format, int64_t flags) {
  struct ArrowSchema *schema = calloc(1, sizeof(*schema));
  if (schema)
    *schema = (struct ArrowSchema){
        .format = format, .name = name, .flags = flags, .release = release_schema};
  return schema;
}

static struct ArrowSchema *new_column(const struct arrow_field *field) {
  struct ArrowSchema *column = new_field(field->name, field->format, field->flags);
  if (!column || !field->dictionary)
    return column;
  column->dictionary = new_field("", field->dictionary, 0);
  if (column->dictionary)
    return column;
  free(column);
  return NULL;
}

int arrow_schema_new(struct ArrowSchema *out, const struct arrow_field *fields, int64_t count) {
  *out = (struct ArrowSchema){.format = "+s", .name = "", .release = release_schema};
  out->children = calloc((size_t)count, sizeof(*out->children));
  if (!out->children)
    return -ENOMEM;
  for (int64_t i = 0; i < count; i++) {
    out->children[i] = new_column(&fields[i]);
    if (!out->children[i]) {
      out->release(out);
      return -ENOMEM;
    }
    out->n_children++;
  }
  return 0;
}

static void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_buffers; i++)
    free((void *)(uintptr_t)array->buffers[i]);
  free(array->buffers);
  for (int64_t i = 0; i < array->n_children; i++) {
    struct ArrowArray *child = array->children[i];
    if (child && child->release)
      child->release(child);
    free(child);
  }
  free(array->children);
  if (array->dictionary && array->dictionary->release)
    array->dictionary->release(array->dictionary);
  free(array->dictionary);
  array->release = NULL;
}

int arrow_array_new(struct ArrowArray *out, int64_t length, int64_t buffers) {
  *out = (struct ArrowArray){.length = length, .n_buffers = buffers, .release = release_array};
  out->buffers = calloc((size_t)buffers, sizeof(*out->buffers));
  if (out->buffers)
    return 0;
  out->release = NULL;
  return -ENOMEM;
}

void *arrow_array_buffer(struct ArrowArray *array, int64_t index, size_t size) {
  void *buffer = malloc(size ? size : 1);
  array->buffers[index] = buffer;
  return buffer;
}

int arrow_array_children(struct ArrowArray *array, int64_t count) {
  array->children = calloc((size_t)count, sizeof(*array->children));
  if (!array->children)
    return -ENOMEM;
  for (int64_t i = 0; i < count; i++) {
    array->children[i] = calloc(1, sizeof(**array->children));
    if (!array->children[i])
      return -ENOMEM;
    array->n_children++;
  }
  return 0;
}

struct ArrowArray *arrow_array_dictionary(struct ArrowArray *array) {
  array->dictionary = calloc(1, sizeof(*array->dictionary));
  return array->dictionary;
}
