/* What bytes at which place make a file system, RAID member, partition table or the like. */
#ifndef TRACEKIT_PLAY_SIGNATURE_TABLE_H
#define TRACEKIT_PLAY_SIGNATURE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct signature_rule {
  const char *name;     /* what --overwrite-signature takes */
  int64_t offset;       /* bytes from the start; negative: from the end */
  uint32_t step;        /* bytes between the places where it may be; 0: one place */
  uint16_t count;       /* of those places, 0 or 1: one */
  uint32_t grain;       /* the size is rounded down to a multiple of it before; 0: it is not */
  unsigned char length; /* of the magic */
  const char *magic;    /* bytes */
  bool may_be_unread;   /* a copy, or a place that few use: it need not be readable */
  const char *unless;   /* it is a part of what bears this name, found before; NULL: of nothing */
};

/* In the order in which names are shown. */
extern const struct signature_rule signature_rules[];
extern const size_t signature_rule_count;

#endif
