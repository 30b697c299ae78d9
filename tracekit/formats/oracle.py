"""oracleGeneral files of cache simulators: 24-byte records of time, object, size, next access.

They have neither operations nor devices: each access is a read. An object's number is taken as its
place in sectors, unless the user gives another unit.
"""

from __future__ import annotations

from typing import Any

from tracekit.errors import InputError
from tracekit.formats.foreign import Columns, Units

RECORD = [("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")]
NEVER = (-1, (1 << 63) - 1)
CHECKED_RECORDS = 1000
LARGEST_SIZE_BYTES = 1 << 30
LARGEST_NEXT = 1 << 40
LARGEST_PLACE = (1 << 63) - 1
MOST_STRAYS_RATIO = 0.01
"""Of the records of a block: fewer objects too large for a place are wrong records."""


class OracleFormat:
    """Little-endian records: u32 s, u64 object, u32 bytes, i64 number of its next access."""

    name = "oracleGeneral"
    record_bytes = 24
    units = Units("s", "sectors", "bytes")

    def matches(self, head: bytes) -> bool:
        """Say whether the first records agree: times in order, next accesses that lie ahead.

        Where a next access lies within the head, it must be of the same object; the numbering
        starts from 0 or from 1.
        """
        import numpy as np

        count = min(len(head) // self.record_bytes, CHECKED_RECORDS)
        records = np.frombuffer(head, np.dtype(RECORD), count)
        if count < 2 or (np.diff(records["time"].astype(np.int64)) < 0).any():
            return False
        following, place = records["next"], np.arange(count)
        is_last = np.isin(following, NEVER)
        ahead = (following > place) & (following < LARGEST_NEXT)
        if not (is_last | ahead).all() or (records["size"] > LARGEST_SIZE_BYTES).any():
            return False
        return any(self._agrees(records, base) for base in (0, 1))

    def _agrees(self, records: Any, base: int) -> bool:
        import numpy as np

        has_next = ~np.isin(records["next"], NEVER)
        place, following = np.flatnonzero(has_next), records["next"][has_next] - base
        inside = following < len(records)
        same = records["object"][following[inside]] == records["object"][place[inside]]
        return bool((following > place).all() and same.all())

    def decode(self, block: bytes | memoryview) -> Columns:
        """Decode whole records; raise InputError for objects that cannot be places."""
        import numpy as np

        from tracekit.columns import text_column

        records = np.frombuffer(block, np.dtype(RECORD))
        largest = int(records["object"].max())
        if (records["object"] > LARGEST_PLACE // 512).sum() > MOST_STRAYS_RATIO * len(records):
            raise InputError(
                f"object {largest} is too large for a place: the objects are hashes or keys",
                hint="import a trace of blocks; places of this one were lost when it was made",
            )
        numbers = {
            "time": records["time"].astype(np.int64),
            "offset": records["object"].astype(np.int64),
            "length": records["size"].astype(np.int64),
        }
        op = text_column(np.zeros(len(records), np.int64), ["read"])
        return Columns(numbers=numbers, words={"op": op}, rows=len(records))
