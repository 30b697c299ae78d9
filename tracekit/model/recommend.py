"""The stage `recommend`: curves, answers and their wording, from a classified trace folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native.placement import PLACED_ROLES
from tracekit.arrow import constant_column, int64_column, read_columns
from tracekit.devices import Profile, choose_profile, load_profiles
from tracekit.model.answer import (
    KNEE_RATIO,
    LASTING_RATIO,
    SPLIT,
    WORTH_RATIO,
    Answer,
    Answers,
    Flip,
    Grid,
    candidates,
    find_answers,
    make_grid,
    only_shown,
    pairs,
    role_sets,
    to_ns,
)
from tracekit.model.block_orders import TouchedBlocks, read_blocks
from tracekit.model.event_simulation import OPTIMUM, needs_walk, sweep_walked
from tracekit.model.gain_range import gain_range
from tracekit.model.placement import COVERAGES, Curves, Timings, sweep
from tracekit.model.sensitivity import parameter_name, window_name
from tracekit.model.timings import (
    OPEN,
    SERIAL,
    journal_facts,
    journal_notes,
    round_ns,
    times_of,
    timing_notes,
    timings,
)
from tracekit.model.windows import choose_cut
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import PLACEMENT, PLACEMENT_NAMES, ROLE_NAMES, ROLES
from tracekit.units import BLOCK_BYTES, format_duration, format_size

# Placement, coverage, change of time in ps and blocks by role, at each capacity point.
Series = tuple[str, str, NDArray[np.int64], dict[str, NDArray[np.int64]]]


NAMES = {role: ROLE_NAMES[role] for role in ROLES[:PLACED_ROLES]}
LEVELS = {
    "issued": "requests are charged as issued: merged ones together, in issue order",
    "queued": "requests are charged as queued: each on its own, in queue order",
}
FLIPS_SHOWN = 4
UNKNOWN_SHOWN_RATIO = 0.05


def headline(
    curves: Curves, answers: Answers, *, index: int, other: Answer, nvm: Profile
) -> list[str]:
    """Return the three lines: what to place, by what margin, and where the answer changes.

    `other` is the answer at the same capacity with the other coverage.
    """
    answer = answers.by_point[index]
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


def assumptions(
    curves: Curves, profiles: tuple[Profile, Profile], *, level: str, coverage: str
) -> list[str]:
    """Return the sentences that a reader must know to judge the answer."""
    base, nvm = profiles
    how = {
        "hottest": "a role that does not fit is covered hottest block first (most accesses first)",
        "start": "a role that does not fit is covered from its start (lowest touched block first)",
    }[coverage]
    continued = [
        device.name
        for device in profiles
        if device.sequential_setup_us is not None and not device.has_head
    ]
    rule = f"; on {' and '.join(continued)} it then costs its transfer" if continued else ""
    return [
        f"the base device is {base.name} ({base.about}), the NVM {nvm.name} ({nvm.about})",
        *timing_notes(curves, profiles),
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


def range_sentence(found: Mapping[str, Any]) -> str:
    """Return the gain as a range, over changed devices and over the windows of the trace."""
    factors = " or ".join(f"{factor:g}" for factor in found["factors"])
    windows = found["window"]
    if windows["tried"] > 1:
        over = f"the {windows['tried']} windows of the trace, {_ends(windows, window_name)}"
    else:
        over = "the only window of the trace the same"
    return (
        f"With one part of a device taking {factors} times as long, the gain is"
        f" {_ends(found['parameter'], parameter_name)}; in {over}."
    )


def _ends(found: Mapping[str, Any], name: Callable[[Mapping[str, Any]], str]) -> str:
    low, high = found["low"], found["high"]
    return f"{low['gain_ratio']:.1%} ({name(low)}) to {high['gain_ratio']:.1%} ({name(high)})"


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
    for role, name in NAMES.items():
        given = getattr(answer, f"{role}_bytes")
        whole = int(curves.role_blocks[ROLES.index(role)]) * BLOCK_BYTES
        if given and given == whole:
            parts.append(f"the whole {name} ({format_size(given)})")
        elif given:
            share = "under 1%" if given < whole / 100 else f"{given / whole:.0%}"
            parts.append(f"{format_size(given)} of the {name} ({share} of it)")
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
    """Say where more NVM stops paying; near the end it says only what the end brings."""
    knee, best = answers.knee.capacity_bytes, answers.best.capacity_bytes
    largest = f"{answers.best.gain_ratio:.1%}"
    if best < LASTING_RATIO * knee:
        return f"the largest gain, {largest}, needs {format_size(best)}."
    return (
        f"{format_size(knee)} already give {KNEE_RATIO:.0%} of the largest gain, which is {largest}"
        f" at {format_size(best)}."
    )


def _name(placement: str) -> str:
    return f"the {NAMES[placement]} alone" if placement in NAMES else PLACEMENT_NAMES[placement]


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _left_out(curves: Curves) -> list[str]:
    totals = curves.totals
    absent = [name for role, name in NAMES.items() if role not in curves.placed_roles]
    elsewhere = sum(totals.requests[len(NAMES) :])
    counted = [
        (totals.uncharged, "discards and others without data transfer cost nothing"),
        (totals.not_issued, "reads and writes that were never issued are left out"),
        (totals.orphan_merges, "merged requests without a known carrier are charged on their own"),
        (
            totals.impossible,
            "reads and writes of a place or length that no disk has are left out",
        ),
        (totals.missing_blocks, "touches of blocks that classify did not list stay on base"),
        (elsewhere, "requests of no placeable role stay on base, except in the optimum"),
    ]
    notes = [f"{count:,} {text}" for count, text in counted if count]
    if absent:
        notes.append(f"no read or write touches: {', '.join(absent)}; it is not placed")
    return notes


TABLE = "simulations/placement"
RESULT = "recommendation.json"
LEFT_OUT = ("uncharged", "not_issued", "orphan_merges", "impossible", "missing_blocks")


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
) -> dict[str, Any]:
    """Write simulations/placement and recommendation.json; return the latter's content."""
    known = load_profiles(options.profiles)
    profiles = (choose_profile(known, options.base), choose_profile(known, options.nvm))
    requests = folder.require("requests", made_by="parse")
    touched = read_blocks(folder.require("blocks", made_by="classify"))
    grid = make_grid(
        touched.role_blocks().tolist(),
        options.capacities_bytes,
        max_bytes=options.max_capacity_bytes,
    )
    level = options.level
    if level == "issued" and not _has_issues(requests):
        level = "queued"
    grid, curves = _curves(
        (requests, touched), grid, options, profiles=profiles, level=level, on_rows=on_rows
    )
    result = _result(folder, options, profiles, level, (grid, curves))
    found = gain_range((requests, touched), choose_cut(folder), result=result)
    result["gain_range"] = None if found is None else found.told()
    if found is not None:
        result["headline"].append(range_sentence(result["gain_range"]))
    (folder.path / "simulations").mkdir(exist_ok=True)
    write_table(folder.table(TABLE), _table(profiles, grid, curves))
    write_json(folder.path / RESULT, result)
    return result


def _curves(
    trace: tuple[Path, TouchedBlocks],
    grid: Grid,
    options: RecommendOptions,
    *,
    profiles: tuple[Profile, Profile],
    level: str,
    on_rows: Callable[[int], None] | None,
) -> tuple[Grid, Curves]:
    """Sweep all capacities at once, or walk those shown where the order of requests matters."""
    is_open, is_issued = options.queueing == OPEN, level == "issued"
    if not needs_walk(profiles, is_open=is_open):
        swept = sweep(
            *trace, points=grid.fine, devices=profiles, is_issued=is_issued, on_rows=on_rows
        )
        return grid, swept
    shown = only_shown(grid)
    walked = sweep_walked(
        trace,
        points=shown.fine,
        devices=profiles,
        is_issued=is_issued,
        is_open=is_open,
        on_rows=on_rows,
    )
    return shown, walked


def _has_issues(requests: Path) -> bool:
    """Say whether any request has an issue time; formats without issue events have none."""
    columns = (column["issue_ns"] for column in read_columns(requests, ["issue_ns"]))
    return any(column.null_count < len(column) for column in columns)


def _result(
    folder: TraceFolder,
    options: RecommendOptions,
    profiles: tuple[Profile, Profile],
    level: str,
    swept: tuple[Grid, Curves],
) -> dict[str, Any]:
    grid, curves = swept
    answers = find_answers(curves, options.coverage)
    (other_coverage,) = {*COVERAGES} - {options.coverage}
    other = find_answers(curves, other_coverage).by_point[grid.headline]
    journal = journal_facts(folder, curves)
    return {
        "base_profile": profiles[0].name,
        "nvm_profile": profiles[1].name,
        "profiles": [asdict(profile) for profile in profiles],
        "level": level,
        "queueing": options.queueing,
        "coverage": options.coverage,
        "headline": headline(curves, answers, index=grid.headline, other=other, nvm=profiles[1]),
        "answer": asdict(answers.by_point[grid.headline]),
        "other_coverage": {"coverage": other_coverage, **asdict(other)},
        "role_sets": [
            asdict(found) for found in role_sets(curves, options.coverage, index=grid.headline)
        ],
        **_by_capacity(answers, grid),
        "footprint_bytes": int(curves.role_blocks.sum()) * BLOCK_BYTES,
        "roles": _roles(curves),
        "times": _times(curves, answers, grid.headline, options.coverage),
        "journal": journal,
        "left_out": {name: getattr(curves.totals, name) for name in LEFT_OUT},
        "assumptions": [
            _headline_rule(options, answers, grid),
            *assumptions(curves, profiles, level=level, coverage=options.coverage),
            *_level_note(options, level),
            *journal_notes(journal),
            *_mixed_note(folder),
        ],
    }


def _by_capacity(answers: Answers, grid: Grid) -> dict[str, Any]:
    return {
        "answers": [asdict(answers.by_point[index]) for index in grid.shown],
        "flips": _flips(answers.flips),
        "single_role_flips": _flips(answers.single_role_flips),
        "knee": asdict(answers.knee),
        "best": asdict(answers.best),
    }


def _flips(flips: list[Flip]) -> list[dict[str, Any]]:
    return [
        {"capacity_bytes": flip.capacity_bytes, "from": flip.before, "to": flip.after}
        for flip in flips
    ]


def _headline_rule(options: RecommendOptions, answers: Answers, grid: Grid) -> str:
    size = format_size(answers.by_point[grid.headline].capacity_bytes)
    if options.capacities_bytes:
        return f"the headline is about {size}, the first capacity asked for"
    return f"the headline is about {size}: a tenth of what the trace touched"


def _level_note(options: RecommendOptions, level: str) -> list[str]:
    if level == options.level:
        return []
    return ["the trace has no issue times, so requests are charged as queued"]


def _times(curves: Curves, answers: Answers, index: int, coverage: str) -> dict[str, Any] | None:
    """Return what base and answer take at a point where they were walked, else None."""
    answer = answers.by_point[index]
    base = timings(curves, "none", blocks={})
    given = {
        role: np.full(len(curves.points), getattr(answer, f"{role}_bytes") // BLOCK_BYTES)
        for role in curves.placed_roles
        if answer.placement in (role, SPLIT)
    }
    placed = timings(curves, coverage if given else "none", blocks=given)
    if base is None or placed is None:
        return None
    return {"base": times_of(base, index), "answer": times_of(placed, index)}


def _mixed_note(folder: TraceFolder) -> list[str]:
    """Say how many blocks have two roles, as where a partition does not begin at a block's edge."""
    mixed = int((folder.info.hotness or {}).get("mixed_role_blocks", 0))
    if not mixed:
        return []
    return [
        f"blocks touched by requests of several roles: {mixed:,}; each moves to NVM with one role"
        " and stays on base for requests of another, except in the optimum"
    ]


def _roles(curves: Curves) -> dict[str, dict[str, int]]:
    totals = curves.totals
    return {
        role: {
            "requests": totals.requests[index],
            "flushes": totals.flushes[index],
            "touched_bytes": int(curves.role_blocks[index]) * BLOCK_BYTES,
            "base_elapsed_ns": to_ns(int(curves.base_ps[index])),
        }
        for index, role in enumerate(ROLES)
        if totals.requests[index] or totals.flushes[index]
    }


def _table(profiles: tuple[Profile, Profile], grid: Grid, curves: Curves) -> Any:
    """Return the PLACEMENT table: every placement at every shown capacity."""
    nothing = np.zeros(len(curves.points), np.int64)
    series: list[Series] = [("base", "none", nothing, {})]
    for coverage in COVERAGES:
        for role in curves.placed_roles:
            size = curves.role_blocks[ROLES.index(role)]
            filled = {role: np.minimum(curves.points, size)}
            series.append((role, coverage, curves.change_ps[coverage, role], filled))
        series += [(name, coverage, change, held) for name, change, held in pairs(curves, coverage)]
        combined = candidates(curves, coverage)[-1]
        change_ps = combined.elapsed_ps - curves.base_total_ps
        series.append(("combined", coverage, change_ps, dict(combined.blocks)))
    optimal = {role: curves.optimal_blocks[ROLES.index(role)] for role in curves.placed_roles}
    series.append(("optimal", "hottest", curves.optimal_ps, optimal))
    parts = [_series(profiles, grid, curves, one) for one in series]
    return pa.concat_tables(parts)


def _series(
    profiles: tuple[Profile, Profile],
    grid: Grid,
    curves: Curves,
    one: Series,
) -> Any:
    placement, coverage, change_ps, blocks = one
    count = len(grid.shown)
    optimum = curves.walked.get(OPTIMUM)
    timed = optimum if placement == "optimal" else timings(curves, coverage, blocks=blocks)
    timed = timed or Timings(curves.base_total_ps + change_ps)
    nothing = np.zeros(len(curves.points), np.int64)
    texts = (profiles[0].name, profiles[1].name, placement, coverage)
    columns = [constant_column(text, count) for text in texts]
    columns.append(int64_column(curves.points[grid.shown] * BLOCK_BYTES))
    columns += [
        pa.nulls(count, pa.int64())
        if part is None
        else int64_column(np.array([round_ns(part[index]) for index in grid.shown], np.int64))
        for part in (timed.service_ps, timed.response_ps, timed.makespan_ps)
    ]
    columns += [
        int64_column(blocks.get(role, nothing)[grid.shown] * BLOCK_BYTES) for role in ROLES[:3]
    ]
    return pa.Table.from_arrays(columns, schema=PLACEMENT)
