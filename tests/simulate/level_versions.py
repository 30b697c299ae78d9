"""Two levels and what is behind them, whose pages have versions: who writes what, and when."""

from tests.simulate.level_models import make


class Copies:
    """Two levels that know the version of each copy; nothing is flagged."""

    def __init__(
        self, capacity: tuple[int, int], policies: tuple[str, str], *, is_inclusive: bool
    ) -> None:
        self.has = [size > 0 for size in capacity]
        self.is_inclusive = is_inclusive
        self.levels = [make(name, size) for name, size in zip(policies, capacity, strict=True)]
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
