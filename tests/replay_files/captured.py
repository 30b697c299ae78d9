"""Trace folders of file operations written by hand."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.analyzers.folder import make
from tracekit.plans.file_plan import HEADER, NONE, OPERATIONS, RECORD, THREAD
from tracekit.store import TraceFolder

Row = dict[str, Any]


def trace(place: Path, files: list[Row], operations: list[Row]) -> TraceFolder:
    """Write a trace; operations take `ns` nanoseconds from `start_ns`, 10 by default."""
    rows = []
    for number, given in enumerate(operations):
        row: Row = {"operation_id": number, "tid": 1, "start_ns": 100 * number}
        row |= {"length_bytes": None} | given
        row.setdefault("end_ns", row["start_ns"] + row.pop("ns", 10))
        rows.append(row)
    known = [
        {"file_id": number, "kind": "file", "evidence": "stat", **given}
        for number, given in enumerate(files)
    ]
    return make(place, {"files": _texts(known), "file_operations": _texts(rows)})


def _texts(rows: list[Row]) -> list[dict[str, str]]:
    return [
        {
            name: str(value).lower()
            if isinstance(value, bool)
            else str("" if value is None else value)
            for name, value in row.items()
        }
        for row in rows
    ]


def read_plan(plan: Path) -> list[list[Row]]:
    """Return the records of each thread, with names of operations; 2^32 - 1 is None."""
    data = plan.read_bytes()
    header = np.frombuffer(data, HEADER, 1)[0]
    records = np.frombuffer(data, RECORD, int(header["record_count"]), HEADER.itemsize)
    end = HEADER.itemsize + records.nbytes
    rows = [
        {
            name: None if record[name] == NONE else int(record[name])
            for name in RECORD.names or ()
            if name not in ("reserved", "operation")
        }
        | {"operation": OPERATIONS[record["operation"]]}
        for record in records
    ]
    threads = np.frombuffer(data, THREAD, int(header["thread_count"]), end)
    return [rows[int(t["first"]) : int(t["first"] + t["count"])] for t in threads]
