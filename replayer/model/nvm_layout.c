#include "model/nvm_layout.h"

#include <errno.h>
#include <stdlib.h>

#include "model/block_steps.h"

struct nvm_layout {
  uint32_t count;                /* of blocks */
  uint32_t bounds[TK_ROLES + 1]; /* of each role's blocks among the ranks by role */
  uint32_t *ranks;               /* by role and address, of each block */
  uint16_t *lowest[TK_ORDERS];   /* a tree: leaves by rank from `count` on are points, each node the
                                    lower one of its two */
};

static uint16_t lower(uint16_t a, uint16_t b) { return a < b ? a : b; }

static uint32_t rank_of(const struct nvm_layout *layout, int order, uint32_t index) {
  return order == TK_ORDER_OPTIMAL ? index : layout->ranks[index];
}

static void rank_by_role(struct nvm_layout *layout, const struct tk_placement_block *blocks) {
  uint32_t next[TK_ROLES] = {0};
  for (uint32_t i = 0; i < layout->count; i++)
    layout->bounds[blocks[i].role + 1]++;
  for (int role = 0; role < TK_ROLES; role++) {
    layout->bounds[role + 1] += layout->bounds[role];
    next[role] = layout->bounds[role];
  }
  for (uint32_t i = 0; i < layout->count; i++)
    layout->ranks[i] = next[blocks[i].role]++;
}

int nvm_layout_new(const struct tk_placement_block *blocks, uint32_t count,
                   struct nvm_layout **out) {
  struct nvm_layout *layout = calloc(1, sizeof *layout);
  if (layout == NULL)
    return -ENOMEM;
  layout->count = count;
  layout->ranks = malloc((count + 1ul) * sizeof *layout->ranks);
  for (int order = 0; order < TK_ORDERS; order++)
    layout->lowest[order] = malloc((2ul * count + 1) * sizeof(uint16_t));
  if (layout->ranks == NULL || layout->lowest[0] == NULL || layout->lowest[1] == NULL ||
      layout->lowest[2] == NULL) {
    nvm_layout_free(layout);
    return -ENOMEM;
  }
  rank_by_role(layout, blocks);
  for (int order = 0; order < TK_ORDERS; order++) {
    uint16_t *tree = layout->lowest[order];
    for (uint32_t i = 0; i < count; i++)
      tree[count + rank_of(layout, order, i)] = blocks[i].point[order];
    for (uint32_t node = count; node-- > 1;)
      tree[node] = lower(tree[2ul * node], tree[2ul * node + 1]);
  }
  *out = layout;
  return 0;
}

int64_t nvm_layout_place(const struct nvm_layout *layout, int order, uint32_t index,
                         int64_t sector) {
  return (int64_t)rank_of(layout, order, index) * BLOCK_SECTORS + sector % BLOCK_SECTORS;
}

static uint16_t lowest_of(const struct nvm_layout *layout, int order, size_t from, size_t to) {
  const uint16_t *tree = layout->lowest[order];
  uint16_t found = UINT16_MAX;
  from += layout->count;
  to += layout->count;
  for (; from < to; from /= 2, to /= 2) {
    if (from % 2)
      found = lower(found, tree[from++]);
    if (to % 2)
      found = lower(found, tree[--to]);
  }
  return found;
}

void nvm_layout_between(const struct nvm_layout *layout, int order, int64_t from, int64_t to,
                        uint16_t lowest[TK_ROLES]) {
  const size_t first = (size_t)from / BLOCK_SECTORS;
  const size_t end = (size_t)to / BLOCK_SECTORS;
  for (int role = 0; role < TK_ROLES; role++) {
    const size_t low = layout->bounds[role] > first ? layout->bounds[role] : first;
    const size_t high = layout->bounds[role + 1] < end ? layout->bounds[role + 1] : end;
    lowest[role] = low < high ? lowest_of(layout, order, low, high) : UINT16_MAX;
  }
  if (order != TK_ORDER_OPTIMAL)
    return;
  lowest[0] = lowest_of(layout, order, first, end);
  for (int role = 1; role < TK_ROLES; role++)
    lowest[role] = UINT16_MAX;
}

void nvm_layout_free(struct nvm_layout *layout) {
  if (layout == NULL)
    return;
  free(layout->ranks);
  for (int order = 0; order < TK_ORDERS; order++)
    free(layout->lowest[order]);
  free(layout);
}
