"""The stage `recommend`: curves, answers and their wording, from a classified trace folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import structs

from tracekit.arrow import constant_column, int64_column, read_columns
from tracekit.devices import DevicePair, Profile, choose_profile, load_profiles
from tracekit.model.answer import (
    KNEE_RATIO,
    LASTING_RATIO,
    PLACED_BYTES,
    RESULT,
    SPLIT,
    WORTH_RATIO,
    Answer,
    Answers,
    Candidate,
    CoverageAnswer,
    Ends,
    GainRange,
    Grid,
    PartGain,
    PlacementTimes,
    Recommendation,
    RoleTotals,
    WindowGain,
    candidates,
    find_answers,
    make_grid,
    only_shown,
    placement_name,
    role_sets,
    shared,
)
from tracekit.model.block_orders import read_blocks
from tracekit.model.event_simulation import BASE_ALONE, OPTIMUM, curves_at
from tracekit.model.gain_range import try_gains
from tracekit.model.placement import COVERAGES, ChargedTrace, Curves, Timings, to_ns
from tracekit.model.sensitivity import parameter_name, window_name
from tracekit.model.timings import (
    OPEN,
    SERIAL,
    journal_notes,
    journal_use,
    times_at,
    timing_notes,
    timings,
)
from tracekit.model.windows import choose_cut
from tracekit.store import TraceFolder, write_results
from tracekit.tables import PLACEMENT, ROLE_NAMES, ROLES
from tracekit.units import BLOCK_BYTES, format_duration, format_size

TABLE = "simulations/placement"
LEFT_OUT = ("uncharged", "not_issued", "orphan_merges", "impossible", "missing_blocks")
LEVELS = {
    "issued": "requests are charged as issued: merged ones together, in issue order",
    "queued": "requests are charged as queued: each on its own, in queue order",
}
FLIPS_SHOWN = 4
UNKNOWN_SHOWN_RATIO = 0.05


@dataclass(frozen=True)
class RecommendOptions:
    """What the user chose; sizes in bytes."""

    base: str = "hdd-7200"
    nvm: str = "dax-pcm"
    capacities_bytes: tuple[int, ...] = ()
    max_capacity_bytes: int | None = None
    coverage: str = "hottest"
    level: str = "issued"
    queueing: str = SERIAL
    profiles: Path | None = None


def recommend(
    folder: TraceFolder, options: RecommendOptions, *, on_rows: Callable[[int], None] | None = None
) -> Recommendation:
    """Write simulations/placement and recommendation.json; return the latter's content."""
    known = load_profiles(options.profiles)
    devices = DevicePair(*(choose_profile(known, name) for name in (options.base, options.nvm)))
    requests = folder.require("requests", made_by="parse")
    touched = read_blocks(folder.require("blocks", made_by="classify"))
    is_issued = options.level == "issued" and _has_issues(requests)
    is_open = options.queueing == OPEN
    trace = ChargedTrace(requests, touched, devices, is_issued, is_open, on_rows)
    grid = make_grid(
        touched.role_blocks().tolist(),
        options.capacities_bytes,
        max_bytes=options.max_capacity_bytes,
    )
    if trace.needs_events:
        grid = only_shown(grid)
    curves = curves_at(trace, grid.fine)
    result = _result(folder, options, trace, grid, curves)
    found = try_gains(
        replace(trace, on_rows=None),
        result.answer,
        coverage=options.coverage,
        cut=choose_cut(folder),
    )
    if found is not None:
        result.gain_range = found.range()
        result.headline.append(range_sentence(result.gain_range))
    write_results(folder, RESULT, result=result, tables={TABLE: _table(devices, grid, curves)})
    return result


def _has_issues(requests: Path) -> bool:
    """Say whether any request has an issue time; formats without issue events have none."""
    columns = (column["issue_ns"] for column in read_columns(requests, ["issue_ns"]))
    return any(column.null_count < len(column) for column in columns)


def _result(
    folder: TraceFolder, options: RecommendOptions, trace: ChargedTrace, grid: Grid, curves: Curves
) -> Recommendation:
    level = "issued" if trace.is_issued else "queued"
    answers = find_answers(curves, options.coverage)
    answer = answers.by_point[grid.headline]
    (other_coverage,) = {*COVERAGES} - {options.coverage}
    other = find_answers(curves, other_coverage).by_point[grid.headline]
    journal = journal_use(folder, curves)
    return Recommendation(
        base_profile=trace.devices.base.name,
        nvm_profile=trace.devices.nvm.name,
        profiles=list(trace.devices),
        level=level,
        queueing=options.queueing,
        coverage=options.coverage,
        headline=headline(curves, answers, answer=answer, other=other, nvm=trace.devices.nvm),
        answer=answer,
        other_coverage=CoverageAnswer(**structs.asdict(other), coverage=other_coverage),
        role_sets=role_sets(curves, options.coverage, index=grid.headline),
        answers=[answers.by_point[index] for index in grid.shown],
        flips=answers.flips,
        single_role_flips=answers.single_role_flips,
        knee=answers.knee,
        best=answers.best,
        footprint_bytes=int(curves.role_blocks.sum()) * BLOCK_BYTES,
        roles=_roles(curves),
        times=_times(curves, answer, grid.headline, options.coverage),
        journal=journal,
        left_out={name: getattr(curves.totals, name) for name in LEFT_OUT},
        assumptions=[
            _headline_rule(options, answer),
            *assumptions(curves, trace.devices, level=level, coverage=options.coverage),
            *_level_note(options, level),
            *journal_notes(journal),
            *_mixed_note(folder),
        ],
    )


def headline(
    curves: Curves, answers: Answers, *, answer: Answer, other: Answer, nvm: Profile
) -> list[str]:
    """Return the three lines: what to place, by what margin, and where the answer changes.

    `other` is the answer at the same capacity with the other coverage.
    """
    if not curves.base_total_ps:
        return [
            "The trace has no read, write or flush: there is nothing to place.",
            "No placement is ahead of another.",
            "No capacity changes that.",
        ]
    return [
        _first_line(curves, answer, nvm) + _elsewhere(curves),
        _second_line(answer, other),
        _third_line(answers),
    ]


def assumptions(curves: Curves, devices: DevicePair, *, level: str, coverage: str) -> list[str]:
    """Return the sentences that a reader must know to judge the answer."""
    base, nvm = devices
    how = {
        "hottest": "a role that does not fit is covered hottest block first (most accesses first)",
        "start": "a role that does not fit is covered from its start (lowest touched block first)",
    }[coverage]
    continued = [
        device.name
        for device in devices
        if device.sequential_setup_us is not None and not device.has_head
    ]
    rule = f"; on {' and '.join(continued)} it then costs its transfer" if continued else ""
    return [
        f"the base device is {base.name} ({base.about}), the NVM {nvm.name} ({nvm.about})",
        *timing_notes(curves, devices),
        f"{LEVELS[level]}; each device that holds blocks of a request costs its latency once",
        f"a request continues the previous one where that ended on the same device and role{rule}",
        f"{how}; capacity counts whole 4 KiB blocks that the trace touched",
        "flushes and preflushes are charged as queued: the base device's while the role is wholly"
        " there, the longer of both while it is on both, NVM's once all its blocks are on NVM",
        f"a split between roles is recommended from where it saves {WORTH_RATIO:.0%} of the base"
        " device's time over the best single role; smaller changes of the answer are not listed,"
        f" nor are answers that hold for less than {LASTING_RATIO - 1:.0%} more capacity",
        "the optimum of the study places the blocks with most accesses first whatever their role;"
        " it knows the future and is shown for comparison",
        *_left_out(curves),
    ]


def _first_line(curves: Curves, answer: Answer, nvm: Profile) -> str:
    given = f"With {format_size(answer.capacity_bytes)} of {nvm.name}"
    if answer.placement == "base":
        return (
            f"{given}, leave everything on the base device: no placement takes less than its"
            f" {format_duration(answer.base_elapsed_ns)}."
        )
    return (
        f"{given}, place {_parts(curves, answer)} there: {_measure(curves)} falls by"
        f" {answer.gain_ratio:.1%}, from {format_duration(answer.base_elapsed_ns)} to"
        f" {format_duration(answer.elapsed_ns)} (the hottest blocks of all roles:"
        f" {format_duration(answer.optimal_elapsed_ns)})."
    )


def range_sentence(found: GainRange) -> str:
    """Return the gain as a range, over changed devices and over the windows of the trace."""
    factors = " or ".join(f"{factor:g}" for factor in found.factors)
    window = found.window
    if window is not None and window.tried > 1:
        ends = _ends(window, window_name(window.low), window_name(window.high))
        over = f"the {window.tried} windows of the trace, {ends}"
    else:
        over = "the only window of the trace the same"
    part = found.parameter
    ends = _ends(part, parameter_name(part.low), parameter_name(part.high)) if part else "the same"
    return (
        f"With one part of a device taking {factors} times as long, the gain is {ends}; in {over}."
    )


def _ends(found: Ends[PartGain] | Ends[WindowGain], low: str, high: str) -> str:
    return f"{found.low.gain_ratio:.1%} ({low}) to {found.high.gain_ratio:.1%} ({high})"


def _measure(curves: Curves) -> str:
    return "mean response time" if curves.is_open else "elapsed I/O time"


def _elsewhere(curves: Curves) -> str:
    """Say how much of the time no placement can change because the role is not known."""
    ratio = int(curves.base_ps[ROLES.index("unknown")]) / curves.base_total_ps
    if ratio < UNKNOWN_SHOWN_RATIO:
        return ""
    return (
        f" {ratio:.0%} of the time is of requests without a role: set it with tracekit classify"
        " --role."
    )


def _parts(curves: Curves, answer: Answer) -> str:
    parts = []
    for role, blocks in answer.blocks.items():
        whole = int(curves.role_blocks[ROLES.index(role)])
        size, name = format_size(blocks * BLOCK_BYTES), ROLE_NAMES[role]
        if blocks and blocks == whole:
            parts.append(f"the whole {name} ({size})")
        elif blocks:
            share = "under 1%" if blocks < whole / 100 else f"{blocks / whole:.0%}"
            parts.append(f"{size} of the {name} ({share} of it)")
    return _join(parts)


def _second_line(answer: Answer, other: Answer) -> str:
    name = _name(answer.runner_up)
    first = (
        f"The runner-up, {name}, takes {format_duration(answer.runner_up_elapsed_ns)}:"
        f" the answer is {answer.margin_ratio:.1%} ahead"
    )
    if answer.placement == "base":
        first = f"No other placement takes less than {format_duration(answer.base_elapsed_ns)}"
    way = "the other way to cover a role that does not fit"
    if other.placement == answer.placement:
        return f"{first}; {way} gives the same answer with {other.gain_ratio:.1%}."
    return f"{first}; {way} would prefer {_name(other.placement)} ({other.gain_ratio:.1%})."


def _third_line(answers: Answers) -> str:
    if answers.best.gain_ratio <= 0:
        return "No capacity of it pays."
    changes = [
        f"from {format_size(flip.capacity_bytes)} on {_name(flip.after)}"
        for flip in answers.flips[:FLIPS_SHOWN]
    ]
    more = len(answers.flips) - FLIPS_SHOWN
    if more > 0:
        changes.append(f"then {more} more {'changes' if more > 1 else 'change'}")
    text = ", ".join(changes) or "No placement saves much"
    return f"{text[0].upper()}{text[1:]}; {_gains(answers)}"


def _gains(answers: Answers) -> str:
    """Return where more NVM stops paying; near the end only the largest gain."""
    knee, best = answers.knee.capacity_bytes, answers.best.capacity_bytes
    largest = f"{answers.best.gain_ratio:.1%}"
    if best < LASTING_RATIO * knee:
        return f"the largest gain, {largest}, needs {format_size(best)}."
    return (
        f"{format_size(knee)} already give {KNEE_RATIO:.0%} of the largest gain, which is {largest}"
        f" at {format_size(best)}."
    )


def _name(placement: str) -> str:
    if placement in PLACED_BYTES:
        return f"the {ROLE_NAMES[placement]} alone"
    return placement_name(placement)


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _left_out(curves: Curves) -> list[str]:
    totals = curves.totals
    absent = [ROLE_NAMES[role] for role in PLACED_BYTES if role not in curves.placed_roles]
    counted = [
        (totals.uncharged, "discards and others without data transfer cost nothing"),
        (totals.not_issued, "reads and writes that were never issued are left out"),
        (totals.orphan_merges, "merged requests without a known merge target are charged alone"),
        (totals.impossible, "reads and writes of a place or length that no disk has are left out"),
        (totals.missing_blocks, "touches of blocks that classify did not list stay on base"),
        (
            sum(totals.requests[len(PLACED_BYTES) :]),
            "requests of no placeable role stay on base, except in the optimum",
        ),
    ]
    notes = [f"{count:,} {text}" for count, text in counted if count]
    if absent:
        notes.append(f"no read or write touches: {', '.join(absent)}; it is not placed")
    return notes


def _headline_rule(options: RecommendOptions, answer: Answer) -> str:
    size = format_size(answer.capacity_bytes)
    if options.capacities_bytes:
        return f"the headline is about {size}, the first capacity asked for"
    return f"the headline is about {size}: a tenth of what the trace touched"


def _level_note(options: RecommendOptions, level: str) -> list[str]:
    if level == options.level:
        return []
    return ["the trace has no issue times, so requests are charged as queued"]


def _times(curves: Curves, answer: Answer, index: int, coverage: str) -> PlacementTimes | None:
    """Return what base and answer take at a point where they were simulated, else None."""
    if not curves.simulated:
        return None
    given = {
        role: np.full(len(curves.points), answer.blocks[role])
        for role in curves.placed_roles
        if answer.placement in (role, SPLIT)
    }
    base = curves.simulated[BASE_ALONE]
    placed = timings(curves, coverage, blocks=given) or base
    return PlacementTimes(base=times_at(base, index), answer=times_at(placed, index))


def _mixed_note(folder: TraceFolder) -> list[str]:
    """Say how many blocks have two roles, as where a partition does not begin at a block's edge."""
    mixed = int((folder.info.hotness or {}).get("mixed_role_blocks", 0))
    if not mixed:
        return []
    return [
        f"blocks touched by requests of several roles: {mixed:,}; each moves to NVM with one role"
        " and stays on base for requests of another, except in the optimum"
    ]


def _roles(curves: Curves) -> dict[str, RoleTotals]:
    totals = curves.totals
    return {
        role: RoleTotals(
            requests=totals.requests[index],
            flushes=totals.flushes[index],
            touched_bytes=int(curves.role_blocks[index]) * BLOCK_BYTES,
            base_elapsed_ns=to_ns(int(curves.base_ps[index])),
        )
        for index, role in enumerate(ROLES)
        if totals.requests[index] or totals.flushes[index]
    }


def _table(devices: DevicePair, grid: Grid, curves: Curves) -> Any:
    """Return the PLACEMENT table: every placement at every shown capacity."""
    return pa.concat_tables(
        [
            _series(devices, grid, curves, coverage, candidate)
            for coverage, candidate in _candidates(curves)
        ]
    )


def _candidates(curves: Curves) -> Iterator[tuple[str, Candidate]]:
    """Yield each placement with its coverage; a role alone takes all of a capacity, if it can."""
    base_ps = curves.base_total_ps
    yield "none", Candidate("base", np.full(len(curves.points), base_ps), {})
    for coverage in COVERAGES:
        for role in curves.placed_roles:
            size = curves.role_blocks[ROLES.index(role)]
            filled = {role: np.minimum(curves.points, size)}
            yield coverage, Candidate(role, base_ps + curves.change_ps[coverage, role], filled)
        for candidate in (*shared(curves, coverage), candidates(curves, coverage)[-1]):
            yield coverage, candidate
    optimal = {role: curves.optimal_blocks[ROLES.index(role)] for role in curves.placed_roles}
    yield "hottest", Candidate("optimal", base_ps + curves.optimal_ps, optimal)


def _series(
    devices: DevicePair, grid: Grid, curves: Curves, coverage: str, candidate: Candidate
) -> Any:
    """Return the rows of one placement."""
    count = len(grid.shown)
    timed = (
        curves.simulated.get(OPTIMUM)
        if candidate.placement == "optimal"
        else timings(curves, coverage, blocks=candidate.blocks)
    ) or Timings(candidate.elapsed_ps)
    texts = (devices.base.name, devices.nvm.name, candidate.placement, coverage)
    nothing = np.zeros(len(curves.points), np.int64)
    columns = [constant_column(text, count) for text in texts]
    columns.append(int64_column(curves.points[grid.shown] * BLOCK_BYTES))
    columns += [
        pa.nulls(count, pa.int64()) if part is None else int64_column(to_ns(part[grid.shown]))
        for part in (timed.service_ps, timed.response_ps, timed.makespan_ps)
    ]
    columns += [
        int64_column(candidate.blocks.get(role, nothing)[grid.shown] * BLOCK_BYTES)
        for role in PLACED_BYTES
    ]
    return pa.Table.from_arrays(columns, schema=PLACEMENT)
