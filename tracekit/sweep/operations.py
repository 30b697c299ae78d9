"""Keeps every operation of a sweep's runs: one Parquet file a run, one row an operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.arrow import words_of
from tracekit.native.file_results import columns_of, read_results
from tracekit.plan.files import NO_STEP, OPERATIONS
from tracekit.schema.file_runs import SWEEP_OPERATIONS
from tracekit.store import write_batches

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = "files/operations"


def write_operations(path: Path, results: Path, *, steps: Sequence[str]) -> None:
    """Write the rows of a results file; `steps` are the labels of the plan, in its order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_batches(path, _batches(results, steps), schema=SWEEP_OPERATIONS)


def _batches(results: Path, steps: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import numpy as np
    import pyarrow as pa

    for rows in read_results(results):
        step = rows["step"].astype(np.int32)
        made = columns_of(rows, words=OPERATIONS) | {
            "step": words_of(np.where(step == NO_STEP, -1, step), steps)
        }
        columns = [made[name] for name in SWEEP_OPERATIONS.names]
        yield pa.RecordBatch.from_arrays(columns, schema=SWEEP_OPERATIONS)
