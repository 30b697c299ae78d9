"""Does the recommendation hold on other devices, in each part of the trace, at other capacities?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import structs, to_builtins

from tracekit._native.placement import READ, WRITE
from tracekit.arrow import Integers
from tracekit.errors import UsageError
from tracekit.metadata import Record
from tracekit.model import answer as choice
from tracekit.model.answer import (
    Answer,
    PartGain,
    Recommendation,
    WindowGain,
    gain_text,
    placement_name,
)
from tracekit.model.best_placement import OnNvm, time_ps
from tracekit.model.block_orders import TouchedBlocks
from tracekit.model.changes import LARGEST_FACTOR, LEAST_FACTOR, Change, changed_devices, variants
from tracekit.model.gain_range import FACTORS, TriedGains, Window, choose_cut, try_gains, windows
from tracekit.model.placement import ChargedTrace, curves_at, distinct, to_ns
from tracekit.model.unit_answer import read_units
from tracekit.store import TraceFolder, write_results
from tracekit.tables import SENSITIVITY
from tracekit.units import BLOCK_BYTES, format_duration, format_size

TABLE = "simulations/sensitivity"
RESULT = "simulations/sensitivity.json"
POINTS = 256
OnStep = Callable[[str, int, int], None]
DEVICES = {"base": "the base device", "nvm": "the NVM"}


@dataclass(frozen=True)
class SensitivityOptions:
    """Which answer is tried, by what factors devices change; None for windows: chosen."""

    placement: str = choice.ANSWER
    factors: tuple[float, ...] = FACTORS
    windows: str | None = None  # how many, or how long one is

    def __post_init__(self) -> None:
        """Check the factors."""
        for factor in self.factors:
            if not LEAST_FACTOR <= factor <= LARGEST_FACTOR or factor == 1:
                raise UsageError(
                    f"--factors {factor:g}: not between {LEAST_FACTOR:g} and {LARGEST_FACTOR:g},"
                    " or 1",
                    hint="for example --factors 0.5,2",
                )
        if not self.factors:
            raise UsageError("--factors: no factor", hint="for example --factors 0.5,2")


class Trial(Record):
    """A row of the table: the best answer as recommended, on other devices, or in a window.

    `kept_*` are of the recommended shares.
    """

    kind: str
    """recommended, parameter, window or capacity"""
    placement: str
    gain_ratio: float
    holds: bool
    capacity_bytes: int = 0
    requests: int = 0
    base_ns: int = 0
    kept_ns: int | None = None
    kept_gain_ratio: float | None = None
    device: str | None = None
    parameter: str | None = None
    factor: float | None = None
    window: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def gain(self) -> float:
        """The gain of the recommended shares, or of the best where these were not timed."""
        return self.gain_ratio if self.kept_gain_ratio is None else self.kept_gain_ratio


class Sensitivity(Record):
    """The content of simulations/sensitivity.json."""

    answer: Answer
    base_profile: str
    nvm_profile: str
    gain_ratio: float
    gain_range: dict[str, list[float]]
    """Least and largest gain of the recommended shares, by kind."""
    held: int
    tried: int
    headline: list[str]
    window_ns: int | None
    window_requests: int | None
    factors: list[float]
    requests_without_time: int


def headline(answer: Answer, rows: Sequence[Trial]) -> list[str]:
    """Return a sentence on devices, one on windows, and one on capacities."""
    changed = [row for row in rows if row.kind == "parameter" and row.requests]
    parts = [row for row in rows if row.kind == "window" and row.requests]
    is_by_units = answer.placement == choice.BY_UNITS
    what = "placing whole units" if is_by_units else placement_name(answer.placement)
    is_best = "still saves time" if is_by_units else "is still the best answer"
    given = f"With {format_size(answer.capacity_bytes)}, {what}"
    found = [f"{given} saves {answer.gain_ratio:.1%} of the base device's time."]
    if changed:
        least, most = _ends(changed)
        found.append(
            f"On {_held(changed)} of {len(changed)} changed devices it {is_best}; the gain is"
            f" {gain_text(least.gain)} ({parameter_name(least)}) to"
            f" {gain_text(most.gain)} ({parameter_name(most)})."
        )
    if parts:
        least, most = _ends(parts)
        found.append(
            f"In {_held(parts)} of {len(parts)} windows it {is_best.replace('still ', '')}; it"
            f" {_saving(least.gain)} in the worst of them ({window_name(least)}) and"
            f" {_saving(most.gain)} in the best ({window_name(most)})."
        )
    others = sorted({row.placement for row in [*changed, *parts] if not row.holds})
    if others:
        found.append(f"Otherwise better: {', '.join(placement_name(name) for name in others)}.")
    return [*found, *_capacity_words(rows)]


def _ends(rows: Sequence[Trial]) -> tuple[Trial, Trial]:
    least, most = (choose(rows, key=lambda row: row.gain) for choose in (min, max))
    return least, most


def parameter_name(change: Trial | PartGain) -> str:
    """Name a change: `read setup of the NVM x 2`."""
    words = str(change.parameter).replace("_", " ")
    return f"{words} of {DEVICES[str(change.device)]} x {change.factor:g}"


def window_name(window: Trial | WindowGain) -> str:
    """Name a window: `window 3, from 12 s`."""
    if window.window == 1:
        return "window 1, from the start"
    began = f", from {format_duration(window.start_ns)}" if window.start_ns else ""
    return f"window {window.window}{began}"


def _saving(gain_ratio: float) -> str:
    """Return what a window gains, or that it takes longer than on the base device alone."""
    if gain_ratio <= -1:
        return f"takes {choice.longer(-gain_ratio)} the base device alone"
    if gain_ratio < 0:
        return f"takes {-gain_ratio:.1%} more time than the base device alone"
    return f"saves {gain_ratio:.1%} of the time"


def _held(rows: Sequence[Trial]) -> int:
    return sum(row.holds for row in rows)


def _capacity_words(rows: Sequence[Trial]) -> list[str]:
    sizes = [row for row in rows if row.kind == "capacity"]
    same = [row.capacity_bytes for row in sizes if row.holds]
    if not same:
        return []
    if len(same) == len(sizes):
        return ["It is the answer at every capacity."]
    least, most = format_size(min(same)), format_size(max(same))
    place = f"around {least}" if least == most else f"from {least} to {most}"
    return [f"It is the answer {place}, at"
            f" {len(same)} of {len(sizes)} capacities."]  # fmt: skip


def _tried(advice: Recommendation, answer: Answer, case: _Case, *, on_nvm: OnNvm | None) -> Trial:
    """Return the time of the base, of the recommended shares or units, and the best answer."""
    if on_nvm is not None:
        return _kept(answer, case, on_nvm)
    points = _points(answer)
    curves = curves_at(case.trace, points)
    index = int(np.searchsorted(points, answer.capacity_bytes // BLOCK_BYTES))
    best = choice.find_answers(curves, advice.coverage).by_point[index]
    row = _trial(case.kind, best, answer, sum(curves.totals.requests), **case.fields)
    if not curves.simulated:
        change_ps = curves.changed_ps(advice.coverage, answer.blocks)
        row.kept_ns = to_ns(curves.base_total_ps + change_ps)
        row.kept_gain_ratio = 1 - row.kept_ns / row.base_ns if row.base_ns else 0.0
    return row


def _answer(
    folder: TraceFolder,
    advice: Recommendation,
    options: SensitivityOptions,
    *,
    touched: TouchedBlocks,
) -> tuple[Answer, OnNvm | None]:
    """Return the answer that is tried, and its blocks where it is of whole units."""
    units = advice.units
    if units is None or choice.resolved(advice, options.placement) != choice.BY_UNITS:
        return choice.choose_answer(advice, options.placement), None
    answer = structs.replace(
        advice.answer,
        **dict.fromkeys(choice.PLACED_BYTES.values(), 0),
        placement=choice.BY_UNITS,
        elapsed_ns=units.elapsed_ns,
        gain_ratio=units.gain_ratio,
        runner_up="base",
        runner_up_elapsed_ns=units.base_elapsed_ns,
        margin_ratio=units.gain_ratio,
    )
    return answer, read_units(folder, touched)


def _kept(answer: Answer, case: _Case, on_nvm: OnNvm) -> Trial:
    """Return the time of the base and of the recommended units, which hold where these save."""
    base_ps, kept_ps = time_ps(case.trace, on_nvm)
    gain_ratio = choice.saved_ratio(kept_ps, base_ps)
    return Trial(
        kind=case.kind,
        placement=choice.BY_UNITS if gain_ratio > 0 else "base",
        gain_ratio=max(gain_ratio, 0.0),
        holds=gain_ratio > 0,
        capacity_bytes=answer.capacity_bytes,
        requests=sum(int(np.isin(rows.action, (READ, WRITE)).sum()) for rows in case.trace.rows()),
        base_ns=to_ns(base_ps),
        kept_ns=to_ns(kept_ps),
        kept_gain_ratio=gain_ratio,
        **case.fields,
    )


def _trial(kind: str, best: Answer, answer: Answer, requests: int, **named: Any) -> Trial:
    return Trial(
        kind=kind,
        placement=best.placement,
        gain_ratio=best.gain_ratio,
        holds=best.placement == answer.placement,
        capacity_bytes=best.capacity_bytes,
        requests=requests,
        base_ns=best.base_elapsed_ns,
        **named,
    )


def simulate_sensitivity(
    folder: TraceFolder, options: SensitivityOptions, *, on_step: OnStep = lambda *_: None
) -> Sensitivity:
    """Write simulations/sensitivity and its JSON; return the latter's content."""
    advice = choice.read_recommendation(folder)
    trace = choice.charged_trace(folder, advice)
    answer, on_nvm = _answer(folder, advice, options, touched=trace.touched)
    cut = choose_cut(folder, options.windows)
    with windows(folder, cut) as (parts, timeless):
        cases = list(_cases(trace, variants(trace.devices, options.factors), parts))
        rows: list[Trial] = []
        for case in cases:
            on_step(case.kind, len(rows), len(cases))
            rows.append(_tried(advice, answer, case, on_nvm=on_nvm))
    if any(row.kept_ns is None for row in rows):
        coverage = advice.coverage
        _keep(rows, try_gains(trace, answer, coverage=coverage, cut=cut, factors=options.factors))
    tried = [row for row in rows[1:] if row.requests]
    requests = sum(role.requests for role in advice.roles.values())
    if on_nvm is None:
        rows += [_trial("capacity", other, answer, requests) for other in advice.answers]
    result = Sensitivity(
        answer=answer,
        base_profile=advice.base_profile,
        nvm_profile=advice.nvm_profile,
        gain_ratio=answer.gain_ratio,
        gain_range=_ranges(tried),
        held=_held(tried),
        tried=len(tried),
        headline=headline(answer, rows),
        window_ns=cut.length_ns,
        window_requests=cut.requests,
        factors=list(options.factors),
        requests_without_time=timeless,
    )
    table = pa.Table.from_pylist([to_builtins(row) for row in rows], SENSITIVITY)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def _ranges(tried: Sequence[Trial]) -> dict[str, list[float]]:
    """Return the least and the largest gain over changed devices, and over windows."""
    gains = {
        kind: [row.gain for row in tried if row.kind == kind] for kind in ("parameter", "window")
    }
    return {kind: [min(some), max(some)] for kind, some in gains.items() if some}


@dataclass(frozen=True)
class _Case:
    """Devices or requests with which the answer is tried, and the fields of its row."""

    kind: str
    trace: ChargedTrace
    fields: dict[str, Any]


def _cases(
    trace: ChargedTrace, changes: Iterator[Change], parts: Sequence[tuple[Window, Path]]
) -> Iterator[_Case]:
    yield _Case("recommended", trace, {})
    for change in changes:
        changed = replace(trace, devices=changed_devices(trace.devices, change))
        yield _Case("parameter", changed, vars(change))
    for part, table in parts:
        fields = {"window": part.number, "start_ns": part.start_ns, "end_ns": part.end_ns}
        yield _Case("window", replace(trace, requests=table), fields)


def _points(answer: Answer) -> Integers:
    """Return the capacities at which splits are tried: the shares, the whole, and some between."""
    end = answer.capacity_bytes // BLOCK_BYTES
    even = np.rint(np.linspace(0, end, min(POINTS, end + 1))).astype(np.int64)
    return distinct([even, 0, end, *answer.blocks.values()])


def _keep(rows: list[Trial], found: TriedGains | None) -> None:
    """Set the time of the recommended shares where events are simulated, all from one pass."""
    if found is None:
        return
    gains: dict[tuple[object, ...], float] = {(None,) * 4: found.gain_ratio}
    gains |= {(one.device, one.parameter, one.factor, None): one.gain_ratio for one in found.parts}
    gains |= {(None, None, None, one.window): one.gain_ratio for one in found.windows}
    for row in rows:
        gain = gains.get((row.device, row.parameter, row.factor, row.window))
        if gain is not None:
            row.kept_gain_ratio = gain
            row.kept_ns = round(row.base_ns * (1 - gain))
