"""Trace folders whose extents and traffic are given, and the study's devices."""

from collections.abc import Sequence
from pathlib import Path

from tests.analyzers.folder import make
from tracekit.model.tier_mixes import Tier
from tracekit.store import TraceFolder

PCM = Tier("ssd-pcm", 6.7, 128.3, 24.0, 2662.0, 200.0)
FLASH = Tier("ssd-emlc", 108.0, 37.1, 6.0, 1200.0, 600.0)
DISK = Tier("hdd-15k", 5000.0, 5000.0, 1.0, 155.0, 155.0)
EXTENT_SECTORS = 128  # the smallest extents, of 64 KiB

# Second, operation, extent, bytes.
Access = tuple[int, str, int, int]


def tier_trace(path: Path, accesses: Sequence[Access], *, role: str = "fs") -> TraceFolder:
    """Write a trace that makes these accesses, each at the start of its extent."""
    rows = [
        {
            "queue_ns": str(second * 10**9),
            "operation": operation,
            "sector": str(extent * EXTENT_SECTORS),
            "length_bytes": str(length_bytes),
            "role": role,
        }
        for second, operation, extent, length_bytes in accesses
    ]
    return make(path, {"requests": rows})
