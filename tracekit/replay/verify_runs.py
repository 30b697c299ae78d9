"""The replays that are judged: base, placement and runner-up in turn, and what each took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import msgspec

from tracekit import query
from tracekit.errors import PartialError, UsageError
from tracekit.model.answer import ANSWER, RUNNER_UP, Recommendation, charged_trace, check_wanted
from tracekit.repeats import in_turn
from tracekit.replay.between import Between, Round, Speeds, halfway, slope_of
from tracekit.replay.compiler import PlanOptions, compile_plan
from tracekit.replay.placed import place_answer
from tracekit.replay.player import EMULATED, PlayerOptions, Schedule
from tracekit.replay.prediction import Prediction
from tracekit.replay.routes import NVM
from tracekit.replay.run import ReplayOptions, replay
from tracekit.replay.summary import Emulation
from tracekit.replay.without_stolen import Took, read_took, times_without
from tracekit.stolen_time import ATTEMPTS, MOST_LEFT_OUT, StealWatch
from tracekit.store import TraceFolder

BASE, PLACED, RIVAL = "verify-base", "verify-placement", "verify-runner-up"


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
        """Check placement and numbers, and that real engines have somewhere to go."""
        check_wanted(self.placement)
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


def replay_in_turn(
    part: TraceFolder,
    advice: Recommendation,
    *,
    options: VerifyOptions,
    has_rival: bool,
    on_run: Callable[[str, int, int], None] | None,
    between: Between | None,
) -> Runs:
    """Replay each side as often as the options say, in balanced turns, and measure between.

    Raises PartialError when a replay is interrupted, UsageError when it does not do all requests.
    """
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
