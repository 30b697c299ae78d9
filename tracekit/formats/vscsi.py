"""vscsi traces of VMware machines (CloudPhysics), versions 1 and 2: fixed little-endian records."""

from __future__ import annotations

from typing import Any

from tracekit.formats.foreign import Columns, Units

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
CHECKED_RECORDS = 2000


class VscsiFormat:
    """One of the two versions; length is in bytes, place in sectors of 512 bytes, time in us."""

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
        import numpy as np

        count = min(len(head) // self.record_bytes, CHECKED_RECORDS)
        records = np.frombuffer(head, np.dtype(self.fields), count)
        known = np.isin(records["command"], list(OPERATIONS))
        if count == 1 and (len(head) != self.record_bytes or not known.all()):
            return False
        return count > 0 and bool(((records["version"] >> 8) == self.version).all() and known.any())

    def decode(self, block: bytes | memoryview) -> Columns:
        """Decode whole records."""
        import numpy as np

        from tracekit.columns import text_column

        records = np.frombuffer(block, np.dtype(self.fields))
        names = [*dict.fromkeys(OPERATIONS.values()), "other"]
        lookup = np.full(1 << 16, names.index("other"), np.int64)
        for code, name in OPERATIONS.items():
            lookup[code] = names.index(name)
        numbers: dict[str, Any] = {
            name: records[stored].astype(np.int64)
            for name, stored in (("time", "time"), ("offset", "sector"), ("length", "length"))
        }
        if self.version == 2:
            numbers["response"] = records["response"].astype(np.int64)
        op = text_column(lookup[records["command"]], names)
        return Columns(numbers=numbers, words={"op": op}, rows=len(records))
