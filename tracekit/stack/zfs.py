"""Which part of a ZFS pool a device is, by `zpool status` or by the label on it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

DATA, LOG, SPECIAL, CACHE = "data", "log", "special", "cache"
_SECTIONS = {"logs": LOG, "special": SPECIAL, "dedup": SPECIAL, "cache": CACHE, "spares": CACHE}
_GROUP = re.compile(r"(mirror|raidz\d?|draid\d?\S*|spare|replacing)-\d+")
_LABEL_AT, _LABEL_BYTES = 16 << 10, 112 << 10
_UINT64, _STRING, _NVLIST = 8, 9, 19
_L2CACHE, _SPARE = 4, 3
"""States of a pool that a label of a cache or spare has (sys/fs/zfs.h)."""
_XDR_BIG = b"\1"


@dataclass(frozen=True)
class PoolPart:
    """What a device is of a pool, and where that is mounted."""

    pool: str
    kind: str
    """data, log, special or cache, which spares count as, too."""
    mount: str | None = None

    @property
    def role(self) -> str:
        """What requests of it are for."""
        return {LOG: "journal", CACHE: "other"}.get(self.kind, "fs")

    @property
    def evidence(self) -> str:
        """What a sentence says of it."""
        what = {DATA: "data", SPECIAL: "special device"}.get(self.kind, self.kind)
        return f"{what} of the ZFS pool {self.pool}"


def read_status(text: str) -> Iterator[tuple[str, PoolPart]]:
    """Yield the devices that `zpool status -LP` lists, and what they are of which pool."""
    pool, kind = "", DATA
    for line in text.splitlines():
        if named := re.match(r" *pool: (.+)", line):  # a name may have spaces
            pool, kind = named[1].rstrip(), DATA
        row = re.match(r"\t( *)(\S+)", line)
        if row is None or not pool:
            continue
        if not row[1]:  # the head line, the pool itself or a section
            kind = _SECTIONS.get(row[2], DATA)
        elif not _GROUP.fullmatch(row[2]):
            yield row[2], PoolPart(pool, kind)


@dataclass(frozen=True)
class Label:
    """What a label of a device says."""

    pool: str
    guid: int
    """Of the pool; 0 on a cache or spare, which several may share."""
    kind: str


def read_label(first: bytes) -> Label | None:
    """Return what the first label on a device says, by the first 128 KiB; None without one.

    A list of names and values in XDR (RFC 4506), as sys/nvpair.h has it.
    """
    data = first[_LABEL_AT : _LABEL_AT + _LABEL_BYTES]
    if not data.startswith(_XDR_BIG) or len(data) < _LABEL_BYTES:
        return None
    try:
        found, _ = _pairs(data, 4)
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    tree = found.get("vdev_tree")
    tree = tree if isinstance(tree, dict) else {}
    if found.get("state") in (_L2CACHE, _SPARE):
        return Label("", 0, CACHE)
    name, guid = found.get("name"), found.get("pool_guid")
    if not isinstance(name, str) or not isinstance(guid, int):
        return None
    bias = tree.get("alloc_bias")
    is_log = bool(tree.get("is_log")) or bias == LOG
    return Label(name, guid, LOG if is_log else SPECIAL if bias else DATA)


Value = int | str | dict[str, "Value"]


def _pairs(data: bytes, at: int, depth: int = 0) -> tuple[dict[str, Value], int]:
    """Return the numbers, texts and lists of a list, and where it ends."""
    if depth > 4:
        raise ValueError("lists within lists")
    at += 8  # version and flags
    found: dict[str, Value] = {}
    while True:
        size, decoded = struct.unpack_from(">ii", data, at)
        if not size and not decoded:
            return found, at + 8
        if size < 16:
            raise ValueError("a pair that has no room for itself")
        name, place = _text(data, at + 8)
        kind, _count = struct.unpack_from(">ii", data, place)
        if kind == _UINT64:
            found[name] = struct.unpack_from(">Q", data, place + 8)[0]
        elif kind == _STRING:
            found[name], _ = _text(data, place + 8)
        elif kind == _NVLIST:
            found[name], _ = _pairs(data, place + 8, depth + 1)
        at += size


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">i", data, at)
    if not 0 <= size <= len(data) - at - 4:
        raise ValueError("a text that is longer than its list")
    return data[at + 4 : at + 4 + size].decode(), at + 4 + -(-size // 4) * 4
