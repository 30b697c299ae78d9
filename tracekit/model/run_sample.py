"""The times of many placements of a long trace: of a sample of it, put right by all requests.

The sample is runs of requests, spread evenly over the trace. What one placement changes is worked
out on all requests, too; what all others change is taken to be off by the same ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tracekit._native import placement as native
from tracekit._native.placement import READ, WRITE, Rows
from tracekit.arrow import Integers, release_unused, row_count
from tracekit.model.answer import Answer, Cut, HeldOut, find_answers, saved_ratio
from tracekit.model.block_orders import TouchedBlocks
from tracekit.model.gain_range import Placed, TriedGains, placement_ps, try_gains
from tracekit.model.placement import (
    COUNTS,
    ChargedTrace,
    Curves,
    Splits,
    Timings,
    curves_at,
    read_rows,
    simulate_curves,
)
from tracekit.model.rival_sample import Part, rows_at
from tracekit.model.timed_requests import Runs
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

Counts = NDArray[np.uint32]


@dataclass(frozen=True)
class ShortTrace(ChargedTrace):
    """A trace that is read once."""

    kept: list[Rows] = field(default_factory=list)

    def rows(self) -> Iterator[Rows]:
        """Yield all rows; the first time keep them."""
        found: list[Rows] = []
        for rows in self.kept or read_rows(self.requests, self.touched.device_names):
            found.append(rows)
            yield rows
            if self.on_rows is not None:
                self.on_rows(len(rows.request_id))
        if not self.kept:
            self.kept.extend(found)


@dataclass(frozen=True)
class LongTrace(ChargedTrace):
    """A trace of which the first pass keeps a sample of runs."""

    kept: list[Rows] = field(default_factory=list)

    def rows(self) -> Iterator[Rows]:
        """Yield all rows."""
        if self.kept:
            yield from super().rows()
            release_unused()
            return
        runs, found = Runs.of(row_count(self.requests)), list[Rows]()
        for number, rows in enumerate(super().rows()):
            if runs.has(number):
                most = min(runs.length, len(rows.request_id))
                found.append(rows_at(rows, np.arange(most)))
            yield rows
        release_unused()
        self.kept.extend(found)

    def sample(self) -> Part:
        """Return the runs."""
        if not self.kept:
            for _ in self.rows():
                pass
        return Part(
            self.requests, self.touched, self.devices, self.is_issued, self.is_open, kept=self.kept
        )


def kept_trace(trace: ChargedTrace) -> ChargedTrace:
    """Return a trace that keeps what is read again: its rows, or a sample if it is long."""
    if Runs.of(row_count(trace.requests)).is_whole:
        return ShortTrace(**vars(trace))
    return trace if trace.is_open else LongTrace(**vars(trace))


def curves_of(trace: ChargedTrace, points: Integers, *, coverage: str, exact_at: int) -> Curves:
    """Return the curves of a trace; of a long one one answer's time is that of all requests."""
    if not (isinstance(trace, LongTrace) and trace.needs_events):
        return curves_at(trace, points)
    sampled = simulate_curves(trace.sample(), points)
    answer = find_answers(sampled, coverage).by_point[exact_at]
    plan = Placed(trace, answer.blocks, coverage, [trace.devices]).events()
    whole = native.simulate(plan, trace.rows())
    part = native.simulate(plan, trace.sample().rows())
    return _put_right(sampled, part, whole)


def _put_right(curves: Curves, part: native.Simulated, whole: native.Simulated) -> Curves:
    """Return curves of which one placement's time is that of all requests."""
    (alone_ps, placed_ps), (part_alone_ps, part_placed_ps) = whole.service_ps, part.service_ps
    changes = placed_ps - alone_ps, part_placed_ps - part_alone_ps
    up, down = changes if changes[0] * changes[1] > 0 else (alone_ps, max(part_alone_ps, 1))

    def scaled(change_ps: Integers) -> Integers:
        found: Integers = np.rint(change_ps * (up / down)).astype(np.int64)
        return found

    return replace(
        curves,
        base_ps=np.array(whole.role_service_ps, np.int64),
        change_ps={key: scaled(one) for key, one in curves.change_ps.items()},
        optimal_ps=scaled(curves.optimal_ps),
        totals=whole.totals,
        simulated={
            key: Timings(alone_ps + scaled(one.service_ps - part_alone_ps))
            for key, one in curves.simulated.items()
        },
        simulated_splits={
            key: Splits(scaled(one.change_ps), one.blocks)
            for key, one in curves.simulated_splits.items()
        },
        order_counts={name: getattr(whole, name) for name in COUNTS},
        sampled_requests=part.responses,
        sampled_off=saved_ratio(part_placed_ps, part_alone_ps) - saved_ratio(placed_ps, alone_ps),
    )


def gains_of(trace: ChargedTrace, answer: Answer, *, coverage: str, cut: Cut) -> TriedGains | None:
    """Return an answer's gains, from the sample of a long trace."""
    if not isinstance(trace, LongTrace):
        return try_gains(trace, answer, coverage=coverage, cut=cut)
    part = trace.sample()
    share = sum(len(rows.request_id) for rows in part.kept) / row_count(trace.requests)
    short = Cut(requests=max(round(cut.requests * share), 1)) if cut.requests else cut
    found = try_gains(part, answer, coverage=coverage, cut=short)
    if found is None:
        return None
    for window in found.windows:
        window.requests = round(window.requests / share)
    return replace(found, cut=cut)


def hold_out(trace: ChargedTrace, answer: Answer, *, coverage: str) -> HeldOut | None:
    """Score an answer on the second half of the requests, and one chosen by the first half.

    None where nothing is placed, and for a trace of which neither all nor a sample is in memory.
    """
    parts = halves_of(trace)
    if answer.placement == "base" or parts is None:
        return None
    before, second = parts
    known = np.bincount(
        before.touched.role[before.touched.accesses > 0], minlength=len(ROLES)
    ).tolist()
    whole = trace.touched.role_blocks().tolist()
    # Of a role that is placed as a whole no block need be known.
    shares = {
        role: count if count >= whole[index] else min(count, known[index])
        for index, role in enumerate(ROLES)
        if (count := answer.blocks.get(role, 0))
    }
    gains = []
    for blocks, placed in ((trace.touched, answer.blocks), (before.touched, shares)):
        alone_ps, placed_ps = placement_ps(
            replace(second, touched=blocks), placed, coverage=coverage
        )
        gains.append(saved_ratio(placed_ps, alone_ps))
    gain_ratio, before_ratio = gains
    return HeldOut(requests_of(second), gain_ratio, before_ratio)


def requests_of(part: Part) -> int:
    """Return how many requests a part of a trace has."""
    return sum(len(rows.request_id) for rows in part.kept)


def halves_of(trace: ChargedTrace) -> tuple[Part, Part] | None:
    """Return the first half of the requests, with their own accesses, and the second.

    None for a trace of which neither all nor a sample is in memory.
    """
    if not isinstance(trace, ShortTrace | LongTrace):
        return None
    kept = trace.sample().kept if isinstance(trace, LongTrace) else [*trace.rows()]
    first, second = (
        Part(trace.requests, trace.touched, trace.devices, trace.is_issued, trace.is_open, kept=one)
        for one in _halves(kept)
    )
    touched = replace(trace.touched, accesses=_accesses(trace.touched, first.kept))
    return replace(first, touched=touched), second


def _halves(kept: list[Rows]) -> tuple[list[Rows], list[Rows]]:
    left = sum(len(rows.request_id) for rows in kept) // 2
    first, second = list[Rows](), list[Rows]()
    for rows in kept:
        count = min(left, len(rows.request_id))
        left -= count
        first += [_slice(rows, 0, count)] if count else []
        second += [_slice(rows, count, None)] if count < len(rows.request_id) else []
    return first, second


def _slice(rows: Rows, begin: int, end: int | None) -> Rows:
    parts = ((name, one) for name, one in vars(rows).items() if one is not None)
    return replace(rows, **{name: one[begin:end] for name, one in parts})


def _accesses(touched: TouchedBlocks, kept: list[Rows]) -> Counts:
    """Return how many of these reads and writes touch each block."""
    shift = touched.devices["first_key"] - touched.devices["first_block"]
    steps = np.zeros(len(touched.keys) + 1, np.int64)
    for rows in kept:
        is_data = np.isin(rows.action, (READ, WRITE)) & (rows.length_bytes > 0)
        at, moved = rows.sector[is_data] * SECTOR_BYTES, shift[rows.device[is_data]]
        last = (at + rows.length_bytes[is_data] - 1) // BLOCK_BYTES + moved
        begin = np.searchsorted(touched.keys, at // BLOCK_BYTES + moved)
        end = np.searchsorted(touched.keys, last, side="right")
        steps += np.bincount(begin, minlength=len(steps)) - np.bincount(end, minlength=len(steps))
    return np.cumsum(steps[:-1]).astype(np.uint32)
