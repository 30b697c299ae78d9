/* What a cache keeps of a page: 8 bytes, so that a reference touches one line of memory. */
#ifndef TRACEKIT_MODEL_PAGE_STATE_H
#define TRACEKIT_MODEL_PAGE_STATE_H

#include <stdint.h>

#define PAGE_NONE UINT32_MAX
#define PAGE_NOWHERE 0u /* the place of a page that is in no ring or list */

struct page_state {
  uint32_t slot; /* of the policy: where in its ring the page is, or when it is used next */
  uint8_t place; /* of the policy: in which ring or list, or PAGE_NOWHERE */
  uint8_t uses;  /* of the policy */
  uint8_t flags; /* of the policy's caller */
  uint8_t unused;
};

#endif
