"""The stage `recommend`: curves, answers and their wording, from a classified trace folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.profiles import Profile, choose_profile, load_profiles
from tracekit.recommend.answer import SPLIT, Answers, Flip, candidates, find_answers, to_ns
from tracekit.recommend.gain_range import gain_range
from tracekit.recommend.grid import Grid, make_grid, only_shown
from tracekit.recommend.models import (
    OPEN,
    SERIAL,
    journal_facts,
    journal_notes,
    round_ns,
    times_of,
    timings,
)
from tracekit.recommend.role_sets import pairs, role_sets
from tracekit.recommend.words import assumptions, headline, range_sentence
from tracekit.schema import BLOCK_BYTES, PLACEMENT, ROLES
from tracekit.simulate.block_orders import TouchedBlocks, read_blocks
from tracekit.simulate.columns import number_column, read_columns, text_column
from tracekit.simulate.placement import COVERAGES, Curves, Timings, sweep
from tracekit.simulate.walked import OPTIMUM, needs_walk, sweep_walked
from tracekit.simulate.windows import choose_cut
from tracekit.sizes import format_size
from tracekit.store import TraceFolder, write_json, write_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # Placement, coverage, change of time in ps and blocks by role, at each capacity point.
    Series = tuple[str, str, NDArray[np.int64], dict[str, NDArray[np.int64]]]

TABLE = "simulations/placement"
RESULT = "recommendation.json"
LEFT_OUT = ("uncharged", "not_issued", "orphan_merges", "impossible", "missing_blocks")


@dataclass(frozen=True)
class Options:
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
    folder: TraceFolder, options: Options, *, on_rows: Callable[[int], None] | None = None
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
    options: Options,
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
    options: Options,
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


def _headline_rule(options: Options, answers: Answers, grid: Grid) -> str:
    size = format_size(answers.by_point[grid.headline].capacity_bytes)
    if options.capacities_bytes:
        return f"the headline is about {size}, the first capacity asked for"
    return f"the headline is about {size}: a tenth of what the trace touched"


def _level_note(options: Options, level: str) -> list[str]:
    if level == options.level:
        return []
    return ["the trace has no issue times, so requests are charged as queued"]


def _times(curves: Curves, answers: Answers, index: int, coverage: str) -> dict[str, Any] | None:
    """Return what base and answer take at a point where they were walked, else None."""
    import numpy as np

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
    mixed = int(folder.info.get("hotness", {}).get("mixed_role_blocks", 0))
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
    import numpy as np
    import pyarrow as pa

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
    import numpy as np
    import pyarrow as pa

    placement, coverage, change_ps, blocks = one
    count = len(grid.shown)
    optimum = curves.walked.get(OPTIMUM)
    timed = optimum if placement == "optimal" else timings(curves, coverage, blocks=blocks)
    timed = timed or Timings(curves.base_total_ps + change_ps)
    nothing = np.zeros(len(curves.points), np.int64)
    texts = (profiles[0].name, profiles[1].name, placement, coverage)
    columns = [text_column(text, count) for text in texts]
    columns.append(number_column(curves.points[grid.shown] * BLOCK_BYTES))
    columns += [
        pa.nulls(count, pa.int64())
        if part is None
        else number_column(np.array([round_ns(part[index]) for index in grid.shown], np.int64))
        for part in (timed.service_ps, timed.response_ps, timed.makespan_ps)
    ]
    columns += [
        number_column(blocks.get(role, nothing)[grid.shown] * BLOCK_BYTES) for role in ROLES[:3]
    ]
    return pa.Table.from_arrays(columns, schema=PLACEMENT)
