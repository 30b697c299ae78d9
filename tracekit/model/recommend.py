"""The stage `recommend`: curves, answers and their wording, from a classified trace folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import structs

from tracekit.arrow import constant_column, int64_column
from tracekit.devices import TIMES, DevicePair, Profile, choose_profile, load_profiles
from tracekit.errors import InputError
from tracekit.model import answer as choice
from tracekit.model.answer import PLACED_BYTES, Answer, Answers, Candidate, Recommendation
from tracekit.model.answer_rows import answer_rows
from tracekit.model.assumptions import (
    LEFT_OUT,
    assumptions,
    journal_notes,
    journal_use,
    role_doubts,
    unsure_roles,
)
from tracekit.model.best_choice import Best, add_best, find_best
from tracekit.model.best_long import PARTS_NOTE
from tracekit.model.best_placement import TABLE as BEST_TABLE
from tracekit.model.block_orders import read_blocks
from tracekit.model.cache_rivals import add_caches
from tracekit.model.fitted_base import choose_base
from tracekit.model.footprint_growth import UNKNOWN, footprint
from tracekit.model.gain_range import FACTORS, Placed, choose_cut
from tracekit.model.placement import (
    COVERAGES,
    OPTIMUM,
    ChargedTrace,
    Curves,
    Timings,
    to_ns,
)
from tracekit.model.placement_units import choose_unit
from tracekit.model.purchase import warning_of
from tracekit.model.responses import Predictions, predict, sentence
from tracekit.model.run_sample import LongTrace, curves_of, gains_of, hold_out, kept_trace
from tracekit.model.sensitivity import parameter_name, window_name
from tracekit.model.service_times import TRACED, BaseFit
from tracekit.model.timed_requests import Sample, read_sample
from tracekit.model.unit_answer import TABLE as UNIT_TABLE
from tracekit.model.unit_answer import no_units, place_units, with_units
from tracekit.model.unit_charges import is_volume
from tracekit.store import TraceFolder, write_results
from tracekit.tables import FILE_MAP, MOST_ACCESSED, PLACEMENT, ROLE_NAMES, ROLES
from tracekit.units import BLOCK_BYTES, format_duration, format_size

TABLE = "simulations/placement"
FLIPS_SHOWN = 4
HEADLINE_RULE = ": a tenth of what the trace touched"
ROUNDED = 1e-9  # ratios that differ by less are the same
MIXED = (
    "each moves to NVM with one role and stays on base for requests of another, except in the"
    " curve of the most accessed blocks"
)
SET_ROLE = "set it with tracekit classify --role."
NO_ISSUES = "the trace has no issue times, so requests are charged as queued"
UNKNOWN_SHOWN_RATIO = 0.05
FILLED = {
    "hottest": "filling each role with its most accessed blocks first",
    "start": "filling each role from its start",
}


@dataclass(frozen=True)
class RecommendOptions:
    """What the user chose; sizes in bytes."""

    base: str = TRACED
    nvm: str = "dax-pcm"
    capacities_bytes: tuple[int, ...] = ()
    max_capacity_bytes: int | None = None
    coverage: str = "hottest"
    level: str = "issued"
    queueing: str = choice.SERIAL
    profiles: Path | None = None
    unit: str = ""
    files: Path | None = None


def recommend(
    folder: TraceFolder, options: RecommendOptions, *, on_rows: Callable[[int], None] | None = None
) -> Recommendation:
    """Write simulations/placement and recommendation.json; return the latter's content."""
    folder.require_known(what="recommend")
    trace, base, sample = _charged(folder, options)
    unreported, trace = trace, replace(trace, on_rows=on_rows)
    grid = choice.make_grid(
        trace.touched.role_blocks().tolist(),
        options.capacities_bytes,
        max_bytes=options.max_capacity_bytes,
    )
    if trace.is_open:
        grid = choice.only_shown(grid)
    curves = curves_of(trace, grid.fine, coverage=options.coverage, exact_at=grid.headline)
    result = _result(folder, options, trace, grid, curves)
    capacities, result.base = result.headline[-1], base
    result.footprint = footprint(folder.table("blocks"), result.answer.capacity_bytes)
    result.predictions = _predictions(trace, result, sample)
    _add_ranges(folder, unreported, result)
    table = pa.concat_tables(
        _series(trace.devices, grid, curves, *one) for one in _candidates(curves)
    )
    tables = {TABLE: table, **_units(folder, options, unreported, result)}
    is_by_extents = result.units is not None and result.units.is_default
    lead = result.headline[0]
    doubts = result.headline[1:2] if is_by_extents else _caveats(curves)
    doubts += _add_doubts(result, list(role_doubts(folder.info)))
    mixed = _mixed_blocks(folder)
    best = find_best(unreported, curves, grid=grid, cut=choose_cut(folder), is_mixed=mixed > 0)
    if best is not None:
        tables[BEST_TABLE] = _add_best(result, best, trace)
    if warning := warning_of(folder, unreported, best=best):
        result.headline.insert(0, warning)
        doubts.insert(0, warning)
    add_caches(result, unreported)
    parts = _parts(curves, result.answer) if result.answer.placement != "base" else ""
    result.rows = answer_rows(result, lead=lead, parts=parts, capacities=capacities, doubts=doubts)
    write_results(folder, choice.RESULT, result=result, tables=tables)
    return result


def _add_best(result: Recommendation, best: Best, trace: ChargedTrace) -> pa.Table:
    """Add the placement block by block, and return its table."""
    result.best_placement = best.placement
    add_best(result, trace.devices.nvm)
    result.assumptions += [PARTS_NOTE] if isinstance(trace, LongTrace) else []
    return best.table


def _charged(
    folder: TraceFolder, options: RecommendOptions
) -> tuple[ChargedTrace, BaseFit, Sample]:
    """Return the trace on its devices, where the base is from, and requests with their times."""
    known = load_profiles(options.profiles)
    nvm = choose_profile(known, options.nvm)
    requests = folder.require("requests", made_by="parse")
    touched = read_blocks(folder.require("blocks", made_by="classify"))
    sample = read_sample(requests, touched.device_names)
    is_issued = options.level == "issued" and sample.has_issues
    is_open = options.queueing == choice.OPEN
    unbased = kept_trace(ChargedTrace(requests, touched, DevicePair(nvm, nvm), is_issued, is_open))
    return *choose_base(unbased, options.base, known=known, sample=sample), sample


def _add_ranges(folder: TraceFolder, trace: ChargedTrace, result: Recommendation) -> None:
    """Add over which range the gain is known, and what users would feel."""
    cut = choose_cut(folder)
    found = gains_of(trace, result.answer, coverage=result.coverage, cut=cut)
    if found is not None:
        result.gain_range = found.range()
        _widen(folder, trace, result, result.gain_range)
        result.headline.append(range_sentence(result.gain_range))
    if result.predictions is not None:
        result.headline.append(sentence(result.predictions))
    result.held_out = hold_out(trace, result.answer, coverage=result.coverage)


def _widen(
    folder: TraceFolder, trace: ChargedTrace, result: Recommendation, found: choice.GainRange
) -> None:
    """Add the gain without the roles that are unsure guesses: their places stay on the base."""
    answer = result.answer
    unsure = [role for role in unsure_roles(folder.info) if answer.blocks.get(role)]
    if not unsure:
        return
    left = structs.replace(answer, **{PLACED_BYTES[role]: 0 for role in unsure})
    gains = None
    if any(left.blocks.values()):
        gains = gains_of(trace, left, coverage=result.coverage, cut=found.cut)
    gain = gains.gain_ratio if gains is not None else 0.0
    found.guess = choice.GuessGain(gain_ratio=gain, roles=unsure)
    found.low_ratio, found.high_ratio = min(found.low_ratio, gain), max(found.high_ratio, gain)


def _units(
    folder: TraceFolder, options: RecommendOptions, trace: ChargedTrace, result: Recommendation
) -> dict[str, pa.Table]:
    """Add the answer by whole units, if there is to be one, and return its table."""
    unknown, answer = result.roles.get("unknown"), result.answer
    unit = choose_unit(
        options.unit,
        files=options.files,
        file_map=folder.require(FILE_MAP, made_by="parse") if folder.has(FILE_MAP) else None,
        capacity_bytes=answer.capacity_bytes,
        unknown_ratio=unknown.base_elapsed_ns / max(answer.base_elapsed_ns, 1) if unknown else 0.0,
        is_volume=any(is_volume(name) for name in trace.touched.device_names),
    )
    if unit is None:
        return no_units() if folder.has(UNIT_TABLE) else {}
    result.units, result.held_out, tables = place_units(
        trace, unit, regions=folder.info.layout, capacity_bytes=answer.capacity_bytes
    )
    result.headline = with_units(
        result.headline,
        result.units,
        nvm=trace.devices.nvm,
        is_open=trace.is_open,
        pays=result.best is not None and result.best.gain_ratio > 0,
    )
    return tables


def _add_doubts(result: Recommendation, of_roles: list[str]) -> list[str]:
    """Say in the first lines what is assumed, and whether the capture is enough; return that."""
    doubts = list(of_roles)
    if result.base.sentence is not None:
        result.headline[0] += f" {result.base.sentence}"
    assumed = {one.name: len({*TIMES} & {*one.assumed}) for one in result.profiles}
    if parts := [
        f"{count} {'figure' if count == 1 else 'figures'} of {name}"
        for name, count in assumed.items()
        if count
    ]:
        doubts.append(f"Assumed, with no source: {' and '.join(parts)}.")
        result.headline[0] += f" {doubts[-1]}"
    found = result.footprint
    if found is not None:
        lines = result.assumptions if found.verdict == UNKNOWN else result.headline
        lines[1:1] = found.sentences
        doubts += found.sentences if lines is result.headline else []
    if result.held_out is not None and result.held_out.sentence:
        result.headline.append(result.held_out.sentence)
        doubts.append(result.held_out.sentence)
    result.headline[1:1] = of_roles
    return doubts


def _predictions(trace: ChargedTrace, result: Recommendation, sample: Sample) -> Predictions | None:
    """Return what users would feel of the answer, on its devices and other NVM."""
    placed = Placed(trace, result.answer.blocks, result.coverage, [trace.devices]).on_nvm()
    return predict(sample, result.base, devices=trace.devices, placed=placed, factors=FACTORS)


def check_answer(folder: TraceFolder, advice: Recommendation, *, answer: Answer) -> None:
    """Raise InputError unless the answer is what the trace has now; name what differs."""
    trace = choice.charged_trace(folder, advice)
    sizes = [answer.capacity_bytes, *(one.capacity_bytes for one in advice.answers)]
    role_blocks = trace.touched.role_blocks().tolist()
    grid = choice.make_grid(role_blocks, sizes, max_bytes=advice.largest_bytes)
    if trace.is_open:
        grid = choice.only_shown(grid)
    place = int(np.searchsorted(grid.fine, advice.answer.capacity_bytes // BLOCK_BYTES))
    curves = curves_of(
        kept_trace(trace),
        grid.fine,
        coverage=advice.coverage,
        exact_at=min(place, len(grid.fine) - 1),
    )
    found = choice.find_answers(curves, advice.coverage)
    kept, fresh = structs.asdict(answer), structs.asdict(found.by_point[grid.headline])
    wrong = [
        f"{name} is {kept[name]}, of the trace it is {value}"
        for name, value in fresh.items()
        if kept[name] != value
        and not (isinstance(value, float) and math.isclose(kept[name], value, rel_tol=ROUNDED))
    ]
    if wrong:
        raise InputError(
            f"{folder.file(choice.RESULT)} does not fit the trace: {'; '.join(wrong)}",
            hint="it was edited, or the trace has changed since: run recommend again",
        )


def _result(
    folder: TraceFolder,
    options: RecommendOptions,
    trace: ChargedTrace,
    grid: choice.Grid,
    curves: Curves,
) -> Recommendation:
    found = choice.find_answers(curves, options.coverage)
    answer = found.by_point[grid.headline]
    (other_coverage,) = {*COVERAGES} - {options.coverage}
    other = choice.answer_at(curves, other_coverage, index=grid.headline)
    journal = journal_use(folder, curves)
    way, nvm = FILLED[other_coverage], trace.devices.nvm
    return Recommendation(
        base_profile=trace.devices.base.name,
        nvm_profile=trace.devices.nvm.name,
        profiles=list(trace.devices),
        level="issued" if trace.is_issued else "queued",
        queueing=options.queueing,
        coverage=options.coverage,
        headline=headline(curves, found, answer=answer, other=other, way=way, nvm=nvm),
        answer=answer,
        other_coverage=choice.CoverageAnswer(**structs.asdict(other), coverage=other_coverage),
        role_sets=choice.role_sets(curves, options.coverage, index=grid.headline),
        answers=[found.by_point[index] for index in grid.shown],
        flips=found.flips,
        single_role_flips=found.single_role_flips,
        knee=found.knee,
        best=found.best,
        footprint_bytes=int(curves.role_blocks.sum()) * BLOCK_BYTES,
        largest_bytes=options.max_capacity_bytes,
        roles=_roles(curves),
        times=_times(curves, answer, grid.headline, options.coverage),
        journal=journal,
        left_out={name: getattr(curves.totals, name) for name in LEFT_OUT},
        assumptions=_notes(folder, options, trace, curves, answer, journal),
    )


def _notes(
    folder: TraceFolder,
    options: RecommendOptions,
    trace: ChargedTrace,
    curves: Curves,
    answer: Answer,
    journal: choice.JournalUse,
) -> list[str]:
    given = ", the first capacity asked for" if options.capacities_bytes else HEADLINE_RULE
    has_level = trace.is_issued or options.level == "queued"
    mixed = _mixed_blocks(folder)
    return [
        f"the headline is about {format_size(answer.capacity_bytes)}{given}",
        *assumptions(trace, curves, coverage=options.coverage),
        *([] if has_level else [NO_ISSUES]),
        *journal_notes(journal),
        *([f"blocks touched by requests of several roles: {mixed:,}; {MIXED}"] if mixed else []),
    ]


def _mixed_blocks(folder: TraceFolder) -> int:
    return int((folder.info.hotness or {}).get("mixed_role_blocks", 0))


def headline(
    curves: Curves, answers: Answers, *, answer: Answer, other: Answer, way: str, nvm: Profile
) -> list[str]:
    """Return the three lines: what to place, by what margin, and where the answer changes.

    `other` is the answer at the same capacity with the other coverage, and `way` names that.
    """
    if not curves.base_total_ps:
        return [
            "The trace has no read, write or flush: there is nothing to place.",
            "No placement is ahead of another.",
            "No capacity changes that.",
        ]
    first = " ".join([_first_line(curves, answer, nvm), *_caveats(curves)])
    return [first, _second_line(answer, other, way=way), _third_line(answers)]


def _caveats(curves: Curves) -> list[str]:
    """Return which part of the time has no role, and of which sample placements are compared."""
    notes = []
    # No placement changes the time of requests whose role is not known.
    unknown_ps = int(curves.base_ps[ROLES.index("unknown")])
    if unknown_ps and unknown_ps >= UNKNOWN_SHOWN_RATIO * curves.base_total_ps:
        ratio = unknown_ps / curves.base_total_ps
        notes.append(f"{ratio:.0%} of the time is of requests without a role: {SET_ROLE}")
    if curves.sampled_requests is not None:
        more = "more" if curves.sampled_off > 0 else "less"
        notes.append(
            f"This time is of all requests; other placements and what users feel are from"
            f" {curves.sampled_requests:,} of them, whose gain here is"
            f" {abs(curves.sampled_off) * 100:.2f} points {more}."
        )
    return notes


def _first_line(curves: Curves, answer: Answer, nvm: Profile) -> str:
    given = f"With {format_size(answer.capacity_bytes)} of {nvm.name}"
    measure = "mean response time" if curves.is_open else "elapsed I/O time"
    if answer.placement == "base":
        return (
            f"{given}, leave everything on the base device: no placement takes less than its"
            f" {format_duration(answer.base_elapsed_ns)}."
        )
    return (
        f"{given}, place {_parts(curves, answer)} there: {measure} falls by"
        f" {answer.gain_ratio:.1%}, from {format_duration(answer.base_elapsed_ns)} to"
        f" {format_duration(answer.elapsed_ns)} (the most accessed blocks of all roles:"
        f" {format_duration(answer.most_accessed_elapsed_ns)})."
    )


def range_sentence(found: choice.GainRange) -> str:
    """Return the gain as a range, over changed devices and over the windows of the trace."""
    factors = " or ".join(f"{factor:g}" for factor in found.factors)
    window, part = found.window, found.parameter
    over = "the only window of the trace the same"
    if window is not None and window.tried > 1:
        over = f"the {window.tried} windows of the trace, {_ends(window, window_name)}"
    ends = _ends(part, parameter_name) if part else "the same"
    measured = ""
    if (repeat := found.repeat) is not None:
        low, high = (choice.gain_text(one.gain_ratio) for one in (repeat.low, repeat.high))
        measured = f"; by each of {repeat.tried} measurements of the devices, {low} to {high}"
    guessed = ""
    if (guess := found.guess) is not None:
        names = " and ".join(f"the {ROLE_NAMES[role]}" for role in guess.roles)
        gain = choice.gain_text(guess.gain_ratio)
        guessed = f"; without {names}, which may be guessed wrongly, {gain}"
    return (
        f"With any one parameter of a device times {factors}, the gain is {ends}; in"
        f" {over}{measured}{guessed}."
    )


def _ends(found: choice.Ends[choice.Kind], name: Callable[[choice.Kind], str]) -> str:
    return " to ".join(
        f"{choice.gain_text(one.gain_ratio)} ({name(one)})" for one in (found.low, found.high)
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
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def _second_line(answer: Answer, other: Answer, *, way: str) -> str:
    name = _name(answer.runner_up)
    first = (
        f"The runner-up, {name}, takes {format_duration(answer.runner_up_elapsed_ns)}:"
        f" the answer is {answer.margin_ratio:.1%} ahead"
    )
    if answer.placement == "base":
        first = f"No other placement takes less than {format_duration(answer.base_elapsed_ns)}"
    if other.placement == answer.placement:
        return f"{first}; {way}, it is the same placement with {other.gain_ratio:.1%}."
    return f"{first}; {way}, it would be {_name(other.placement)} ({other.gain_ratio:.1%})."


def _third_line(answers: Answers) -> str:
    if answers.best.gain_ratio <= 0:
        return "No capacity of it pays."
    changes = [
        f"from {format_size(flip.capacity_bytes)} {_name(flip.after)}"
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
    if best < choice.LASTING_RATIO * knee:
        return f"the largest gain, {largest}, needs {format_size(best)}."
    return (
        f"{format_size(knee)} already give {choice.KNEE_RATIO:.0%} of the largest gain, which is"
        f" {largest} at {format_size(best)}."
    )


def _name(placement: str) -> str:
    if placement in PLACED_BYTES:
        return f"the {ROLE_NAMES[placement]} alone"
    return choice.placement_name(placement)


def _times(
    curves: Curves, answer: Answer, index: int, coverage: str
) -> choice.PlacementTimes | None:
    """Return what base and answer take at a point where they were simulated, else None."""
    if not curves.simulated:
        return None
    found = {one.placement: one.times_at(index) for one in choice.candidates(curves, coverage)}
    return choice.PlacementTimes(base=found["base"], answer=found[answer.placement])


def _roles(curves: Curves) -> dict[str, choice.RoleTotals]:
    totals = curves.totals
    return {
        role: choice.RoleTotals(
            requests=totals.requests[index],
            flushes=totals.flushes[index],
            touched_bytes=int(curves.role_blocks[index]) * BLOCK_BYTES,
            base_elapsed_ns=to_ns(int(curves.base_ps[index])),
        )
        for index, role in enumerate(ROLES)
        if totals.requests[index] or totals.flushes[index]
    }


def _candidates(curves: Curves) -> Iterator[tuple[str, Candidate]]:
    """Yield each placement with its coverage; a role alone takes all of a capacity, if it can."""
    for coverage in COVERAGES:
        base, *_, together = choice.candidates(curves, coverage)
        if coverage == COVERAGES[0]:
            yield "none", base
        for role in curves.placed_roles:
            size = curves.role_blocks[ROLES.index(role)]
            blocks = {role: np.minimum(curves.points, size)}
            change_ps = curves.change_ps[coverage, role]
            timings = choice.timed(curves, coverage, blocks=blocks, change_ps=change_ps)
            yield coverage, Candidate(role, timings, blocks)
        yield from ((coverage, one) for one in (*choice.shared(curves, coverage), together))
    optimal = {role: curves.optimal_blocks[ROLES.index(role)] for role in curves.placed_roles}
    timings = curves.simulated.get(OPTIMUM) or Timings(curves.base_total_ps + curves.optimal_ps)
    yield "hottest", Candidate(MOST_ACCESSED, timings, optimal)


def _series(
    devices: DevicePair, grid: choice.Grid, curves: Curves, coverage: str, candidate: Candidate
) -> Any:
    """Return the rows of one placement: at each capacity shown."""
    shown, count = grid.shown, len(grid.shown)
    texts = (devices.base.name, devices.nvm.name, candidate.placement, coverage)
    nothing = np.zeros(len(curves.points), np.int64)
    sizes = [candidate.blocks.get(role, nothing)[shown] * BLOCK_BYTES for role in PLACED_BYTES]
    columns = [
        *(constant_column(text, count) for text in texts),
        int64_column(curves.points[shown] * BLOCK_BYTES),
        *(
            pa.nulls(count, pa.int64()) if part is None else int64_column(to_ns(part[shown]))
            for part in vars(candidate.timings).values()
        ),
        *map(int64_column, sizes),
    ]
    return pa.Table.from_arrays(columns, schema=PLACEMENT)
