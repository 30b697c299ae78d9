"""Finds the journal inside a file system's own region, where jbd2 writes its commits.

jbd2 writes descriptor, metadata and commit blocks of a transaction one after the other, and the
next transaction behind it, so the runs of adjacent jbd2 writes that hold a commit block join up to
the part of the log that was written. Checkpoints write the same blocks to their places in the file
system: those are no part of it. A run where other processes are busy too is no journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.classify.columns import OnRows, batches, ignore_rows
from tracekit.classify.evidence import JBD2, OPERATIONS, Evidence, process_kind
from tracekit.columns import codes, ints
from tracekit.schema import SECTOR_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS = ("device", "sector", "length_bytes", "operation", "process")
MIN_COMMITS = 2
# The journal's superblock is written by checkpoints, and the log is read once at mount.
MAX_FOREIGN_RATIO = 0.05
# A log is one extent or a few; commits all over the place are something else.
MAX_EXTENTS = 64


@dataclass
class Extent:
    """A piece of a device that may be part of a journal, and who used it."""

    device: str
    first_sector: int
    end_sector: int
    jbd2: int = 0  # reads and writes that jbd2 queued in it
    foreign: int = 0  # reads and writes of others

    @property
    def is_journal(self) -> bool:
        """Whether jbd2 has it nearly for itself."""
        return self.foreign <= MAX_FOREIGN_RATIO * (self.jbd2 + self.foreign)


def candidates(device: str, evidence: Evidence) -> list[Extent]:
    """Return where commits were written in one region; none when there are too few or many."""
    runs = evidence.commit_runs
    if runs is None or evidence.jbd2_barriers < MIN_COMMITS or len(runs) > MAX_EXTENTS:
        return []
    return [Extent(device, int(first), int(end)) for first, end in runs]


def check(requests: Path, extents: list[Extent], *, on_rows: OnRows = ignore_rows) -> None:
    """Read the trace once and count in each extent what jbd2 and what others did there."""
    import numpy as np

    by_device: dict[str, list[Extent]] = {}
    for extent in sorted(extents, key=lambda extent: extent.first_sector):
        by_device.setdefault(extent.device, []).append(extent)
    numbers = {name: code for code, name in enumerate(by_device)}
    for batch in batches(requests, COLUMNS, on_rows=on_rows):
        device = codes(batch.column("device"), lambda name: numbers.get(name or "", -1))
        is_data = codes(batch.column("operation"), lambda name: OPERATIONS.get(name or "", 0)) > 0
        is_jbd2 = codes(batch.column("process"), process_kind) == JBD2
        for name, mine in by_device.items():
            rows = np.flatnonzero(is_data & (device == numbers[name]))
            _count(mine, batch, rows, is_jbd2[rows])


def _count(
    extents: list[Extent], batch: Any, rows: NDArray[np.int64], is_jbd2: NDArray[np.bool_]
) -> None:
    import numpy as np

    sector = ints(batch.column("sector"))[rows]
    end = sector + (ints(batch.column("length_bytes"))[rows] + SECTOR_BYTES - 1) // SECTOR_BYTES
    ends = np.array([extent.end_sector for extent in extents])
    firsts = np.array([extent.first_sector for extent in extents])
    # Extents are apart and sorted: the first one that ends behind the request's start is the
    # only one that is counted for it.
    place = np.searchsorted(ends, sector, side="right")
    is_within = place < len(extents)
    is_within[is_within] = firsts[place[is_within]] < end[is_within]
    jbd2 = np.bincount(place[is_within & is_jbd2], minlength=len(extents))
    foreign = np.bincount(place[is_within & ~is_jbd2], minlength=len(extents))
    for index, extent in enumerate(extents):
        extent.jbd2 += int(jbd2[index])
        extent.foreign += int(foreign[index])
