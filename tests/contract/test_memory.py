"""Reading a table takes no more memory the longer it is."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.house.tree import files
from tracekit.arrow import read_batches

ROWS, GROUPS = 1 << 17, 48


def test_row_groups_that_are_read_are_held_no_more(tmp_path: Path) -> None:
    # GIVEN 48 row groups of numbers that no code makes smaller, 1 MiB each
    values = np.random.default_rng(1).integers(0, 1 << 62, ROWS * GROUPS)
    pq.write_table(pa.table({"value": values}), tmp_path / "long.parquet", row_group_size=ROWS)
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    # WHEN all of them are read, and none is kept
    for batch in read_batches(tmp_path / "long.parquet", ["value"]):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    # THEN a few are in memory at a time
    assert rows == len(values)
    assert most < 8 * ROWS * values.itemsize


def test_tables_are_read_in_one_place() -> None:
    # (Arrow's own batches of a whole file hold what was read to the end)
    users = [
        file.name
        for file in files("*.py", under="tracekit")
        if re.search(r"\.iter_batches\(", file.read_text())
    ]
    assert users == ["arrow.py"]
