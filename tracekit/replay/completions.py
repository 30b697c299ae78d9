"""Turns the program's completion records into Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit import store, tables
from tracekit._native.players import columns_of, read_results
from tracekit.errors import InputError
from tracekit.replay.captured import NO_ID
from tracekit.tables import FILE_COMPLETIONS, FILE_OPERATION_NAMES

MAGIC = b"TKDONE\r\n"
CHUNK_RECORDS = 1 << 18
HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("record_bytes", "<u4"),
        ("is_complete", "<u4"),
        ("record_count", "<u8"),
        ("reserved", "V32"),
    ]
)
RECORD = np.dtype(
    [
        ("request_id", "<u8"),
        ("intended_ns", "<u8"),
        ("submit_ns", "<u8"),
        ("complete_ns", "<u8"),
        ("error", "<i4"),
        ("target", "<u2"),
        ("status", "u1"),
        ("operation", "u1"),
    ]
)
ROW_BYTES = 9
"""About what a request takes in the table: up to 8.6 bytes where all its times differ."""
STATUSES = (
    "done",
    "failed",
    "skipped_read_only",
    "skipped_out_of_range",
    "skipped_unsupported",
    "skipped_late",
    "skipped_overlap",
)


def write_completions(records: Path, table: Path, *, is_timed: bool) -> int:
    """Convert the program's file to the table COMPLETIONS and return the number of rows.

    Without intended times, in a run as fast as possible, the column is null.
    """
    return store.write_batches(
        table,
        (_batch(rows, is_timed=is_timed) for rows in read_records(records)),
        schema=tables.COMPLETIONS,
    )


def read_records(records: Path) -> Iterator[Any]:
    """Yield the program's records in arrays of at most CHUNK_RECORDS.

    The last record of a program that was killed may be cut off, and is left out. Raises InputError
    for another file.
    """
    with records.open("rb") as file:
        header = np.frombuffer(file.read(HEADER.itemsize), HEADER)[0]
        if header["magic"] != MAGIC or header["record_bytes"] != RECORD.itemsize:
            raise InputError(f"{records} is no file of completions of this version")
        while data := file.read(CHUNK_RECORDS * RECORD.itemsize):
            yield np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)


def _batch(rows: Any, *, is_timed: bool) -> Any:
    columns: dict[str, Any] = {
        name: pa.array(rows[name].astype(np.int64))
        for name in ("request_id", "intended_ns", "submit_ns", "complete_ns")
    }
    if not is_timed:
        columns["intended_ns"] = pa.nulls(len(rows), pa.int64())
    columns["error"] = pa.array(np.ascontiguousarray(rows["error"]))
    columns["target"] = pa.array(rows["target"].astype(np.int32))
    columns["status"] = pa.DictionaryArray.from_arrays(
        pa.array(rows["status"].astype(np.int32)), pa.array(STATUSES)
    )
    return pa.record_batch([columns[name] for name in tables.COMPLETIONS.names], tables.COMPLETIONS)


def write_file_completions(results: Path, table: Path) -> int:
    """Convert the program's file to the table FILE_COMPLETIONS and return the number of rows."""
    return store.write_batches(table, _batches(results), schema=FILE_COMPLETIONS)


def _batches(results: Path) -> Iterator[pa.RecordBatch]:
    for found in read_results(results):
        made = columns_of(found[found["operation_id"] < NO_ID], words=FILE_OPERATION_NAMES)
        columns = [made[name] for name in FILE_COMPLETIONS.names]
        yield pa.RecordBatch.from_arrays(columns, schema=FILE_COMPLETIONS)
