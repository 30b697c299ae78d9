/* Why a capture could not be decoded, in numbers; the caller knows the file's name. */
#ifndef TRACEKIT_READ_PROBLEM_H
#define TRACEKIT_READ_PROBLEM_H

#include <stdint.h>

enum problem_kind {
  PROBLEM_NONE,
  PROBLEM_NOT_A_TRACE, /* the file does not begin with a record; value = its first four bytes */
  PROBLEM_BAD_MAGIC,   /* no record where one must begin; value = the four bytes there */
  PROBLEM_BAD_VERSION, /* value = the version */
  PROBLEM_CUT_HEADER,  /* the file ends within a record's header; value = bytes that are there */
  PROBLEM_CUT_PAYLOAD, /* the file ends within a record's payload; value = bytes that are there */
  PROBLEM_BACKWARDS,   /* time runs backwards too far; value = by how many nanoseconds */
  PROBLEM_VERSIONS,    /* value = the version, other = the version of the record before */
  PROBLEM_READ,        /* reading failed; value = errno */
  PROBLEM_MEMORY,      /* no memory */
};

struct problem {
  int32_t kind;   /* enum problem_kind */
  int32_t file;   /* index of the input */
  int64_t offset; /* of the record, bytes from the start of the (decompressed) file */
  uint64_t value; /* see the kind */
  int64_t other;  /* CUT: bytes that the record needs; BACKWARDS: offset of the record before;
                     VERSIONS: see there */
};

#endif
