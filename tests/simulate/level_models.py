"""Two levels with any policies, slow and obvious: policies as lists, the oldest page first."""

from collections.abc import Sequence
from typing import Protocol

from tests.simulate.cache_models import Reference


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


def make(policy: str, capacity: int) -> Policy:
    """Return an empty level."""
    if not capacity:
        return Nothing()
    if policy == "arc":
        return ArcLevel(capacity)
    return S3Fifo(capacity) if policy == "s3-fifo" else Queue(capacity, policy)


def two_level_counts(
    references: Sequence[Reference],
    capacity: tuple[int, int],
    policies: tuple[str, str],
    *,
    is_inclusive: bool,
) -> dict[str, tuple[int, int]]:
    """Return hits by level of reads and writes, and fills of both levels; writes allocate."""
    fast, slow = make(policies[0], capacity[0]), make(policies[1], capacity[1])
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
