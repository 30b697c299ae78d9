"""Reads the results file of `tracekit-file-replay`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit._native import FILE_PROGRAM
from tracekit.arrow import array_of, words_of
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

MAGIC = b"TKFDON\r\n"
HEADER_BYTES = 64
BATCH_ROWS = 1 << 16
MOVES = ("read", "write")
RESULT = [
    *((name, "<u8") for name in ("operation_id", "start_ns", "end_ns")),
    ("result", "<i8"),
    ("thread", "<u4"),
    ("cycle", "<u4"),
    *((name, "u1") for name in ("operation", "step", "is_timed", "is_expected")),
    ("is_whole", "<u4"),
]


def read_results(file: Path) -> Iterator[NDArray[np.void]]:
    """Yield the records of a results file, as arrays of the fields of RESULT.

    Left out is what a program that was killed did not write, or not to the end.
    """
    import numpy as np

    with file.open("rb") as stream:
        if stream.read(HEADER_BYTES)[: len(MAGIC)] != MAGIC:
            raise TracekitError(f"{file} holds no results of {FILE_PROGRAM}")
        kind = np.dtype(RESULT)
        while data := stream.read(kind.itemsize * BATCH_ROWS):
            rows = np.frombuffer(data, kind, len(data) // kind.itemsize)
            yield rows if rows["is_whole"].all() else rows[rows["is_whole"] != 0]


def columns_of(rows: NDArray[np.void], *, words: Sequence[str]) -> dict[str, pa.Array]:
    """Return records as Arrow arrays by the names of tables; `words` are the names of operations.

    All fields but `step`, `is_whole` and `result`, which becomes `done_bytes` and `error`.
    """
    import numpy as np

    moves = np.isin(rows["operation"], [words.index(name) for name in MOVES])
    made = {
        "operation": words_of(rows["operation"].astype(np.int32), words),
        "done_bytes": array_of(rows["result"], valid=moves & (rows["result"] >= 0)),
        "error": array_of(np.maximum(-rows["result"], 0).astype(np.int32)),
    }
    for name in ("thread", "cycle"):
        made[name] = array_of(rows[name].astype(np.int32))
    for name in ("operation_id", "start_ns", "end_ns"):
        made[name] = array_of(rows[name].astype(np.int64))
    for name in ("is_expected", "is_timed"):
        made[name] = array_of(rows[name] != 0)
    return made
