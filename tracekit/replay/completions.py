"""Turns the program's completion records into Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit._native.players import columns_of, read_results
from tracekit.arrow import number_column, text_column
from tracekit.errors import InputError
from tracekit.replay.captured import NO_ID
from tracekit.safe_open import open_regular
from tracekit.store import write_batches
from tracekit.tables import COMPLETIONS, FILE_COMPLETIONS, FILE_OPERATION_NAMES

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
    "unknown",
)


def write_completions(records: Path, table: Path, *, is_timed: bool) -> int:
    """Convert the program's file to the table COMPLETIONS and return the number of rows.

    Without intended times, in a run as fast as possible, the column is null.
    """

    def batch(rows: Any) -> pa.RecordBatch:
        columns = {
            field.name: number_column(rows[field.name].astype(field.type.to_pandas_dtype()))
            for field in COMPLETIONS
            if field.name != "status"
        }
        if not is_timed:
            columns["intended_ns"] = pa.nulls(len(rows), pa.int64())
        columns["status"] = text_column(rows["status"].astype(np.int32), STATUSES)
        return pa.RecordBatch.from_pydict(columns, COMPLETIONS)

    return write_batches(table, map(batch, read_records(records)), schema=COMPLETIONS)


def is_complete(records: Path) -> bool:
    """Say whether the program has written all of its file, of either kind."""
    if not records.is_file() or records.is_symlink():
        return False
    with os.fdopen(open_regular(records), "rb") as file:
        head = file.read(HEADER.itemsize)
    if len(head) < HEADER.itemsize:
        return False
    header = np.frombuffer(head, HEADER)[0]
    size = HEADER.itemsize + int(header["record_count"]) * int(header["record_bytes"])
    return bool(header["is_complete"]) and records.stat().st_size == size


def read_records(records: Path) -> Iterator[Any]:
    """Yield the program's records in arrays of at most CHUNK_RECORDS.

    The last record of a program that was killed may be cut off, and is left out. Raises InputError
    for another file.
    """
    with os.fdopen(open_regular(records), "rb") as file:
        head = file.read(HEADER.itemsize).ljust(HEADER.itemsize, b"\0")
        header = np.frombuffer(head, HEADER)[0]
        if header["magic"] != MAGIC or header["record_bytes"] != RECORD.itemsize:
            raise InputError(f"{records} is no file of completions of this version")
        while data := file.read(CHUNK_RECORDS * RECORD.itemsize):
            yield np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)


def write_file_completions(results: Path, table: Path) -> int:
    """Convert the program's file to the table FILE_COMPLETIONS and return the number of rows."""

    def batch(rows: Any) -> pa.RecordBatch:
        columns = columns_of(rows[rows["operation_id"] < NO_ID], words=FILE_OPERATION_NAMES)
        chosen = [columns[name] for name in FILE_COMPLETIONS.names]
        return pa.RecordBatch.from_arrays(chosen, schema=FILE_COMPLETIONS)

    return write_batches(table, map(batch, read_results(results)), schema=FILE_COMPLETIONS)
