"""Caches in a few lines each, slow and obvious: what the native ones are compared with."""

import math
from collections.abc import Sequence

Reference = tuple[int, bool]  # page, is write


def distance(stack: list[int], page: int) -> int | None:
    """Return how many other pages were used since this one, None for a first use."""
    return stack[::-1].index(page) if page in stack else None


def lru_misses(references: Sequence[Reference], capacity: int, *, allocate: bool = True) -> int:
    """Count the misses of an LRU cache that is a list, the newest at its end."""
    stack: list[int] = []
    misses = 0
    for page, is_write in references:
        misses += page not in stack[-capacity:] if capacity else 1
        if allocate or not is_write:
            stack = [other for other in stack if other != page] + [page]
    return misses


def fifo_misses(references: Sequence[Reference], capacity: int) -> int:
    """Count the misses of a queue."""
    queue: list[int] = []
    misses = 0
    for page, _ in references:
        if page not in queue:
            misses += 1
            queue = [*queue, page][-capacity:]
    return misses


def clock_misses(references: Sequence[Reference], capacity: int) -> int:
    """Count the misses of a ring of frames with a hand and a bit for each frame."""
    frames: list[list[int]] = []
    hand = misses = 0
    for page, _ in references:
        found = [frame for frame in frames if frame[0] == page]
        if found:
            found[0][1] = 1
            continue
        misses += 1
        if len(frames) < capacity:
            frames.append([page, 0])
            continue
        while frames[hand][1]:
            frames[hand][1] = 0
            hand = (hand + 1) % capacity
        frames[hand] = [page, 0]
        hand = (hand + 1) % capacity
    return misses


def optimum_misses(references: Sequence[Reference], capacity: int) -> int:
    """Count the misses when the page leaves whose next use is furthest away."""
    pages = [page for page, _ in references]
    cache: set[int] = set()
    misses = 0
    for at, page in enumerate(pages):
        if page not in cache:
            misses += 1
            if len(cache) == capacity:
                rest = [*pages[at:], *sorted(cache)]
                cache.remove(max(cache, key=rest.index))
            cache.add(page)
    return misses


def optimum_fills(references: Sequence[Reference], capacity: int, *, drops: bool) -> int:
    """Count the pages that come in when, if it `drops`, a write takes its page away instead."""
    cache: set[int] = set()
    fills = 0
    for at, (page, is_write) in enumerate(references):
        if drops and is_write:
            cache.discard(page)
        elif page not in cache:
            fills += 1
            if len(cache) == capacity:
                later = first_uses(references[at:], drops=drops)
                cache.remove(max((later.get(kept, math.inf), kept) for kept in cache)[1])
            cache.add(page)
    return fills


def first_uses(references: Sequence[Reference], *, drops: bool) -> dict[int, float]:
    """Return when each page is used first; never if a write that drops it comes before."""
    return {
        page: math.inf if drops and is_write else at
        for at, (page, is_write) in reversed([*enumerate(references)])
    }


def s3_fifo_misses(references: Sequence[Reference], capacity: int) -> int:
    """Count the misses of S3-FIFO with lists, the oldest first, after its paper's algorithm."""
    small: list[int] = []
    main: list[int] = []
    ghost: list[int] = []
    uses: dict[int, int] = {}
    share = max(1, capacity // 10)
    misses = 0
    for page, _ in references:
        if page in small + main:
            uses[page] = min(uses[page] + 1, 3)
            continue
        misses += 1
        while len(small + main) == capacity:
            if len(small) >= share or not main:
                oldest = small.pop(0)
                if uses[oldest] > 1:
                    main.append(oldest)
                    uses[oldest] = 0
                elif capacity > share:
                    ghost = [*ghost, oldest][share - capacity :]
            else:
                oldest = main.pop(0)
                if uses[oldest]:
                    main.append(oldest)
                    uses[oldest] -= 1
        (main if page in ghost else small).append(page)
        ghost = [other for other in ghost if other != page]
        uses[page] = 0
    return misses


class Arc:
    """ARC after its paper's figure 4, case by case, with lists, the newest last."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.t1: list[int] = []
        self.t2: list[int] = []
        self.b1: list[int] = []
        self.b2: list[int] = []
        self.target = 0.0

    def replace(self, *, in_b2: bool) -> None:
        """Move the oldest page of T1 or T2 to its ghost list."""
        once = len(self.t1)
        if once and (once > self.target or (in_b2 and once == self.target)):
            self.b1.append(self.t1.pop(0))
        else:
            self.b2.append(self.t2.pop(0))

    def misses(self, page: int) -> bool:
        """Use a page and say whether it was missing."""
        t1, t2, b1, b2 = self.t1, self.t2, self.b1, self.b2
        if page in t1 or page in t2:
            (t1 if page in t1 else t2).remove(page)
            t2.append(page)
            return False
        if page in b1:
            self.target = min(self.capacity, self.target + max(1, len(b2) / len(b1)))
            self.replace(in_b2=False)
            b1.remove(page)
        elif page in b2:
            self.target = max(0, self.target - max(1, len(b1) / len(b2)))
            self.replace(in_b2=True)
            b2.remove(page)
        else:
            self.make_room()
            t1.append(page)
            return True
        t2.append(page)
        return True

    def make_room(self) -> None:
        """Case IV: nothing is known of the page that comes."""
        t1, t2, b1, b2 = self.t1, self.t2, self.b1, self.b2
        if len(t1 + b1) == self.capacity:
            if len(t1) < self.capacity:
                b1.pop(0)
                self.replace(in_b2=False)
            else:
                t1.pop(0)
        elif len(t1 + t2 + b1 + b2) >= self.capacity:
            if len(t1 + t2 + b1 + b2) == 2 * self.capacity:
                b2.pop(0)
            self.replace(in_b2=False)


def arc_misses(references: Sequence[Reference], capacity: int) -> int:
    """Count the misses of ARC."""
    arc = Arc(capacity)
    return sum(arc.misses(page) for page, _ in references)


MODELS = {
    "lru": lru_misses,
    "fifo": fifo_misses,
    "clock": clock_misses,
    "s3-fifo": s3_fifo_misses,
    "arc": arc_misses,
    "optimum": optimum_misses,
}


def write_counts(
    references: Sequence[Reference], capacity: int, writes: str
) -> tuple[int, int, int]:
    """Return reads and writes behind an LRU cache, and the dirty pages left in it."""
    cache: list[int] = []
    dirty: set[int] = set()
    behind = [0, 0]
    for page, is_write in references:
        if writes == "around" and is_write:
            behind[1] += 1
            cache = [other for other in cache if other != page]
            continue
        behind[0] += not is_write and page not in cache
        cache = [other for other in cache if other != page] + [page]
        if is_write and writes == "back":
            dirty.add(page)
        behind[1] += is_write and writes == "through"
        if len(cache) > capacity:
            oldest = cache.pop(0)
            behind[1] += oldest in dirty
            dirty.discard(oldest)
    return behind[0], behind[1], len(dirty)
