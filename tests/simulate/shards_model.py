"""SHARDS in a few lines, slow and obvious: what the native sampler is compared with."""

from collections import defaultdict
from collections.abc import Sequence

SCALE = 1 << 24
WORD = (1 << 64) - 1


def hash_of(key: int) -> int:
    """Return splitmix64 of a key, as its authors publish it."""
    mixed = (key + 0x9E3779B97F4A7C15) & WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
    return mixed ^ mixed >> 31


def shards(
    keys: Sequence[int], sizes: Sequence[int], *, threshold: int, limit: int
) -> tuple[dict[tuple[int, int], float], int, list[int]]:
    """Return the weights by group and column, the threshold and the sampled pages.

    The sample is a list, the page that was used last at its end.
    """
    sums: dict[tuple[int, int], float] = defaultdict(float)
    stack: list[int] = []
    for key in keys:
        if hash_of(key) >> 40 >= threshold:
            continue
        column = len(sizes) + 1
        if key in stack:
            distance = int(stack[::-1].index(key) * (SCALE / threshold))
            column = sum(size <= distance for size in sizes)
            stack.remove(key)
        stack.append(key)
        sums[hash_of(key) % 32, column] += SCALE / threshold
        cut = threshold
        while limit and len(stack) > limit:
            cut -= max(1, cut // 8)
            stack = [page for page in stack if hash_of(page) >> 40 < cut]
        threshold = max(1, cut)
    return sums, threshold, stack
