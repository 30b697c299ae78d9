"""Binary formats of fixed records: oracleGeneral of cache simulators and vscsi of VMware."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracekit.arrow import text_column
from tracekit.errors import InputError
from tracekit.formats import ORACLE_RECORD
from tracekit.readers.units import Columns, Units

NEVER = (-1, (1 << 63) - 1)
ORACLE_CHECKED_RECORDS = 1000
LARGEST_SIZE_BYTES = 1 << 30
LARGEST_NEXT = 1 << 40
LARGEST_PLACE = (1 << 63) - 1
MOST_OUTLIERS_RATIO = 0.01
"""Of the records of a block: fewer objects too large for a place are wrong records."""


class OracleFormat:
    """Little-endian records: u32 s, u64 object, u32 bytes, i64 number of its next access."""

    name = "oracleGeneral"
    record_bytes = 24
    evidence = "the first records"
    units = Units("s", "sectors", "bytes")

    def matches(self, head: bytes) -> bool:
        """Say whether the first records agree: times in order, next accesses that lie ahead.

        Where a next access lies within the head, it must be of the same object; the numbering
        starts from 0 or from 1.
        """
        count = min(len(head) // self.record_bytes, ORACLE_CHECKED_RECORDS)
        records = np.frombuffer(head, ORACLE_RECORD, count)
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
        records = np.frombuffer(block, ORACLE_RECORD)
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
        return Columns(numbers=numbers, words={}, rows=len(records))


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
