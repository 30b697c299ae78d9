"""Work profiles for the tests, written as a user would."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.plans.block_plan import RECORD
from tracekit.workload.model import Profile
from tracekit.workload.reader import read_profile
from tracekit.workload.requests import open_workload

HEAD = 'name = "own"\ntarget_size = "64MiB"\n'
ARRIVAL = '[arrival]\nprocess = "exponential"\nmean = "1ms"\n'
READS = '[[request]]\nshare = 1\noperation = "read"\naccess = "random"\nsize = "4KiB"\n'


def profile(folder: Path, text: str) -> Profile:
    file = folder / "own.toml"
    file.write_text(text)
    return read_profile(file)


def requests(of: Profile, count: int, *, seed: int = 0, step: int = 1 << 14) -> NDArray[np.void]:
    """Return the first requests, asked for `step` at a time."""
    records: NDArray[Any] = np.zeros(count, RECORD)
    with open_workload(of, seed) as workload:
        for first in range(0, count, step):
            part = records[first : first + step]
            assert workload.fill(part) == len(part)
    return records
