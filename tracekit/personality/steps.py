"""Steps of a plan before they are calls: one row each, in the order of a thread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.plan.files import CODES

STEP = np.dtype(
    [
        ("operation", "u1"),
        ("step", "u1"),
        ("flags", "<u2"),
        ("file", "<u4"),
        ("handle", "<u4"),
        ("offset", "<u8"),
        ("total", "<i8"),  # bytes of all calls of the step
        ("size", "<i8"),  # bytes of one call
    ]
)
Steps = npt.NDArray[np.void]
CODE = {
    "read_file": CODES["read"],
    "write_file": CODES["write"],
    "append": CODES["write"],
    "delete": CODES["unlink"],
}


@dataclass(frozen=True)
class Turns:
    """The steps of a thread, those that undo them, and the most bytes its files grew by."""

    steps: Steps
    restore: Steps
    growth_bytes: int
