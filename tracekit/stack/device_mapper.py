"""Tables of the device mapper: which sectors of its devices lie where on the devices below."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracekit.stack.devices import Beside, Node, Piece

_LINE = re.compile(r"^(?P<name>\S+): (?P<start>\d+) (?P<sectors>\d+) (?P<kind>\S+) ?(?P<rest>.*)$")
_NUMBERS = re.compile(r"\d+:\d+")

ReadThin = Callable[[str, int], list[Piece]]
"""Given a thin pool's device and the number of a thin device, where its blocks lie on the pool."""


@dataclass(frozen=True)
class Target:
    """A line of a table."""

    first_sector: int
    sectors: int
    kind: str
    words: tuple[str, ...]


def read_tables(text: str) -> dict[str, list[Target]]:
    """Return the lines of `dmsetup table` by the device that they are of."""
    found: dict[str, list[Target]] = {}
    for match in filter(None, map(_LINE.match, text.splitlines())):
        words = tuple(match["rest"].split())
        target = Target(int(match["start"]), int(match["sectors"]), match["kind"], words)
        found.setdefault(match["name"], []).append(target)
    return found


# Where the words of a target name a device that has the target's sectors, each in its place, and
# the sector that they begin at there; then the devices beside it, and what these hold.
_IN_PLACE = {
    "linear": (0, 1),
    "crypt": (3, 4),
    "flakey": (0, 1),
    "delay": (0, 1),
    "dust": (0, 1),
    "snapshot": (0, None),
    "snapshot-merge": (0, None),
    "snapshot-origin": (0, None),
    "verity": (1, None),
    "thin-pool": (1, None),
    "cache": (2, None),
    "writecache": (1, None),
    "era": (1, None),
    "clone": (1, None),
    "log-writes": (0, None),
}
_BESIDE = {
    "thin-pool": ((0, Beside.METADATA),),
    "cache": ((0, Beside.METADATA), (1, Beside.BLOCKS)),
    "writecache": ((2, Beside.BLOCKS),),
    "era": ((0, Beside.METADATA),),
    "clone": ((0, Beside.METADATA), (2, Beside.BLOCKS)),
    "verity": ((2, Beside.HASHES),),
    "log-writes": ((1, Beside.LOG),),
    "snapshot": ((1, Beside.BLOCKS),),
    "snapshot-merge": ((1, Beside.BLOCKS),),
}


def map_target(
    node: Node, target: Target, *, names: dict[str, str], read_thin: ReadThin | None = None
) -> None:
    """Add to a node where the sectors of a target lie; `names` are the devices by `major:minor`.

    Of a kind that is not known the devices that it names hold its blocks somewhere.
    """
    node.kind = target.kind
    words = [names.get(word, word) for word in target.words]
    first, sectors = target.first_sector, target.sectors
    if target.kind in _IN_PLACE:
        at, offset = _IN_PLACE[target.kind]
        start = 0 if offset is None else int(words[offset])
        node.pieces.append(Piece(first, sectors, words[at], start))
    elif target.kind == "striped":
        chunk = int(words[1])
        node.pieces += striped(first, sectors, members=_pairs(words[2:]), chunk=chunk)
    elif target.kind == "thin":
        found = read_thin(words[0], int(words[1])) if read_thin else []
        node.pieces += found
        if not found:
            node.aside[words[0]] = Beside.BLOCKS
    elif target.kind == "mirror":
        legs = 3 + int(words[1])
        pairs = _pairs(words[legs : legs + 2 * int(words[legs - 1])])
        node.pieces += [Piece(first, sectors, *leg) for leg in pairs]
    elif target.kind == "multipath":
        node.pieces += [Piece(first, sectors, one, 0) for one in _devices(target, names)]
    elif target.kind == "raid":
        _map_raid(node, target, words)
    else:
        node.aside |= dict.fromkeys(_devices(target, names), Beside.BLOCKS)
    for at, what in _BESIDE.get(target.kind, ()):
        node.aside[words[at]] = what


def _devices(target: Target, names: dict[str, str]) -> list[str]:
    return [names.get(word, word) for word in target.words if _NUMBERS.fullmatch(word)]


def _pairs(words: Sequence[str]) -> list[tuple[str, int]]:
    """Return devices and first sectors that follow each other by turns."""
    return [(words[at], int(words[at + 1])) for at in range(0, len(words) - 1, 2)]


def striped(
    first_sector: int, sectors: int, *, members: Sequence[tuple[str, int]], chunk: int
) -> list[Piece]:
    """Return the pieces of a range that lies in chunks on devices by turns."""
    count = len(members)
    return [
        Piece(first_sector, sectors, below, start, chunk, count, place)
        for place, (below, start) in enumerate(members)
    ]


def raid_pieces(
    sectors: int,
    members: Sequence[tuple[str, int]],
    *,
    level: int,
    chunk: int,
    copies: int = 1,
    count: int = 0,
) -> list[Piece]:
    """Return the pieces of a RAID over devices with the sector that its data begins at on each.

    `count` is that of its members where some of them are missing.
    """
    if level == 1 or not chunk:
        return [Piece(0, sectors, below, start) for below, start in members]
    if level == 0:
        return striped(0, sectors, members=members, chunk=chunk)
    data = (count or len(members)) - {4: 1, 5: 1, 6: 2}.get(level, 0)
    return [Piece(0, sectors, below, start, chunk, data, None, copies) for below, start in members]


_RAID_LEVEL = re.compile(r"raid(\d+)")


def _map_raid(node: Node, target: Target, words: Sequence[str]) -> None:
    """Map the target of LVM's RAID: type, its parameters, then metadata and data of each leg."""
    level = _RAID_LEVEL.match(words[0])
    count = int(words[1])
    parameters, legs = words[2 : 2 + count], words[3 + count :]
    chunk = int(parameters[0]) if parameters else 0
    members = [(one, 0) for one in legs[1::2] if one != "-"]
    number = int(level[1]) if level else -1
    copies = 2
    if "raid10_copies" in parameters:
        copies = int(parameters[parameters.index("raid10_copies") + 1])
    node.kind = words[0]
    is_near = "raid10_format" not in parameters or "near" in parameters
    if number in (0, 1, 4, 5, 6) or (number == 10 and is_near):
        near = copies if number == 10 else 1
        all_of = {"chunk": chunk, "copies": near, "count": len(legs) // 2}
        node.pieces += raid_pieces(target.sectors, members, level=number, **all_of)
    else:
        node.aside |= {one: Beside.BLOCKS for one, _ in members}
    node.aside |= dict.fromkeys((one for one in legs[0::2] if one != "-"), Beside.METADATA)


_SUPER = struct.Struct("<32xQ")
_THIN_MAGIC = 27022010
_NODE = struct.Struct("<IIQIII4x")
_LEAF, _TIME_BITS = 2, 24
_MAPPING_ROOT_AT, _DATA_BLOCK_AT = 320, 336

ReadBlock = Callable[[int], bytes]
"""Given the number of a block of 4 KiB, its content."""


def thin_blocks(read: ReadBlock, number: int, *, pool: str) -> list[Piece]:
    """Return where the blocks of a thin device lie on its pool, by the pool's own metadata.

    They are as the last commit left them; what is not provisioned lies nowhere.
    """
    super_block = read(0)
    if _SUPER.unpack_from(super_block)[0] != _THIN_MAGIC:
        return []
    root, sectors = struct.unpack_from("<Q8xI", super_block, _MAPPING_ROOT_AT)
    below = dict(_walk(read, root)).get(number)
    found: list[Piece] = []
    for block, value in _walk(read, below) if below is not None else ():
        start = (value >> _TIME_BITS) * sectors
        last = found[-1] if found else None
        if (
            last
            and last.first_sector + last.sectors == block * sectors
            and last.start_sector + last.sectors == start
        ):
            found[-1] = Piece(last.first_sector, last.sectors + sectors, pool, last.start_sector)
        else:
            found.append(Piece(block * sectors, sectors, pool, start))
    return found


def _walk(read: ReadBlock, root: int) -> list[tuple[int, int]]:
    """Return keys and values of a B-tree of 64-bit values, in the order of the keys."""
    node = read(root)
    _, flags, _, entries, most, _ = _NODE.unpack_from(node)
    keys = struct.unpack_from(f"<{entries}Q", node, _NODE.size)
    values = struct.unpack_from(f"<{entries}Q", node, _NODE.size + 8 * most)
    if flags & _LEAF:
        return list(zip(keys, values, strict=True))
    return [pair for value in values for pair in _walk(read, value)]
