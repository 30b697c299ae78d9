"""Trace folders of file operations written by hand."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.analyzers.folder import make
from tracekit.plans.file_plan import HEADER, OPERATIONS, RECORD, THREAD
from tracekit.store import TraceFolder

Row = dict[str, Any]


def trace(place: Path, files: list[Row], operations: list[Row]) -> TraceFolder:
    """Write a trace; operations take `ns` nanoseconds from `start_ns`, 10 by default."""
    rows = []
    for number, given in enumerate(operations):
        row: Row = {
            "operation_id": number,
            "tid": 1,
            "start_ns": 100 * number,
            "length_bytes": None,
        }
        row |= given
        row.setdefault("end_ns", row["start_ns"] + row.pop("ns", 10))
        rows.append({name: _text(value) for name, value in row.items()})
    known = [
        {"file_id": number, "kind": "file", "evidence": "stat", **given}
        for number, given in enumerate(files)
    ]
    texts = [{name: _text(value) for name, value in row.items()} for row in known]
    return make(place, {"files": texts, "file_operations": rows})


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_plan(plan: Path) -> list[list[Row]]:
    """Return the records of each thread, with names of operations; 2^32 - 1 is None."""
    data = plan.read_bytes()
    header = np.frombuffer(data[: HEADER.itemsize], HEADER)[0]
    end = HEADER.itemsize + RECORD.itemsize * int(header["record_count"])
    records = np.frombuffer(data[HEADER.itemsize : end], RECORD)
    threads = np.frombuffer(data[end : end + THREAD.itemsize * int(header["thread_count"])], THREAD)
    rows = [
        {
            name: None if record[name] == 0xFFFFFFFF else int(record[name])
            for name in RECORD.names or ()
            if name not in ("reserved", "operation")
        }
        | {"operation": OPERATIONS[record["operation"]]}
        for record in records
    ]
    return [rows[int(t["first"]) : int(t["first"] + t["count"])] for t in threads]
