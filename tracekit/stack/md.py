"""RAID arrays of md: where their blocks lie, by what the kernel or texts of mdadm say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracekit.stack.device_mapper import raid_pieces, striped
from tracekit.stack.devices import Beside, Node, Piece
from tracekit.units import SECTOR_BYTES


@dataclass(frozen=True)
class Member:
    """A device that an array lies on; None is not known."""

    name: str
    slot: int
    offset: int | None
    """The sector that its data begins at."""
    sectors: int | None
    """Of its data."""


@dataclass(frozen=True)
class Array:
    """What is known of an array."""

    level: str
    count: int
    """Of its members, those that are missing among them."""
    chunk_sectors: int
    layout: str
    """Of RAID 10 the word of mdadm (near=2) or the kernel's number."""
    members: Sequence[Member]

    @property
    def number(self) -> int:
        """The level as a number, -1 for one that has none."""
        word = self.level.removeprefix("raid")
        return int(word) if word.isdecimal() else -1

    @property
    def near(self) -> int:
        """Copies beside each other of a RAID 10; 0 where copies lie in another way."""
        if self.layout.isdecimal():  # the low byte counts these, the next one those far apart
            return int(self.layout) & 255 if int(self.layout) >> 8 == 1 else 0
        word = self.layout.removeprefix("near=")
        return int(word) if word.isdecimal() else 0


def map_array(node: Node, array: Array) -> bool:
    """Map an array over its members; return whether all of it is known.

    What is not determined lies on them in no known order.
    """
    node.kind, size = array.level, node.sectors
    members = sorted(array.members, key=lambda one: one.slot)
    node.aside = {one.name: Beside.BLOCKS for one in members}
    placed = [(one.name, one.offset) for one in members if one.offset is not None]
    number, chunk = array.number, array.chunk_sectors
    if len(placed) < len(members):
        return False
    copies = array.near if number == 10 else 1
    if number == 1 or (number in (4, 5, 6, 10) and chunk and copies):
        geometry = {"level": number, "chunk": chunk, "copies": copies, "count": array.count}
        node.pieces = raid_pieces(size, placed, **geometry)
    elif len(members) == array.count and None not in [one.sectors for one in members]:
        if number == 0 and chunk:
            node.pieces = _zones(size, members, chunk)
        elif array.level == "linear":
            node.pieces = _row(size, members, chunk)
    ends = [one.first_sector + one.sectors for one in node.pieces]
    if max(ends, default=0) != size:
        return False
    node.aside = {}
    return True


def _zones(size: int, members: Sequence[Member], chunk: int) -> list[Piece]:
    """Return the pieces of a RAID 0: over all members, then over those that are larger.

    Of a later zone it depends on the kernel's version which member is first, unless both versions
    begin with the same one: what is behind such a zone is left out.
    """
    found: list[Piece] = []
    first = below = 0
    ends = {one.slot: (one.sectors or 0) // chunk * chunk for one in members}
    while left := [one for one in members if ends[one.slot] > below]:
        height = min(ends[one.slot] for one in left) - below
        sectors = min(height * len(left), size - first)
        if first // chunk % len(left) and len(left) > 1:
            break
        places = [(one.name, (one.offset or 0) + below) for one in left]
        found += striped(first, sectors, members=places, chunk=chunk)
        first, below = first + sectors, below + height
    return found


def _row(size: int, members: Sequence[Member], chunk: int) -> list[Piece]:
    """Return the pieces of members one behind the other; none where they are not as large."""
    found: list[Piece] = []
    first = 0
    for one in members:
        sectors = one.sectors or 0
        sectors -= sectors % chunk if chunk else 0
        found.append(Piece(first, sectors, one.name, one.offset or 0))
        first += sectors
    return found if first == size else []


def array_of(folder: Path) -> Array:
    """Return the array of a device's folder in /sys."""

    def value(name: str) -> str:
        return (folder / "md" / name).read_text().strip()

    members = []
    for member in (folder / "md").glob("dev-*"):
        slot, offset, size = (
            (member / name).read_text().strip() for name in ("slot", "offset", "size")
        )
        if slot.isdecimal():
            sectors = int(size) * 1024 // SECTOR_BYTES
            name = (member / "block").resolve().name
            members.append(Member(name, int(slot), int(offset), sectors))
    chunk = int(value("chunk_size")) // SECTOR_BYTES
    return Array(value("level"), int(value("raid_disks")), chunk, value("layout"), members)


# --- Texts of another host -----------------------------------------------------------------------

_HEAD = re.compile(r"^(/dev/\S+):\s*$", re.MULTILINE)
_VALUE = re.compile(r"^ *([A-Z][\w' -]*?) : (.*?)\s*$", re.MULTILINE)
_SLOT = re.compile(r"^ +\d+ +\d+ +\d+ +(\d+) +\S.* (/dev/\S+)$", re.MULTILINE)
_MDSTAT = re.compile(
    r"^(?P<name>md\S*) : active (?:\([\w-]+\) )?(?P<level>\S+) (?P<members>.*)\n"
    r" +\d+ blocks(?: super (?P<version>\S+))?",
    re.MULTILINE,
)
_THIS = re.compile(r"^this +\d+ +\d+ +\d+ +(\d+) ", re.MULTILINE)
_NUMBER = re.compile(r"\d+")


@dataclass
class Arrays:
    """What texts of mdadm and /proc/mdstat say, by the path of a device."""

    arrays: dict[str, dict[str, str]] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    members: dict[str, dict[str, str]] = field(default_factory=dict)
    detailed: set[str] = field(default_factory=set)
    """Arrays whose members are all in `slots`."""

    def take_mdstat(self, text: str) -> None:
        """Take /proc/mdstat, which tells the level and not the members' places."""
        for match in _MDSTAT.finditer(text):
            values = {"Raid Level": match["level"], "Version": match["version"] or "0.90"}
            self.arrays.setdefault(f"/dev/{match['name']}", {}).update(values)

    def take_detail(self, text: str) -> None:
        """Take `mdadm --detail` of arrays."""
        for path, part in _parts(text):
            self.arrays.setdefault(path, {}).update(_VALUE.findall(part))
            self.detailed.add(path)
            self.slots |= {device: int(slot) for slot, device in _SLOT.findall(part)}

    def take_examine(self, text: str) -> None:
        """Take `mdadm --examine` of members."""
        for path, part in _parts(text):
            self.members[path] = dict(_VALUE.findall(part))
            role = _THIS.search(part) or re.search(r"Device Role : Active device (\d+)", part)
            if role:
                self.slots[path] = int(role[1])

    def array(self, path: str, members: Mapping[str, str]) -> Array | None:
        """Return what is known of an array over these devices, paths by name."""
        examined = [self.members[one] for one in members.values() if one in self.members]
        values = self.arrays.get(path, {}) | (examined[0] if examined else {})
        level = values.get("Raid Level", "")
        is_moving = {"Reshape pos'n", "Reshape Status", "Delta Devices"} & values.keys()
        if not level or is_moving:
            return None
        # A spare has no slot.
        found = {one: name for name, one in members.items() if one in self.slots}
        is_told = path in self.detailed or self.members.keys() >= {*members.values()}
        if level == "raid1" and not is_told:  # each has all, wherever its place is
            found = {one: name for name, one in members.items()}
        elif not is_told:
            return None
        placed = [
            Member(name, self.slots.get(one, 0), *self._place(one, values))
            for one, name in found.items()
        ]
        count = _first(values.get("Raid Devices")) or len(placed)
        chunk = _first(values.get("Chunk Size") or values.get("Rounding")) or 0
        chunk_sectors = chunk * 1024 // SECTOR_BYTES
        return Array(level, count, chunk_sectors, values.get("Layout", ""), placed)

    def _place(self, path: str, values: Mapping[str, str]) -> tuple[int | None, int | None]:
        """Return where the data of a member begins and how long it is."""
        own = self.members.get(path, {})
        offset = _first(own.get("Data Offset"))
        # These versions have their super block at the end.
        if offset is None and values.get("Version", "").startswith(("0.", "1.0")):
            offset = 0
        return offset, _first(own.get("Avail Dev Size"))


def _parts(text: str) -> list[tuple[str, str]]:
    """Return device and text of each part of what mdadm prints."""
    words = _HEAD.split(text)[1:]
    return list(zip(words[::2], words[1::2], strict=True))


def _first(text: str | None) -> int | None:
    number = _NUMBER.match(text or "")
    return int(number[0]) if number else None
