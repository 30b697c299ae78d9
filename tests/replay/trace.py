"""Trace folders of a few rows, written by hand, and the plans that are made of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit import store
from tracekit.plans import Records, block_plan
from tracekit.replay.compiler import PlanOptions, PlanReport, compile_plan
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
ROWS: list[dict[str, Any]] = [
    {"queue_ns": 0, "sector": 2048, "role": "fs"},
    {"queue_ns": 50_000, "sector": 200_000, "role": "journal", "is_preflush": True, "is_fua": True},
    {"queue_ns": 60_000, "operation": "flush", "length_bytes": 0, "role": "journal"},
    {"queue_ns": 900_000, "sector": 2056, "role": "fs", "operation": "read"},
]


def trace(path: Path, rows: list[dict[str, Any]], *, row_group_rows: int = 1 << 20) -> TraceFolder:
    """Write a trace folder whose rows are ROW but for the given columns; ids are positions."""
    full = [{**ROW, "request_id": number, **row} for number, row in enumerate(rows)]
    path.mkdir()
    table = pa.Table.from_pylist(full, REQUESTS)
    pq.write_table(table, path / "requests.parquet", row_group_size=row_group_rows)
    source = {"format": "test", "files": [{"name": "a", "bytes": 1, "sha256": "ab" * 32}]}
    info = {"schema": SCHEMA_VERSION, "source": source, "layout": LAYOUT, "devices": []}
    store.write_json(path / "trace.json", info)
    return TraceFolder(path)


def compiled(folder: TraceFolder, **options: Any) -> tuple[Records, PlanReport]:
    """Return the records of the folder's plan, and what is reported of it."""
    plan = folder.path / "plan.bin"
    plan.unlink(missing_ok=True)
    report = compile_plan(folder, plan, options=PlanOptions(**options))
    offset = block_plan.HEADER.itemsize
    return np.fromfile(plan, block_plan.RECORD, report.requests, offset=offset), report
