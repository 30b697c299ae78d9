"""Devices that lie on each other, and which sectors of the lowest hold what of the highest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from tracekit.units import SECTOR_BYTES, format_size

Extent = tuple[int, int]
"""First sector, and the sector behind the last."""


@dataclass(frozen=True)
class Piece:
    """Sectors of a device that lie on one below it: in a row, or striped over several."""

    first_sector: int
    sectors: int
    below: str
    start_sector: int
    """On the device below."""
    chunk_sectors: int = 0
    """Of a striped piece; 0: the sectors lie in a row."""
    members: int = 1
    """Devices that a stripe lies on, parity left out."""
    place: int | None = None
    """Of this device among them; None: its chunks change places, and only stripes are known."""
    copies: int = 1
    """Of each chunk, among the members."""

    def image(self, first: int, end: int) -> Extent | None:
        """Return where the sectors from `first` to `end` lie below, as far as they lie here."""
        first = max(first, self.first_sector) - self.first_sector
        end = min(end, self.first_sector + self.sectors) - self.first_sector
        if first >= end:
            return None
        low, high = self._below(first), self._below(end, rounds_up=True)
        return (self.start_sector + low, self.start_sector + high) if low < high else None

    def _below(self, sector: int, *, rounds_up: bool = False) -> int:
        """Return how many sectors of the device below lie before this one."""
        chunk = self.chunk_sectors
        if chunk == 0:
            return sector
        stripe = chunk * self.members
        if self.place is None:
            chunks = (sector + (chunk - 1 if rounds_up else 0)) // chunk * self.copies
            return (chunks + (self.members - 1 if rounds_up else 0)) // self.members * chunk
        inside = min(max(sector % stripe - self.place * chunk, 0), chunk)
        return sector // stripe * chunk + inside


class Beside(StrEnum):
    """What a device below one holds, other than its sectors in a known order."""

    BLOCKS = "blocks in an order that is not known"
    METADATA = "metadata"
    HASHES = "hashes"
    LOG = "log of writes"


@dataclass(frozen=True)
class Use:
    """What some sectors of a device are for."""

    role: str
    evidence: str
    first_sector: int
    sectors: int
    name: str
    filesystem: str | None = None
    mount: str | None = None
    uuid: str | None = None
    journal_uuid: str | None = None
    swap_file: str | None = None
    """The path, where it is a piece of one."""
    is_unordered: bool = False
    """Blocks of others may lie among these."""


@dataclass
class Node:
    """A device: a disk, a partition, or one that the kernel makes of others."""

    name: str
    """Of the kernel, such as dm-0."""
    numbers: str
    """`major,minor`."""
    sectors: int
    kind: str = "disk"
    """disk, part, loop, or what a mapping is called: linear, crypt, thin, raid1."""
    label: str = ""
    """Such as vg-root of a dm-0."""
    pieces: list[Piece] = field(default_factory=list)
    aside: dict[str, Beside] = field(default_factory=dict)
    """Devices below that hold something else than its sectors in a known order, and what."""
    uses: list[Use] = field(default_factory=list)
    """The first one is of the whole device."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Of a disk, as layout.json has them."""

    @property
    def title(self) -> str:
        """The name that people know."""
        return self.label or self.name

    @property
    def below(self) -> list[str]:
        """The devices that it lies on, each once."""
        return list(dict.fromkeys([*(piece.below for piece in self.pieces), *self.aside]))

    def images(self, first: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Yield device, first sector and end of where a range of its sectors lies below."""
        starts = [piece.first_sector for piece in self.pieces]
        # In a row, one after the other, as the many blocks of a thin device.
        is_sorted = all(low < high for low, high in pairwise(starts))
        at = max(0, bisect_left(starts, first) - 1) if is_sorted else 0
        for piece in self.pieces[at:]:
            if is_sorted and piece.first_sector >= end:
                return
            found = piece.image(first, end)
            if found is not None:
                yield piece.below, *found


class Stack:
    """The devices of a host by name."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Take the devices; those below which one is missing are at the bottom."""
        self.nodes = {node.name: node for node in nodes}
        self.above: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for name in node.below:
                if name in self.above:
                    self.above[name].append(node)

    def reach(self, name: str) -> list[str]:
        """Return a device and all below it, each once, the highest first."""
        found: dict[str, None] = {name: None}
        for known in iter(waiting := [name]):
            node = self.nodes.get(known)
            fresh = [one for one in node.below if one not in found] if node else []
            found.update(dict.fromkeys(fresh))
            waiting += fresh
        return list(found)

    def depth(self, name: str, seen: tuple[str, ...] = ()) -> int:
        """Return how many devices are below, one below the other."""
        node = self.nodes.get(name)
        below = [one for one in node.below if one in self.nodes and one not in seen] if node else []
        return max((1 + self.depth(one, (*seen, name)) for one in below), default=0)

    def down(self, name: str, first: int, *, end: int) -> Iterator[tuple[str, int, int]]:
        """Yield where sectors of a device lie, on itself and on each device below it."""
        yield name, first, end
        if name in self.nodes:
            for below, low, high in self.nodes[name].images(first, end):
                yield from self.down(below, low, end=high)

    def title(self, name: str) -> str:
        """Return the name that people know of a device."""
        return self.nodes[name].title if name in self.nodes else name

    def held_by(self, node: Node) -> list[Node]:
        """Return the devices that lie on one, those in its files left out."""
        return [one for one in self.above.get(node.name, []) if one.kind != "loop"]

    def roles_on(self, node: Node) -> set[str]:
        """Return the roles of the highest devices on one."""
        above = self.held_by(node)
        if not above:
            return {use.role for use in node.uses}
        return {role for one in above for role in self.roles_on(one)}

    def partitions_of(self, disk: str) -> list[Node]:
        """Return the partitions of a disk, or the disk itself where it has none."""
        parts = [node for node in self.above.get(disk, []) if node.kind == "part"]
        return sorted(parts, key=lambda node: node.pieces[0].start_sector) or [self.nodes[disk]]


def _doubt_overlaps(entries: Sequence[dict[str, Any]]) -> None:
    """Take the role from entries in no known order that lie where others of another role may."""
    ordered = sorted(entries, key=lambda one: (one["device"], one["start_sector"]))
    group: list[dict[str, Any]] = []
    end = -1
    for one in ordered:
        if not group or one["device"] != group[0]["device"] or one["start_sector"] >= end:
            _doubt_roles(group)
            group, end = [], -1
        group.append(one)
        end = max(end, one["start_sector"] + one["sectors"])
    _doubt_roles(group)


def _doubt_roles(group: Sequence[dict[str, Any]]) -> None:
    if len({one["role"] for one in group}) > 1:
        for one in group:
            one["role"] = "unknown"
            one["evidence"] += "; other volumes may lie there"


def entries_of(stack: Stack, disks: Sequence[str]) -> list[dict[str, Any]]:
    """Return `partitions` of layout.json: what the sectors of these disks are for.

    Of each disk its partitions, then what lies in them, from the lowest device to the highest, so
    that of regions of one size the later one is what the request is for.
    """
    found: list[dict[str, Any]] = []
    unordered: list[dict[str, Any]] = []
    bases = {disk: stack.partitions_of(disk) for disk in disks}
    for disk, parts in bases.items():
        for part in parts:
            found += _entries(stack, part, [disk])
    done = {part.name for parts in bases.values() for part in parts}
    rest = [node for node in stack.nodes.values() if node.name not in done]
    for node in sorted(rest, key=lambda one: (stack.depth(one.name), one.name)):
        below = [disk for disk in disks if disk in stack.reach(node.name) and disk != node.name]
        if below:
            found += _entries(stack, node, below)
            mine = _unordered(stack, node, below)
            found += mine
            unordered += mine
    _doubt_overlaps(unordered)
    return found


def _entries(stack: Stack, node: Node, disks: Sequence[str]) -> list[dict[str, Any]]:
    # Behind a loop device are the sectors of a file: of a file system, but for swap and logs.
    is_file = any(
        stack.nodes[name].kind == "loop"
        for name in stack.reach(node.name)
        if name in stack.nodes and name not in disks
    )
    return [
        _entry(node, use, disk, extent)
        for use in node.uses
        if not is_file or use.role in ("journal", "swap")
        for disk, extents in _places(stack, node.name, use).items()
        if disk in disks
        for extent in extents
    ]


def _entry(node: Node, use: Use, disk: str, extent: Extent) -> dict[str, Any]:
    return {
        "device": disk,
        "partition": node.numbers,
        "name": use.name,
        "start_sector": extent[0],
        "sectors": extent[1] - extent[0],
        "role": use.role,
        "filesystem": use.filesystem,
        "mount": use.mount,
        "evidence": use.evidence,
        "uuid": use.uuid,
        "journal_uuid": use.journal_uuid,
        **({"node": node.name} if node.label else {}),
        **({"swap_file": use.swap_file} if use.swap_file else {}),
        **({"is_unordered": True} if use.is_unordered else {}),
    }


def _places(stack: Stack, name: str, use: Use) -> dict[str, list[Extent]]:
    """Return where a use lies on each device, neighbours joined."""
    raw: dict[str, list[Extent]] = {}
    end = use.first_sector + use.sectors
    for below, first, last in stack.down(name, use.first_sector, end=end):
        raw.setdefault(below, []).append((first, last))
    return {below: joined(extents) for below, extents in raw.items()}


def joined(extents: Sequence[Extent]) -> list[Extent]:
    """Return extents in order, those that touch or overlap as one."""
    found: list[Extent] = []
    for first, end in sorted(extents):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def _unordered(stack: Stack, node: Node, disks: Sequence[str]) -> list[dict[str, Any]]:
    """Return entries for devices below with something else than the sectors in a known order."""
    found = []
    for name, what in node.aside.items():
        roles = stack.roles_on(node)
        if what != Beside.BLOCKS:
            role, evidence = "other", f"{what} of {node.title}"
        else:
            role = roles.pop() if len(roles) == 1 else "unknown"
            evidence = f"{what}, of {node.title} ({node.kind})"
        sectors = stack.nodes[name].sectors if name in stack.nodes else 0
        title = f"{node.title} {what.name.lower()}"
        is_unordered = what == Beside.BLOCKS
        use = Use(role, evidence, 0, sectors, title, is_unordered=is_unordered)
        for disk, extents in _places(stack, name, use).items():
            if disk in disks:
                found += [_entry(node, use, disk, extent) for extent in extents]
    return found


NAME_COLUMNS = 36


def draw(stack: Stack, disks: Sequence[str]) -> list[str]:
    """Return a line for each device and each use inside one; what stands above twice is cut."""
    lines: list[str] = []
    drawn: set[str] = set()
    for disk in disks:
        lines += _draw(stack, stack.nodes[disk], "", "", drawn)
    return lines


def _draw(stack: Stack, node: Node, first: str, rest: str, drawn: set[str]) -> Iterator[str]:
    whole, *inner = node.uses
    words = [*([node.name] if node.label else []), node.kind]
    kind = "" if node.kind in ("disk", "part") else f" ({', '.join(words)})"
    name = f"{first}{node.title}{kind}"
    if node.name in drawn:
        yield f"{name:<{NAME_COLUMNS}} {'':>11}  drawn above"
        return
    drawn.add(node.name)
    # What a device holds are its branches.
    why = "" if stack.held_by(node) and whole.mount is None else whole.evidence
    yield _line(name, node.sectors, whole.role, why)
    above = sorted(stack.above.get(node.name, ()), key=lambda one: (_start(one, node), one.name))
    parts = _by_name(inner)
    last = len(parts) + len(above)
    for number, uses in enumerate(parts, 1):
        branch = "└─" if number == last else "├─"
        sectors, use = sum(one.sectors for one in uses), uses[0]
        pieces = f"; {len(uses)} pieces" if len(uses) > 1 else ""
        yield _line(f"{rest}{branch}{use.name}", sectors, use.role, f"{use.evidence}{pieces}")
    for number, part in enumerate(above, len(parts) + 1):
        branch, next_rest = ("└─", "  ") if number == last else ("├─", "│ ")
        yield from _draw(stack, part, f"{rest}{branch}", f"{rest}{next_rest}", drawn)


def _line(name: str, sectors: int, role: str, evidence: str) -> str:
    size = format_size(sectors * SECTOR_BYTES)
    return f"{name:<{NAME_COLUMNS}} {size:>11}  {role:<8} {evidence}".rstrip()


def _start(node: Node, below: Node) -> int:
    return min((one.start_sector for one in node.pieces if one.below == below.name), default=0)


def _by_name(uses: Sequence[Use]) -> list[list[Use]]:
    """Return the uses inside a device, those of one name together."""
    found: dict[str, list[Use]] = {}
    for use in uses:
        found.setdefault(use.name, []).append(use)
    return list(found.values())
