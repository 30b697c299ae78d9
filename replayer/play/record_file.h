/* A file of records of one size behind a header of 64 bytes, which has its name only when whole. */
#ifndef TRACEKIT_PLAY_RECORD_FILE_H
#define TRACEKIT_PLAY_RECORD_FILE_H

#include <stdint.h>

struct record_file {
  int fd;            /* -1: records are thrown away */
  char *path;        /* final name */
  char *beside;      /* name while it is written */
  const char *magic; /* 8 bytes */
  uint32_t record_bytes;
};

/* Opens the file that will be `path`; NULL: records are thrown away. Returns 0 or -errno; the file
 * can be closed after an error, too. */
int record_file_open(struct record_file *file, const char *path, const char *magic,
                     uint32_t record_bytes);

/* Writes `count` records, the first as number `place` of the file. Returns 0 or -errno. Any
 * thread. */
int record_file_write(const struct record_file *file, uint64_t place, const void *records,
                      uint32_t count);

/* Completes the header with the number of records and gives the file its name. `rc` is the error
 * that a write has met, or 0: such a file keeps its name beside, and its header does not call it
 * complete. Returns 0 or -errno after a line on stderr that calls the records `what`. */
int record_file_finish(struct record_file *file, uint64_t count, int rc, const char *what);

/* Frees the names, and removes a file that was not finished. */
void record_file_close(struct record_file *file);

#endif
