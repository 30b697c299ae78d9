"""Requests as the device got them, with their times, and how much of its time each took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import FLUSH, READ, UNCHARGED, WRITE
from tracekit.arrow import (
    BATCH_ROWS,
    Floats,
    Integers,
    ahead,
    flags,
    name_codes,
    numbers,
    read_columns,
    release_unused,
    row_count,
)
from tracekit.tables import OPERATIONS, role_codes
from tracekit.units import SECTOR_BYTES

TIMES = ["queue_ns", "getrq_ns", "insert_ns", "issue_ns", "complete_ns"]
COLUMNS = [
    *TIMES, "request_id", "merged_into", "sector", "length_bytes", "device", "operation", "role",
    "is_fua", "is_preflush", "pid",
]  # fmt: skip
WHOLE_ROWS = 1 << 19
SAMPLE_ROWS = 1 << 18
"""Of a trace of more than WHOLE_ROWS so many are in the sample, in runs spread evenly over it."""
LEAST_RUN = 1 << 12
MOST_SECTOR, MOST_BYTES = 1 << 57, (1 << 32) - 1  # as of replayer/model/row_reader.c
FOREVER = np.iinfo(np.int64).max
NEVER = -1
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class TimedRequests:
    """Reads, writes and flushes in queue order; those merged into one are a part of it.

    Times are in ns, NEVER where they are not known: queued, begun (a preflush in the device's
    queue, or issued), issued, completed. Without issue times a request is issued when queued.
    """

    device: NDArray[np.int32]
    action: NDArray[np.uint8]  # READ, WRITE or FLUSH
    role: NDArray[np.uint8]
    sector: Integers
    sectors: Integers
    is_fua: Flags
    is_preflush: Flags
    stream: Integers
    queue_ns: Integers
    begin_ns: Integers
    issue_ns: Integers
    end_ns: Integers

    def __len__(self) -> int:
        """Return how many they are."""
        return len(self.device)

    def where(self, chosen: Any) -> TimedRequests:
        """Return some of them, by a mask or positions."""
        return TimedRequests(*(column[chosen] for column in vars(self).values()))

    @property
    def is_timed(self) -> Flags:
        """Those of which begin and end are known."""
        return (
            (self.begin_ns >= 0) & (self.issue_ns >= self.begin_ns) & (self.end_ns >= self.issue_ns)
        )

    @property
    def is_data(self) -> Flags:
        """Reads and writes."""
        return np.asarray(self.action != FLUSH)


_NOTHING = TimedRequests(*(np.empty(0, kind) for kind in (
    np.int32, np.uint8, np.uint8, np.int64, np.int64, np.bool_, np.bool_, *[np.int64] * 5
)))  # fmt: skip


def join(parts: Sequence[TimedRequests]) -> TimedRequests:
    """Return the requests of several one after the other."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return TimedRequests(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True)
class Runs:
    """Which batches of a table are in a sample, and how many rows of each, from its first."""

    batches: int
    count: int
    length: int
    is_whole: bool

    @classmethod
    def of(cls, rows: int) -> Runs:
        """Choose them for a table of so many rows."""
        batches = -(-rows // BATCH_ROWS)
        if rows <= WHOLE_ROWS:
            return cls(batches, batches, BATCH_ROWS, is_whole=True)
        count = min(batches, SAMPLE_ROWS // LEAST_RUN)
        return cls(batches, count, SAMPLE_ROWS // count, is_whole=False)

    def has(self, number: int) -> bool:
        """Whether a batch, from 0, has a run in the sample."""
        return (number + 1) * self.count // self.batches > number * self.count // self.batches


@dataclass
class Sample:
    """Requests of a trace: all of a small one, else runs of it, without the time between them."""

    requests: TimedRequests
    has_issues: bool  # formats without issue events have no issue time
    is_whole: bool
    charged: int  # requests of the whole trace
    timed: int  # of which begin and end are known
    busy_ns: int  # in which a device had one of these in flight, added up over devices
    begin_ns: int  # when the first of them was queued
    end_ns: int  # and the last one completed


def has_issue_times(requests: Path) -> bool:
    """Whether a request of requests.parquet has the time of its issue."""
    issues = (column["issue_ns"] for column in read_columns(requests, ["issue_ns"]))
    return any(one.null_count < len(one) for one in issues)


def read_sample(requests: Path, device_names: list[str]) -> Sample:
    """Return the requests of requests.parquet, or so many that they fit, and what all took."""
    has_issues = has_issue_times(requests)
    runs = Runs.of(row_count(requests))
    busy = [BusyTime() for _ in [*device_names, "others"]]
    parts: list[TimedRequests] = []
    found = Sample(_NOTHING, has_issues, runs.is_whole, 0, 0, 0, FOREVER, 0)
    for number, (batch, until_ns) in enumerate(
        _batches(requests, device_names, has_issues=has_issues)
    ):
        timed = batch.where(batch.is_timed)
        found.charged, found.timed = found.charged + len(batch), found.timed + len(timed)
        for device, one in enumerate(busy):
            mine = timed.device == device
            one.add(timed.begin_ns[mine], timed.end_ns[mine], until_ns=until_ns)
        if len(timed):
            found.begin_ns = min(found.begin_ns, int(timed.queue_ns.min()))
            found.end_ns = max(found.end_ns, int(timed.end_ns.max()))
        if runs.is_whole:
            parts.append(batch)
        elif runs.has(number):
            parts.append(batch.where(np.arange(min(len(batch), runs.length))))
    for one in busy:
        one.add(*np.empty((2, 0), np.int64))
    found.busy_ns = sum(one.total_ns for one in busy)
    release_unused()
    found.requests = join([found.requests, *(parts if runs.is_whole else _closed_up(parts))])
    return found


def _closed_up(runs: Sequence[TimedRequests]) -> Iterator[TimedRequests]:
    """Yield runs moved in time, so that each begins as if it came right after the one before.

    Else a process would think, and a queue be empty, for as long as what is left out took.
    """
    reached_ns: int | None = None
    for run in runs:
        known = run.queue_ns[run.queue_ns >= 0]
        if not len(known):
            continue
        first_ns, last_ns = int(known.min()), int(known.max())
        shift_ns = 0 if reached_ns is None else first_ns - reached_ns
        times = ("queue_ns", "begin_ns", "issue_ns", "end_ns")
        moved: dict[str, Any] = {name: getattr(run, name) for name in times}
        yield replace(
            run, **{name: np.where(one >= 0, one - shift_ns, one) for name, one in moved.items()}
        )
        reached_ns = last_ns - shift_ns + (last_ns - first_ns) // max(len(known) - 1, 1)


def _batches(
    requests: Path, device_names: list[str], *, has_issues: bool
) -> Iterator[tuple[TimedRequests, int]]:
    """Yield the requests in batches, with a time before which no later one begins.

    A request that was merged into one of another batch is left out.
    """
    action_of = np.full(len(OPERATIONS) + 1, UNCHARGED, np.uint8)
    for name, code in (("read", READ), ("write", WRITE), ("flush", FLUSH)):
        action_of[OPERATIONS.index(name)] = code
    reached_ns = 0
    for column in ahead(read_columns(requests, COLUMNS)):
        action = action_of[name_codes(column["operation"], list(OPERATIONS))]
        batch = _batch(column, action, device_names, has_issues=has_issues)
        if len(batch.queue_ns):
            reached_ns = max(reached_ns, int(batch.queue_ns[-1]))
        yield batch, reached_ns


def _batch(
    column: dict[str, Any], action: NDArray[np.uint8], names: list[str], *, has_issues: bool
) -> TimedRequests:
    queue, getrq, insert, issue, complete = (numbers(column[name]) for name in TIMES)
    sector, length = numbers(column["sector"]), numbers(column["length_bytes"])
    end = sector + -(-length // SECTOR_BYTES)
    merged, first = numbers(column["merged_into"]), numbers(column["request_id"])[:1]
    rows = np.flatnonzero((merged >= 0) & (length > 0))
    target = merged[rows] - (first[0] if len(first) else 0)
    rows, target = (part[(target >= 0) & (target < len(merged))] for part in (rows, target))
    sector, end = sector.copy(), end.copy()
    np.minimum.at(sector, target, sector[rows])
    np.maximum.at(end, target, end[rows])
    is_preflush, is_flush = flags(column["is_preflush"]), action == FLUSH
    began = np.where(insert >= 0, insert, np.where(getrq >= 0, getrq, queue))
    issue = np.where(issue >= 0, issue, queue) if not has_issues else issue
    issue = np.where(is_flush & (issue < 0), began, issue)
    found = TimedRequests(
        device=name_codes(column["device"], names),
        action=action,
        role=role_codes(column["role"]).astype(np.uint8),
        sector=sector,
        sectors=end - sector,
        is_fua=flags(column["is_fua"]),
        is_preflush=is_preflush & ~is_flush,
        stream=numbers(column["pid"]),
        queue_ns=np.where(queue >= 0, queue, issue),
        begin_ns=np.where(is_preflush & ~is_flush & (began >= 0), np.minimum(began, issue), issue),
        issue_ns=issue,
        end_ns=complete,
    )
    is_possible = (sector >= 0) & (sector < MOST_SECTOR) & (length > 0) & (length <= MOST_BYTES)
    is_charged = is_flush | ((action != UNCHARGED) & is_possible & (merged < 0))
    return found.where(is_charged & ((issue >= 0) | ~np.bool_(has_issues)))


@dataclass
class BusyTime:
    """How long a device had a request in flight; its requests come as `read_timed` has them."""

    total_ns: int = 0
    _reached_ns: int = 0
    _begin_ns: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    _end_ns: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, begin_ns: Integers, end_ns: Integers, *, until_ns: int = FOREVER) -> None:
        """Take requests, before the later ones of which the time `until_ns` has passed."""
        begin = np.maximum(np.concatenate([self._begin_ns, begin_ns]), self._reached_ns)
        end = np.concatenate([self._end_ns, end_ns])
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
        last = np.maximum.accumulate(end)
        before = np.concatenate([[self._reached_ns], last])[: len(last)]
        covered = np.minimum(last, until_ns) - np.maximum(begin, before)
        self.total_ns += int(np.maximum(covered, 0).sum())
        is_open = end > until_ns
        self._begin_ns, self._end_ns = begin[is_open], end[is_open]
        self._reached_ns = max(self._reached_ns, until_ns)


def busy_shares(device: NDArray[Any], begin_ns: Integers, *, end_ns: Integers) -> Floats:
    """Return each request's part of its device's busy time, which those in flight share equally.

    The parts of a device add up to the time in which it had a request in flight.
    """
    shares = np.zeros(len(device))
    for one in range(int(device.max()) + 1 if len(device) else 0):
        mine = np.flatnonzero(device == one)
        times = np.concatenate([begin_ns[mine], end_ns[mine]])
        steps = np.repeat([1, -1], len(mine))
        order = np.argsort(times, kind="stable")
        depth = np.cumsum(steps[order])[:-1]
        parts = np.diff(times[order]) / np.maximum(depth, 1) * (depth > 0)
        passed = np.empty(len(times))
        passed[order] = np.concatenate([[0.0], np.cumsum(parts)])[: len(times)]
        shares[mine] = passed[len(mine) :] - passed[: len(mine)]
    return shares


def continues(requests: TimedRequests, served: Flags, *, first: Integers, end: Integers) -> Flags:
    """Whether each that a device served begins where the one before it there ended.

    `first` and `end` are the sectors of what was served of each, in issue order.
    """
    found = np.zeros(len(requests), np.bool_)
    order = np.lexsort((requests.issue_ns, requests.device))
    order = order[served[order]]
    same = requests.device[order][1:] == requests.device[order][:-1]
    found[order[1:]] = same & (first[order][1:] == end[order][:-1])
    return found
