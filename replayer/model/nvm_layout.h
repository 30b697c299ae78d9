/* Where blocks lie on NVM, as a replay of a placement lays them out (tracekit/replay/placed.py):
 * role by role, each role's in the order of their addresses, without gaps. Blocks that move
 * whatever their role lie there in the order of addresses.
 *
 * A place counts sectors as if all blocks were on NVM. Two places that are apart by nothing but
 * blocks that a placement leaves on the base device are neighbours in that placement. */
#ifndef TRACEKIT_MODEL_NVM_LAYOUT_H
#define TRACEKIT_MODEL_NVM_LAYOUT_H

#include <stdint.h>

#include "model/placement.h"

struct nvm_layout;

/* Lays out the blocks of a placement in each order. Returns 0 or -ENOMEM. */
int nvm_layout_new(const struct tk_placement_block *blocks, uint32_t count,
                   struct nvm_layout **layout);

/* Returns the place of a sector in the block with this index. */
int64_t nvm_layout_place(const struct nvm_layout *layout, int order, uint32_t index,
                         int64_t sector);

/* Sets by role the lowest point of the blocks between two places that are ends of blocks,
 * UINT16_MAX for none; in the order of all roles they all count for role 0. */
void nvm_layout_between(const struct nvm_layout *layout, int order, int64_t from, int64_t to,
                        uint16_t lowest[TK_ROLES]);

/* Frees the layout; NULL is fine. */
void nvm_layout_free(struct nvm_layout *layout);

#endif
