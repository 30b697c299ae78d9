"""What to put on NVM at each capacity, by how much it wins, and where the answer changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import InputError, UsageError
from tracekit.metadata import read_object
from tracekit.model.placement import Curves, running_best
from tracekit.store import TraceFolder, command_line
from tracekit.units import BLOCK_BYTES, PS_PER_NS, format_size, parse_size

SPLIT = "combined"
WORTH_RATIO = 0.01
KNEE_RATIO = 0.9
LASTING_RATIO = 1.1


@dataclass(frozen=True)
class Candidate:
    """One way to use the capacity, at every capacity point: times in ps, shares in blocks."""

    placement: str  # base, a role, or combined
    elapsed_ps: NDArray[np.int64]
    blocks: Mapping[str, NDArray[np.int64]]  # by role


@dataclass(frozen=True)
class Answer:
    """The recommendation at one capacity; ratios are 0 to 1, of the time they are compared with."""

    capacity_bytes: int
    placement: str
    fs_bytes: int
    journal_bytes: int
    swap_bytes: int
    elapsed_ns: int
    base_elapsed_ns: int
    gain_ratio: float  # of the base device's elapsed time
    runner_up: str
    runner_up_elapsed_ns: int
    margin_ratio: float  # of the runner-up's elapsed time
    optimal_elapsed_ns: int


@dataclass(frozen=True)
class Flip:
    """A capacity from which on the answer is another one."""

    capacity_bytes: int
    before: str
    after: str


@dataclass(frozen=True)
class Answers:
    """The answer at every capacity point of the curves."""

    by_point: list[Answer]
    flips: list[Flip]
    single_role_flips: list[Flip]  # were no split possible, as in the study's figure 6
    knee: Answer  # the smallest capacity with KNEE_RATIO of the largest gain
    best: Answer  # the smallest capacity with the largest gain


def candidates(curves: Curves, coverage: str) -> list[Candidate]:
    """Return base, each role alone and the best split, each using no more NVM than pays."""
    nothing = np.zeros(len(curves.points), np.int64)
    base = Candidate("base", nothing + curves.base_total_ps, {})
    alone = []
    for role in curves.placed_roles:
        least, index = running_best(curves.change_ps[coverage, role])
        alone.append(Candidate(role, curves.base_total_ps + least, {role: curves.points[index]}))
    splits = curves.splits(coverage, curves.placed_roles)
    shares = dict(zip(curves.placed_roles, splits.blocks, strict=True))
    combined = Candidate(SPLIT, curves.base_total_ps + splits.change_ps, shares)
    return [base, *alone, combined]


def find_answers(curves: Curves, coverage: str) -> Answers:
    """Choose the best placement at each capacity.

    A split between roles is the answer from where it saves WORTH_RATIO of the base device's time
    over the best single role, for as long as it saves anything; otherwise the best single role is,
    for being simpler.
    """
    found = candidates(curves, coverage)
    placements, flips = walk(found, worth_ps=WORTH_RATIO * curves.base_total_ps)
    _, single_role_flips = walk(found[:-1], worth_ps=WORTH_RATIO * curves.base_total_ps)
    answers = [
        _answer(curves, found, index=index, is_split=placement == SPLIT)
        for index, placement in enumerate(placements)
    ]
    most = max(answer.gain_ratio for answer in answers)
    best = next(answer for answer in answers if answer.gain_ratio >= most)
    knee = next(answer for answer in answers if answer.gain_ratio >= KNEE_RATIO * most)
    capacities = [answer.capacity_bytes for answer in answers]
    return Answers(
        by_point=answers,
        flips=lasting(flips, capacities),
        single_role_flips=lasting(single_role_flips, capacities),
        knee=knee,
        best=best,
    )


def walk(
    found: list[Candidate], *, worth_ps: float
) -> tuple[list[str], list[tuple[int, str, str]]]:
    """Follow the answer from no capacity to the largest.

    Return the placement at each point, and the changes that matter as (point, before, after). A
    change between single roles matters when the new one comes to save `worth_ps` over the old one;
    it is dated from where the new one began to be ahead.
    """
    simple = [candidate for candidate in found if candidate.placement != SPLIT]
    split = next((candidate for candidate in found if candidate.placement == SPLIT), None)
    placements, flips = [], []
    held, ahead_since = simple[0], dict[str, int]()
    for index in range(len(held.elapsed_ps)):
        best = _ranked(simple, index)[0]
        saved_ps = int(best.elapsed_ps[index] - split.elapsed_ps[index]) if split else 0
        is_split = saved_ps > 0 and (held is split or saved_ps >= worth_ps)
        placements.append(SPLIT if is_split else best.placement)
        new = split if is_split and split else best
        lead_ps = int(held.elapsed_ps[index] - new.elapsed_ps[index])
        if new is held or (lead_ps <= 0 and held is not split):
            ahead_since = {}
            continue
        ahead_since = {new.placement: ahead_since.get(new.placement, index)}
        if lead_ps >= worth_ps or split in (held, new):
            since = index if split in (held, new) else ahead_since[new.placement]
            flips.append((since, held.placement, new.placement))
            held, ahead_since = new, {}
    return placements, flips


def lasting(changes: list[tuple[int, str, str]], capacities: list[int]) -> list[Flip]:
    """Turn changes into flips, without answers that hold for less than a tenth more capacity.

    Such an answer is an effect of one boundary, as of the flushes that a role saves once its last
    block is on NVM; nobody would buy that capacity for it.
    """
    kept: list[Flip] = []
    for index, before, after in changes:
        flip = Flip(capacities[index], before, after)
        if kept and flip.capacity_bytes < LASTING_RATIO * kept[-1].capacity_bytes:
            passed = kept.pop()
            flip = Flip(passed.capacity_bytes, passed.before, after)
        if flip.before != flip.after:
            kept.append(flip)
    return kept


def _ranked(found: list[Candidate], index: int) -> list[Candidate]:
    """Order by elapsed time at one capacity point; of equals the one that needs least NVM."""

    def key(candidate: Candidate) -> tuple[int, int]:
        used = sum(int(blocks[index]) for blocks in candidate.blocks.values())
        return int(candidate.elapsed_ps[index]), used

    return sorted(found, key=key)


def _answer(curves: Curves, found: list[Candidate], *, index: int, is_split: bool) -> Answer:
    simple = _ranked(found[:-1], index)
    ranked = [found[-1], *simple] if is_split else simple
    chosen, runner_up = ranked[0], ranked[1] if len(ranked) > 1 else ranked[0]
    elapsed_ps, second_ps = int(chosen.elapsed_ps[index]), int(runner_up.elapsed_ps[index])
    shares = {role: int(blocks[index]) * BLOCK_BYTES for role, blocks in chosen.blocks.items()}
    return Answer(
        capacity_bytes=int(curves.points[index]) * BLOCK_BYTES,
        placement=chosen.placement,
        fs_bytes=shares.get("fs", 0),
        journal_bytes=shares.get("journal", 0),
        swap_bytes=shares.get("swap", 0),
        elapsed_ns=to_ns(elapsed_ps),
        base_elapsed_ns=to_ns(curves.base_total_ps),
        gain_ratio=saved_ratio(elapsed_ps, curves.base_total_ps),
        runner_up=runner_up.placement,
        runner_up_elapsed_ns=to_ns(second_ps),
        margin_ratio=saved_ratio(elapsed_ps, second_ps),
        optimal_elapsed_ns=to_ns(curves.base_total_ps + int(curves.optimal_ps[index])),
    )


def to_ns(time_ps: int) -> int:
    """Round picoseconds to nanoseconds."""
    return (time_ps + PS_PER_NS // 2) // PS_PER_NS


def saved_ratio(time_ps: int, of_ps: int) -> float:
    """Return how much shorter a time is than another, 0 to 1 of the latter; 0 where that is 0."""
    return (of_ps - time_ps) / of_ps if of_ps else 0.0


LEAST_SHARING = 2


@dataclass(frozen=True)
class RoleSet:
    """What the roles of a set reach together at one capacity; others stay on the base device."""

    placement: str  # a role, several as fs+journal, or combined: all roles of the trace
    capacity_bytes: int
    fs_bytes: int
    journal_bytes: int
    swap_bytes: int
    elapsed_ns: int
    gain_ratio: float  # of the base device's time


def pairs(
    curves: Curves, coverage: str
) -> Iterator[tuple[str, NDArray[np.int64], dict[str, NDArray[np.int64]]]]:
    """Yield each set of two roles, where the trace has more, named as in fs+journal.

    With it come the change of time in ps and the blocks by role, at each capacity point.
    """
    roles = curves.placed_roles
    for size in range(LEAST_SHARING, len(roles)):
        for held in itertools.combinations(roles, size):
            split = curves.splits(coverage, held)
            yield "+".join(held), split.change_ps, dict(zip(held, split.blocks, strict=True))


def role_sets(curves: Curves, coverage: str, *, index: int) -> list[RoleSet]:
    """Return every set of roles at one capacity point, the shortest time first.

    Of equal times the smaller set comes first, as it is simpler.
    """
    _, *alone, together = candidates(curves, coverage)
    shared = [
        Candidate(name, curves.base_total_ps + change_ps, blocks)
        for name, change_ps, blocks in pairs(curves, coverage)
    ]
    several = [together] if len(alone) >= LEAST_SHARING else []
    found = [*alone, *shared, *several]
    return [
        _at(curves, candidate, index)
        for candidate in sorted(found, key=lambda one: int(one.elapsed_ps[index]))
    ]


def _at(curves: Curves, candidate: Candidate, index: int) -> RoleSet:
    given = {role: int(blocks[index]) * BLOCK_BYTES for role, blocks in candidate.blocks.items()}
    elapsed_ps = int(candidate.elapsed_ps[index])
    return RoleSet(
        placement=candidate.placement,
        capacity_bytes=int(curves.points[index]) * BLOCK_BYTES,
        fs_bytes=given.get("fs", 0),
        journal_bytes=given.get("journal", 0),
        swap_bytes=given.get("swap", 0),
        elapsed_ns=to_ns(elapsed_ps),
        gain_ratio=saved_ratio(elapsed_ps, curves.base_total_ps),
    )


SHOWN_POINTS = 64
FINE_POINTS = 1024
HEADLINE_SHARE = 0.1


@dataclass(frozen=True)
class Grid:
    """Capacities in 4 KiB blocks, ascending from 0; the shown ones are among the fine ones."""

    fine: NDArray[np.int64]
    shown: NDArray[np.int64]  # indexes in `fine`
    headline: int  # index in `fine`


def make_grid(
    role_blocks: Sequence[int], requested_bytes: Sequence[int], *, max_bytes: int | None = None
) -> Grid:
    """Choose the capacities for a trace that touched so many blocks of each role.

    Shown are about 64 points up to the footprint or `max_bytes`, half evenly spaced, half in even
    ratios, the requested ones and the size of each role; compared are about 1024, every block of a
    small trace. The headline is the first requested capacity, else a tenth of the footprint.
    Capacities are rounded down to whole blocks.
    """
    footprint = sum(role_blocks)
    end = footprint if max_bytes is None else max_bytes // BLOCK_BYTES
    requested = [size // BLOCK_BYTES for size in requested_bytes]
    headline = requested[0] if requested else min(-(-footprint // round(1 / HEADLINE_SHARE)), end)
    sizes = [size for size in (*role_blocks, footprint) if size <= end]
    kept = [*requested, headline, *sizes, end]
    shown = _spread(end, SHOWN_POINTS, kept)
    fine = _spread(end, FINE_POINTS, [*kept, *shown.tolist()])
    return Grid(fine, np.searchsorted(fine, shown), int(np.searchsorted(fine, headline)))


def only_shown(grid: Grid) -> Grid:
    """Return the grid of the shown capacities, for models whose time grows with their number."""
    fine = grid.fine[grid.shown]
    headline = int(np.searchsorted(fine, grid.fine[grid.headline]))
    return Grid(fine, np.arange(len(fine)), headline)


def _spread(end: int, count: int, kept: Sequence[int]) -> NDArray[np.int64]:
    """Return 0, `kept`, and about `count` whole numbers up to `end`, ascending."""
    if end <= count:
        chosen = np.arange(end + 1)
    else:
        even = np.linspace(0, end, count // 2 + 1)
        ratios = np.geomspace(1, end, count // 2)
        chosen = np.rint(np.concatenate([even, ratios])).astype(np.int64)
    return np.unique(np.concatenate([chosen, np.array(kept, np.int64), [0]])).astype(np.int64)


ANSWER = "answer"
PLACED_BYTES = {"fs": "fs_bytes", "journal": "journal_bytes", "swap": "swap_bytes"}


def read_recommendation(folder: TraceFolder) -> Mapping[str, Any]:
    """Return recommendation.json; raise InputError when `recommend` has not run."""
    file = folder.path / "recommendation.json"
    hint = f"run: {command_line('recommend', folder.path)}"
    if not file.is_file():
        raise InputError(f"{folder.path} has no recommendation yet", hint=hint)
    found = read_object(file, hint=hint)
    if "answer" not in found or "answers" not in found or "coverage" not in found:
        raise InputError(f"{file} holds no recommendation", hint=hint)
    return found


def choose_answer(advice: Mapping[str, Any], wanted: str) -> Mapping[str, Any]:
    """Return the answer of the headline (`answer`) or at the capacity that is named."""
    if wanted == ANSWER:
        headline: Mapping[str, Any] = advice["answer"]
        return headline
    size = parse_size(wanted, option="--placement")
    for answer in (advice["answer"], *advice["answers"]):
        if answer["capacity_bytes"] == size:
            found: Mapping[str, Any] = answer
            return found
    known = sorted({answer["capacity_bytes"] for answer in advice["answers"]})
    raise UsageError(
        f"--placement {wanted}: there is no answer for this capacity",
        hint=f"run recommend --capacity {wanted}, or choose one of:"
        f" {', '.join(format_size(one) for one in known[:12])}",
    )
