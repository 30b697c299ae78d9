"""Trace folders of a few rows, written by hand."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit import store
from tracekit.store import TraceFolder
from tracekit.tables import REQUESTS, SCHEMA_VERSION

LAYOUT = [
    {"device": "sda", "partition": "8,1", "start_sector": 2048, "sectors": 100_000, "role": "fs"},
    {"device": "sda", "partition": "8,2", "start_sector": 200_000, "sectors": 4096,
     "role": "journal"},
    {"device": "sda", "partition": "8,3", "start_sector": 300_000, "sectors": 8192, "role": "swap"},
]  # fmt: skip
ROW: dict[str, Any] = {
    "queue_ns": 0, "getrq_ns": None, "insert_ns": None, "merge_ns": None, "issue_ns": None,
    "complete_ns": None, "device": "sda", "sector": 0, "length_bytes": 4096, "operation": "write",
    "is_sync": False, "is_meta": False, "is_fua": False, "is_preflush": False,
    "is_readahead": False, "process": "p", "pid": 1, "cpu": 0, "error": 0, "merged_into": None,
    "requeue_count": 0, "split_count": 0, "depth": 1, "partition": None, "role": "unknown",
}  # fmt: skip


def trace(path: Path, rows: list[dict[str, Any]], *, row_group_rows: int = 1 << 20) -> TraceFolder:
    """Write a trace folder whose rows differ from ROW as told; ids are positions."""
    import pyarrow.parquet as pq

    full = [{**ROW, "request_id": number, **row} for number, row in enumerate(rows)]
    path.mkdir()
    table = pa.Table.from_pylist(full, REQUESTS)
    pq.write_table(table, path / "requests.parquet", row_group_size=row_group_rows)
    source = {"format": "test", "files": [{"name": "a", "bytes": 1, "sha256": "ab" * 32}]}
    info = {"schema": SCHEMA_VERSION, "source": source, "layout": LAYOUT, "devices": []}
    store.write_json(path / "trace.json", info)
    return TraceFolder(path)
