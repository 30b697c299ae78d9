"""What a disk may hold after a power cut, from the calls of a command.

A file has the content of its last fsync. A folder has the entries of its last fsync, and of what
changed since then any part: a rename is one change, all others too, in whatever order they reach
the disk. File systems promise more than that, each something else.
"""

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.crash.watched import Call

NOREPLACE, EXCHANGE = 1, 2
AT_REMOVEDIR = 0x200
TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY
RANDOM_STATES = 12
MOST_ALONE = 12
TORN = "torn"


@dataclass(eq=False)
class Node:
    """A file, folder or link. `written` counts its changes, of which `synced` are on the disk."""

    number: int
    entries: "dict[str, Node] | None" = None
    link: str | None = None
    written: int = 0
    synced: int = 0


Place = tuple[Node, str]


@dataclass(eq=False)
class Change:
    """Entries that change in one step; `is_synced` if an fsync of one of the folders followed."""

    entries: tuple[tuple[Place, Node | None], ...]
    is_synced: bool = False


@dataclass
class Disk:
    """The files below a place, as they are now and as the disk has them."""

    place: Path
    root: Node = field(init=False)
    base: dict[Node, dict[str, Node]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.root = self._scanned(self.place)

    def _scanned(self, path: Path) -> Node:
        if path.is_symlink():
            return Node(next(self.numbers), link=os.readlink(path))
        if not path.is_dir():
            return Node(next(self.numbers))
        below = {one.name: self._scanned(one) for one in sorted(path.iterdir())}
        node = Node(next(self.numbers), below)
        self.base[node] = dict(node.entries or {})
        return node

    def apply(self, call: Call) -> None:
        """Let a call happen, as far as it does with the files that are there."""
        if call.name in ("sync", "syncfs"):
            self._sync_all()
        elif call.name in ("fsync", "fdatasync"):
            self._sync(call.path)
        elif call.name in ("open", "openat", "openat2", "creat"):
            self._open(call.path, call.flags)
        elif call.name in ("mkdir", "mkdirat"):
            self._link(call.path, Node(next(self.numbers), {}))
        elif call.name in ("symlink", "symlinkat"):
            self._link(call.path, Node(next(self.numbers), link="new"))
        elif call.name in ("unlink", "unlinkat", "rmdir"):
            self._remove(call)
        elif call.name in ("rename", "renameat", "renameat2"):
            self._rename(call.path, call.other or call.path, call.flags)
        elif call.name in ("link", "linkat"):
            node = self.at(call.path)
            if node is not None:
                self._link(call.other or call.path, node)
        elif not call.name.startswith(("fch", "ch", "lch")):
            self._write(call.path)

    def at(self, path: Path) -> Node | None:
        """Return what is at a path now."""
        node: Node | None = self.root
        for part in path.relative_to(self.place).parts:
            node = (node.entries or {}).get(part) if node else None
        return node

    def _folder(self, path: Path) -> dict[str, Node] | None:
        above = self.at(path.parent) if path != self.place else None
        return above.entries if above else None

    def _change(self, *entries: tuple[Path, Node | None]) -> None:
        changed = []
        for path, node in entries:
            above = self.at(path.parent)
            assert above is not None
            assert above.entries is not None
            changed.append(((above, path.name), node))
        for (above, name), node in changed:
            assert above.entries is not None
            if node is None:
                above.entries.pop(name, None)
            else:
                above.entries[name] = node
        self.changes.append(Change(tuple(changed)))

    def _link(self, path: Path, node: Node) -> None:
        folder = self._folder(path)
        if folder is not None and path.name not in folder:
            self._change((path, node))

    def _open(self, path: Path, flags: int) -> None:
        if flags & TMPFILE:
            return
        node = self.at(path)
        if node is None and flags & os.O_CREAT:
            self._link(path, Node(next(self.numbers)))
        elif node is not None and flags & os.O_TRUNC:
            node.written += 1

    def _write(self, path: Path) -> None:
        node = self.at(path)
        assert node or path.name.endswith(" (deleted)"), f"a write to {path}, which is unknown"
        if node is not None:
            node.written += 1

    def _remove(self, call: Call) -> None:
        node = self.at(call.path)
        is_for_folders = call.name == "rmdir" or bool(call.flags & AT_REMOVEDIR)
        if node and is_for_folders == (node.entries is not None) and not node.entries:
            self._change((call.path, None))

    def _rename(self, path: Path, other: Path, flags: int) -> None:
        node, there = self.at(path), self.at(other)
        if node is None or self._folder(other) is None or node is there:
            return
        if flags & EXCHANGE:
            if there is not None:
                self._change((path, there), (other, node))
        elif there is None or not (flags & NOREPLACE or there.entries):
            self._change((path, None), (other, node))

    def _sync(self, path: Path) -> None:
        node = self.at(path)
        if node is None:
            return
        node.synced = node.written
        for number, change in enumerate(self.changes):
            if any(above is node for (above, _), _ in change.entries):
                change.is_synced = True
                # What changed the same entries before cannot come after it.
                places = {place for place, _ in change.entries}
                for earlier in self.changes[:number]:
                    if places & {place for place, _ in earlier.entries}:
                        earlier.is_synced = True
        self._fold()

    def _sync_all(self) -> None:
        for node in _all(self.root):
            node.synced = node.written
        for change in self.changes:
            change.is_synced = True
        self._fold()

    def _fold(self) -> None:
        """Take synced changes that no other one precedes for the disk's own."""
        while self.changes and self.changes[0].is_synced:
            _enter(self.base, self.changes.pop(0))

    def now(self) -> dict[str, str]:
        """Return all that is there, as if it were synced."""
        return dict(_walked(self.root, lambda node: node.entries or {}, is_synced=False))

    def cut(self, kept: Iterable[Change]) -> dict[str, str]:
        """Return what is there after a power cut that these changes outlived beside the synced."""
        outlived = set(map(id, kept))
        entries = {node: dict(names) for node, names in self.base.items()}
        for change in self.changes:
            if change.is_synced or id(change) in outlived:
                _enter(entries, change)
        return dict(_walked(self.root, lambda node: entries.get(node, {}), is_synced=True))

    def cuts(self, chance: random.Random) -> Iterator[dict[str, str]]:
        """Yield what may be there after a power cut now: with none of the changes, all, some."""
        waiting = [change for change in self.changes if not change.is_synced]
        yield self.cut([])
        for kept in _parts(waiting, chance):
            yield self.cut(kept)


def _all(node: Node) -> Iterator[Node]:
    yield node
    for below in (node.entries or {}).values():
        yield from _all(below)


def _enter(entries: dict[Node, dict[str, Node]], change: Change) -> None:
    for (above, name), node in change.entries:
        if node is None:
            entries.setdefault(above, {}).pop(name, None)
        else:
            entries.setdefault(above, {})[name] = node


def _parts(waiting: Sequence[Change], chance: random.Random) -> Iterator[Sequence[Change]]:
    """Yield the beginnings, the single ones, all but a single one, and some parts by chance.

    Of many changes the last ones are looked at one by one.
    """
    for number in range(max(len(waiting) - MOST_ALONE, 0), len(waiting)):
        yield waiting[: number + 1]
        yield waiting[number : number + 1]
        yield [*waiting[:number], *waiting[number + 1 :]]
    for _ in range(RANDOM_STATES if len(waiting) > 2 else 0):
        yield [change for change in waiting if chance.random() < 0.5]


def _walked(
    node: Node, entries_of: Callable[[Node], Mapping[str, Node]], *, is_synced: bool, name: str = ""
) -> Iterator[tuple[str, str]]:
    if node.link is not None:
        yield name, "link"
    elif node.entries is None:
        is_torn = is_synced and node.synced != node.written
        yield name, TORN if is_torn else f"{node.number}:{node.written}"
    else:
        yield name or ".", "folder"
        for part, below in sorted(entries_of(node).items()):
            path = f"{name}/{part}" if name else part
            yield from _walked(below, entries_of, is_synced=is_synced, name=path)
