"""Reads the results file of `tracekit-file-replay`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import TracekitError
from tracekit.native import FILE_PROGRAM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"TKFDON\r\n"
HEADER_BYTES = 64
BATCH_ROWS = 1 << 16
RESULT = [
    *((name, "<u8") for name in ("operation_id", "start_ns", "end_ns")),
    ("result", "<i8"),
    ("thread", "<u4"),
    ("cycle", "<u4"),
    *((name, "u1") for name in ("operation", "step", "is_timed", "is_expected")),
    ("reserved", "<u4"),
]


def read_results(file: Path) -> Iterator[NDArray[np.void]]:
    """Yield the records of a results file, as arrays of the fields of RESULT."""
    import numpy as np

    with file.open("rb") as stream:
        if stream.read(HEADER_BYTES)[: len(MAGIC)] != MAGIC:
            raise TracekitError(f"{file} holds no results of {FILE_PROGRAM}")
        kind = np.dtype(RESULT)
        while data := stream.read(kind.itemsize * BATCH_ROWS):
            yield np.frombuffer(data, kind)
