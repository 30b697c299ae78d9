"""When the hypervisor gave a processor's time to others: what a run took then is not the device's.

Which requests are left out is told by the kernel's counters of stolen time, never by what the
requests took, so that nothing slow of the device goes with them.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

STAT = Path("/proc/stat")
LOOK_S = 0.01
"""Between two looks; the counters have the same step."""
STEAL = 8
"""Place of the stolen time in the line of all processors."""
MOST_LEFT_OUT = 0.5
"""Share of a run's requests above which it says nothing of the device, and is run again."""
ATTEMPTS = 3
Integers = npt.NDArray[np.int64]
Nothing = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Stretches:
    """Stretches of stolen time in ns of CLOCK_MONOTONIC, ascending; none touches another."""

    begin_ns: Integers = field(default_factory=Nothing.copy)
    end_ns: Integers = field(default_factory=Nothing.copy)

    def clear(self, begin_ns: Integers, end_ns: Integers) -> npt.NDArray[np.bool_]:
        """Say of each request whether it lies outside of all stretches."""
        begun = np.searchsorted(self.begin_ns, end_ns, side="right")
        return np.asarray(begun == np.searchsorted(self.end_ns, begin_ns, side="left"))

    def since(self, start_ns: int) -> Stretches:
        """Return them in ns from a run's start."""
        return Stretches(self.begin_ns - start_ns, self.end_ns - start_ns)

    def within(self, begin_ns: int, end_ns: int) -> int:
        """Return how much of the stretches lies between two times."""
        ends = (np.clip(one, begin_ns, end_ns) for one in (self.end_ns, self.begin_ns))
        last, first = (int(one.sum()) for one in ends)
        return last - first


def stretches_of(times_ns: Integers, stolen: Integers) -> Stretches:
    """Return the stretches of looks at the counter: where it changed, with a look on each side.

    The kernel counts what was stolen at its next tick, which may be in the look behind. Kernels
    have been seen to count down, too.
    """
    changed = np.diff(stolen) != 0
    near = changed.copy()
    near[1:] |= changed[:-1]
    near[:-1] |= changed[1:]
    edges = np.diff(np.concatenate([[False], near, [False]]).astype(np.int8))
    return Stretches(times_ns[np.flatnonzero(edges == 1)], times_ns[np.flatnonzero(edges == -1)])


class StealWatch:
    """Looks at the counter of stolen time in a thread while a block runs."""

    def __init__(self) -> None:
        """Start without a look."""
        self._looks: list[tuple[int, int]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> StealWatch:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look a last time."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            stat = os.open(STAT, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # what is not known is not left out
        try:
            while not self._is_over.wait(LOOK_S if self._looks else 0):
                self._look(stat)
            self._look(stat)
        finally:
            os.close(stat)

    def _look(self, stat: int) -> None:
        words = os.pread(stat, 200, 0).partition(b"\n")[0].split()
        if len(words) > STEAL:
            self._looks.append((time.monotonic_ns(), int(words[STEAL])))

    def found(self) -> Stretches:
        """Return the stretches so far."""
        if len(self._looks) < 2:
            return Stretches()
        times_ns, stolen = np.array(self._looks, np.int64).T
        return stretches_of(times_ns, stolen)
