"""Small classified trace folders for the cache simulation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit.classify import ClassifyOptions, classify
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import REQUESTS, SCHEMA_VERSION

NAMES = ("sda", "sdb", "sdc")
Request = tuple[str, int, int]  # operation, first 4 KiB block, blocks


def make_trace(
    path: Path, requests: Sequence[Request], *, devices: int = 1, names: Sequence[str] = NAMES
) -> TraceFolder:
    """Write requests and classify them; with several devices they take turns.

    The file system has the first 1,000 blocks of a device, the journal the others.
    """
    path.mkdir()
    rows = [_row(number, request, names[:devices]) for number, request in enumerate(requests)]
    write_table(path / "requests.parquet", pa.Table.from_pylist(rows, REQUESTS))
    write_json(path / "trace.json", _info(names[:devices], len(rows)))
    folder = TraceFolder(path)
    classify(folder, ClassifyOptions())
    return TraceFolder(path)


def _row(number: int, request: Request, names: Sequence[str]) -> dict[str, Any]:
    operation, block, blocks = request
    values: dict[str, Any] = {
        "request_id": number,
        "queue_ns": number * 1000,
        "device": names[number % len(names)],
        "sector": block * 8,
        "length_bytes": blocks * 4096,
        "operation": operation,
        "role": "unknown",
    }
    for column in REQUESTS:
        if column.name not in values:
            empty = False if pa.types.is_boolean(column.type) else 0
            values[column.name] = None if column.nullable else empty
    return values


def _info(names: Sequence[str], requests: int) -> dict[str, Any]:
    parts = (("fs", 0, 8_000), ("journal", 8_000, 8_000))
    return {
        "schema": SCHEMA_VERSION,
        "tool": {"tracekit": "0.1.0"},
        "source": {"format": "blktrace", "kernel": None, "files": []},
        "clock": {"base_ns": 0, "wall_ns": None, "duration_ns": requests * 1000},
        "devices": [
            {
                "device": name,
                "major": 8,
                "minor": 16 * index,
                "size_sectors": 16_000,
                "logical_sector_bytes": 512,
                "rotational": None,
            }
            for index, name in enumerate(names)
        ],
        "layout": [
            {
                "device": name,
                "partition": f"8,{16 * index + part + 1}",
                "name": f"{name}{part + 1}",
                "start_sector": start,
                "sectors": sectors,
                "role": role,
                "filesystem": None,
                "mount": None,
                "evidence": "layout.json",
            }
            for index, name in enumerate(names)
            for part, (role, start, sectors) in enumerate(parts)
        ],
        "counts": {"records": requests, "requests": requests, "actions": {}},
        "loss": {},
        "inferences": [],
        "warnings": [],
    }
