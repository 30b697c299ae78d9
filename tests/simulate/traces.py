"""Trace folders for simulations: by blocks and roles for caches, by extents for tiers."""

from collections.abc import Sequence
from pathlib import Path

from tests.traces import disk, partition, write_folder
from tracekit.classify import ClassifyOptions, classify
from tracekit.model.tier_mixes import Tier
from tracekit.store import TraceFolder

PAGE = 4096
NAMES = ("sda", "sdb", "sdc")
Request = tuple[str, int, int]  # operation, first 4 KiB block, blocks

PCM = Tier("ssd-pcm", 6.7, 128.3, 24.0, 2662.0, 200.0)
FLASH = Tier("ssd-emlc", 108.0, 37.1, 6.0, 1200.0, 600.0)
DISK = Tier("hdd-15k", 5000.0, 5000.0, 1.0, 155.0, 155.0)
EXTENT_SECTORS = 128  # the smallest extents, of 64 KiB

Access = tuple[int, str, int, int]  # second, operation, extent, bytes


def make_trace(
    path: Path, requests: Sequence[Request], *, devices: int = 1, second: str = "journal",
    names: Sequence[str] = NAMES,
) -> TraceFolder:  # fmt: skip
    """Write requests and classify them; with several devices they take turns.

    The file system has the first 1,000 blocks of a device, the `second` role the others.
    """
    names = names[:devices]
    rows = [
        {
            "queue_ns": at * 1000,
            "device": names[at % devices],
            "sector": block * 8,
            "length_bytes": blocks * PAGE,
            "operation": operation,
        }
        for at, (operation, block, blocks) in enumerate(requests)
    ]
    layout = [
        partition(name, part, role, sectors, partition=f"8,{16 * index + part}")
        for index, name in enumerate(names)
        for part, role, sectors in ((1, "fs", range(8_000)), (2, second, range(8_000, 16_000)))
    ]
    folder = write_folder(
        path,
        rows,
        tool={"tracekit": "0.1.0"},
        source={"format": "blktrace", "kernel": None, "files": []},
        clock={"base_ns": 0, "wall_ns": None, "duration_ns": len(rows) * 1000},
        devices=[disk(name, 16_000, minor=16 * at) for at, name in enumerate(names)],
        layout=layout,
        counts={"records": len(rows), "requests": len(rows), "actions": {}},
        loss={},
        inferences=[],
        warnings=[],
    )
    classify(folder, ClassifyOptions())
    return TraceFolder(path)


def tier_trace(path: Path, accesses: Sequence[Access], *, role: str = "fs") -> TraceFolder:
    """Write a trace that makes these accesses, each at the start of its extent."""
    rows = [
        {
            "queue_ns": second * 10**9,
            "operation": operation,
            "sector": extent * EXTENT_SECTORS,
            "length_bytes": length_bytes,
            "role": role,
        }
        for second, operation, extent, length_bytes in accesses
    ]
    return write_folder(path, rows)
