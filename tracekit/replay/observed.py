"""Finds each request of a replay among what the kernel queued on the devices of its targets."""

from __future__ import annotations

import errno
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit._native.workload import fit
from tracekit.arrow import Integers, ints, number_column, open_table, texts
from tracekit.errors import InputError
from tracekit.machine_state import boot_id
from tracekit.plans import Records, block_plan
from tracekit.plans.block_plan import FLUSH, FUA, OPERATIONS, PREFLUSH, WRITE, WRITE_ZEROES
from tracekit.replay.summary import (
    Observed,
    OrderChanges,
    Percentiles,
    ReplaySummary,
    TargetReport,
    read_summary,
)
from tracekit.store import write_batches
from tracekit.tables import OBSERVED
from tracekit.units import SECTOR_BYTES

NONE, LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""No time; one after all others."""
GRAIN_SECTORS = 8
"""As in replayer/play/block_targets.c: scaled addresses are no finer, unless the plan is."""
COLUMNS = (
    *("device", "sector", "length_bytes", "operation", "process", "pid", "queue_ns", "issue_ns"),
    *("complete_ns", "merged_into", "split_count", "error"),
)
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Place:
    """Where a target lies: on a whole device, from a sector of it on, or in pieces of it."""

    device: str
    first_sector: int = 0
    extents: Integers | None = None
    """Of a file, in its order: rows of first sector in the file, on the device, and sectors."""
    has_cache: bool = True
    """Whether the device has a volatile cache: without one the kernel drops a flush."""


@dataclass(frozen=True)
class Queued:
    """What the kernel queued: a row an I/O, times from the run's start, NONE where there is none.

    `device` is an index in `devices`, `operation` a code of the plan or -1.
    """

    devices: list[str]
    processes: list[str]
    device: Integers
    sector: Integers
    sectors: Integers
    operation: Integers
    process: Integers
    pid: Integers
    queue_ns: Integers
    issue_ns: Integers
    complete_ns: Integers
    is_merged: Mask
    split_count: Integers
    is_refused: Mask
    """Given back at once, since it might have waited: io_uring queues it anew by a thread."""

    @classmethod
    def read(cls, table: Path, *, from_ns: int) -> Queued:
        """Read the table of requests of a capture whose times begin `from_ns` after the run."""
        with open_table(table, COLUMNS) as file:
            whole = file.read(columns=list(COLUMNS)).combine_chunks()
        one = {name: _whole(whole.column(name)) for name in COLUMNS}
        devices, device = texts(one["device"])
        processes, process = texts(one["process"])
        operations, operation = texts(one["operation"])
        codes = [OPERATIONS.index(name) if name in OPERATIONS else -1 for name in operations]
        times = {name: _shifted(one[name], from_ns) for name in COLUMNS if name.endswith("_ns")}
        is_queued = times["queue_ns"] != NONE
        columns: dict[str, Any] = {
            **times,
            "device": device.astype(np.int64),
            "process": process.astype(np.int64),
            "operation": np.array(codes, np.int64)[operation],
            "sector": ints(one["sector"]),
            "sectors": ints(one["length_bytes"]) // SECTOR_BYTES,
            "pid": ints(one["pid"]),
            "is_merged": ints(one["merged_into"], if_null=-1) >= 0,
            "split_count": ints(one["split_count"]),
            "is_refused": (ints(one["error"]) == -errno.EAGAIN) & (times["issue_ns"] == NONE),
        }
        rows = {name: column[is_queued] for name, column in columns.items()}
        return cls(devices, [*processes, ""], **rows)


def _whole(column: Any) -> Any:
    """Return a column in one piece, numbers as int64."""
    kind = pa.int64() if pa.types.is_integer(column.type) else column.type
    return column.chunk(0).cast(kind) if column.num_chunks else pa.array([], kind)


def _shifted(column: Any, by_ns: int) -> Integers:
    found = ints(column, if_null=NONE)
    return np.where(found == NONE, NONE, found + by_ns)


@dataclass(frozen=True)
class Asked:
    """The requests that the program submitted, in the order of the plan, where they landed."""

    request_id: Integers
    target: Integers
    operation: Integers
    flags: Integers
    sector: Integers
    sectors: Integers
    intended_ns: Integers
    submit_ns: Integers
    complete_ns: Integers

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.request_id)


def read_asked(plan: Path, completions: Path, *, summary: ReplaySummary) -> Asked:
    """Read what was submitted, and compute where the program put it."""
    rows = np.array(block_plan.map_records(plan)[summary.window.first : summary.window.end])
    names = ("request_id", "target", "intended_ns", "submit_ns", "complete_ns")
    with open_table(completions, (*names, "status")) as file:
        whole = file.read(columns=[*names, "status"]).combine_chunks()
    status, code = texts(_whole(whole.column("status")))
    is_submitted = np.isin(code, [status.index(s) for s in ("done", "failed") if s in status])
    ended = {name: ints(_whole(whole.column(name)), if_null=NONE) for name in names}
    row, at = _paired(rows, ended)
    row, at = row[is_submitted[at]], at[is_submitted[at]]
    chosen = rows[row]
    for number, target in enumerate(summary.targets):
        mask = chosen["target"] == number
        moved = chosen[mask]
        if len(moved):
            fit(moved, summary.out_of_range, **_fit_target(target, rows, number))
            chosen[mask] = moved
    return Asked(
        request_id=chosen["request_id"].astype(np.int64),
        target=chosen["target"].astype(np.int64),
        operation=chosen["operation"].astype(np.int64),
        flags=chosen["flags"].astype(np.int64),
        sector=chosen["sector"].astype(np.int64),
        sectors=chosen["length_sectors"].astype(np.int64),
        **{name: ended[name][at] for name in names if name.endswith("_ns")},
    )


def _paired(rows: Records, ended: dict[str, Integers]) -> tuple[Integers, Integers]:
    """Return plan rows, in their order, and the completion of each; both sides may have more.

    Pieces of a request have one id: on a target the first submitted is the first of the plan.
    """
    planned = rows["request_id"].astype(np.int64), rows["target"].astype(np.int64)
    sides = [
        (*planned, np.arange(len(rows))),
        (ended["request_id"], ended["target"], ended["submit_ns"]),
    ]
    ranks = [_rank_within(*side) for side in sides]
    most = 1 + max(int(rank.max(initial=0)) for rank in ranks)
    keys = [
        (ids * block_plan.TARGETS_MAX + target) * most + rank
        for (ids, target, _), rank in zip(sides, ranks, strict=True)
    ]
    _, row, at = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    order = np.argsort(row)
    return row[order], at[order]


def _rank_within(ids: Integers, targets: Integers, times: Integers) -> Integers:
    """Return the place of each among those of its id and target, by time."""
    order = np.lexsort((times, targets, ids))
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(ids[order]) != 0) | (np.diff(targets[order]) != 0)
    place = np.arange(len(order))
    rank = np.empty(len(order), np.int64)
    rank[order] = place - np.maximum.accumulate(np.where(is_first, place, 0))
    return rank


def _fit_target(target: TargetReport, rows: Records, number: int) -> dict[str, int]:
    """Return the fields of `struct fit_target`, as block_targets_fit makes them."""
    step, size = target.align_bytes, target.size_bytes
    placed = rows[(rows["target"] == number) & (rows["operation"] != FLUSH)]
    bits = int(np.bitwise_or.reduce(placed["sector"], initial=GRAIN_SECTORS))
    bits |= int(np.bitwise_or.reduce(placed["length_sectors"], initial=0))
    usable = size - size % step if target.is_direct else size
    return {
        "size_sectors": usable // SECTOR_BYTES,
        "needed_sectors": target.needed_bytes // SECTOR_BYTES,
        "grain_sectors": bits & -bits,
        "expand_sectors": step // SECTOR_BYTES if target.expands else 1,
    }


@dataclass
class Parts:
    """What is to be found: I/Os of requests, each in one piece of a device."""

    owner: Integers
    device: Integers
    operation: Integers
    sector: Integers
    sectors: Integers


@dataclass
class Joined:
    """Which rows of the kernel are whose: pairs of a request and a row; and what is left."""

    owner: Integers
    row: Integers
    is_found: Mask
    """Of each request, whether all of it was found."""
    is_uncached: Mask
    is_ambiguous: Mask
    is_used: Mask
    """Of each row."""

    def sum(self, of_rows: Integers | Mask, count: int) -> Integers:
        """Return the sum over the rows of each request."""
        found = np.zeros(count, np.int64)
        np.add.at(found, self.owner, of_rows[self.row])
        return found


@dataclass
class _Joiner:
    """Joins by device, place, length and operation, and by time within these."""

    asked: Asked
    rows: Queued
    places: Sequence[Place]
    has_second_flush: bool
    """A write with FUA is followed by a flush of its own: of the threads engine."""
    is_own: Mask
    pairs: list[tuple[Integers, Integers]] = field(
        default_factory=lambda: [(np.empty(0, np.int64), np.empty(0, np.int64))]
    )

    def join(self) -> Joined:
        """Find the rows of all requests."""
        count = len(self.asked)
        self.is_used = np.zeros(len(self.rows.queue_ns), bool)
        self.is_missing = np.zeros(count, bool)
        self.is_uncached = np.zeros(count, bool)
        self.is_ambiguous = np.zeros(count, bool)
        parts = self._parts()
        rest = self._join_equal(parts)
        self._join_pieces(parts, rest)
        for number in range(-1, len(self.rows.devices)):
            self._join_flushes(number)
        owner, row = (np.concatenate(side) for side in zip(*self.pairs, strict=True))
        is_found = np.zeros(count, bool)
        is_found[owner] = True
        is_found &= ~self.is_missing
        return Joined(
            owner, row, is_found, self.is_uncached & ~is_found, self.is_ambiguous, self.is_used
        )

    def _device_of(self, place: Place) -> int:
        """Return the device's number among the rows, -1 for one of which there are none."""
        devices = self.rows.devices
        return devices.index(place.device) if place.device in devices else -1

    def _parts(self) -> Parts:
        """Return the data of all requests on the devices."""
        asked, found = self.asked, []
        for number, place in enumerate(self.places):
            mine = np.flatnonzero((asked.target == number) & (asked.operation != FLUSH))
            owner, sector, sectors = mine, asked.sector[mine], asked.sectors[mine]
            if place.extents is not None:
                owner, sector, sectors = self._on_extents(mine, place.extents)
            there = self._device_of(place)
            device = np.full(len(owner), there)
            operation = asked.operation[owner]
            # A device that knows no write zeroes gets pages of zeroes.
            seen = self.rows.operation[self.is_own & (self.rows.device == there)]
            if (operation == WRITE_ZEROES).any() and not (seen == WRITE_ZEROES).any():
                operation = np.where(operation == WRITE_ZEROES, WRITE, operation)
            found.append((owner, device, operation, sector + place.first_sector, sectors))
        columns = zip(*found, strict=True)
        return Parts(*(np.concatenate([np.empty(0, np.int64), *one]) for one in columns))

    def _on_extents(self, mine: Integers, extents: Integers) -> tuple[Integers, ...]:
        """Return the pieces of requests to a file: whose, and where on the device."""
        found: list[tuple[int, int, int]] = []
        starts = extents[:, 0]
        for owner in mine:
            at, end = int(self.asked.sector[owner]), 0
            end = at + int(self.asked.sectors[owner])
            while at < end:
                one = int(np.searchsorted(starts, at, "right")) - 1
                behind = int(extents[one, 0] + extents[one, 2]) if one >= 0 else 0
                if at >= behind:
                    self.is_missing[owner] = True  # a hole, or not on the device
                    break
                length = min(end, behind) - at
                found.append((int(owner), int(extents[one, 1]) + at - int(starts[one]), length))
                at += length
        columns = np.array(found, np.int64).reshape(-1, 3)
        return columns[:, 0], columns[:, 1], columns[:, 2]

    def _join_equal(self, parts: Parts) -> Integers:
        """Join what has as many I/Os as rows of its place and length; return the other I/Os."""
        rows, asked = self.rows, self.asked
        mine = np.flatnonzero(self.is_own & (rows.sectors > 0) & ~rows.is_refused)
        _, where = np.unique(np.concatenate([parts.sector, rows.sector[mine]]), return_inverse=True)
        lengths, length = np.unique(
            np.concatenate([parts.sectors, rows.sectors[mine]]), return_inverse=True
        )
        kind = np.concatenate([parts.operation, rows.operation[mine]]) + 1
        device = np.concatenate([parts.device, rows.device[mine]]) + 1
        key = (where * len(lengths) + length) * (len(OPERATIONS) + 1) + kind
        _, group = np.unique(key * (len(rows.devices) + 2) + device, return_inverse=True)
        count = len(parts.owner)
        wanted, there = group[:count], group[count:]
        size = int(group.max(initial=-1)) + 1
        wanted_count = np.bincount(wanted, minlength=size)
        is_even = wanted_count == np.bincount(there, minlength=size)
        part = np.lexsort((asked.submit_ns[parts.owner], wanted))
        row = mine[np.lexsort((rows.queue_ns[mine], there))]
        part, row = part[is_even[wanted[part]]], row[is_even[np.sort(there)]]
        owner = parts.owner[part]
        fits = self._fits(owner, row)
        # Of a group of which one does not fit, none is joined so.
        bad = np.zeros(size, bool)
        bad[wanted[part[~fits]]] = True
        fits = ~bad[wanted[part]]
        same = wanted[part[1:]] == wanted[part[:-1]]
        meets = same & (asked.submit_ns[owner[1:]] < asked.complete_ns[owner[:-1]])
        self.is_ambiguous[owner[1:][meets]] = self.is_ambiguous[owner[:-1][meets]] = True
        self._take(owner[fits], row[fits])
        rest = np.ones(count, bool)
        rest[part[fits]] = False
        return np.flatnonzero(rest)

    def _fits(self, owner: Integers, row: Integers) -> Mask:
        """Return whether rows were queued while their requests were in flight."""
        queue_ns = self.rows.queue_ns[row]
        return np.asarray(
            (queue_ns >= self.asked.submit_ns[owner]) & (queue_ns <= self.asked.complete_ns[owner])
        )

    def _take(self, owner: Integers, row: Integers) -> None:
        self.pairs.append((owner, row))
        self.is_used[row] = True

    def _join_pieces(self, parts: Parts, rest: Integers) -> None:
        """Join what the kernel queued in pieces, and what has other rows than I/Os, by time."""
        at: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        rows = self.rows
        is_free = self.is_own & ~self.is_used & ~rows.is_refused
        free = np.flatnonzero(is_free & (rows.sectors > 0))
        for row in free[np.argsort(rows.queue_ns[free], kind="stable")] if len(rest) else ():
            at[int(rows.device[row]), int(rows.operation[row]), int(rows.sector[row])].append(row)
        for part in rest[np.argsort(self.asked.submit_ns[parts.owner[rest]], kind="stable")]:
            owner, found = int(parts.owner[part]), self._pieces(parts, int(part), at)
            if found:
                self._take(np.full(len(found), owner), np.array(found, np.int64))
            else:
                self.is_missing[owner] = True

    def _pieces(
        self, parts: Parts, part: int, at: dict[tuple[int, int, int], list[int]]
    ) -> list[int]:
        """Return the rows that make up an I/O, none when they do not cover it."""
        owner = parts.owner[part]
        device, operation = int(parts.device[part]), int(parts.operation[part])
        sector = int(parts.sector[part])
        end, found = sector + int(parts.sectors[part]), list[int]()
        while sector < end:
            near = at.get((device, operation, sector), [])
            fitting = [
                row
                for row in near
                if self.rows.sectors[row] <= end - sector
                and self._fits(owner, np.array([row])).all()
            ]
            if not fitting:
                return []
            # What reached the driver, and the whole of it, when it is there; else the first.
            found.append(
                min(
                    fitting,
                    key=lambda row: (
                        int(self.rows.sectors[row]) != end - sector,
                        int(self.rows.issue_ns[row]) == NONE,
                    ),
                )
            )
            sector += int(self.rows.sectors[found[-1]])
        for row in found:
            at[device, operation, int(self.rows.sector[row])].remove(row)
        return found

    def _expected_flushes(self, device: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield submission, completion and number of requests that flush, and which flush it is.

        0 is the flush that the request begins with, 1 one that follows its data.
        """
        asked = self.asked
        targets = [n for n, place in enumerate(self.places) if self._device_of(place) == device]
        on_device = np.isin(asked.target, targets)
        writes = asked.operation == WRITE
        first = (asked.operation == FLUSH) | (writes & (asked.flags & PREFLUSH != 0))
        second = writes & (asked.flags & FUA != 0) & self.has_second_flush
        for which, mask in enumerate((first, second)):
            for owner in np.flatnonzero(on_device & mask):
                yield int(asked.submit_ns[owner]), int(asked.complete_ns[owner]), int(owner), which

    def _join_flushes(self, device: int) -> None:
        """Join flushes, which have no place: the one that must be over first gets the next row."""
        rows, expected = self.rows, sorted(self._expected_flushes(device))
        mine = (rows.device == device) & (rows.operation == FLUSH) & (rows.sectors == 0)
        mine &= self.is_own
        found: list[tuple[int, int]] = []
        open_: list[tuple[int, int, int]] = []
        order = np.flatnonzero(mine)
        done, at = set[tuple[int, int]](), 0
        for row in order[np.argsort(rows.queue_ns[order], kind="stable")]:
            queue_ns = int(rows.queue_ns[row])
            while at < len(expected) and expected[at][0] <= queue_ns:
                _, complete_ns, owner, which = expected[at]
                heapq.heappush(open_, (complete_ns, owner, which))
                at += 1
            while open_ and open_[0][0] < queue_ns:
                heapq.heappop(open_)
            if open_:
                self.is_ambiguous[open_[0][1]] |= len(open_) > 1
                _, owner, which = heapq.heappop(open_)
                done.add((owner, which))
                self.is_used[row] = True
                if which == 0:
                    found.append((owner, row))
        if found:
            owners, taken = np.array(found, np.int64).T
            self._take(owners, taken)
        self._miss_flushes([(o, w) for *_, o, w in expected if (o, w) not in done])

    def _miss_flushes(self, missing: list[tuple[int, int]]) -> None:
        """Note the flushes that were not found; those that the kernel drops are none."""
        for owner, which in missing:
            place = self.places[int(self.asked.target[owner])]
            is_dropped = not place.has_cache
            if self.asked.operation[owner] == FLUSH:
                self.is_uncached[owner] = is_dropped
                self.is_missing[owner] = True
            elif which == 0:
                self.is_missing[owner] |= not is_dropped


def own_rows(rows: Queued, own: set[int]) -> Mask:
    """Return which rows the program's threads queued, or those that the kernel adds for it.

    The latter, of io_uring, have names with the number of the one that they work for.
    """
    names = {f"iou-{kind}-{thread}" for kind in ("wrk", "sqp") for thread in own}
    is_own_name = np.array([name in names for name in rows.processes], bool)
    return np.asarray(np.isin(rows.pid, list(own)) | is_own_name[rows.process])


@dataclass(frozen=True)
class Found:
    """The kernel's times of each request, NONE where it was not found, and what was counted."""

    asked: Asked
    queue_ns: Integers
    issue_ns: Integers
    device_complete_ns: Integers
    piece_count: Integers
    merge_count: Integers
    split_count: Integers
    counts: dict[str, Any] = field(default_factory=dict)

    def write(self, table: Path) -> None:
        """Write the table OBSERVED."""
        columns = {**vars(self.asked), **vars(self)}
        arrays = [
            number_column(columns[one.name], one.type, valid=columns[one.name] != NONE)
            for one in OBSERVED
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=OBSERVED)
        write_batches(table, [batch], schema=OBSERVED)


def find(
    asked: Asked,
    rows: Queued,
    *,
    places: Sequence[Place],
    own: set[int],
    summary: ReplaySummary,
) -> Found:
    """Join the requests with the rows, and count; `own` are the program's threads."""
    is_own = own_rows(rows, own)
    has_second = summary.engine.used == "threads"
    joined = _Joiner(asked, rows, places, has_second, is_own).join()
    count = len(asked)
    first = {name: np.full(count, LATEST) for name in ("queue_ns", "issue_ns")}
    for name, column in first.items():
        values = getattr(rows, name)[joined.row]
        np.minimum.at(column, joined.owner[values != NONE], values[values != NONE])
        column[(column == LATEST) | ~joined.is_found] = NONE
    last = np.full(count, NONE)
    np.maximum.at(last, joined.owner, rows.complete_ns[joined.row])
    last[~joined.is_found] = NONE
    _exchange_completions(asked, rows, joined, queue_ns=first["queue_ns"], done_ns=last)
    found = Found(
        asked,
        queue_ns=first["queue_ns"],
        issue_ns=first["issue_ns"],
        device_complete_ns=last,
        piece_count=np.bincount(joined.owner, minlength=count),
        merge_count=joined.sum(rows.is_merged, count),
        split_count=joined.sum(rows.split_count, count),
    )
    found.counts.update(_counts(found, joined) | _others(asked, rows, is_own, joined.is_used))
    return found


def _exchange_completions(
    asked: Asked, rows: Queued, joined: Joined, *, queue_ns: Integers, done_ns: Integers
) -> None:
    """Give requests of one place that were in flight together each other's completions.

    The kernel's events do not tell such requests apart. It is done where one would have ended
    there later than the program saw it, and where then none does.
    """
    is_single = np.bincount(joined.owner, minlength=len(asked))[joined.owner] == 1
    owner, row = joined.owner[is_single], joined.row[is_single]
    columns = [getattr(rows, name)[row] for name in ("device", "operation", "sector", "sectors")]
    order = np.lexsort([asked.submit_ns[owner], *columns])
    owner, place = owner[order], np.stack(columns)[:, order]
    starts = np.flatnonzero((place[:, 1:] != place[:, :-1]).any(axis=0)) + 1
    # Most places are of one request only: look at those with a completion that is too late.
    bounds = np.concatenate([[0], starts, [len(owner)]])
    late = np.flatnonzero(done_ns[owner] > asked.complete_ns[owner])
    for number in np.unique(np.searchsorted(bounds, late, "right") - 1):
        mine = owner[bounds[number] : bounds[number + 1]]
        ends_ns = np.maximum.accumulate(asked.complete_ns[mine])
        apart = np.flatnonzero(asked.submit_ns[mine[1:]] > ends_ns[:-1]) + 1
        for some in np.split(mine, apart):
            together = some[np.argsort(asked.complete_ns[some], kind="stable")]
            times_ns = np.sort(done_ns[together])
            fits = (times_ns >= queue_ns[together]) & (times_ns <= asked.complete_ns[together])
            if (times_ns != NONE).all() and fits.all():
                done_ns[together] = times_ns


def _counts(found: Found, joined: Joined) -> dict[str, Any]:
    """Return what `Observed` says of the requests."""
    asked, done_ns = found.asked, found.device_complete_ns
    flushes = (asked.operation == WRITE) & (asked.flags & PREFLUSH != 0)
    is_split = (found.piece_count - flushes > 1) | (found.split_count > 0)
    return {
        "joined": int(joined.is_found.sum()),
        "unmatched": int((~joined.is_found & ~joined.is_uncached).sum()),
        "uncached": int(joined.is_uncached.sum()),
        "ambiguous": int((joined.is_ambiguous & joined.is_found).sum()),
        "merged": int((found.merge_count > 0).sum()),
        "split": int(is_split.sum()),
        "misplaced": int(((done_ns != NONE) & (done_ns > asked.complete_ns)).sum()),
        "queue_error_ns": _error(found.queue_ns, asked.intended_ns),
        "issue_error_ns": _error(found.issue_ns, asked.intended_ns),
        "queue_lag_ns": _error(found.queue_ns, asked.submit_ns),
        "order_changes": OrderChanges(
            queue=order_changes(asked, found.queue_ns), issue=order_changes(asked, found.issue_ns)
        ),
    }


def _others(asked: Asked, rows: Queued, is_own: Mask, is_used: Mask) -> dict[str, Any]:
    """Return what `Observed` says of I/O during the run that was of no request."""
    end_ns = int(asked.complete_ns.max(initial=0))
    is_during = (rows.queue_ns >= 0) & (rows.queue_ns <= end_ns)
    foreign = np.flatnonzero(is_during & ~is_own)
    names = Counter(rows.processes[code] or "unknown" for code in rows.process[foreign].tolist())
    # Nobody's, and it never reached the driver of a device that has one: it was given back, too.
    has_driver = np.isin(rows.device, np.unique(rows.device[rows.issue_ns != NONE]))
    never_issued = (rows.issue_ns == NONE) & (rows.sectors > 0) & has_driver & ~is_used
    is_refused = rows.is_refused | never_issued
    return {
        "foreign": len(foreign),
        "foreign_processes": dict(names.most_common(8)),
        "refused": int((is_during & is_own & is_refused).sum()),
        "unexplained": int((is_during & is_own & ~is_used & ~is_refused).sum()),
    }


def _error(times_ns: Integers, from_ns: Integers) -> Percentiles | None:
    is_known = (times_ns != NONE) & (from_ns != NONE)
    return percentiles(times_ns[is_known] - from_ns[is_known])


def percentiles(values: Integers) -> Percentiles | None:
    """Return the nearest ranks, None without values."""
    if not len(values):
        return None
    ordered = np.sort(values)
    steps = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}
    ranks = {name: -(-len(ordered) * step // 1000) - 1 for name, step in steps.items()}
    found = {name: int(ordered[rank]) for name, rank in ranks.items()}
    return Percentiles(count=len(ordered), min=int(ordered[0]), max=int(ordered[-1]), **found)


FEWEST = 20
"""Requests of which a median is taken as the lead."""
MOST_LEAD_NS = 10_000_000


def lead_of(lag: Percentiles | None) -> int | None:
    """Return the lead that makes up for the kernel's part, None where too little was seen."""
    enough = lag is not None and lag.count >= FEWEST
    return min(max(lag.p50, 0), MOST_LEAD_NS) if lag is not None and enough else None


def kept_lead(replays: Path, paths: Sequence[str], *, engine: str) -> tuple[int, str]:
    """Return the lead by the newest observed replay on these targets, and that one's name.

    (0, "none") without one. It holds until the machine is booted, and devices get other names.
    """
    newest_ns, found = -1, (0, "none")
    for file in sorted(replays.glob("*/summary.json")):
        try:
            summary = read_summary(file)
        except InputError:
            continue  # whoever reads that replay hears of it
        seen = summary.observed
        if not isinstance(seen, Observed) or seen.boot_id != boot_id() or seen.lost_events:
            continue
        lead_ns = lead_of(seen.queue_lag_ns)
        places = sorted(target.path or "" for target in summary.targets)
        is_same = summary.engine.asked == engine and places == sorted(paths)
        if lead_ns is not None and is_same and summary.clock.start_ns > newest_ns:
            newest_ns, found = summary.clock.start_ns, (lead_ns, file.parent.name)
    return found


def order_changes(asked: Asked, times_ns: Integers) -> int:
    """Return how many positions have another request than in the order in which they were due."""
    known = np.flatnonzero(times_ns != NONE)
    due = known[np.argsort(asked.intended_ns[known], kind="stable")]
    return int((np.argsort(times_ns[due], kind="stable") != np.arange(len(due))).sum())
