"""What to put on NVM at each capacity, by how much it wins, and where the answer changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import structs

from tracekit.arrow import Integers
from tracekit.devices import DevicePair, Profile
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Record
from tracekit.model.best_records import BestPlacement
from tracekit.model.block_orders import read_blocks
from tracekit.model.footprint_growth import Footprint
from tracekit.model.placement import BASE_ALONE, ChargedTrace, Curves, Timings, distinct, to_ns
from tracekit.model.responses import Predictions
from tracekit.model.rival_kinds import CacheTimes
from tracekit.model.service_times import GIVEN, BaseFit
from tracekit.model.unit_records import UnitAnswer
from tracekit.origin import outdated
from tracekit.store import TraceFolder, command_line
from tracekit.tables import PLACEMENT_NAMES
from tracekit.units import BLOCK_BYTES, format_size, parse_size

SERIAL, OPEN = "serial", "open"
SPLIT = "combined"
WORTH_RATIO = 0.01
MOST_TIMES = 10
"""What takes longer than so many times as long is not told more exactly."""
KNEE_RATIO = 0.9
LASTING_RATIO = 1.1
ANSWER, BEST, RUNNER_UP, BY_UNITS = "answer", "best", "runner-up", "units"
PLACEMENTS = (ANSWER, BY_UNITS, BEST, RUNNER_UP)
RESULT = "recommendation.json"
SHOWN_POINTS = 64
FINE_POINTS = 1024
HEADLINE_SHARE = 0.1
PLACED_BYTES = {"fs": "fs_bytes", "journal": "journal_bytes", "swap": "swap_bytes"}


def placement_name(placement: str) -> str:
    """Return what a sentence calls a placement, such as fs or fs+journal."""
    return " and ".join(PLACEMENT_NAMES[part] for part in placement.split("+"))


class TimesAt(Record):
    """Times of a placement at one capacity; None where queueing was not modelled."""

    elapsed_ns: int
    response_avg_ns: int | None
    makespan_ns: int | None


@dataclass(frozen=True)
class Candidate:
    """One way to use the capacity, at every capacity point; shares in blocks."""

    placement: str  # base, a role, several as fs+journal, combined: all roles of the trace
    timings: Timings
    blocks: Mapping[str, Integers]  # by role

    @cached_property
    def elapsed_ps(self) -> Integers:
        """The time that placements are compared by."""
        return self.timings.compared_ps

    def bytes_at(self, index: int) -> dict[str, int]:
        """Return the share of each role at one capacity point, by the names of columns."""
        return {
            name: int(self.blocks[role][index]) * BLOCK_BYTES if role in self.blocks else 0
            for role, name in PLACED_BYTES.items()
        }

    def times_at(self, index: int) -> TimesAt:
        """Return the times at one capacity point."""
        parts: list[Any] = [
            None if part is None else int(to_ns(part[index]))
            for part in vars(self.timings).values()
        ]
        return TimesAt(*parts)


class RoleSet(Record):
    """What the roles of a set reach together at one capacity; others stay on the base device."""

    placement: str
    capacity_bytes: int
    fs_bytes: int
    journal_bytes: int
    swap_bytes: int
    elapsed_ns: int
    gain_ratio: float
    """0 to 1, of the base device's time."""

    @property
    def blocks(self) -> dict[str, int]:
        """The blocks of each role that are on NVM."""
        return {role: getattr(self, name) // BLOCK_BYTES for role, name in PLACED_BYTES.items()}


class Answer(RoleSet):
    """The recommendation at one capacity."""

    base_elapsed_ns: int
    runner_up: str
    runner_up_elapsed_ns: int
    margin_ratio: float
    """0 to 1, of the runner-up's elapsed time."""
    most_accessed_elapsed_ns: int = 0
    """Of the most accessed blocks of all roles, the study's optimum."""


class CoverageAnswer(Answer, kw_only=True):
    """The answer with one way to cover a role that does not fit."""

    coverage: str


class Flip(Record):
    """A capacity from which the answer is another one."""

    capacity_bytes: int
    before: str = msgspec.field(name="from")
    after: str = msgspec.field(name="to")


class RoleTotals(Record):
    """What a role's requests are, and take on the base device."""

    requests: int
    flushes: int
    touched_bytes: int
    base_elapsed_ns: int


class Gain(Record):
    """The gain of the answer's shares, on other devices or in a window of the trace."""

    gain_ratio: float


class PartGain(Gain):
    """Gain where one part of one device takes `factor` times as long."""

    device: str
    parameter: str
    factor: float


class WindowGain(Gain):
    """Gain in one window, taken as a separate trace."""

    window: int
    start_ns: int | None
    end_ns: int | None
    requests: int


class RepeatGain(Gain):
    """Gain on the devices as one measurement of them found them."""

    repeat: int


class GuessGain(Gain):
    """Gain where roles that are guesses stay on the base device: these, of low or medium
    confidence."""

    roles: list[str]


Kind = TypeVar("Kind", PartGain, WindowGain, RepeatGain)


class Ends(Record, Generic[Kind]):
    """The least and the most gain over changed parts, or over windows of the trace."""

    tried: int
    low: Kind
    high: Kind


@dataclass(frozen=True)
class Cut:
    """Windows of so many nanoseconds, or of so many requests; the other is None."""

    length_ns: int | None = None
    requests: int | None = None


class GainRange(Record):
    """The least and the most gain, over all and by kind."""

    low_ratio: float
    high_ratio: float
    factors: list[float]
    cut: Cut
    parameter: Ends[PartGain] | None
    window: Ends[WindowGain] | None
    repeat: Ends[RepeatGain] | None = None
    """Where the profiles are of several measurements."""
    guess: GuessGain | None = None
    """Where the answer places roles that are guesses."""


class HeldOut(Record):
    """What the answer saves of the second half of the requests, 0 to 1 of the base device's time.

    Its blocks or units are chosen by all requests, those that it is scored on among them.
    """

    requests: int
    """Of the second half."""
    gain_ratio: float
    chosen_before_ratio: float
    """The same with as many blocks of each role, or as much in units, chosen by the first half."""
    units: str | None = None
    """What is placed whole, such as `files`; None: blocks."""

    @property
    def sentence(self) -> str:
        """The comparison in words; empty where both save about the same."""
        if self.gain_ratio - self.chosen_before_ratio < WORTH_RATIO:
            return ""
        return (
            f"{'Blocks' if self.units is None else 'Units'} are chosen in hindsight: of the I/O"
            f" time of the second half of the requests they save {self.gain_ratio:.1%}; as many"
            f" {self.units or 'blocks'} that are chosen from the first half alone save"
            f" {self.chosen_before_ratio:.1%}."
        )


class PlacementTimes(Record):
    """What base and answer take where requests were simulated in their order."""

    base: TimesAt
    answer: TimesAt


class JournalUse(Record):
    """How often the trace went round the journal; `region_*` are None where that is not known."""

    touched_bytes: int
    written_bytes: int
    region_bytes: int | None
    touched_cycles: float
    region_cycles: float | None


class AnswerRow(Record):
    """A row of the answer as a table."""

    what: str
    text: str


class Recommendation(Record, kw_only=True):
    """The content of recommendation.json."""

    base_profile: str
    nvm_profile: str
    profiles: list[Profile]
    """Base and NVM."""
    level: str
    queueing: str = SERIAL
    coverage: str
    headline: list[str]
    rows: list[AnswerRow] = msgspec.field(default_factory=list)
    """The answer as a short table, which the command prints; older files have none."""
    answer: Answer
    other_coverage: CoverageAnswer | None = None
    role_sets: list[RoleSet]
    answers: list[Answer]
    flips: list[Flip]
    single_role_flips: list[Flip]
    knee: Answer | None = None
    best: Answer | None = None
    footprint_bytes: int = 0
    largest_bytes: int | None = None
    """Capacities were compared up to this."""
    roles: dict[str, RoleTotals]
    times: PlacementTimes | None = None
    journal: JournalUse | None = None
    left_out: dict[str, int]
    assumptions: list[str]
    gain_range: GainRange | None = None
    held_out: HeldOut | None = None
    """Of a long trace of its sample; None where nothing is placed, or a long one queues."""
    units: UnitAnswer | None = None
    best_placement: BestPlacement | None = None
    """Block by block, whatever their roles; None where nothing is there to place."""
    footprint: Footprint | None = None
    predictions: Predictions | None = None
    caches: list[CacheTimes] = msgspec.field(default_factory=list)
    """Of the answer's capacity; empty where they were not simulated."""
    base: BaseFit = msgspec.field(default_factory=lambda: BaseFit(kind=GIVEN))

    @property
    def is_open(self) -> bool:
        """Whether it compares response times of requests that queue."""
        return self.queueing == OPEN


def read_recommendation(folder: TraceFolder) -> Recommendation:
    """Return recommendation.json.

    Raises InputError when there is none, or the roles have changed since.
    """
    hint = f"run: {command_line('recommend', folder.path)}"
    if old := outdated(folder.path, folder.content, only=RESULT).get(RESULT):
        raise InputError(f"{folder.path}: {old.text}", hint=f"run: {old.command}")
    found = folder.result(RESULT, Recommendation, hint=hint)
    if found is None:
        raise InputError(f"{folder.path} has no recommendation yet", hint=hint)
    return found


def resolved(advice: Recommendation, wanted: str) -> str:
    """Return what `answer` stands for: the headline's, which is by extents without known roles."""
    units = advice.units
    is_first = units is not None and units.is_default and units.placed_count > 0
    return BY_UNITS if wanted == ANSWER and is_first else wanted


def check_wanted(wanted: str) -> None:
    """Raise UsageError, before anything is read or measured, for what names no placement."""
    if wanted not in PLACEMENTS:
        _capacity(wanted, PLACEMENTS)


def _capacity(wanted: str, words: Sequence[str]) -> int:
    """Return the bytes of a capacity; UsageError, which names the words, where it is a word."""
    if not any(letter.isdigit() for letter in wanted):
        raise UsageError(
            f"--placement {wanted}: there is no such placement",
            hint=f"give {', '.join(words)} or a capacity such as 64MiB",
        )
    return parse_size(wanted, option="--placement")


def choose_answer(
    advice: Recommendation, wanted: str, *, words: Sequence[str] = (ANSWER,)
) -> Answer:
    """Return the answer of the headline (`answer`) or at the capacity that is named.

    `words` are those that the option takes, for an error.
    """
    if wanted == ANSWER:
        return advice.answer
    size = _capacity(wanted, words)
    known = {answer.capacity_bytes: answer for answer in (*advice.answers, advice.answer)}
    if size in known:
        return known[size]
    sizes = sorted({answer.capacity_bytes for answer in advice.answers})
    raise UsageError(
        f"--placement {wanted}: there is no answer for this capacity",
        hint=f"run recommend --capacity {wanted}, or choose one of:"
        f" {', '.join(format_size(one) for one in sizes[:12])}",
    )


def runner_up(advice: Recommendation) -> RoleSet | None:
    """Return the headline's runner-up; None where that is the base device alone."""
    name = advice.answer.runner_up
    return next((one for one in advice.role_sets if one.placement == name), None)


def choose_placement(advice: Recommendation, wanted: str) -> RoleSet:
    """Return an answer as `choose_answer`, or the headline's runner-up."""
    if wanted != RUNNER_UP:
        return choose_answer(advice, wanted, words=PLACEMENTS)
    found = runner_up(advice)
    if found is None:
        raise UsageError(f"--placement {wanted}: the runner-up is the base device alone")
    return found


def charged_trace(folder: TraceFolder, advice: Recommendation) -> ChargedTrace:
    """Return the folder's trace as the recommendation charged it."""
    return ChargedTrace(
        folder.require("requests", made_by="parse"),
        read_blocks(folder.require("blocks", made_by="classify")),
        DevicePair(*advice.profiles),
        is_issued=advice.level == "issued",
        is_open=advice.is_open,
    )


@dataclass(frozen=True)
class Answers:
    """The answer at every capacity point of the curves."""

    by_point: list[Answer]
    flips: list[Flip]
    single_role_flips: list[Flip]  # were no split possible, as in the study's figure 6
    knee: Answer  # the smallest capacity with KNEE_RATIO of the largest gain
    best: Answer  # the smallest capacity with the largest gain


def timed(
    curves: Curves, coverage: str, *, blocks: Mapping[str, Integers], change_ps: Integers
) -> Timings:
    """Return the times with `blocks` of each role on NVM, by point, as simulated if they were.

    Several roles as in `Curves.splits`.
    """
    roles = tuple(blocks)
    if not curves.simulated:
        return Timings(curves.base_total_ps + change_ps)
    if len(roles) == 1:
        return curves.simulated[coverage, roles].at(
            np.searchsorted(curves.points, blocks[roles[0]])
        )
    return curves.simulated[(coverage, roles) if roles else BASE_ALONE]


def _candidate(curves: Curves, coverage: str, placement: str, roles: Sequence[str]) -> Candidate:
    """Return the best division of each capacity between these roles; without any, the base."""
    splits = curves.splits(coverage, roles)
    blocks = dict(zip(roles, splits.blocks, strict=True))
    return Candidate(
        placement, timed(curves, coverage, blocks=blocks, change_ps=splits.change_ps), blocks
    )


def candidates(curves: Curves, coverage: str) -> list[Candidate]:
    """Return base, each role alone and the best split, each using no more NVM than pays."""
    roles = curves.placed_roles
    sets = {"base": [], **{role: [role] for role in roles}, SPLIT: roles}
    return [_candidate(curves, coverage, name, chosen) for name, chosen in sets.items()]


def find_answers(curves: Curves, coverage: str) -> Answers:
    """Choose the best placement at each capacity.

    A split between roles is the answer from where it saves WORTH_RATIO of the base device's time
    over the best single role, for as long as it saves anything; otherwise the best single role is,
    for being simpler.
    """
    found = candidates(curves, coverage)
    worth_ps = WORTH_RATIO * curves.base_total_ps
    placements, flips = follow_answer(found, worth_ps=worth_ps)
    _, single_role_flips = follow_answer(found[:-1], worth_ps=worth_ps)
    order = _order(found[:-1])
    answers = [
        _answer(curves, _ranked(found, placement, order[index]), index)
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


def answer_at(curves: Curves, coverage: str, *, index: int) -> Answer:
    """Return the answer at one capacity only."""
    found = candidates(curves, coverage)
    placements, _ = follow_answer(found, worth_ps=WORTH_RATIO * curves.base_total_ps)
    return _answer(curves, _ranked(found, placements[index], _order(found[:-1])[index]), index)


def _ranked(found: list[Candidate], placement: str, order: Integers) -> list[Candidate]:
    """Return the candidates from the answer on, a split only as that."""
    return [*found[-1:] * (placement == SPLIT), *(found[number] for number in order)]


def follow_answer(
    found: list[Candidate], *, worth_ps: float
) -> tuple[list[str], list[tuple[int, str, str]]]:
    """Follow the answer from no capacity to the largest.

    Return the placement at each point, and the changes that matter as (point, before, after). A
    change between single roles matters when the new one comes to save `worth_ps` over the old one;
    it is dated from where the new one began to be ahead.
    """
    simple = [candidate for candidate in found if candidate.placement != SPLIT]
    split = next((candidate for candidate in found if candidate.placement == SPLIT), None)
    order = _order(simple)
    placements, flips = [], []
    current, ahead_since = simple[0], dict[str, int]()
    for index in range(len(current.elapsed_ps)):
        best = simple[order[index, 0]]
        saved_ps = int(best.elapsed_ps[index] - split.elapsed_ps[index]) if split else 0
        is_split = saved_ps > 0 and (current is split or saved_ps >= worth_ps)
        placements.append(SPLIT if is_split else best.placement)
        new = split if is_split and split else best
        lead_ps = int(current.elapsed_ps[index] - new.elapsed_ps[index])
        if new is current or (lead_ps <= 0 and current is not split):
            ahead_since = {}
            continue
        ahead_since = {new.placement: ahead_since.get(new.placement, index)}
        if lead_ps >= worth_ps or split in (current, new):
            since = index if split in (current, new) else ahead_since[new.placement]
            flips.append((since, current.placement, new.placement))
            current, ahead_since = new, {}
    return placements, flips


def lasting(changes: list[tuple[int, str, str]], capacities: list[int]) -> list[Flip]:
    """Turn changes into flips, without answers that last for less than a tenth more capacity.

    Such an answer is an effect of one boundary, as of the flushes that a role saves once its last
    block is on NVM; that capacity would not be bought for it.
    """
    flips: list[Flip] = []
    for index, before, after in changes:
        flip = Flip(capacity_bytes=capacities[index], before=before, after=after)
        if flips and flip.capacity_bytes < LASTING_RATIO * flips[-1].capacity_bytes:
            flip = structs.replace(flips.pop(), after=after)
        if flip.before != flip.after:
            flips.append(flip)
    return flips


def _order(found: list[Candidate]) -> Integers:
    """Return, by capacity point, the candidates from the quickest on.

    Of equals the one that needs least NVM is first.
    """
    elapsed_ps = np.stack([one.elapsed_ps for one in found])
    needed = np.stack([sum(one.blocks.values(), np.zeros_like(elapsed_ps[0])) for one in found])
    return np.lexsort((needed, elapsed_ps), axis=0).T


def _answer(curves: Curves, ranked: list[Candidate], index: int) -> Answer:
    chosen, runner_up = ranked[0], ranked[min(1, len(ranked) - 1)]
    second_ps = int(runner_up.elapsed_ps[index])
    return Answer(
        **_reached(curves, chosen, index),
        base_elapsed_ns=to_ns(curves.base_total_ps),
        runner_up=runner_up.placement,
        runner_up_elapsed_ns=to_ns(second_ps),
        margin_ratio=saved_ratio(int(chosen.elapsed_ps[index]), second_ps),
        most_accessed_elapsed_ns=to_ns(curves.base_total_ps + int(curves.optimal_ps[index])),
    )


def _reached(curves: Curves, one: Candidate, index: int) -> dict[str, Any]:
    """Return the fields of a RoleSet: a placement at one capacity point."""
    elapsed_ps = int(one.elapsed_ps[index])
    return {
        "placement": one.placement,
        "capacity_bytes": int(curves.points[index]) * BLOCK_BYTES,
        **one.bytes_at(index),
        "elapsed_ns": to_ns(elapsed_ps),
        "gain_ratio": saved_ratio(elapsed_ps, curves.base_total_ps),
    }


def saved_ratio(time_ps: int, of_ps: int) -> float:
    """Return how much shorter a time is than another, 0 to 1 of the latter; 0 where that is 0."""
    return (of_ps - time_ps) / of_ps if of_ps else 0.0


def longer(ratio: float) -> str:
    """Return how much longer something takes, before what it is compared with."""
    if ratio < 1:
        return f"{ratio:.1%} longer than"
    return f"{'more than 10' if ratio > MOST_TIMES - 1 else f'{1 + ratio:.1f}'} times as long as"


def gain_text(gain_ratio: float) -> str:
    """Return a gain, or how many times as long it takes instead."""
    if gain_ratio > -1:
        return f"{gain_ratio:.1%}"
    return f"none, but {longer(-gain_ratio)} before"


def shared(curves: Curves, coverage: str) -> Iterator[Candidate]:
    """Yield the best split of each set of two roles, where the trace has more of them."""
    for size in range(2, len(curves.placed_roles)):
        for chosen in itertools.combinations(curves.placed_roles, size):
            yield _candidate(curves, coverage, "+".join(chosen), chosen)


def role_sets(curves: Curves, coverage: str, *, index: int) -> list[RoleSet]:
    """Return every set of roles at one capacity point, the shortest time first.

    Of equal times the smaller set comes first, as it is simpler.
    """
    _, *alone, together = candidates(curves, coverage)
    found = [*alone, *shared(curves, coverage), *([together] if len(alone) > 1 else [])]
    found.sort(key=lambda one: int(one.elapsed_ps[index]))
    return [RoleSet(**_reached(curves, one, index)) for one in found]


@dataclass(frozen=True)
class Grid:
    """Capacities in 4 KiB blocks, ascending from 0; the shown ones are among the fine ones."""

    fine: Integers
    shown: Integers  # indexes in `fine`
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
    exact = [*requested, headline, *sizes, end]
    shown = _spread(end, SHOWN_POINTS, exact)
    fine = _spread(end, FINE_POINTS, [*exact, *shown.tolist()])
    return Grid(fine, np.searchsorted(fine, shown), int(np.searchsorted(fine, headline)))


def only_shown(grid: Grid) -> Grid:
    """Return the grid of the shown capacities, for models whose time grows with their number."""
    fine = grid.fine[grid.shown]
    headline = int(np.searchsorted(fine, grid.fine[grid.headline]))
    return Grid(fine, np.arange(len(fine)), headline)


def _spread(end: int, count: int, exact: Sequence[int]) -> Integers:
    """Return 0, `exact`, and about `count` whole numbers up to `end`, ascending."""
    if end <= count:
        chosen = np.arange(end + 1)
    else:
        even = np.linspace(0, end, count // 2 + 1)
        ratios = np.geomspace(1, end, count // 2)
        chosen = np.rint(np.concatenate([even, ratios])).astype(np.int64)
    return distinct([chosen, *exact, 0])
