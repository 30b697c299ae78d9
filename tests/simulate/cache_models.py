"""Caches in a few lines each, slow and obvious: what the native ones are compared with."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.simulate.policy_models import Lirs, Sieve, TwoQ, WTinyLfu, hash_of
from tracekit._native.caches import RUN

Reference = tuple[int, bool]  # page, is write


def lru_misses(references: Sequence[Reference], capacity: int, *, allocate: bool = True) -> int:
    """Count the misses of an LRU cache that is a list, the newest at its end."""
    stack: list[int] = []
    misses = 0
    for page, is_write in references:
        misses += page not in stack[-capacity:] if capacity else 1
        if allocate or not is_write:
            stack = [other for other in stack if other != page] + [page]
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


def level_misses(policy: str, references: Sequence[Reference], capacity: int) -> int:
    """Count the misses of one of the levels below."""
    level = make_level(policy, capacity)
    misses = 0
    for page, _ in references:
        if page in level.holds():
            level.hit(page)
        else:
            level.admit(page)
            misses += 1
    return misses


LEVELLED = ("fifo", "clock", "s3-fifo", "arc", "2q", "lirs", "sieve", "w-tinylfu")
MODELS: dict[str, Callable[[Sequence[Reference], int], int]] = {
    "lru": lru_misses,
    **{name: partial(level_misses, name) for name in LEVELLED},
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


SCALE = 1 << 24


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


class Policy(Protocol):
    """What a level does with pages; `admit` returns what left."""

    def holds(self) -> list[int]: ...
    def hit(self, page: int) -> None: ...
    def admit(self, page: int) -> int | None: ...
    def drop(self, page: int) -> None: ...


class Queue:
    """FIFO; LRU if what is hit goes to the end; CLOCK if what was hit gets a second round."""

    def __init__(self, capacity: int, policy: str) -> None:
        self.capacity, self.policy = capacity, policy
        self.pages: list[int] = []
        self.used: set[int] = set()

    def holds(self) -> list[int]:
        return self.pages

    def hit(self, page: int) -> None:
        self.used.add(page)
        if self.policy == "lru":
            self.pages = [other for other in self.pages if other != page] + [page]

    def admit(self, page: int) -> int | None:
        self.used.discard(page)
        left = None
        if len(self.pages) == self.capacity:
            while self.policy == "clock" and self.pages[0] in self.used:
                self.used.remove(self.pages[0])
                self.pages = [*self.pages[1:], self.pages[0]]
            left = self.pages.pop(0)
        self.pages.append(page)
        return left

    def drop(self, page: int) -> None:
        self.pages.remove(page)


class S3Fifo:
    """S3-FIFO after its paper; a dropped page is forgotten."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.share = capacity, max(1, capacity // 10)
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghost: list[int] = []
        self.uses: dict[int, int] = {}

    def holds(self) -> list[int]:
        return self.small + self.main

    def hit(self, page: int) -> None:
        self.uses[page] = min(self.uses[page] + 1, 3)

    def admit(self, page: int) -> int | None:
        left = None
        while left is None and len(self.holds()) == self.capacity:
            left = self.evict()
        (self.main if page in self.ghost else self.small).append(page)
        self.ghost = [other for other in self.ghost if other != page]
        self.uses[page] = 0
        return left

    def evict(self) -> int | None:
        """Take a page from the end of a queue; None if it went on or round."""
        if len(self.small) >= self.share or not self.main:
            oldest = self.small.pop(0)
            if self.uses[oldest] <= 1:
                keep = self.capacity - self.share
                self.ghost = [*self.ghost, oldest][-keep:] if keep else []
                return oldest
            self.uses[oldest] = 0
        else:
            oldest = self.main.pop(0)
            if not self.uses[oldest]:
                return oldest
            self.uses[oldest] -= 1
        self.main.append(oldest)
        return None

    def drop(self, page: int) -> None:
        (self.small if page in self.small else self.main).remove(page)


class ArcLevel:
    """ARC after its paper's figure 4; with room after a drop, REPLACE takes nothing."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.target = capacity, 0.0
        self.t1: list[int] = []
        self.t2: list[int] = []
        self.b1: list[int] = []
        self.b2: list[int] = []

    def holds(self) -> list[int]:
        return self.t1 + self.t2

    def hit(self, page: int) -> None:
        self.drop(page)
        self.t2.append(page)

    def admit(self, page: int) -> int | None:
        if page not in self.b1 + self.b2:
            left = self.make_room()
            self.t1.append(page)
            return left
        b1, b2 = len(self.b1), len(self.b2)
        in_b2 = page in self.b2
        step = -max(1, b1 / b2) if in_b2 else max(1, b2 / b1)
        self.target = min(self.capacity, max(0, self.target + step))
        left = self.replace(in_b2=in_b2)
        (self.b2 if in_b2 else self.b1).remove(page)
        self.t2.append(page)
        return left

    def replace(self, *, in_b2: bool = False) -> int | None:
        """Move the oldest page of T1 or T2 to its ghost list."""
        once = len(self.t1)
        if len(self.holds()) < self.capacity:
            return None
        is_over = once > self.target or (in_b2 and once == self.target)
        from_t1 = once and (is_over or not self.t2)
        left = (self.t1 if from_t1 else self.t2).pop(0)
        (self.b1 if from_t1 else self.b2).append(left)
        return left

    def make_room(self) -> int | None:
        """Case IV: nothing is known of the page that comes."""
        if len(self.t1 + self.b1) == self.capacity:
            if not self.b1:
                return self.t1.pop(0)
            self.b1.pop(0)
        elif len(self.holds() + self.b1 + self.b2) == 2 * self.capacity:
            self.b2.pop(0)
        return self.replace()

    def drop(self, page: int) -> None:
        (self.t1 if page in self.t1 else self.t2).remove(page)


class Nothing:
    """A level that is not there."""

    def holds(self) -> list[int]:
        return []

    def hit(self, page: int) -> None:
        raise AssertionError(page)

    def admit(self, page: int) -> int | None:  # noqa: ARG002 - it is not kept
        return None

    def drop(self, page: int) -> None:
        raise AssertionError(page)


LEVELS: dict[str, Callable[[int], Policy]] = {
    "arc": ArcLevel,
    "s3-fifo": S3Fifo,
    "2q": TwoQ,
    "lirs": Lirs,
    "sieve": Sieve,
    "w-tinylfu": WTinyLfu,
}


def make_level(policy: str, capacity: int) -> Policy:
    """Return an empty level."""
    if not capacity:
        return Nothing()
    made = LEVELS.get(policy)
    return made(capacity) if made else Queue(capacity, policy)


def two_level_counts(
    references: Sequence[Reference],
    capacity: tuple[int, int],
    policies: tuple[str, str],
    *,
    is_inclusive: bool,
) -> dict[str, tuple[int, int]]:
    """Return hits by level of reads and writes, and fills of both levels; writes allocate."""
    fast, slow = make_level(policies[0], capacity[0]), make_level(policies[1], capacity[1])
    hits = [[0, 0], [0, 0]]
    fills = [0, 0]
    for page, is_write in references:
        in_fast, in_slow = page in fast.holds(), page in slow.holds()
        hits[0][is_write] += in_fast
        hits[1][is_write] += in_slow and not in_fast
        if in_fast:
            fast.hit(page)
            continue
        demoted = None
        if in_slow and (is_inclusive or not capacity[0]):
            slow.hit(page)
        elif in_slow:
            slow.drop(page)
        elif capacity[1] and (is_inclusive or not capacity[0]):
            fills[1] += 1
            gone = slow.admit(page)
            if gone in fast.holds():
                fast.drop(gone)
        if capacity[0]:
            fills[0] += 1
            demoted = fast.admit(page)
        if demoted is not None and capacity[1] and not is_inclusive:
            fills[1] += 1
            slow.admit(demoted)
    return {
        "fast_hits": (hits[0][0], hits[0][1]),
        "slow_hits": (hits[1][0], hits[1][1]),
        "fills": (fills[0], fills[1]),
    }


class Copies:
    """Two levels that know the version of each copy; nothing is flagged."""

    def __init__(
        self, capacity: tuple[int, int], policies: tuple[str, str], *, is_inclusive: bool
    ) -> None:
        self.has = [size > 0 for size in capacity]
        self.is_inclusive = is_inclusive
        self.levels = [
            make_level(name, size) for name, size in zip(policies, capacity, strict=True)
        ]
        self.copies: list[dict[int, int]] = [{}, {}]  # by level: the version of each page
        self.base: dict[int, int] = {}
        self.newest: dict[int, int] = {}
        self.written, self.base_writes = [0, 0], 0

    def put(self, level: int, page: int, version: int) -> None:
        self.written[level] += 1
        self.copies[level][page] = version

    def come(self, level: int, page: int, version: int) -> None:
        """Bring a page to a level; what leaves it goes down if it must."""
        if not self.has[level]:
            return
        left = self.levels[level].admit(page)
        if left is not None:
            self.go(level, left, self.copies[level].pop(left))
        self.put(level, page, version)

    def go(self, level: int, page: int, version: int) -> None:
        if level == 0 and self.has[1]:
            if not self.is_inclusive:
                self.come(1, page, version)
            elif self.copies[1][page] != version:
                self.put(1, page, version)
            return
        if level == 1 and page in self.copies[0]:  # inclusive: what leaves below leaves above
            self.levels[0].drop(page)
            version = self.copies[0].pop(page)
        self.behind(page, version)

    def behind(self, page: int, version: int) -> None:
        if self.base.get(page, 0) != version:
            self.base_writes += 1
            self.base[page] = version

    def touch(self, page: int) -> None:
        """Use a page: a hit, or a copy of what is below, as a write leaves it."""
        top = 0 if self.has[0] else 1
        if page in self.copies[top]:
            self.levels[top].hit(page)
        elif page in self.copies[1]:
            version = self.copies[1][page]
            if self.is_inclusive:
                self.levels[1].hit(page)
            else:
                self.levels[1].drop(page)
                del self.copies[1][page]
            self.come(top, page, version)
        else:
            for level in (1, 0) if self.is_inclusive else (top,):
                self.come(level, page, self.newest.get(page, 0))

    def refer(self, page: int, *, is_write: bool, writes: str, allocate: bool) -> None:
        before = [page in copies for copies in self.copies]
        version = self.newest[page] = self.newest.get(page, 0) + is_write
        if not is_write or (allocate and writes != "around"):
            self.touch(page)
        holders = [level for level in (0, 1) if page in self.copies[level]]
        if is_write and writes == "around":
            for level in holders:
                self.levels[level].drop(page)
                del self.copies[level][page]
            holders = []
        if is_write and writes == "back":
            holders = holders[:1]
        for level in holders if is_write else ():
            # what came with this write is written already
            self.written[level] += before[level]
            self.copies[level][page] = version
        if is_write and (writes != "back" or not holders):
            self.behind(page, version)

    def dirty(self) -> int:
        held = self.copies[0].keys() | self.copies[1].keys()
        return sum(self.newest[page] != self.base.get(page, 0) for page in held)


PAGES = 24
Run = tuple[int, int, bool]  # first page, pages, is write

RUNS = st.lists(
    st.tuples(st.integers(0, PAGES - 1), st.integers(1, 6), st.booleans()).map(
        lambda run: (run[0], min(run[1], PAGES - run[0]), run[2])
    ),
    max_size=80,
)


def native(runs: Sequence[Run], *, roles: Sequence[int] = ()) -> NDArray[np.void]:
    """Return runs as the kernels take them."""
    table = np.zeros(len(runs), np.dtype(RUN))
    for at, (first, count, is_write) in enumerate(runs):
        role = roles[at % len(roles)] if roles else 0
        table[at] = (first, count, is_write, role)
    return table


def references(runs: Sequence[Run]) -> list[Reference]:
    """Return the runs page by page."""
    return [
        (page, is_write) for first, count, is_write in runs for page in range(first, first + count)
    ]
