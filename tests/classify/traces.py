"""Small trace folders, written row by row."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import REQUESTS, SCHEMA_VERSION

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


def request_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows of REQUESTS, a millisecond apart unless they say when."""
    complete = []
    for number, row in enumerate(rows):
        values: dict[str, Any] = {
            field.name: None if field.nullable else False if pa.types.is_boolean(field.type) else 0
            for field in REQUESTS
        }
        values |= {"request_id": number, "queue_ns": number * 1_000_000, "device": "sda"}
        values |= {"role": "unknown", "depth": 1}
        complete.append(values | row)
    return pa.Table.from_pylist(complete, REQUESTS)


def trace(
    path: Path, rows: list[dict[str, Any]], layout: list[dict[str, Any]] | None = None
) -> TraceFolder:
    """Write a trace folder with these requests and this layout."""
    path.mkdir()
    write_table(path / "requests.parquet", request_table(rows))
    write_json(
        path / "trace.json",
        {
            "schema": SCHEMA_VERSION,
            "devices": [{"device": "sda", "major": 8, "minor": 0, "size_sectors": 1 << 20}],
            "layout": layout or [],
            "inferences": [{"what": "clock", "value": "unknown", "evidence": "none"}],
            "warnings": [],
        },
    )
    return TraceFolder(path)


def roles_of(folder: TraceFolder) -> list[str]:
    """Return the role of each request."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder.table("requests"), columns=["role"])
    return [str(role) for role in table["role"].to_pylist()]


def table_rows(folder: TraceFolder, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(folder.table(name)).to_pylist()
    return rows
