"""Reads the operations of a captured trace that can be in a plan."""

from __future__ import annotations

import errno
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import InputError
from tracekit.plan.captured_tree import MADE_BY, Tree
from tracekit.plan.files import APPEND, CODES, DIRECT, EXCLUSIVE, SYNC, TRUNCATE, UNTIMED
from tracekit.schema.file_operations import FILE_OPERATION_NAMES
from tracekit.store import TraceFolder

BATCH_ROWS = 1 << 17
MOST_OPERATIONS = 8_000_000
"""That are compiled at a time: they are kept in memory."""
ROWS = np.dtype(
    [
        *((name, "<i8") for name in ("operation_id", "start_ns", "end_ns", "offset", "length")),
        *((name, "<i8") for name in ("file", "other", "handle", "pid", "tid")),
        ("error", "<i4"),
        ("flags", "<i4"),
        ("operation", "<i4"),
    ]
)
Rows = npt.NDArray[np.void]
FLAGS = {
    "is_direct": DIRECT,
    "is_sync": SYNC,
    "is_append": APPEND,
    "is_exclusive": EXCLUSIVE,
    "is_truncate": TRUNCATE,
}
UNSEEN = ("mmap", "munmap", "msync")
"""What is touched in a mapping is not in the trace."""
REPEATABLE_ERRORS = (0, errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)


def read_rows(folder: TraceFolder, tree: Tree, *, limit: int | None) -> tuple[Rows, dict[str, int]]:
    """Return the first `limit` operations that can be replayed, and how many cannot by reason."""
    import pyarrow.parquet as pq

    skipped: dict[str, int] = {}
    kept: list[Rows] = []
    left = MOST_OPERATIONS + 1 if limit is None else limit
    with pq.ParquetFile(folder.require("file_operations", made_by=MADE_BY)) as table:
        for batch in table.iter_batches(BATCH_ROWS):
            rows = _chosen(batch, tree, skipped)[:left]
            kept.append(rows)
            left -= len(rows)
            if left <= 0:
                break
    if limit is None and left <= 0:
        raise InputError(
            f"{folder.path}: more than {MOST_OPERATIONS:,} file operations",
            hint=f"replay the first with --limit {MOST_OPERATIONS}",
        )
    return (np.concatenate(kept) if kept else np.empty(0, ROWS)), skipped


def _chosen(batch: Any, tree: Tree, skipped: dict[str, int]) -> Rows:
    """Return a batch's rows that can be replayed; add the others to `skipped`."""
    rows = np.zeros(batch.num_rows, ROWS)
    rows["operation"] = _codes(batch.column("operation"))
    for name in ("operation_id", "start_ns", "pid", "tid", "error"):
        rows[name] = batch.column(name).to_numpy()
    for name, source in (("end_ns", "end_ns"), ("handle", "handle"), ("offset", "offset_bytes")):
        rows[name] = _filled(batch.column(source))
    length, done = _filled(batch.column("length_bytes")), _filled(batch.column("done_bytes"))
    rows["length"] = np.where(length < 0, np.maximum(done, 0), length)
    rows["file"], bad_file = _numbers(batch.column("file_id"), tree)
    rows["other"], bad_other = _numbers(batch.column("other_file_id"), tree)
    for name, bit in FLAGS.items():
        rows["flags"] |= np.where(batch.column(name).to_numpy(zero_copy_only=False), bit, 0)
    closed_itself = (rows["operation"] == CODES["close"]) & (rows["end_ns"] < 0)
    rows["flags"] |= np.where(closed_itself, UNTIMED, 0)
    reasons = [
        ("mapped memory is not seen", np.isin(rows["operation"], [CODES[n] for n in UNSEEN])),
        ("an error that another machine need not give", ~np.isin(rows["error"], REPEATABLE_ERRORS)),
        ("no plain file", bad_file | bad_other),
    ]
    is_out = np.zeros(len(rows), bool)
    for reason, applies in reasons:
        count = int((applies & ~is_out).sum())
        if count:
            skipped[reason] = skipped.get(reason, 0) + count
        is_out |= applies
    return rows[~is_out]


def _codes(column: Any) -> npt.NDArray[np.int64]:
    """Return the plan's codes of a dictionary column of operations."""
    words = column.dictionary.to_pylist()
    unknown = sorted(set(words) - set(FILE_OPERATION_NAMES))
    if unknown:
        raise InputError(f"file_operations has the operation {unknown[0]!r}", hint="capture again")
    codes = np.array([CODES[word] for word in words] or [0], np.int64)
    found: npt.NDArray[np.int64] = codes[column.indices.to_numpy()]
    return found


def _filled(column: Any) -> npt.NDArray[np.int64]:
    """Return a column's numbers with -1 for nulls."""
    import pyarrow.compute as pc

    found: npt.NDArray[np.int64] = pc.fill_null(column, -1).to_numpy()
    return found


def _numbers(column: Any, tree: Tree) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the plan's numbers of files, and whether there is a file without one."""
    ids = _filled(column)
    known, place = np.unique(ids, return_inverse=True)
    numbers = np.array([tree.number_of.get(int(one), -1) for one in known], np.int64)[place]
    return numbers, (ids >= 0) & (numbers < 0)
