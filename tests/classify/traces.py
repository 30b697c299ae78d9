"""Small trace folders, written row by row."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.traces import Row, rows_of, write_folder
from tracekit.classify import ClassifyOptions, classify
from tracekit.store import TraceFolder

FS = {"start_sector": 2048, "sectors": 8192, "name": "sda1", "partition": "8,1", "role": "fs"}
JOURNAL = {
    "start_sector": 10240,
    "sectors": 4096,
    "name": "sda2",
    "partition": "8,2",
    "role": "journal",
}
SWAP = {"start_sector": 14336, "sectors": 4096, "name": "sda3", "partition": "8,3", "role": "swap"}


def entry(region: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a layout entry on sda."""
    given = {"device": "sda", "filesystem": None, "mount": None, "evidence": "layout"}
    return {**given, **region, **changes}


def write(sector: int, blocks: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a write of whole 4 KiB blocks."""
    return {"operation": "write", "sector": sector, "length_bytes": blocks * 4096, **changes}


def read(sector: int, blocks: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a read of whole 4 KiB blocks."""
    return {"operation": "read", "sector": sector, "length_bytes": blocks * 4096, **changes}


def flush(**changes: Any) -> dict[str, Any]:
    """Return an empty flush."""
    return {"operation": "flush", "sector": 0, "length_bytes": 0, **changes}


def trace(path: Path, rows: Sequence[Row], layout: Sequence[Row] = ()) -> TraceFolder:
    """Write a trace folder of requests, a millisecond apart unless they say when."""
    timed = [{"queue_ns": at * 1_000_000, **row} for at, row in enumerate(rows)]
    return write_folder(
        path,
        timed,
        devices=[{"device": "sda", "major": 8, "minor": 0, "size_sectors": 1 << 20}],
        layout=list(layout),
        inferences=[{"what": "clock", "value": "unknown", "evidence": "none"}],
        warnings=[],
    )


def classified(
    tmp_path: Path, rows: Sequence[Row], layout: Sequence[Row] = (), **options: Any
) -> tuple[TraceFolder, Row]:
    """Classify a new trace; return its folder and the result."""
    folder = trace(tmp_path / "t", rows, layout)
    return folder, classify(folder, ClassifyOptions(**options))


def roles_of(folder: TraceFolder) -> list[str]:
    """Return the role of each request."""
    return [row["role"] for row in rows_of(folder.table("requests"))]
