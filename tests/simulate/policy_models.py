"""2Q, LIRS, SIEVE and W-TinyLFU as their papers have them, in lists that are searched."""

from collections.abc import Iterable

WORD = (1 << 64) - 1


def hash_of(key: int) -> int:
    """Return splitmix64 of a key, as its authors publish it."""
    mixed = (key + 0x9E3779B97F4A7C15) & WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
    return mixed ^ mixed >> 31


class TwoQ:
    """Johnson and Shasha, VLDB 1994, the full version; the newest page first, as in the paper."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.k_in, self.k_out = capacity, capacity // 4, capacity // 2
        self.a1_in: list[int] = []
        self.a1_out: list[int] = []
        self.am: list[int] = []

    def holds(self) -> list[int]:
        return self.a1_in + self.am

    def hit(self, page: int) -> None:
        if page in self.am:
            self.am.remove(page)
            self.am.insert(0, page)

    def admit(self, page: int) -> int | None:
        is_known = page in self.a1_out
        self.a1_out = [other for other in self.a1_out if other != page]
        left = None
        if len(self.holds()) == self.capacity:
            if len(self.a1_in) > self.k_in:
                left = self.a1_in.pop()
                self.a1_out = [left, *self.a1_out][: self.k_out]
            else:
                left = self.am.pop()
        (self.am if is_known else self.a1_in).insert(0, page)
        return left

    def drop(self, page: int) -> None:
        (self.a1_in if page in self.a1_in else self.am).remove(page)


class Sieve:
    """Zhang et al., NSDI 2024, algorithm 1; the newest page first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.queue: list[int] = []
        self.visited: set[int] = set()
        self.hand: int | None = None  # a page

    def holds(self) -> list[int]:
        return self.queue

    def hit(self, page: int) -> None:
        self.visited.add(page)

    def admit(self, page: int) -> int | None:
        left = None
        if len(self.queue) == self.capacity:
            left = self.queue[-1] if self.hand is None else self.hand
            while left in self.visited:
                self.visited.remove(left)
                at = self.queue.index(left)
                left = self.queue[at - 1]  # of the newest the oldest
            self.drop(left, hand=True)
        self.queue.insert(0, page)
        return left

    def before(self, page: int) -> int | None:
        """Return the page that came next, None of the newest."""
        at = self.queue.index(page)
        return self.queue[at - 1] if at else None

    def drop(self, page: int, *, hand: bool = False) -> None:
        if hand or self.hand == page:
            self.hand = self.before(page)
        self.queue.remove(page)
        self.visited.discard(page)


class Lirs:
    """Jiang and Zhang, SIGMETRICS 2002; the top of S and the end of Q are last.

    S holds at most twice the cache, of which what left first is forgotten.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.lir_most = capacity - max(1, capacity // 100)
        self.stack: list[int] = []
        self.queue: list[int] = []
        self.lir: set[int] = set()
        self.ghosts: list[int] = []  # nonresident, in the order in which they left

    def holds(self) -> list[int]:
        return [*self.lir, *self.queue]

    def top(self, page: int) -> None:
        self.stack = [other for other in self.stack if other != page] + [page]

    def prune(self) -> None:
        while self.stack and self.stack[0] not in self.lir:
            self.forget(self.stack.pop(0))

    def forget(self, page: int) -> None:
        self.ghosts = [other for other in self.ghosts if other != page]

    def leave(self) -> int:
        """Take the front of Q out."""
        left = self.queue.pop(0)
        if left in self.stack:
            self.ghosts.append(left)
        return left

    def demote(self) -> None:
        self.prune()
        bottom = self.stack.pop(0)
        self.lir.remove(bottom)
        self.queue.append(bottom)
        self.prune()

    def make_lir(self, page: int) -> None:
        self.forget(page)
        self.queue = [other for other in self.queue if other != page]
        self.lir.add(page)
        if len(self.lir) > self.lir_most:
            self.demote()

    def hit(self, page: int) -> None:
        was_in_stack = page in self.stack
        self.top(page)
        if page not in self.lir and was_in_stack:
            self.make_lir(page)
        elif page not in self.lir:
            self.queue = [other for other in self.queue if other != page] + [page]
        self.prune()
        self.limit()

    def admit(self, page: int) -> int | None:
        was_in_stack = page in self.stack
        left = self.leave() if len(self.holds()) == self.capacity else None
        self.top(page)
        if was_in_stack or len(self.lir) < self.lir_most:
            self.make_lir(page)
        else:
            self.queue.append(page)
        self.prune()
        self.limit()
        return left

    def limit(self) -> None:
        while len(self.stack) > 2 * self.capacity and self.ghosts:
            self.stack.remove(self.ghosts.pop(0))

    def drop(self, page: int) -> None:
        self.stack = [other for other in self.stack if other != page]
        self.queue = [other for other in self.queue if other != page]
        self.lir.discard(page)
        self.prune()


class WTinyLfu:
    """Einziger, Friedman and Manes, ACM TOS 2017, with Caffeine's parameters; oldest first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.window_most = max(1, capacity // 100)
        self.protected_most = (capacity - self.window_most) * 8 // 10
        self.window: list[int] = []
        self.probation: list[int] = []
        self.protected: list[int] = []
        self.lines = 1
        while self.lines < capacity // 8:
            self.lines *= 2
        self.counters: dict[tuple[int, int, int], int] = {}
        self.uses = 0

    def holds(self) -> list[int]:
        return self.window + self.probation + self.protected

    def places(self, page: int) -> Iterable[tuple[int, int, int]]:
        mixed = hash_of(page * 0x9E3779B97F4A7C15)
        return [(mixed % self.lines, row, mixed >> 32 + 5 * row & 31) for row in range(4)]

    def count(self, page: int) -> None:
        for place in self.places(page):
            self.counters[place] = min(15, self.counters.get(place, 0) + 1)
        self.uses += 1
        if self.uses == 10 * self.capacity:
            self.counters = {place: uses // 2 for place, uses in self.counters.items()}
            self.uses //= 2

    def frequency(self, page: int) -> int:
        return min(self.counters.get(place, 0) for place in self.places(page))

    def hit(self, page: int) -> None:
        self.count(page)
        was_in_window = page in self.window
        self.drop(page)
        (self.window if was_in_window else self.protected).append(page)
        if len(self.protected) > self.protected_most:
            self.probation.append(self.protected.pop(0))

    def admit(self, page: int) -> int | None:
        self.count(page)
        self.window.append(page)
        if len(self.window) <= self.window_most:
            return None
        candidate = self.window.pop(0)
        main = self.probation + self.protected
        if len(main) < self.capacity - self.window_most:
            self.probation.append(candidate)
            return None
        if not main or self.frequency(candidate) <= self.frequency(main[0]):
            return candidate
        self.drop(main[0])
        self.probation.append(candidate)
        return main[0]

    def drop(self, page: int) -> None:
        for pages in (self.window, self.probation, self.protected):
            if page in pages:
                pages.remove(page)
