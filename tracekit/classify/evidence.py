"""What the requests of each region say of it, counted in one reading of the trace.

A region is a layout entry; where the layout has none, the partition that remap records name; where
there are none either, the whole device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.arrow import codes, flags, ints, open_table, texts
from tracekit.classify import regions
from tracekit.classify.regions import LayoutMap, OnRows, batches, ignore_rows
from tracekit.errors import InputError
from tracekit.metadata import Region
from tracekit.units import PAGE_BYTES, SECTOR_BYTES

EVIDENCE_COLUMNS = (
    *("device", "sector", "length_bytes", "operation", "is_sync", "is_meta", "is_fua"),
    *("is_preflush", "process", "partition"),
)
# Commits of a journal follow each other without a gap; a lost event or two may tear one open.
RUN_GAP_SECTORS = 2048

ANONYMOUS, ORDINARY, JBD2, SWAPPER, JOURNALER, WRITEBACK, PASSING = range(7)
PROCESS_KINDS = (
    (JBD2, re.compile(r"jbd2/")),
    (SWAPPER, re.compile(r"kswapd\d|kdamond")),
    # The threads of a RAID pass on what others wrote: stripes in the background, as writeback does.
    (WRITEBACK, re.compile(r"kworker|flush-|md\d+_raid|md\d+_resync|raid5wq")),
    (PASSING, re.compile(r"dmcrypt_write|kcryptd|loop\d|drbd_|bcache_")),
    (JOURNALER, re.compile(r"xfsaild/|xfs-|btrfs-|f2fs_|jfsCommit|nilfs|gfs2_logd")),
)
READ, WRITE = 1, 2
OPERATIONS = {"read": READ, "write": WRITE}
PARTITION_SHIFT = 32

# A region: an index in the layout, or a device and the partition that it was remapped from.
Key = tuple[int, None] | tuple[str, str | None]


@dataclass(frozen=True)
class Part:
    """The requests of one region in one batch, in queue order; flushes without data left out."""

    sector: NDArray[np.int64]
    end: NDArray[np.int64]  # sector behind the last
    operation: NDArray[np.int64]  # READ, WRITE or 0
    process: NDArray[np.int64]  # ANONYMOUS ... WRITEBACK
    is_sync: NDArray[np.bool_]
    is_meta: NDArray[np.bool_]
    is_barrier: NDArray[np.bool_]  # FUA or preflush

    @property
    def is_log(self) -> NDArray[np.bool_]:
        """Writes that a log consists of: of a journal thread, synchronous metadata, or barriers.

        Beneath device mapper a commit block is queued by a kworker, as a barrier of its own.
        """
        is_write = self.operation == WRITE
        is_meta = self.is_meta & self.is_sync
        found: NDArray[np.bool_] = is_write & ((self.process == JBD2) | is_meta | self.is_barrier)
        return found

    @property
    def is_reclaim(self) -> NDArray[np.bool_]:
        """Writes that reclaim alone makes: nobody waits for them, and no thread of writeback."""
        is_plain = ~(self.is_sync | self.is_meta | self.is_barrier)
        is_own = np.isin(self.process, (ORDINARY, SWAPPER, PASSING))
        found: NDArray[np.bool_] = (self.operation == WRITE) & is_plain & is_own & is_paged(self)
        return found

    def take(self, rows: NDArray[np.int64] | slice) -> Part:
        """Return some of the rows."""
        return Part(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def is_paged(part: Part) -> NDArray[np.bool_]:
    """Say which requests are whole pages."""
    found: NDArray[np.bool_] = (part.sector | part.end) & (PAGE_BYTES // SECTOR_BYTES - 1) == 0
    return found


@dataclass
class Evidence:
    """Counts for one region."""

    reads: int = 0
    writes: int = 0
    synchronous: int = 0  # writes that somebody waits for
    meta: int = 0  # reads and writes of metadata
    barriers: int = 0  # writes with FUA or preflush
    pages: int = 0  # reads and writes that are whole aligned 4 KiB pages
    reclaimed: int = 0  # writes that reclaim alone makes
    sequential: int = 0  # writes that begin where the region's last one ended
    named: int = 0  # reads and writes whose process is known
    jbd2_writes: int = 0
    log_barriers: int = 0  # among the writes that a log consists of
    swapper_writes: int = 0
    journaler_writes: int = 0
    first_sector: int = 1 << 62
    end_sector: int = 0
    last_end: int = -1  # of the latest write
    commit_runs: NDArray[np.int64] | None = None  # coalesced: first and end sector

    def add(self, part: Part) -> None:
        """Add the requests of one batch."""
        is_read, is_write = part.operation == READ, part.operation == WRITE
        is_data, is_jbd2 = is_read | is_write, is_write & (part.process == JBD2)
        marks = {
            "reads": is_read,
            "writes": is_write,
            "synchronous": is_write & part.is_sync,
            "meta": is_data & part.is_meta,
            "barriers": is_write & part.is_barrier,
            "pages": is_data & is_paged(part),
            "reclaimed": part.is_reclaim,
            "named": is_data & (part.process != ANONYMOUS),
            "jbd2_writes": is_jbd2,
            "log_barriers": part.is_log & part.is_barrier,
            "swapper_writes": is_write & (part.process == SWAPPER),
            "journaler_writes": is_write & (part.process == JOURNALER),
        }
        for name, mark in marks.items():
            setattr(self, name, getattr(self, name) + int(np.count_nonzero(mark)))
        self.first_sector = min(self.first_sector, int(part.sector.min()))
        self.end_sector = max(self.end_sector, int(part.end.max()))
        writes = part.take(np.flatnonzero(is_write))
        if len(writes.sector):
            previous = np.concatenate(([self.last_end], writes.end[:-1]))
            self.sequential += int(np.count_nonzero(writes.sector == previous))
            self.last_end = int(writes.end[-1])
        runs = commit_runs(part.take(np.flatnonzero(part.is_log)))
        known = runs if self.commit_runs is None else np.concatenate((self.commit_runs, runs))
        self.commit_runs = coalesce(known)


def commit_runs(writes: Part) -> NDArray[np.int64]:
    """Return the runs of adjacent writes of a log that hold a commit block: first and end sector.

    Commit blocks carry FUA or preflush; jbd2 also writes ordered data, which never does, and
    which is not adjacent to the log. A program's own durable writes are no metadata, and those of
    jbd2 are.
    """
    if not len(writes.sector):
        return np.empty((0, 2), np.int64)
    is_start = np.concatenate(([True], writes.sector[1:] != writes.end[:-1]))
    starts = np.flatnonzero(is_start)
    lasts = np.append(starts[1:], len(writes.sector)) - 1
    has_commit = np.logical_or.reduceat(writes.is_barrier, starts)
    has_meta = np.logical_or.reduceat(writes.is_meta | (writes.process == JBD2), starts)
    return np.column_stack((writes.sector[starts], writes.end[lasts]))[has_commit & has_meta]


def coalesce(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Join runs that overlap or lie less than a small gap apart."""
    if not len(runs):
        return runs
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    ends = np.maximum.accumulate(runs[:, 1])
    is_start = np.concatenate(([True], runs[1:, 0] > ends[:-1] + RUN_GAP_SECTORS))
    starts = np.flatnonzero(is_start)
    return np.column_stack((runs[starts, 0], ends[np.append(starts[1:], len(runs)) - 1]))


class _Regions:
    """Numbers the regions of a batch's rows."""

    def __init__(self, entries: list[Region], devices: list[str]) -> None:
        self._names = devices
        self._layout = LayoutMap(entries, devices)
        self._partitions: dict[str | None, int] = {None: 0}

    def number(self, batch: Any) -> NDArray[np.int64]:
        """Return a number for each row's region: below 0 for layout entries, else from 0."""
        device = self._layout.devices(batch)
        partition = codes(
            batch.column("partition"),
            lambda name: self._partitions.setdefault(name, len(self._partitions)),
        )
        entry = self._layout.entries(device, ints(batch.column("sector")))
        return np.where(entry < 0, device << PARTITION_SHIFT | partition, -1 - entry)

    def key(self, number: int) -> Key:
        """Return what a number stands for."""
        if number < 0:
            return -1 - number, None
        partition = number & ((1 << PARTITION_SHIFT) - 1)
        return self._names[number >> PARTITION_SHIFT], list(self._partitions)[partition]


def gather(
    requests: Path, entries: list[Region], *, devices: list[str], on_rows: OnRows = ignore_rows
) -> dict[Key, Evidence]:
    """Read the trace once and return the evidence for each region that has requests."""
    regions = _Regions(entries, devices)
    found: dict[Key, Evidence] = {}
    for batch in batches(requests, EVIDENCE_COLUMNS, on_rows=on_rows):
        number = regions.number(batch)
        part = part_of(batch)
        kept = np.flatnonzero(part.end > part.sector)
        order = kept[np.argsort(number[kept], kind="stable")]
        if not len(order):
            continue
        sorted_numbers = number[order]
        part = part.take(order)
        edges = np.flatnonzero(np.diff(sorted_numbers)) + 1
        for first, end in zip([0, *edges], [*edges, len(order)], strict=True):
            key = regions.key(int(sorted_numbers[first]))
            found.setdefault(key, Evidence()).add(part.take(slice(int(first), int(end))))
    return found


def process_kind(name: str | None) -> int:
    """Return what kind of process a name says it is."""
    for kind, pattern in PROCESS_KINDS:
        if name and pattern.match(name):
            return kind
    return ORDINARY if name else ANONYMOUS


def extent_of(batch: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first sector and end of each row."""
    sector, length = ints(batch.column("sector")), ints(batch.column("length_bytes"))
    return sector, sector + (length + SECTOR_BYTES - 1) // SECTOR_BYTES


def part_of(batch: Any) -> Part:
    """Return the requests of a batch, the flushes without data among them."""
    sector, end = extent_of(batch)
    return Part(
        sector=sector,
        end=end,
        operation=codes(batch.column("operation"), lambda name: OPERATIONS.get(name or "", 0)),
        process=codes(batch.column("process"), process_kind),
        is_sync=flags(batch.column("is_sync")),
        is_meta=flags(batch.column("is_meta")),
        is_barrier=flags(batch.column("is_fua")) | flags(batch.column("is_preflush")),
    )


SURVEY_COLUMNS = ("device", "sector", "length_bytes", "process", "partition")


@dataclass
class Survey:
    """What later steps have to know of the whole trace before they begin."""

    end_sectors: dict[str, int] = field(default_factory=dict)  # by device, in order of name
    partitions: set[tuple[str, str]] = field(default_factory=set)  # device and major,minor
    has_jbd2: bool = False
    has_passing: bool = False
    """Threads that pass on the writes of others, by whom reclaim cannot be told."""
    latest_ns: int = 0
    rows: int = 0


def survey(requests: Path, *, on_rows: OnRows = ignore_rows) -> Survey:
    """Read the trace once; raise InputError for a request without a device."""
    file = open_table(requests, (*SURVEY_COLUMNS, "queue_ns"))
    result = Survey()
    for batch in batches(requests, (*SURVEY_COLUMNS, *regions.time_columns(file)), on_rows=on_rows):
        if batch.column("device").null_count:
            raise InputError(f"{requests}: a request has no device", hint="parse the capture again")
        if batch.num_rows:
            _look(result, batch)
    result.end_sectors = dict(sorted(result.end_sectors.items()))
    return result


def _look(result: Survey, batch: Any) -> None:
    result.rows += batch.num_rows
    result.latest_ns = max(result.latest_ns, int(regions.first_event_ns(batch).max()))
    kinds = codes(batch.column("process"), process_kind)
    result.has_jbd2 |= bool((kinds == JBD2).any())
    result.has_passing |= bool((kinds == PASSING).any())
    _, end = extent_of(batch)
    names, device = texts(batch.column("device"))
    partitions, partition = texts(batch.column("partition"))
    for code in np.flatnonzero(np.bincount(device)).tolist():
        of_device = device == code
        reached = max(result.end_sectors.get(names[code], 0), int(end[of_device].max()))
        result.end_sectors[names[code]] = reached
        found = np.unique(partition[of_device]).tolist()
        known = (partitions[place] for place in found if place < len(partitions))
        result.partitions.update((names[code], name) for name in known)
