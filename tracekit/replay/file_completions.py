"""Turns the file program's records into Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit import store
from tracekit.native.file_results import columns_of, read_results
from tracekit.plan.captured import NO_ID
from tracekit.schema.file_operations import FILE_COMPLETIONS, FILE_OPERATION_NAMES

if TYPE_CHECKING:
    import pyarrow as pa


def write_file_completions(results: Path, table: Path) -> int:
    """Convert the program's file to the table FILE_COMPLETIONS and return the number of rows."""
    return store.write_batches(table, _batches(results), schema=FILE_COMPLETIONS)


def _batches(results: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for found in read_results(results):
        made = columns_of(found[found["operation_id"] < NO_ID], words=FILE_OPERATION_NAMES)
        columns = [made[name] for name in FILE_COMPLETIONS.names]
        yield pa.RecordBatch.from_arrays(columns, schema=FILE_COMPLETIONS)
