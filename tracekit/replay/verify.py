"""The stage `verify`: replays base and placement in turn, and judges the model by them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import to_builtins

from tracekit import query
from tracekit._native import placement as native
from tracekit.arrow import open_table
from tracekit.devices import DevicePair, choose_profile
from tracekit.errors import InputError, PartialError, UsageError
from tracekit.metadata import Record
from tracekit.model.answer import (
    ANSWER,
    BEST,
    BY_UNITS,
    RUNNER_UP,
    Answer,
    Recommendation,
    RoleSet,
    charged_trace,
    choose_answer,
    placement_name,
    read_recommendation,
    resolved,
    runner_up,
)
from tracekit.model.best_placement import TABLE as BEST_TABLE
from tracekit.model.best_placement import read_best, time_ps
from tracekit.model.best_records import BestAt
from tracekit.model.block_orders import order_blocks
from tracekit.model.fitted_base import known_profiles
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import ChargedTrace, to_ns
from tracekit.model.recommend import check_answer
from tracekit.model.unit_answer import TABLE as UNITS_TABLE
from tracekit.model.unit_answer import read_units
from tracekit.model.unit_records import UnitAnswer
from tracekit.repeats import LEVEL, in_turn, paired_ratio
from tracekit.replay.between import (
    Between,
    Round,
    Slowness,
    Speeds,
    halfway,
    middle,
    slope_of,
    slowness,
)
from tracekit.replay.compiler import PlanOptions, compile_plan
from tracekit.replay.partial_results import SUMMARY
from tracekit.replay.placed import place_answer
from tracekit.replay.player import EMULATED, PlayerOptions, Schedule
from tracekit.replay.routes import NVM
from tracekit.replay.run import ReplayOptions, replay
from tracekit.replay.summary import Emulation, ReplaySummary, content_of, read_summary
from tracekit.replay.verdict import (
    CANNOT_TELL,
    HELD,
    Expected,
    Tolerances,
    Verdict,
    gain_of,
    late,
    verdict_of,
)
from tracekit.replay.windows import choose_windows, halves, only_windows, requests_for
from tracekit.replay.without_stolen import Took, read_took, times_without
from tracekit.stolen_time import ATTEMPTS, MOST_LEFT_OUT, StealWatch
from tracekit.store import TraceFolder, new_folder, write_results
from tracekit.tables import ROLE_NAMES, ROLES, VERIFICATION
from tracekit.units import format_duration, format_size


class Repeat(Record):
    """The times on the devices as one measurement of them found them."""

    base_ns: int
    placed_ns: int


class Prediction(Record):
    """Elapsed time by the model, requests one after the other; with queueing the mean response."""

    base_ns: int
    placed_ns: int
    gain_ratio: float
    role_ns: dict[str, int] = msgspec.field(default_factory=dict)
    """On the base device by role, requests one after the other."""
    runner_up_ns: int | None = None
    """None where base is the runner-up, or where its blocks are not known."""
    repeats: list[Repeat] = msgspec.field(default_factory=list)
    """Where the profiles are of several measurements: by each of them."""
    rounds: list[Repeat] = msgspec.field(default_factory=list)
    """At the devices' speeds during each replay, where these were measured between."""


def predict(
    folder: TraceFolder,
    advice: Recommendation,
    *,
    answer: RoleSet | BestAt | UnitAnswer,
    rival: RoleSet | None = None,
    rounds: Sequence[Round] = (),
    repeats: Sequence[Speeds] = (),
) -> Prediction:
    """Return the time of a folder's requests, without NVM and with a placement's blocks on it.

    With speeds during the replays it is that at the middle of them; `repeats` are those of each
    measurement of the devices, which then say how sure the profiles are but for their speed.
    """
    trace = charged_trace(folder, advice)
    profiles = trace.devices
    measured = profiles.measured
    if rounds:
        speed = middle([one for both in rounds for one in both])
        trace = replace(trace, devices=profiles.slowed(*speed))
        measured = _as_fast(measured, repeats, speed)
    times_ns = partial(_times_ns, folder, trace, coverage=advice.coverage)
    found = times_ns(trace.devices, answer)
    if found.base_ns <= 0:
        raise InputError(
            f"{folder.path}: none of the requests to replay costs a device any time",
            hint="raise --duration",
        )
    during = ([times_ns(profiles.slowed(*one), answer) for one in both] for both in rounds)
    return Prediction(
        base_ns=found.base_ns,
        placed_ns=found.placed_ns,
        gain_ratio=1 - found.placed_ns / found.base_ns,
        role_ns={} if advice.is_open else _role_ns(trace),
        runner_up_ns=None if rival is None else times_ns(trace.devices, rival).placed_ns,
        repeats=[times_ns(devices, answer) for devices in measured],
        rounds=[Repeat(base.base_ns, placed.placed_ns) for base, placed in during],
    )


def _as_fast(
    measured: Sequence[DevicePair], repeats: Sequence[Speeds], speed: Speeds
) -> list[DevicePair]:
    """Return the devices as each measurement found them, but for their speed."""
    # Of devices measured once there is no other.
    return [
        pair.slowed(speed.base / own.base, speed.nvm / own.nvm)
        for pair, own in zip(measured, repeats, strict=False)
    ]


def _times_ns(
    folder: TraceFolder,
    trace: ChargedTrace,
    devices: DevicePair,
    placed: RoleSet | BestAt | UnitAnswer,
    *,
    coverage: str,
) -> Repeat:
    """Return what a trace takes on two devices, and as placed there."""
    there = replace(trace, devices=devices)
    if isinstance(placed, RoleSet):
        found = placement_ps(there, placed.blocks, coverage=coverage)
    else:
        read = read_best if isinstance(placed, BestAt) else read_units
        found = time_ps(there, read(folder, trace.touched))
    return Repeat(*map(to_ns, found))


def _role_ns(trace: ChargedTrace) -> dict[str, int]:
    """Return what the requests of each role take on the base device."""
    nothing = np.zeros(1, np.dtype(native.SCENARIO))
    plan = trace.simulation(order_blocks(trace.touched, np.zeros(1, np.int64)), nothing)
    times_ps = native.simulate(plan, trace.rows()).role_service_ps
    return {role: to_ns(ps) for role, ps in zip(ROLES, times_ps, strict=True) if ps}


def bases(
    part: TraceFolder, advice: Recommendation, *, options: VerifyOptions, placement: str | None
) -> tuple[str, ...]:
    """Return the emulated base devices as `--device` takes them, each traced device by itself.

    Raise UsageError where real targets would have one device in place of several that the model
    has apart, each with a head or queue.
    """
    trace = charged_trace(part, advice)
    names, (base, _) = trace.touched.device_names, emulated(advice, options)
    if not trace.needs_events or len(names) < 2:
        return (base,)
    if options.engine == EMULATED:
        placed = None if placement is None else place_answer(part, placement)
        with TemporaryDirectory(prefix=f".{part.path.name}.", dir=part.path.parent) as scratch:
            plan = PlanOptions(advice.level, placed=placed)
            extents = compile_plan(part, Path(scratch) / "plan", options=plan).extents
        found = dict.fromkeys(one["device"] for one in extents if one["device"])
        return tuple(f"{name}={base}" for name in found)
    missing = [name for name in names if not any(t.startswith(f"{name}=") for t in options.targets)]
    if missing:
        raise UsageError(
            f"the trace is of {len(names)} devices, each with a head or queue in the model, and"
            f" {' and '.join(missing)} would share a target",
            hint=f"give each a target, such as --target {missing[0]}=PATH",
        )
    return (base,)


def emulated(advice: Recommendation, options: VerifyOptions) -> tuple[str, str]:
    """Return the profiles of base and NVM on emulated devices."""
    return options.emulates or (advice.base_profile, advice.nvm_profile)


def span_ns(requests: Path) -> int:
    """Return the time from the first request to the last, by the file's own statistics."""
    with open_table(requests) as source:
        column = source.schema_arrow.get_field_index("queue_ns")
        groups = [
            source.metadata.row_group(number).column(column).statistics
            for number in range(source.metadata.num_row_groups)
        ]
    known = [group for group in groups if group is not None and group.has_min_max]
    return max((int(g.max) for g in known), default=0) - min((int(g.min) for g in known), default=0)


WHAT = {
    "serial": "the replay of",
    "open": "the mean response, each request replayed at its time, of",
}


def says(result: Mapping[str, Any]) -> list[str]:
    """Return the sentences of the command and the report."""
    predicted, measured, answer = result["predicted"], result["measured"], result["answer"]
    part, own, by = f"all {result['requests']:,} requests", "", _by_measurements(predicted)
    if result["requests"] < result["trace_requests"]:
        count = result["windows"]
        part = (
            f"{result['requests']:,} of {result['trace_requests']:,} requests, in {count}"
            f" {'window' if count == 1 else 'windows'},"
        )
        spread_of = f", {by}," if by else ""
        own = f" (the model says {_change(predicted['gain_ratio'])}{spread_of} for them)"
        by = ""  # it is of these windows, and not of what was published
    spread = ""
    if measured["repeats"] > 1:
        spread = (
            f" ({_change(measured['gain_low_ratio'])} to {_change(measured['gain_high_ratio'])}"
            f" in {measured['repeats']} repeats{_confident(measured)})"
        )
    what = WHAT[result.get("queueing", "serial")]
    return [
        f"{_verdict(result)}: with {format_size(answer['capacity_bytes'])} of"
        f" {result['nvm_profile']} {what} {part} took"
        f" {_change(measured['gain_ratio'])} time{spread}, published was"
        f" {_change(result['published_ratio'])}{f' ({by})' if by else ''};"
        f" {_points(result['gain_error_ratio'])} apart,"
        f" {_points(result['tolerance_ratio'])} are allowed{own}.",
        f"On the base device alone: {format_duration(measured['base_ns'])}, predicted"
        f" {_predicted(predicted, 'base_ns')} ({_signed(result['base_error_ratio'])});"
        f" as placed: {format_duration(measured['placed_ns'])}, predicted"
        f" {_predicted(predicted, 'placed_ns')} ({_signed(result['placed_error_ratio'])});"
        f" {result['time_tolerance_ratio']:.0%} are allowed.{_of_roles(result)}",
        *_of_runner_up(result),
        *_of_speeds(result),
        *_of_requests(result),
        *_of_emulation(result),
    ]


def _of_requests(result: Mapping[str, Any]) -> Iterator[str]:
    if result.get("left_out_ratio"):
        yield (
            f"{result['left_out_ratio']:.1%} of the replayed requests count with what they took in"
            " other repeats, as the hypervisor took time of the processors meanwhile."
        )
    if result["cut_requests"]:
        yield (
            f"{result['cut_requests']:,} requests were on both devices and replayed in"
            f" {result['pieces']:,} pieces, one by one, as the model charges them."
        )


def _predicted(predicted: Mapping[str, Any], key: str) -> str:
    """Return a time, and between what it is by each measurement of the devices."""
    found = sorted(one[key] for one in predicted.get("repeats", ()))
    ends = f" ({format_duration(found[0])} to {format_duration(found[-1])})" if found else ""
    return f"{format_duration(predicted[key])}{ends}"


def _by_measurements(predicted: Mapping[str, Any]) -> str:
    """Return between what the gain is by each measurement of the devices."""
    gains = sorted(1 - one["placed_ns"] / one["base_ns"] for one in predicted.get("repeats", ()))
    if not gains:
        return ""
    ends = f"{_change(gains[0])} to {_change(gains[-1])}"
    return f"{ends} by each of {len(gains)} measurements of the devices"


def _of_roles(result: Mapping[str, Any]) -> str:
    """Return how far each role is off on the base device, whose errors count one by one."""
    predicted, measured = result["predicted"]["role_ns"], result["measured"]["role_ns"]
    parts = [
        f"{ROLE_NAMES[role]} {_signed(measured.get(role, 0.0) / expected - 1)}"
        for role, expected in predicted.items()
        if expected
    ]
    return f" By role: {', '.join(parts)}." if len(parts) > 1 and measured else ""


def _of_runner_up(result: Mapping[str, Any]) -> Iterator[str]:
    found = result["runner_up"]
    if found is None:
        return
    ahead = found["ahead_ratio"]
    ends = [found["ahead_low_ratio"], found["ahead_high_ratio"]]
    spread = "" if None in ends else f" ({LEVEL:.0%} confidence: {ends[0]:+.1%} to {ends[1]:+.1%})"
    yield (
        f"The runner-up, {placement_name(found['placement'])}, took"
        f" {format_duration(found['measured_ns'])}, predicted"
        f" {format_duration(found['predicted_ns'])}: the answer is {ahead:+.1%} ahead{spread},"
        f" predicted {found['predicted_ahead_ratio']:+.1%}."
    )


def _of_speeds(result: Mapping[str, Any]) -> Iterator[str]:
    found = result.get("interleaved")
    if found is None:
        return
    base, nvm = (
        f"{one['ratio']:.0%} ({one['low_ratio']:.0%} to {one['high_ratio']:.0%})"
        for one in (found["base"], found["nvm"])
    )
    yield (
        "Between the replays the other half's requests took"
        f" {base} of what the profile says on the base device, {nvm} on the NVM: prediction and"
        f" replays are those at the middle of these speeds. As they were the replays took"
        f" {_change(found['as_it_was']['gain_ratio'])} time as placed"
        f"{_confident(found['as_it_was'])}."
    )


def _of_emulation(result: Mapping[str, Any]) -> Iterator[str]:
    if (late := result.get("emulation_late")) and result["is_held"] is not None:
        yield f"But {late}; without that the verdict is the same."
    if result["engine"] == EMULATED:
        yield SELF_TEST


SELF_TEST = (
    "This was a self-test: the devices were emulated from the very profiles that the model used,"
    " which proves the model's sums and the placement of each block, not the profiles. Give a"
    " --target for each to prove those."
)


def _verdict(result: Mapping[str, Any]) -> str:
    if result["is_held"] is None:
        why = result["reason"] or result["emulation_late"]
        return f"Cannot tell whether the prediction holds, since {why}"
    why = f" ({result['reason']})" if result["reason"] else ""
    return f"The prediction {'held' if result['is_held'] else 'did not hold'}{why}"


def _confident(measured: Mapping[str, Any]) -> str:
    low, high = (measured.get(f"gain_confident_{end}_ratio") for end in ("low", "high"))
    if low is None or high is None:
        return ""
    return f"; {LEVEL:.0%} confidence: {_change(low)} to {_change(high)}"


def _change(gain_ratio: float) -> str:
    return f"{abs(gain_ratio):.1%} {'less' if gain_ratio >= 0 else 'more'}"


def _points(ratio: float) -> str:
    return f"{abs(ratio) * 100:.1f} points"


def _signed(ratio: float | None) -> str:
    return "no time" if ratio is None else f"{ratio:+.1%}"


TABLE = "verification"
RESULT = "verification.json"
BASE, PLACED, RIVAL = "verify-base", "verify-placement", "verify-runner-up"
OF_ADVICE = ("base_profile", "nvm_profile", "level", "queueing")


class Measured(Record, kw_only=True):
    """Medians over the repeats, the range of the gains, and their 95 % confidence interval."""

    base_ns: int
    placed_ns: int
    gain_ratio: float
    gain_low_ratio: float
    gain_high_ratio: float
    gain_confident_low_ratio: float | None = None
    gain_confident_high_ratio: float | None = None
    role_ns: dict[str, int] = msgspec.field(default_factory=dict)
    """Service time by role on the base device, requests one after the other."""
    repeats: int


class Interleaved(Record):
    """What the devices took between replays, beside what they took when they were measured."""

    base: Slowness
    nvm: Slowness
    as_it_was: Measured
    """What the replays took; elsewhere it is as if the speeds had been their medians all the time.
    """

    @property
    def drifts(self) -> list[str]:
        """Which of them is no longer the device that was measured, in a few words."""
        return [one.drift for one in (self.base, self.nvm) if one.drift]


class RunnerUp(Record):
    """The placement that the model has next: medians, and how far the answer is ahead of it."""

    placement: str
    predicted_ns: int
    measured_ns: int
    predicted_ahead_ratio: float
    """0 to 1, of the runner-up's time."""
    ahead_ratio: float
    ahead_low_ratio: float | None
    ahead_high_ratio: float | None


class Verification(Record):
    """The content of verification.json, to which `headline` is added."""

    predicted: Prediction
    measured: Measured
    base_error_ratio: float
    placed_error_ratio: float | None
    gain_error_ratio: float
    """Measured less published."""
    published_ratio: float
    """The gain that recommend said, of the whole trace."""
    tolerance_ratio: float
    time_tolerance_ratio: float
    verdict: str
    """held, did not hold or cannot tell."""
    is_held: bool | None
    """None: nobody can tell."""
    reason: str | None
    """Why the prediction did not hold, or nobody can tell."""
    emulation_late: str | None
    """By how much emulated completions were too late."""
    answer: dict[str, Any]
    runner_up: RunnerUp | None
    requests: int
    trace_requests: int
    windows: int
    engine: str
    base_profile: str
    nvm_profile: str
    level: str
    queueing: str
    cut_requests: int
    pieces: int
    left_out_ratio: float | None = None
    """Of the requests: time of a processor was stolen meanwhile; None where all count."""
    interleaved: Interleaved | None = None
    """None where the devices were not measured between the replays."""


@dataclass(frozen=True)
class VerifyOptions:
    """What to replay, where, how often, and how far off the model may be (ratios)."""

    placement: str = ANSWER
    seconds: float = 10.0
    repeats: int = 3
    tolerance_ratio: float = 0.05
    time_tolerance_ratio: float = 0.1
    targets: tuple[str, ...] = ()
    engine: str = EMULATED
    write_to: tuple[str, ...] = ()
    profiles: Path | None = None
    emulates: tuple[str, str] | None = None
    """Profiles of base and NVM that are emulated; None: those of the recommendation."""
    only_compared: bool = False
    """Whether the windows are of the half of the trace on which no device was measured."""

    def __post_init__(self) -> None:
        """Check the numbers, and that real engines have somewhere to go."""
        if not 0 < self.seconds < 1e6:
            raise UsageError(f"--duration {self.seconds:g}: not a length of time")
        if not 1 <= self.repeats <= 1000:
            raise UsageError(f"--repeat {self.repeats}: not from 1 to 1000")
        if not 0 <= self.tolerance_ratio <= 1:
            raise UsageError(f"--tolerance {self.tolerance_ratio:g}: not a share from 0 to 1")
        if not 0 <= self.time_tolerance_ratio <= 1e6:
            raise UsageError(
                f"--time-tolerance {self.time_tolerance_ratio:g}: not a share from 0 up"
            )
        on_nvm = [text for text in self.targets if text.startswith(f"{NVM}=")]
        if self.engine != EMULATED and not 0 < len(on_nvm) < len(self.targets):
            given = f": {' and '.join(self.targets)} alone is not enough" if self.targets else ""
            raise UsageError(
                f"--engine {self.engine} needs a --target for the base and one for nvm{given}",
                hint="for example: --target /dev/sdb --target nvm=/dev/pmem0",
            )


@dataclass(frozen=True)
class Timed:
    """What a replay took in ns, by role too, and how late its emulation was."""

    time_ns: int
    emulation: Emulation | None
    role_ns: Mapping[str, float]
    took: Took | None = None
    """By request, of real devices and requests one after the other."""

    def times(self, ratio: float) -> Timed:
        """Return it as it would be if all took so many times as long."""
        role_ns = {role: ns * ratio for role, ns in self.role_ns.items()}
        return replace(self, time_ns=round(self.time_ns * ratio), role_ns=role_ns)

    @property
    def left_out_ratio(self) -> float:
        """Share of the requests meanwhile time of a processor was stolen."""
        return 0.0 if self.took is None else self.took.left_out_ratio


@dataclass
class Runs:
    """The replays of each side, by repeat."""

    base: list[Timed] = field(default_factory=list)
    placed: list[Timed] = field(default_factory=list)
    rival: list[Timed] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    """Speeds of the devices during these; none where they are not measured between."""

    def at_one_speed(self, predicted: Prediction) -> Runs:
        """Return what each would have taken at the speeds that the prediction is of."""
        told = [(one.base_ns, one.placed_ns) for one in predicted.rounds]
        if not told or not all(map(all, told)):
            return self
        took, told_of = zip(*self.pairs, strict=True), list(zip(*told, strict=True))
        slope = slope_of(list(zip(took, told_of, strict=True)))
        base, placed = (
            [one.times((middle_ns / ns) ** slope) for one, ns in zip(side, found, strict=True)]
            for side, found, middle_ns in (
                (self.base, told_of[0], predicted.base_ns),
                (self.placed, told_of[1], predicted.placed_ns),
            )
        )
        return replace(self, base=base, placed=placed)

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Times of base and placement."""
        return [
            (base.time_ns, placed.time_ns)
            for base, placed in zip(self.base, self.placed, strict=True)
        ]

    @property
    def left_out_ratio(self) -> float | None:
        """Mean share of requests meanwhile time was stolen; None where all count."""
        runs = (*self.base, *self.placed, *self.rival)
        if any(one.took is None for one in runs):
            return None
        return fmean(one.left_out_ratio for one in runs)

    @property
    def emulations(self) -> list[tuple[Emulation | None, Emulation | None]]:
        """How late the emulation was in each."""
        return [
            (base.emulation, placed.emulation)
            for base, placed in zip(self.base, self.placed, strict=True)
        ]


def verify(
    folder: TraceFolder,
    options: VerifyOptions,
    *,
    on_run: Callable[[str, int, int], None] | None = None,
    between: Between | None = None,
) -> dict[str, Any]:
    """Write verification.parquet and verification.json; return the latter's content.

    The last replay of each kind is kept as `verify-base` and `verify-placement`.
    """
    advice = _advice(folder, options.profiles)
    options = replace(options, placement=resolved(advice, options.placement))
    answer = _chosen(folder, advice, options.placement)
    windows = _windows(folder, advice, options)
    rival = runner_up(advice) if options.placement == ANSWER else None
    repeats = () if between is None else between.repeats
    with only_windows(folder, windows) as part:
        predict(part, advice, answer=answer)  # where that fails nothing is replayed
        runs = _replay_in_turn(
            *(part, advice, options), has_rival=rival is not None, on_run=on_run, between=between
        )
        predicted = predict(
            *(part, advice), answer=answer, rival=rival, rounds=runs.rounds, repeats=repeats
        )
        kept = [_keep(part, folder, name) for name in (BASE, PLACED, RIVAL)[: 2 + bool(rival)]]
    judged = partial(_judged, published_ratio=answer.gain_ratio, options=options)
    verification = Verification(
        **judged(runs, predicted, between=between),
        runner_up=None if rival is None else _runner_up(runs, predicted, rival.placement),
        answer=to_builtins(answer),
        requests=sum(len(window) for window in windows),
        trace_requests=folder.info.count("requests"),
        windows=len(windows),
        **{key: getattr(advice, key) for key in OF_ADVICE},
        cut_requests=kept[1].compiled.cut_requests,
        pieces=kept[1].compiled.pieces,
        left_out_ratio=runs.left_out_ratio,
    )
    return _written(folder, verification, _table(runs, predicted))


def _written(folder: TraceFolder, verification: Verification, table: Any) -> dict[str, Any]:
    result = content_of(verification)
    result["headline"] = says(result)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def _windows(folder: TraceFolder, advice: Recommendation, options: VerifyOptions) -> list[range]:
    """Choose windows of all the trace, or of one half, that take about the seconds together."""
    total, lasts_ns = folder.info.count("requests"), advice.answer.base_elapsed_ns
    if advice.is_open:
        lasts_ns = span_ns(folder.require("requests", made_by="parse"))
    count = requests_for(total, lasts_ns, seconds=options.seconds)
    among = halves(total)[1] if options.only_compared else None
    return choose_windows(total, count, among=among)


def _chosen(
    folder: TraceFolder, advice: Recommendation, wanted: str
) -> Answer | BestAt | UnitAnswer:
    """Return a recommended placement; InputError unless it is what the trace has now."""
    if wanted not in (BEST, BY_UNITS):
        answer = choose_answer(advice, wanted)
        check_answer(folder, advice, answer=answer)
        return answer
    best = advice.best_placement
    found = advice.units if wanted == BY_UNITS else best.answer if best is not None else None
    if found is None:
        again = " with --unit extent=SIZE" if wanted == BY_UNITS else " again"
        raise UsageError(
            f"--placement {wanted}: there is nothing to place", hint=f"run recommend{again}"
        )
    trace = charged_trace(folder, advice)
    read, table = (read_units, UNITS_TABLE) if wanted == BY_UNITS else (read_best, BEST_TABLE)
    found_ns = to_ns(time_ps(trace, read(folder, trace.touched))[1])
    if found_ns != found.elapsed_ns:
        raise InputError(
            f"{folder.table(table)} does not fit the trace: {found.elapsed_ns} ns are"
            f" recommended, of the trace it takes {found_ns}",
            hint="it was edited, or the trace has changed since: run recommend again",
        )
    return found


def _advice(folder: TraceFolder, own: Path | None) -> Recommendation:
    """Return the recommendation; InputError when a profile is no longer the one it was made for."""
    advice = read_recommendation(folder)
    known = known_profiles(folder, own)
    for profile in advice.profiles:
        if choose_profile(known, profile.name) != profile:
            raise InputError(
                f"the profile '{profile.name}' has changed since the recommendation was made",
                hint="run recommend again, or give the same --profiles",
            )
    return advice


def _replay_in_turn(
    part: TraceFolder,
    advice: Recommendation,
    options: VerifyOptions,
    *,
    has_rival: bool,
    on_run: Callable[[str, int, int], None] | None,
    between: Between | None,
) -> Runs:
    sides = (BASE, PLACED, RIVAL)[: 2 + has_rival]
    what = "base, placement and runner-up" if has_rival else "base and placement"
    lists: tuple[list[Timed], ...] = [], [], []
    speeds: tuple[list[Speeds], ...] = [], [], []
    before = None if between is None else between.measure()
    for number, order in enumerate(in_turn(len(sides), options.repeats)):
        for side in order:
            if on_run is not None:
                on_run(what, number, options.repeats)
            lists[side].append(_replayed(part, advice, options, name=sides[side]))
            if between is not None and before is not None:
                behind = between.measure()
                speeds[side].append(halfway(before, behind))
                before = behind
    base, placed, rival = map(_without_stolen, lists)
    return Runs(base, placed, rival, list(map(Round, *speeds[:2])))


def _without_stolen(runs: list[Timed]) -> list[Timed]:
    """Return the runs with what they would have taken, had no processor's time been stolen."""
    took = [one.took for one in runs if one.took is not None]
    if len(took) < len(runs) or not took:
        return runs
    return [
        replace(one, time_ns=round(time_ns), role_ns=role_ns)
        for one, (time_ns, role_ns) in zip(runs, times_without(took), strict=True)
    ]


def _replayed(
    part: TraceFolder, advice: Recommendation, options: VerifyOptions, *, name: str
) -> Timed:
    """Replay on the base device alone, as placed or as the runner-up; return what it took."""
    # One after the other, or each at its time with as many in flight as come.
    player = PlayerOptions(
        engine=options.engine,
        schedule=Schedule(pace="trace" if advice.is_open else "fast"),
        depth=None if advice.is_open else 1,
        write_to=options.write_to,
    )

    is_placed, is_real = name != BASE, options.engine != EMULATED and not advice.is_open

    def used(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text for text in texts if is_placed or not text.startswith(f"{NVM}="))

    placement = {BASE: None, PLACED: options.placement, RIVAL: RUNNER_UP}[name]
    apart = bases(part, advice, options=options, placement=placement)
    devices = used((*apart, f"{NVM}={emulated(advice, options)[1]}"))
    run = ReplayOptions(
        name=name,
        level=advice.level,
        player=replace(player, target=used(options.targets)),
        placement=placement,
        devices=devices if options.engine == EMULATED else (),
        profiles=options.profiles,
        overwrite=True,
    )
    found = [_timed(part, run, is_open=advice.is_open, is_real=is_real)]
    while len(found) < ATTEMPTS and found[-1].left_out_ratio > MOST_LEFT_OUT:
        found.append(_timed(part, run, is_open=advice.is_open, is_real=is_real))
    return min(found, key=attrgetter("left_out_ratio"))


def _timed(part: TraceFolder, options: ReplayOptions, *, is_open: bool, is_real: bool) -> Timed:
    """Replay; return the elapsed time, or with queueing the mean response time of requests.

    What one request became on two devices is answered when its last piece is.
    """
    with StealWatch() as watch:
        summary, is_partial = replay(part, options)
    counts = summary["counts"]
    if summary["outcome"] == "interrupted":
        raise PartialError(
            f"interrupted in the replay {options.name}: nothing can be judged",
            hint="run the same command again",
        )
    if is_partial or counts["done"] != counts["planned"]:
        raise UsageError(
            f"the replay {options.name} did only {counts['done']:,} of {counts['planned']:,}"
            " requests, so it proves nothing",
            hint="confirm the targets with --write-to, and make them large enough",
        )
    emulation = msgspec.convert(summary["emulation"], Emulation) if options.devices else None
    with query.connect(part) as connection:
        rows = query.run(connection, "replay/answered").to_pylist()
    mine = [row for row in rows if row["replay"] == options.name]
    if not is_open:
        role_ns = {row["role"]: float(row["service_ns"]) for row in mine}
        stolen = watch.found().since(summary["clock"]["start_ns"])
        took = read_took(part, options.name, stolen=stolen) if is_real else None
        return Timed(int(summary["timing"]["elapsed_ns"]), emulation, role_ns, took)
    count = sum(row["request_count"] for row in mine)
    sums = sum(row["response_avg_ns"] * row["request_count"] for row in mine)
    return Timed(round(sums / count), emulation, {})


def _keep(part: TraceFolder, folder: TraceFolder, name: str) -> ReplaySummary:
    """Move a replay to the trace that it is of; return its summary."""
    place = folder.subfolder(f"replays/{name}")
    with new_folder(place, overwrite=True, marker=SUMMARY) as made:
        for file in (part.path / "replays" / name).iterdir():
            shutil.move(file, made)
    return read_summary(place / SUMMARY)


def _measured(runs: Runs, roles: Iterable[str]) -> Measured:
    gains = sorted(1 - placed / base for base, placed in runs.pairs)
    base_ns, placed_ns = (median(times) for times in zip(*runs.pairs, strict=True))
    low, high = gain_of(runs.pairs) or (None, None)
    return Measured(
        base_ns=round(base_ns),
        placed_ns=round(placed_ns),
        gain_ratio=1 - placed_ns / base_ns,
        gain_low_ratio=gains[0],
        gain_high_ratio=gains[-1],
        gain_confident_low_ratio=low,
        gain_confident_high_ratio=high,
        role_ns={
            role: round(median(one.role_ns.get(role, 0.0) for one in runs.base)) for role in roles
        },
        repeats=len(runs.base),
    )


def _interleaved(
    runs: Runs, between: Between | None, options: VerifyOptions, *, roles: Iterable[str]
) -> Interleaved | None:
    """Return how fast the devices were between replays, and the times as they were."""
    if between is None:
        return None
    during = [one for both in runs.rounds for one in both]
    sides = zip(zip(*during, strict=True), zip(*between.repeats, strict=True), strict=True)
    base, nvm = (
        slowness(found, known, what=what, tolerance_ratio=options.time_tolerance_ratio)
        for what, (found, known) in zip(("base device", "NVM"), sides, strict=True)
    )
    return Interleaved(base, nvm, _measured(runs, roles))


def _verdict_on(
    runs: Runs, predicted: Prediction, *, published_ratio: float, options: VerifyOptions
) -> Verdict:
    return verdict_of(
        runs.pairs,
        Expected(
            predicted.base_ns,
            predicted.placed_ns,
            published_ratio,
            predicted.role_ns,
            [(one.base_ns, one.placed_ns) for one in predicted.repeats],
        ),
        tolerances=Tolerances(options.tolerance_ratio, options.time_tolerance_ratio),
        emulations=runs.emulations,
        roles=[one.role_ns for one in runs.base],
    )


def _judged(
    runs: Runs,
    predicted: Prediction,
    *,
    published_ratio: float,
    options: VerifyOptions,
    between: Between | None,
) -> dict[str, Any]:
    found = _interleaved(runs, between, options, roles=predicted.role_ns)
    runs = runs.at_one_speed(predicted)
    measured = _measured(runs, predicted.role_ns)
    verdict = _verdict_on(runs, predicted, published_ratio=published_ratio, options=options)
    if verdict.name == HELD and found is not None and found.drifts:
        verdict = Verdict(CANNOT_TELL, "; ".join(found.drifts))
    placed_ns = predicted.placed_ns
    return {
        "interleaved": found,
        "predicted": predicted,
        "measured": measured,
        "base_error_ratio": measured.base_ns / predicted.base_ns - 1,
        "placed_error_ratio": measured.placed_ns / placed_ns - 1 if placed_ns else None,
        "gain_error_ratio": measured.gain_ratio - published_ratio,
        "published_ratio": published_ratio,
        "engine": options.engine,
        "tolerance_ratio": options.tolerance_ratio,
        "time_tolerance_ratio": options.time_tolerance_ratio,
        "verdict": verdict.name,
        "is_held": None if verdict.name == CANNOT_TELL else verdict.name == HELD,
        "reason": verdict.reason,
        "emulation_late": late(runs.emulations),
    }


def _runner_up(runs: Runs, predicted: Prediction, placement: str) -> RunnerUp:
    placed, rival = ([one.time_ns for one in side] for side in (runs.placed, runs.rival))
    found = paired_ratio(placed, rival)
    low, high = (None, None) if found is None else (found.low, found.high)
    rival_ns, expected_ns = median(rival), predicted.runner_up_ns or 1
    return RunnerUp(
        placement=placement,
        predicted_ns=expected_ns,
        measured_ns=round(rival_ns),
        predicted_ahead_ratio=1 - predicted.placed_ns / expected_ns,
        ahead_ratio=1 - median(placed) / rival_ns,
        ahead_low_ratio=None if high is None else 1 - high,
        ahead_high_ratio=None if low is None else 1 - low,
    )


def _table(runs: Runs, predicted: Prediction) -> Any:
    count = len(runs.base)
    rounds = predicted.rounds or [Repeat(predicted.base_ns, predicted.placed_ns)] * count
    sides: dict[str, tuple[Sequence[int | None], list[Timed]]] = {
        "base": ([one.base_ns for one in rounds], runs.base),
        "placement": ([one.placed_ns for one in rounds], runs.placed),
        "runner-up": ([predicted.runner_up_ns] * count, runs.rival),
    }
    rows = [
        {
            "repeat": number + 1,
            "devices": devices,
            "predicted_ns": predicted_ns[number],
            "measured_ns": took[number].time_ns,
        }
        for number in range(count)
        for devices, (predicted_ns, took) in sides.items()
        if took
    ]
    return pa.Table.from_pylist(rows, VERIFICATION)
