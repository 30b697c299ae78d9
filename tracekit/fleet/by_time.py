"""What volumes of a set gain when they share an NVM by time, as their peaks fall apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tracekit.arrow import Integers, read_whole
from tracekit.errors import InputError
from tracekit.metadata import Record, TraceInfo
from tracekit.model.shared_by_time import Load, share_by_time
from tracekit.model.shared_nvm import Tenant
from tracekit.store import TraceFolder
from tracekit.units import BLOCK_BYTES, counted, format_duration, format_size

WINDOWS = 24
Floats = NDArray[np.float64]


class ByTime(Record, kw_only=True):
    """One division of an NVM for all the time beside one that changes between windows."""

    window_ns: int
    is_aligned: bool
    """The times of all volumes are of one clock; else each begins at 0."""
    divided_ratio: float
    """What one division saves, of the I/O time of all."""
    shared_ratio: float
    """What the changing one saves, less what moving takes."""
    bound_ratio: float
    """No changing one saves more, even if moving took no time."""
    moved_bytes: int
    moving_s: float
    moved_volumes: int
    peaks_bytes: int
    """Working sets of all volumes, each at its peak."""
    at_once_bytes: int
    """The largest sum of the working sets of one window."""

    @property
    def headline(self) -> str:
        """The comparison in a sentence."""
        moved = "the same, as moving takes longer than it saves"
        if self.moved_bytes:
            moved = (
                f"{self.shared_ratio:.1%}, moving {format_size(self.moved_bytes)} between windows"
                f" of {format_duration(self.window_ns)}, in {counted(self.moved_volumes, 'volume')}"
            )
        text = (
            f"over the time of the set, divided: {self.divided_ratio:.1%}; shared by time:"
            f" {moved}; at most {self.bound_ratio:.1%}. Working sets at their peaks"
            f" {format_size(self.peaks_bytes)}, at once {format_size(self.at_once_bytes)}."
        )
        return text if self.is_aligned else f"{text} Each volume's time is taken to begin at 0."


def offsets_of(infos: Mapping[str, TraceInfo]) -> dict[str, int] | None:
    """Return when each trace begins after the first; None where their clocks are not of one time.

    They are where all begin at the same time of one clock, as volumes of one import do, or where
    the time of day of each is known.
    """
    bases = {info.clock.base_ns for info in infos.values()}
    walls = {name: info.clock.wall_ns for name, info in infos.items()}
    if len(bases) == 1 and bases != {0} and None not in bases:
        return dict.fromkeys(infos, 0)
    known = {name: wall for name, wall in walls.items() if wall is not None}
    if not known or len(known) < len(infos):
        return None
    first = min(known.values())
    return {name: wall - first for name, wall in known.items()}


def compare_by_time(
    folders: Mapping[str, TraceFolder], tenants: Sequence[Tenant], *, capacity_bytes: int
) -> ByTime | None:
    """Compare one division with one that changes between 24 windows of the set's time.

    A volume's I/O time goes to windows by its requests (`analyze`). Moving a byte, to NVM or back,
    takes as long as its own requests take for one. None where a volume is not analysed.
    """
    infos = {one.trace: folders[one.trace].info for one in tenants}
    offsets = offsets_of(infos)
    starts = offsets or dict.fromkeys(infos, 0)
    end_ns = max(starts[name] + info.clock.duration_ns for name, info in infos.items())
    window_ns = end_ns // WINDOWS + 1
    loads, touched = [], []
    try:
        for tenant in tenants:
            folder, start = folders[tenant.trace], starts[tenant.trace]
            loads.append(_load(folder, tenant, start_ns=start, window_ns=window_ns))
            touched.append(_working_sets(folder, start_ns=start, window_ns=window_ns))
    except InputError:
        return None
    found = share_by_time(loads, capacity_bytes)
    whole_s = sum(one.base_ns for one in tenants) / 1e9
    moves = (np.diff(found.sizes, axis=0) != 0).any(axis=0)
    return ByTime(
        window_ns=window_ns,
        is_aligned=offsets is not None,
        divided_ratio=found.divided_s / whole_s if whole_s else 0.0,
        shared_ratio=(found.saved_s - found.moving_s) / whole_s if whole_s else 0.0,
        bound_ratio=found.bound_s / whole_s if whole_s else 0.0,
        moved_bytes=found.moved_bytes,
        moving_s=found.moving_s,
        moved_volumes=int(moves.sum()),
        peaks_bytes=int(np.max(touched, axis=1).sum()),
        at_once_bytes=int(np.sum(touched, axis=0).max()),
    )


def _load(folder: TraceFolder, tenant: Tenant, *, start_ns: int, window_ns: int) -> Load:
    rows = read_whole(folder.require("findings/activity", made_by="analyze"))
    columns = {
        name: rows.column(name).to_numpy()
        for name in ("window_ns", "read_count", "write_count", "read_bytes", "write_bytes")
    }
    at = _windows_of(columns["window_ns"], start_ns=start_ns, window_ns=window_ns)
    counts = columns["read_count"] + columns["write_count"]
    shares = np.bincount(at, weights=counts, minlength=WINDOWS)
    moved = int((columns["read_bytes"] + columns["write_bytes"]).sum())
    return Load(tenant, shares / max(1.0, shares.sum()), tenant.base_ns / 1e9 / max(1, moved))


def _working_sets(folder: TraceFolder, *, start_ns: int, window_ns: int) -> Integers:
    """Return how much the volume touches at most, in a window of its own, within each window."""
    rows = read_whole(folder.require("working_set", made_by="classify"))
    times, blocks = (rows.column(name).to_numpy() for name in ("window_ns", "distinct_blocks"))
    unique, places = np.unique(times, return_inverse=True)
    sums = np.bincount(places, weights=blocks, minlength=len(unique)).astype(np.int64)
    found = np.zeros(WINDOWS, np.int64)
    at = _windows_of(unique, start_ns=start_ns, window_ns=window_ns)
    np.maximum.at(found, at, sums * BLOCK_BYTES)
    return found


def _windows_of(times_ns: Integers, *, start_ns: int, window_ns: int) -> Integers:
    found: Integers = np.minimum((times_ns + start_ns) // window_ns, WINDOWS - 1)
    return found
