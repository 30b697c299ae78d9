"""Binary formats of fixed records: those of libCacheSim and vscsi of VMware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracekit.arrow import text_column
from tracekit.errors import InputError
from tracekit.formats import ORACLE_RECORD
from tracekit.readers.units import Columns, Units

NEVER = (-1, (1 << 63) - 1)
ORACLE_CHECKED_RECORDS = 1000
OBJECT_UNITS = Units("s", "sectors", "bytes")
LARGEST_SIZE_BYTES = 1 << 30
LARGEST_NEXT = 1 << 40
LARGEST_PLACE = (1 << 63) - 1
MOST_OUTLIERS_RATIO = 0.01
"""Of the records of a block: fewer objects too large for a place are wrong records."""


ORACLE_OP_NS = np.dtype(
    [("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("op", "i1"), ("space", "<i2"),
     ("next", "<i8")]
)  # fmt: skip
CACHE_OPERATIONS = {
    **dict.fromkeys((1, 2, 12), "read"),
    **dict.fromkeys((*range(3, 9), 10, 11, 13, 14), "write"),
    9: "discard",
}
"""libCacheSim's numbers (enum req_op_e): gets and reads; sets, changes and writes; deletes."""
CACHE_KINDS = ["read", "write", "discard", "other"]
CACHE_CODES = np.full(256, CACHE_KINDS.index("other"), np.int64)
CACHE_CODES[list(CACHE_OPERATIONS)] = [CACHE_KINDS.index(one) for one in CACHE_OPERATIONS.values()]


@dataclass(frozen=True)
class OracleFormat:
    """Little-endian records of libCacheSim: seconds, object, bytes, number of its next access.

    With an operation in some. Of `lcs` a header says where each is.
    """

    name: str = "oracleGeneral"
    record: np.dtype[Any] = ORACLE_RECORD
    header_bytes: int = 0
    evidence: str = "the first records"
    units: Units = OBJECT_UNITS
    assumes: str = ""

    @property
    def record_bytes(self) -> int:
        """The bytes of a record."""
        return int(self.record.itemsize)

    @property
    def has_operations(self) -> bool:
        """Whether a record says what it is."""
        return "op" in (self.record.names or ())

    def matches(self, head: bytes) -> bool:
        """Say whether the first records agree: times in order, next accesses that lie ahead.

        Where a next access lies within the head, it must be of the same object; the numbering
        starts from 0 or from 1. An lcs is known by its header.
        """
        if self.name == LCS:
            return self.header_bytes > 0
        count = min(len(head) // self.record_bytes, ORACLE_CHECKED_RECORDS)
        records = np.frombuffer(head, self.record, count)
        if count < 2 or (np.diff(records["time"].astype(np.int64)) < 0).any():
            return False
        following, place = records["next"], np.arange(count)
        is_last = np.isin(following, NEVER)
        ahead = (following > place) & (following < LARGEST_NEXT)
        if not (is_last | ahead).all() or (records["size"] > LARGEST_SIZE_BYTES).any():
            return False
        return any(self._agrees(records, base) for base in (0, 1))

    def _agrees(self, records: Any, base: int) -> bool:
        has_next = ~np.isin(records["next"], NEVER)
        place, following = np.flatnonzero(has_next), records["next"][has_next] - base
        inside = following < len(records)
        same = records["object"][following[inside]] == records["object"][place[inside]]
        return bool((following > place).all() and same.all())

    def decode(self, block: bytes | memoryview) -> Columns:
        """Decode whole records; raise InputError for objects that cannot be places."""
        records = np.frombuffer(block, self.record)
        largest = int(records["object"].max())
        if (records["object"] > LARGEST_PLACE // 512).sum() > MOST_OUTLIERS_RATIO * len(records):
            raise InputError(
                f"object {largest} is too large for a place: the objects are hashes or keys",
                hint="import a trace of blocks; places of this one were lost when it was made",
            )
        numbers = {
            "time": records["time"].astype(np.int64),
            "offset": records["object"].astype(np.int64),
            "length": records["size"].astype(np.int64),
        }
        words = {}
        if self.has_operations:
            codes = CACHE_CODES[records["op"].astype(np.int64) & 255]
            words["op"] = text_column(codes, CACHE_KINDS)
        return Columns(numbers=numbers, words=words, rows=len(records))


LCS = "lcs"
LCS_MAGIC = 0x123456789ABCDEF0
LCS_HEADER = np.dtype(
    [("magic", "<u8"), ("format", "S240"), ("fields", "u1", 9), ("reserved", "u1", 231),
     ("counts", "<i8", 64), ("count", "<u4"), ("item_bytes", "<u4"), ("version", "<u8"),
     ("end_magic", "<u8")]
)  # fmt: skip
LCS_KINDS = {"c": "i1", "b": "i1", "B": "u1", "h": "<i2", "H": "<u2", "i": "<i4", "I": "<u4",
             "l": "<i4", "L": "<u4", "q": "<i8", "Q": "<u8", "f": "<f4", "d": "<f8"}  # fmt: skip
LCS_FIELDS = {"object": 0, "size": 1, "time": 2, "next": 4, "op": 5}
"""Where the header has the number of each field, from 1; 0 where there is none."""


def lcs_format(head: bytes, *, name: str) -> OracleFormat | None:
    """Return the format that the header of an lcs trace of libCacheSim describes, if it is one.

    Raise InputError for a header that is cut, contradicts itself, or has no object, size or time.
    """
    hint = "check the file, or write it again with libCacheSim"
    if not head.startswith(LCS_MAGIC.to_bytes(8, "little")):
        return None
    if len(head) < LCS_HEADER.itemsize:
        message = f"{name}: an lcs trace that ends within its header, at byte {len(head):,}"
        raise InputError(message, hint=hint)
    header = np.frombuffer(head, LCS_HEADER, 1)[0]
    kinds = header["format"].decode("ascii", "replace").removeprefix("<")
    names = {int(header["fields"][at]): name for name, at in LCS_FIELDS.items()}
    known = [(names.get(n, f"_{n}"), LCS_KINDS.get(kind, "")) for n, kind in enumerate(kinds, 1)]
    found = {name for name, _ in known}
    is_whole = all(kind for _, kind in known) and {"object", "size", "time"} <= found
    is_whole &= header["end_magic"] == LCS_MAGIC
    if not is_whole or np.dtype(known).itemsize != header["item_bytes"]:
        fields = f"fields {kinds!r} of {header['item_bytes']} bytes"
        raise InputError(f"{name}: the header of this lcs trace is wrong: {fields}", hint=hint)
    return OracleFormat(LCS, np.dtype(known), LCS_HEADER.itemsize, "its header")


V1 = [
    ("serial", "<u4"), ("length", "<u4"), ("segments", "<u4"), ("command", "<u2"),
    ("version", "<u2"), ("sector", "<u8"), ("time", "<u8"),
]  # fmt: skip
V2 = [
    ("command", "<u2"), ("version", "<u2"), ("serial", "<u4"), ("length", "<u4"),
    ("segments", "<u4"), ("sector", "<u8"), ("time", "<u8"), ("response", "<u8"),
]  # fmt: skip
OPERATIONS = {
    **dict.fromkeys((0x08, 0x28, 0xA8, 0x88), "read"),
    **dict.fromkeys((0x0A, 0x2A, 0xAA, 0x8A), "write"),
    **dict.fromkeys((0x35, 0x91), "flush"),
    0x42: "discard",
}
"""SCSI operation codes of 6, 10, 12 and 16 bytes."""
KINDS = [*dict.fromkeys(OPERATIONS.values()), "other"]
CODES = np.full(1 << 16, KINDS.index("other"), np.int64)
CODES[list(OPERATIONS)] = [KINDS.index(name) for name in OPERATIONS.values()]
VSCSI_CHECKED_RECORDS = 2000


class VscsiFormat:
    """One of the two versions; length is in bytes, place in sectors of 512 bytes, time in us."""

    evidence = "the first records"
    header_bytes = 0
    has_operations = True
    assumes = ""

    def __init__(self, version: int) -> None:
        self.name = f"vscsi{version}"
        self.version = version
        self.fields = V1 if version == 1 else V2
        self.record_bytes = 32 if version == 1 else 40
        response = "us" if version == 2 else None
        self.units = Units("us", "sectors", "bytes", response=response)

    def matches(self, head: bytes) -> bool:
        """Say whether the first records are all of this version, and one is a known command.

        One record alone must be the whole file, and of a known command.
        """
        count = min(len(head) // self.record_bytes, VSCSI_CHECKED_RECORDS)
        records = np.frombuffer(head, np.dtype(self.fields), count)
        known = np.isin(records["command"], list(OPERATIONS))
        if count == 1 and (len(head) != self.record_bytes or not known.all()):
            return False
        return count > 0 and bool(((records["version"] >> 8) == self.version).all() and known.any())

    def decode(self, block: bytes | memoryview) -> Columns:
        """Decode whole records."""
        records = np.frombuffer(block, np.dtype(self.fields))
        stored = {"time": "time", "offset": "sector", "length": "length"}
        stored |= {"response": "response"} if self.version == 2 else {}
        numbers = {name: records[field].astype(np.int64) for name, field in stored.items()}
        op = text_column(CODES[records["command"]], KINDS)
        return Columns(numbers=numbers, words={"op": op}, rows=len(records))
