/* A device that exists only as its service times: what a request costs on it, and when it is done
 * while others are being served. Times are those of the project's device profiles. */
#ifndef TRACEKIT_PLAY_EMULATED_DEVICE_H
#define TRACEKIT_PLAY_EMULATED_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "play/latency_table.h"
#include "play/quantiles.h"

#define DEVICE_LANES_MAX 1024U

/* What requests cost. */
struct device_spec {
  uint64_t read_setup_ns;       /* fixed cost of a read */
  uint64_t write_setup_ns;      /* fixed cost of a write */
  uint64_t sequential_setup_ns; /* that of one which continues the one before; UINT64_MAX: as any */
  uint64_t read_bytes_s;        /* transfer rate, from 1 */
  uint64_t write_bytes_s;       /* transfer rate, from 1 */
  uint64_t flush_ns;            /* a flush, and what a preflush adds */
  uint64_t empty_flush_ns;      /* the same with nothing to flush (model/flush_cost.h) */
  uint64_t fua_ns;              /* what FUA adds to a write */
  uint64_t lanes;               /* requests served at once, 1 to DEVICE_LANES_MAX */
  /* A disk whose head moves, see model/spindle.h; its requests cost no setup but, where it is
   * given, the sequential one. Half a turn of 0: it is none. */
  uint64_t seek_track_ns;
  uint64_t seek_root_ns;
  int64_t seek_linear_ns;
  uint64_t seek_unknown_ns;  /* of the first request */
  uint64_t write_settle_ns;  /* added to each seek of a write */
  uint64_t half_turn_ns;     /* added to each request that goes elsewhere */
  uint64_t track_sectors;    /* below that distance there is no seek */
  uint64_t capacity_sectors; /* the whole stroke, in sectors of 512 bytes */
  /* In place of the setups, which are their means, where they are given; a disk has none. */
  struct quantiles read_setup;
  struct quantiles write_setup;
  /* In place of all that, where a request of this operation is in it; NULL: there is none. The text
   * was checked and lives as long as the device. */
  const char *cells;
  size_t cells_length;
  uint64_t seed; /* of what is drawn from them, a function of it, of target and request id */
};

struct request;
struct device; /* a spec and what it is doing */

/* Reads "KEY=VALUE,..." with the names of the fields above, each once, all but
 * sequential_setup_ns, empty_flush_ns (as flush_ns), lanes (1), those of a disk and what is drawn
 * needed; of a disk's all or none. The quantiles are called read_setup_quantiles and
 * write_setup_quantiles, the table cells. Returns 0; -EINVAL after *fault was set to the place that
 * cannot be read, or to what is wrong with the whole. */
int device_spec_parse(const char *text, struct device_spec *spec, const char **fault);

/* Makes a device that does nothing yet; NULL with errno on failure. Free with device_free. */
struct device *device_new(const struct device_spec *spec);

/* Hands the device one request at time now_ns; it begins when a lane is free, in order of arrival,
 * and with a flush in it when all writes before it are done. Returns the time at which it is done.
 * Times must not decrease from call to call. */
uint64_t device_serve(struct device *device, const struct request *request, uint64_t now_ns);

/* NULL is fine. */
void device_free(struct device *device);

#endif
