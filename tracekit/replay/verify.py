"""The stage `verify`: replays base and placement in turn, and judges the model by them."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import to_builtins

from tracekit import query
from tracekit.arrow import open_table
from tracekit.devices import choose_profile, load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Record
from tracekit.model.answer import (
    ANSWER,
    Answer,
    Recommendation,
    charged_trace,
    choose_answer,
    read_recommendation,
)
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import to_ns
from tracekit.model.recommend import check_answer
from tracekit.repeats import LEVEL, in_turn, paired_ratio
from tracekit.replay.partial_results import SUMMARY
from tracekit.replay.player import EMULATED, PlayerOptions, Schedule
from tracekit.replay.routes import NVM
from tracekit.replay.run import ReplayOptions, replay
from tracekit.replay.summary import Emulation, ReplaySummary, content_of, read_summary
from tracekit.store import TraceFolder, new_folder, write_batches, write_results
from tracekit.tables import VERIFICATION
from tracekit.units import format_duration, format_size

LEAST_REQUESTS = 100
NEEDED = ("trace.json", "blocks.parquet", "recommendation.json")


class Prediction(Record):
    """Elapsed time by the model, requests one after the other; with queueing the mean response."""

    base_ns: int
    placed_ns: int
    gain_ratio: float


def requests_for(total: int, elapsed_ns: int, *, seconds: float) -> int:
    """Return how many of `total` requests take about so many seconds, by the model's mean."""
    share = seconds * 1e9 / elapsed_ns if elapsed_ns > 0 else 1.0
    return max(min(total, math.ceil(total * min(share, 1.0))), min(total, LEAST_REQUESTS))


@contextmanager
def first_requests(folder: TraceFolder, count: int) -> Iterator[TraceFolder]:
    """Yield a trace folder of the first `count` requests, with the blocks of the whole trace.

    It lies beside the trace and goes away.
    """
    requests = folder.require("requests", made_by="parse")
    with TemporaryDirectory(prefix=f".{folder.path.name}.", dir=folder.path.parent) as place:
        part = Path(place)
        for name in NEEDED:
            _give(folder.file(name), part / name)
        with open_table(requests) as source:
            batches = _first(source.iter_batches(), count)
            write_batches(part / "requests.parquet", batches, schema=source.schema_arrow)
        yield TraceFolder(part)


def _give(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the system has none for it."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _first(batches: Iterator[Any], left: int) -> Iterator[Any]:
    for batch in batches:
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows
        if left <= 0:
            return


def predict(folder: TraceFolder, advice: Recommendation, *, answer: Answer) -> Prediction:
    """Return the time of a folder's requests, without NVM and with an answer's blocks on it.

    Raise UsageError where devices of the trace that the model has apart would be emulated as one.
    """
    trace = charged_trace(folder, advice)
    names = trace.touched.device_names
    if trace.needs_events and len(names) > 1:
        raise UsageError(
            f"the trace is of {len(names)} devices, each with a head or queue of its own in the"
            " model, and the replay has one base device",
            hint="run recommend with a base without rpm, and --queueing serial",
        )
    base_ps, placed_ps = placement_ps(trace, answer.blocks, coverage=advice.coverage)
    if base_ps <= 0:
        raise InputError(
            f"{folder.path}: none of the requests to replay costs a device any time",
            hint="raise --duration",
        )
    base_ns, placed_ns = to_ns(base_ps), to_ns(placed_ps)
    return Prediction(
        base_ns=base_ns, placed_ns=placed_ns, gain_ratio=1 - placed_ns / base_ns if base_ns else 0.0
    )


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
    part = (
        f"the first {result['requests']:,} of {result['trace_requests']:,} requests"
        if result["requests"] < result["trace_requests"]
        else f"all {result['requests']:,} requests"
    )
    spread = ""
    if measured["repeats"] > 1:
        spread = (
            f" ({_change(measured['gain_low_ratio'])} to {_change(measured['gain_high_ratio'])}"
            f" in {measured['repeats']} repeats{_confident(measured)})"
        )
    what = WHAT[result.get("queueing", "serial")]
    found = [
        f"{_verdict(result)}: with {format_size(answer['capacity_bytes'])} of"
        f" {result['nvm_profile']} {what} {part} took"
        f" {_change(measured['gain_ratio'])} time{spread}, the model says"
        f" {_change(predicted['gain_ratio'])} for them;"
        f" {_points(result['gain_error_ratio'])} apart,"
        f" {_points(result['tolerance_ratio'])} are allowed.",
        f"On the base device alone: {format_duration(measured['base_ns'])}, predicted"
        f" {format_duration(predicted['base_ns'])} ({_signed(result['base_error_ratio'])});"
        f" as placed: {format_duration(measured['placed_ns'])}, predicted"
        f" {format_duration(predicted['placed_ns'])} ({_signed(result['placed_error_ratio'])}).",
    ]
    if result["cut_requests"]:
        found.append(
            f"{result['cut_requests']:,} requests were on both devices and replayed in"
            f" {result['pieces']:,} pieces, one by one; the model charges each device once."
        )
    return [*found, *_of_emulation(result)]


def _of_emulation(result: Mapping[str, Any]) -> Iterator[str]:
    if (late := result.get("emulation_late")) and result["is_held"] is not None:
        yield f"But {late}; without that the verdict is the same."
    if result["engine"] == "emulated":
        yield (
            "The devices were emulated from the very profiles that the model used: this proves the"
            " model's sums and the placement of each block, not the profiles. Give a --target for"
            " each to prove those."
        )


def _verdict(result: Mapping[str, Any]) -> str:
    if result["is_held"] is None:
        late = f"{result['emulation_late']} (close other load, or run this by `chrt -f 10`)"
        return f"Cannot tell whether the prediction holds, since {result.get('reason') or late}"
    return f"The prediction {'held' if result['is_held'] else 'did not hold'}"


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
HELD, FAILED, CANNOT_TELL = "held", "did not hold", "cannot tell"
BASE, PLACED = "verify-base", "verify-placement"
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
    repeats: int


class Verification(Record):
    """The content of verification.json, to which `headline` is added."""

    predicted: Prediction
    measured: Measured
    base_error_ratio: float
    placed_error_ratio: float | None
    gain_error_ratio: float
    tolerance_ratio: float
    verdict: str
    """held, did not hold or cannot tell."""
    is_held: bool | None
    """None: nobody can tell."""
    reason: str | None
    """Why the repeats cannot tell."""
    emulation_late: str | None
    """By how much emulated completions were too late."""
    answer: dict[str, Any]
    requests: int
    trace_requests: int
    engine: str
    base_profile: str
    nvm_profile: str
    level: str
    queueing: str
    cut_requests: int
    pieces: int


@dataclass(frozen=True)
class VerifyOptions:
    """What to replay, where, how often, and how far off the model may be (a ratio, 0 to 1)."""

    placement: str = ANSWER
    seconds: float = 10.0
    repeats: int = 3
    tolerance_ratio: float = 0.05
    targets: tuple[str, ...] = ()
    engine: str = EMULATED
    write_to: tuple[str, ...] = ()
    profiles: Path | None = None

    def __post_init__(self) -> None:
        """Check the numbers, and that real engines have somewhere to go."""
        if not 0 < self.seconds < 1e6:
            raise UsageError(f"--duration {self.seconds:g}: not a length of time")
        if not 1 <= self.repeats <= 1000:
            raise UsageError(f"--repeat {self.repeats}: not from 1 to 1000")
        if not 0 <= self.tolerance_ratio <= 1:
            raise UsageError(f"--tolerance {self.tolerance_ratio:g}: not a share from 0 to 1")
        if self.engine != EMULATED and not self.targets:
            raise UsageError(
                f"--engine {self.engine} needs a --target for the base and one for nvm",
                hint="for example: --target /dev/sdb --target nvm=/dev/pmem0",
            )


Runs = list[tuple[int, int]]
"""Elapsed (with queueing: mean response) time of base and placement, in ns, by repeat."""
Emulations = list[tuple[Emulation | None, Emulation | None]]
"""How late the emulation was in each of these runs."""


def verify(
    folder: TraceFolder,
    options: VerifyOptions,
    *,
    on_run: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Write verification.parquet and verification.json; return the latter's content.

    The last replay of each kind is kept as `verify-base` and `verify-placement`.
    """
    advice = read_recommendation(folder)
    _check_profiles(advice, options.profiles)
    answer = choose_answer(advice, options.placement)
    check_answer(folder, advice, answer=answer)
    lasts_ns = answer.base_elapsed_ns
    if advice.is_open:
        lasts_ns = span_ns(folder.require("requests", made_by="parse"))
    count = requests_for(folder.info.count("requests"), lasts_ns, seconds=options.seconds)
    with first_requests(folder, count) as part:
        predicted = predict(part, advice, answer=answer)
        runs, emulations = _replay_in_turn(part, advice, options, on_run=on_run)
        _keep(part, folder, BASE)
        compiled = _keep(part, folder, PLACED).compiled
    verification = Verification(
        **_judged(runs, predicted, emulations=emulations, options=options),
        answer=to_builtins(answer),
        requests=count,
        trace_requests=folder.info.count("requests"),
        **{key: getattr(advice, key) for key in OF_ADVICE},
        cut_requests=compiled.cut_requests,
        pieces=compiled.pieces,
    )
    result = content_of(verification)
    result["headline"] = says(result)
    table = _table(runs, predicted.base_ns, predicted.placed_ns)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def _check_profiles(advice: Recommendation, own: Path | None) -> None:
    """Raise InputError when a profile is no longer the one that the recommendation was made for."""
    known = load_profiles(own)
    for profile in advice.profiles:
        if choose_profile(known, profile.name) != profile:
            raise InputError(
                f"the profile '{profile.name}' has changed since the recommendation was made",
                hint="run recommend again, or give the same --profiles",
            )


def _replay_in_turn(
    part: TraceFolder,
    advice: Recommendation,
    options: VerifyOptions,
    *,
    on_run: Callable[[str, int, int], None] | None,
) -> tuple[Runs, Emulations]:
    runs, emulations = Runs(), Emulations()
    for number, order in enumerate(in_turn(2, options.repeats)):
        if on_run is not None:
            on_run("base and placement", number, options.repeats)
        base, placed = _run_both(part, advice, options, order=order)
        runs.append((base[0], placed[0]))
        emulations.append((base[1], placed[1]))
    return runs, emulations


Timed = tuple[int, Emulation | None]
"""What a replay took in ns, and how late its emulation was."""


def _run_both(
    part: TraceFolder, advice: Recommendation, options: VerifyOptions, *, order: Sequence[int]
) -> tuple[Timed, Timed]:
    """Replay on the base device alone (0) and as placed (1), in this order; return both times."""
    # One after the other, or each at its time with as many in flight as come.
    player = PlayerOptions(
        engine=options.engine,
        schedule=Schedule(pace="trace" if advice.is_open else "fast"),
        depth=None if advice.is_open else 1,
        write_to=options.write_to,
    )

    def time_ns(name: str, *, is_placed: bool) -> Timed:
        def used(texts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(text for text in texts if is_placed or not text.startswith(f"{NVM}="))

        devices = used((advice.base_profile, f"{NVM}={advice.nvm_profile}"))
        run = ReplayOptions(
            name=name,
            level=advice.level,
            player=replace(player, target=used(options.targets)),
            placement=options.placement if is_placed else None,
            devices=devices if options.engine == EMULATED else (),
            profiles=options.profiles,
            overwrite=True,
        )
        return _time_ns(part, run, is_open=advice.is_open)

    names = BASE, PLACED
    found = {side: time_ns(names[side], is_placed=side == 1) for side in order}
    return found[0], found[1]


def _time_ns(part: TraceFolder, options: ReplayOptions, *, is_open: bool) -> Timed:
    """Replay; return the elapsed time, or with queueing the mean response time of requests.

    What one request became on two devices is answered when its last piece is.
    """
    summary, is_partial = replay(part, options)
    counts = summary["counts"]
    if is_partial or counts["done"] != counts["planned"]:
        raise UsageError(
            f"the replay {options.name} did only {counts['done']:,} of {counts['planned']:,}"
            " requests, so it proves nothing",
            hint="confirm the targets with --write-to, and make them large enough",
        )
    emulation = msgspec.convert(summary["emulation"], Emulation) if options.devices else None
    if not is_open:
        return int(summary["timing"]["elapsed_ns"]), emulation
    with query.connect(part) as connection:
        rows = query.run(connection, "replay/answered").to_pylist()
    mine = next(row for row in rows if row["replay"] == options.name)
    return round(float(mine["response_avg_ns"])), emulation


def _keep(part: TraceFolder, folder: TraceFolder, name: str) -> ReplaySummary:
    """Move a replay to the trace that it is of; return its summary."""
    place = folder.subfolder(f"replays/{name}")
    with new_folder(place, overwrite=True, marker=SUMMARY) as made:
        for file in (part.path / "replays" / name).iterdir():
            shutil.move(file, made)
    return read_summary(place / SUMMARY)


def _late(emulations: Emulations) -> str | None:
    """Return by how much emulated completions were too late; None where all were in time."""
    known = [one for pair in emulations for one in pair if one is not None]
    beyond = [one for one in known if not one.is_within_budget]
    if not beyond:
        return None
    worst = max(one.lateness_ratio for one in beyond)
    return (
        f"the emulation was too late in {len(beyond)} of {len(known)} replays, by up to {worst:.0%}"
        " of what the devices take"
    )


def gain_of(runs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the ends of the gain's 95 % confidence interval, of the ratio of each pair.

    None where nothing was repeated.
    """
    base, placed = zip(*runs, strict=True)
    found = paired_ratio(placed, base)
    if found is None or found.low is None or found.high is None:
        return None
    return 1 - found.high, 1 - found.low


def judge(
    runs: Sequence[tuple[float, float]], *, predicted_ratio: float, tolerance_ratio: float
) -> str:
    """Return the verdict: an interval of the gain outside of what is allowed, or one too wide.

    Too wide is what is wider than the tolerance to both sides: it would hold for almost anything.
    """
    gain = gain_of(runs)
    if gain is None:
        return CANNOT_TELL
    low, high = gain
    if not low - tolerance_ratio <= predicted_ratio <= high + tolerance_ratio:
        return FAILED
    return HELD if high - low <= 2 * tolerance_ratio else CANNOT_TELL


def _verdict_and_reason(
    runs: Runs, emulations: Emulations, *, predicted_ratio: float, tolerance_ratio: float
) -> tuple[str, str | None]:
    """Return the verdict, which has to be the same without the lateness of the emulation.

    A time without lateness is shorter by all of it at most: what was late may have waited together.
    """
    bounds = {"predicted_ratio": predicted_ratio, "tolerance_ratio": tolerance_ratio}
    verdict, late = judge(runs, **bounds), _late(emulations)
    found = {verdict}
    if late is not None:
        own = _own_ns(runs, emulations)
        sides = zip(zip(*runs, strict=True), zip(*own, strict=True), strict=True)
        pairs = (zip(*both, strict=True) for both in itertools.product(*sides))
        found |= {judge([*one], **bounds) for one in pairs}
    if len(found) == 1 and verdict != CANNOT_TELL:
        return verdict, None
    if late is not None:
        return CANNOT_TELL, None
    return CANNOT_TELL, _too_wide(runs, tolerance_ratio)


def _too_wide(runs: Runs, tolerance_ratio: float) -> str:
    gain = gain_of(runs)
    if gain is None:
        return "one repeat has no spread (raise --repeat)"
    needed = len(runs) * ((gain[1] - gain[0]) / (2 * tolerance_ratio or 1e-3)) ** 2
    return (
        f"{len(runs)} repeats spread too far for {_points(tolerance_ratio)} to either side (about"
        f" {math.ceil(needed):,} would do: raise --repeat, or --duration)"
    )


def _own_ns(runs: Runs, emulations: Emulations) -> list[list[float]]:
    """Return the times less what was the emulation's lateness."""
    return [
        [ns * (1 - (0 if one is None else one.late_share)) for ns, one in zip(*both, strict=True)]
        for both in zip(runs, emulations, strict=True)
    ]


def _judged(
    runs: Runs, predicted: Prediction, *, emulations: Emulations, options: VerifyOptions
) -> dict[str, Any]:
    gains = sorted(1 - placed / base for base, placed in runs)
    base_ns, placed_ns = (median(times) for times in zip(*runs, strict=True))
    gain = 1 - placed_ns / base_ns
    ends = gain_of(runs) or (None, None)
    verdict, reason = _verdict_and_reason(
        runs,
        emulations,
        predicted_ratio=predicted.gain_ratio,
        tolerance_ratio=options.tolerance_ratio,
    )
    return {
        "predicted": predicted,
        "measured": Measured(
            base_ns=round(base_ns),
            placed_ns=round(placed_ns),
            gain_ratio=gain,
            gain_low_ratio=gains[0],
            gain_high_ratio=gains[-1],
            gain_confident_low_ratio=ends[0],
            gain_confident_high_ratio=ends[1],
            repeats=len(runs),
        ),
        "base_error_ratio": base_ns / predicted.base_ns - 1,
        "placed_error_ratio": placed_ns / predicted.placed_ns - 1 if predicted.placed_ns else None,
        "gain_error_ratio": gain - predicted.gain_ratio,
        "engine": options.engine,
        "tolerance_ratio": options.tolerance_ratio,
        "verdict": verdict,
        "is_held": None if verdict == CANNOT_TELL else verdict == HELD,
        "reason": reason,
        "emulation_late": _late(emulations),
    }


def _table(runs: Runs, base_ns: int, placed_ns: int) -> Any:
    rows = [
        {"repeat": number, "devices": devices, "predicted_ns": predicted_ns, "measured_ns": took}
        for number, pair in enumerate(runs, 1)
        for devices, predicted_ns, took in zip(
            ("base", "placement"), (base_ns, placed_ns), pair, strict=True
        )
    ]
    return pa.Table.from_pylist(rows, VERIFICATION)
