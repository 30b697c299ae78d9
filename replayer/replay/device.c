#include "replay/device.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "replay/engine.h"
#include "replay/number.h"

#define SECOND_NS 1000000000U
#define TIME_MAX_NS (1000U * (uint64_t)SECOND_NS)
#define RATE_MAX_BYTES_S (UINT64_C(1) << 50)
#define VALUE_CHARS 24U

struct device {
  struct device_spec spec;
  uint64_t next_bytes; /* where the request before ended */
  uint64_t lane_ns[];  /* a heap by time: when each lane is free */
};

struct key {
  const char *name;
  size_t place; /* in struct device_spec */
  uint64_t minimum;
  uint64_t maximum;
  bool is_needed;
};

static const struct key keys[] = {
    {"read_setup_ns", offsetof(struct device_spec, read_setup_ns), 0, TIME_MAX_NS, true},
    {"write_setup_ns", offsetof(struct device_spec, write_setup_ns), 0, TIME_MAX_NS, true},
    {"sequential_setup_ns", offsetof(struct device_spec, sequential_setup_ns), 0, TIME_MAX_NS,
     false},
    {"read_bytes_s", offsetof(struct device_spec, read_bytes_s), 1, RATE_MAX_BYTES_S, true},
    {"write_bytes_s", offsetof(struct device_spec, write_bytes_s), 1, RATE_MAX_BYTES_S, true},
    {"flush_ns", offsetof(struct device_spec, flush_ns), 0, TIME_MAX_NS, true},
    {"fua_ns", offsetof(struct device_spec, fua_ns), 0, TIME_MAX_NS, true},
    {"lanes", offsetof(struct device_spec, lanes), 1, DEVICE_LANES_MAX, false},
};

#define KEYS (sizeof keys / sizeof *keys)

/* Returns the key's number, KEYS when there is none of this name. */
static size_t find(const char *name, size_t length) {
  for (size_t i = 0; i < KEYS; i++)
    if (strlen(keys[i].name) == length && memcmp(keys[i].name, name, length) == 0)
      return i;
  return KEYS;
}

/* Reads one "KEY=VALUE" of `length` characters. */
static int take(const char *text, size_t length, struct device_spec *spec, bool *seen) {
  const char *equals = memchr(text, '=', length);
  size_t key = equals == NULL ? KEYS : find(text, (size_t)(equals - text));
  if (key == KEYS || seen[key])
    return -EINVAL;
  size_t chars = length - (size_t)(equals + 1 - text);
  char value[VALUE_CHARS];
  if (chars >= sizeof value)
    return -EINVAL;
  memcpy(value, equals + 1, chars);
  value[chars] = '\0';
  uint64_t number;
  if (number_parse(value, keys[key].minimum, keys[key].maximum, &number) != 0)
    return -EINVAL;
  memcpy((char *)spec + keys[key].place, &number, sizeof number);
  seen[key] = true;
  return 0;
}

int device_spec_parse(const char *text, struct device_spec *spec, const char **fault) {
  bool seen[KEYS] = {false};
  *spec = (struct device_spec){.sequential_setup_ns = UINT64_MAX, .lanes = 1};
  for (*fault = text; **fault != '\0';) {
    size_t length = strcspn(*fault, ",");
    if (take(*fault, length, spec, seen) != 0)
      return -EINVAL;
    *fault += length;
    *fault += **fault == ',';
  }
  for (size_t i = 0; i < KEYS; i++)
    if (keys[i].is_needed && !seen[i])
      return -EINVAL;
  return 0;
}

struct device *device_new(const struct device_spec *spec) {
  struct device *device = calloc(1, sizeof *device + spec->lanes * sizeof *device->lane_ns);
  if (device == NULL)
    return NULL;
  device->spec = *spec;
  device->next_bytes = UINT64_MAX; /* the first request continues nothing */
  return device;
}

static uint64_t transfer_ns(uint64_t bytes, uint64_t bytes_s) {
  /* In two parts: bytes x 10^9 would not fit for zeroing a whole disk. */
  return bytes / bytes_s * SECOND_NS + bytes % bytes_s * SECOND_NS / bytes_s;
}

/* Returns how long a lane is busy with the request. */
static uint64_t service_ns(struct device *device, const struct request *request) {
  const struct device_spec *spec = &device->spec;
  bool is_read = request->operation == PLAN_READ;
  if (request->operation == PLAN_FLUSH)
    return spec->flush_ns;
  /* What moves no data costs nothing, as in the placement model. */
  if (!is_read && request->operation != PLAN_WRITE)
    return 0;
  bool is_next =
      request->offset_bytes == device->next_bytes && spec->sequential_setup_ns != UINT64_MAX;
  device->next_bytes = request->offset_bytes + request->length_bytes;
  uint64_t any_ns = is_read ? spec->read_setup_ns : spec->write_setup_ns;
  uint64_t setup_ns = is_next ? spec->sequential_setup_ns : any_ns;
  uint64_t rate = is_read ? spec->read_bytes_s : spec->write_bytes_s;
  uint64_t forced_ns = (request->flags & PLAN_FUA) != 0 ? spec->fua_ns : 0;
  uint64_t flush_ns = (request->flags & PLAN_PREFLUSH) != 0 ? spec->flush_ns : 0;
  return setup_ns + transfer_ns(request->length_bytes, rate) + forced_ns + flush_ns;
}

/* The first lane has a later time now: moves it down to its place in the heap. */
static void sink(struct device *device) {
  uint64_t *lanes = device->lane_ns;
  for (uint64_t place = 0;;) {
    uint64_t child = 2 * place + 1;
    if (child >= device->spec.lanes)
      return;
    child += child + 1 < device->spec.lanes && lanes[child + 1] < lanes[child];
    if (lanes[place] <= lanes[child])
      return;
    uint64_t later = lanes[place];
    lanes[place] = lanes[child];
    lanes[child] = later;
    place = child;
  }
}

uint64_t device_serve(struct device *device, const struct request *request, uint64_t now_ns) {
  uint64_t start_ns = device->lane_ns[0] > now_ns ? device->lane_ns[0] : now_ns;
  uint64_t done_ns = start_ns + service_ns(device, request);
  device->lane_ns[0] = done_ns;
  sink(device);
  return done_ns;
}

void device_free(struct device *device) { free(device); }
