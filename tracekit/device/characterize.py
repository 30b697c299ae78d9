"""The stage: measures step by step, then writes tables, profile and answer."""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np
import pyarrow as pa

from tracekit._native.players import checked_program, run_program
from tracekit.device import made_file
from tracekit.device.fit import (
    Fitted,
    checked_name,
    compare,
    complete,
    fit,
    mean_fault,
    mean_ns_of,
    measured_cells,
    measured_quantiles,
    memory_copy_mib_s,
    rate_fault,
    write_profile,
)
from tracekit.device.robust import steady_state
from tracekit.device.steps import (
    ALL,
    ROUND,
    Amounts,
    Latencies,
    Pace,
    Step,
    bucket_low,
    bucket_of,
    read_latencies,
    steps,
    write_plan,
)
from tracekit.device.target import Target, TargetOptions, open_target
from tracekit.devices import choose_profile, load_profiles
from tracekit.durable import make_folder
from tracekit.errors import InputError, PartialError, UsageError
from tracekit.escapes import shell_word
from tracekit.metadata import LARGEST, Count, Record, read_object, validate
from tracekit.plans.block_plan import OPERATIONS
from tracekit.replay.player import Schedule
from tracekit.store import (
    TraceFolder,
    measurement_folder,
    scratch_folder,
    write_json,
    write_results,
)
from tracekit.tables import DEVICE_FIT, DEVICE_LATENCY, DEVICE_STEPS
from tracekit.units import format_duration, format_size

Result = Mapping[str, Any]
OVERRUN_SHARE = 0.01
PAUSED = 1.05


class Steady(Record):
    """Whether the device was steady before it was measured, by SNIA's PTS."""

    rounds: int
    requests: int
    """Of a round of random 4 KiB writes; the PTS has a minute."""
    range_ratio: float | None
    slope_ratio: float | None
    is_reached: bool


class DeviceAnswer(Record):
    """The content of device.json: what was measured, and the profile fitted to it."""

    target: str | None
    kind: str
    device: str | None
    """The profile that was emulated."""
    engine: str
    is_direct: bool
    is_emulated: bool
    may_write: bool
    confirm_with: str | None
    size_bytes: int
    steps: int
    failed: int
    is_filled: bool
    scale: float
    seed: int
    resumed: int
    fit: list[Fitted]
    name: str
    taken: list[str]
    missing: list[str]
    profile: str | None
    warnings: list[str] = msgspec.field(default_factory=list)
    headline: list[str] = msgspec.field(default_factory=list)
    filled_ratio: float = 0.0
    """Bytes written in sequence before, of the size."""
    steady: Steady | None = None
    distributions: int = 0
    """Cells of operation, length, depth and share of writes in the profile."""


def headline(device: DeviceAnswer, results: Sequence[Result]) -> list[str]:
    """Return the lines that the command prints and the report opens with."""
    return [*_prepared(device), *_latencies(results), *_surface(results), *_fit(device)]


def _prepared(device: DeviceAnswer) -> Iterator[str]:
    """Yield what was done to the device before it was measured."""
    if device.is_emulated or not (device.filled_ratio or device.steady):
        return
    filled = f"filled {device.filled_ratio:.3g} times in sequence"
    if device.steady is None:
        yield f"before measuring: {filled}"
        return
    one = device.steady
    figures = f"range {_percent(one.range_ratio)}, slope {_percent(one.slope_ratio)} of the average"
    verdict = "steady" if one.is_reached else "not steady"
    yield (
        f"before measuring: {filled}, then {one.rounds} rounds of {one.requests:,} random 4 KiB"
        f" writes: {verdict} ({figures} over the last five; SNIA PTS allows 20 % and 10 %)"
    )


def _percent(ratio: float | None) -> str:
    return "not known" if ratio is None else f"{ratio:.1%}"


def _latencies(results: Sequence[Result]) -> Iterator[str]:
    for _, operation, one in _random(results):
        mean_ns, deviation_ns = one["mean_ns"], one["deviation_ns"]
        yield (
            f"{one['requests']:,} random 4 KiB {operation}s, one at a time:"
            f" mean {format_duration(mean_ns)}, standard deviation {format_duration(deviation_ns)}"
            f" ({deviation_ns / max(mean_ns, 1):.0%} of it), maximum"
            f" {format_duration(one['max_ns'])}"
        )


def _random(results: Sequence[Result]) -> Iterator[tuple[Result, str, Result]]:
    """Yield each step of random requests one at a time, its operation and what that took."""
    for result in results:
        operation = result["step"]["kind"].removeprefix("random_")
        if operation != result["step"]["kind"] and operation in result["operations"]:
            yield result, operation, result["operations"][operation]


def _surface(results: Sequence[Result]) -> Iterator[str]:
    cells = [result for result in results if result["step"]["kind"] == "surface"]
    if not cells:
        return
    shown = [
        f"{cell['usual_iops']:,.0f} ({cell['step']['write_ratio']:.0%} writes, depth"
        f" {cell['step']['depth']})"
        for choose in (min, max)
        for cell in [choose(cells, key=lambda cell: float(cell["usual_iops"]))]
    ]
    yield f"IOPS over write share and depth: from {' to '.join(shown)}"


def _fit(device: DeviceAnswer) -> Iterator[str]:
    values = {one.parameter: one for one in device.fit}
    lanes, asymmetry = values.get("parallelism"), values.get("write_read_ratio")
    if lanes is not None:
        yield (
            f"requests served at once: {lanes.value:.0f}; the surface of that is"
            f" {lanes.spread_ratio:.0%} off on average"
        )
    if asymmetry is not None:
        yield f"a write takes {asymmetry.value:.3g} times as long as a read"
    if device.profile:
        yield f"device profile [{device.name}]: {device.profile} in this folder, for --profiles"
    else:
        yield (
            f"no device profile: {', '.join(device.missing)} not measured; --like PROFILE"
            " takes them from another"
        )
    errors = [one for one in device.fit if one.error_ratio is not None]
    if errors:
        shown = ", ".join(f"{one.parameter} {one.error_ratio:+.1%}" for one in errors)
        yield f"off what was emulated ({device.device}): {shown}"


def _warnings(device: DeviceAnswer, results: Sequence[Result]) -> Iterator[str]:
    """Yield what may be wrong with the figures, each with what to do."""
    if not device.may_write:
        yield (
            "only what reads was measured, on what the device held; to write there:"
            f" --write-to {shell_word(device.confirm_with or '')} (everything on it is lost)"
        )
    elif not device.is_filled and not device.is_emulated:
        yield "the device was not filled before: what was never written may be read from nowhere"
    if device.steady is not None and not device.steady.is_reached:
        yield (
            f"the device was not steady after {device.steady.rounds} rounds: what it does under a"
            " lasting load is not known; fill it more, or close other load"
        )
    if not device.is_direct and device.kind != "none":
        yield "O_DIRECT is not possible there: these are times of the page cache"
    if device.resumed:
        yield (
            f"measured in {device.resumed + 1} parts: the device rested between preconditioning"
            " and what followed"
        )
    if device.taken:
        names = ", ".join(device.taken)
        yield f"not measured, taken from the profile that --like names: {names}"
    if device.failed:
        yield f"{device.failed:,} requests failed and are in no latency"
    yield from _late(results)
    yield from _pauses(results)
    most = max((r["step"]["depth"] for r in results if r["step"]["kind"] == "surface"), default=0)
    lanes = next((one.value for one in device.fit if one.parameter == "parallelism"), None)
    if lanes is not None and lanes >= most > 1:
        yield (
            f"IOPS still grow at depth {most}: the device serves at least that many at"
            f" once; measure with larger --depths ({format_size(device.size_bytes)} were used)"
        )


def _late(results: Sequence[Result]) -> Iterator[str]:
    late = [r for r in results if r["overruns"] > OVERRUN_SHARE * r["step"]["requests"]]
    if late:
        yield (
            f"in {len(late)} steps the data took longer to move than the emulated device takes:"
            " use a faster target, or none"
        )
    if behind := sum(result["is_emulation_late"] for result in results):
        yield (
            f"in {behind} of {len(results)} steps the emulation was too late: these times are not"
            " the device's alone; close other load, or use `chrt -f 10`"
        )


def _pauses(results: Sequence[Result]) -> Iterator[str]:
    for result, operation, one in _random(results):
        if one["mean_ns"] >= PAUSED * one["p50_ns"]:
            yield (
                f"the mean of the random {operation}s is {one['mean_ns'] / one['p50_ns'] - 1:.0%}"
                f" above their median, {format_duration(one['p50_ns'])}: the device or this machine"
                f" paused ({result['steal_ratio']:.1%} of its CPU time was stolen meanwhile); the"
                f" profile has {format_duration(mean_ns_of(one))}, the median over parts of the run"
            )


FORCE_HINT = "pass --force to begin anew"
Time = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
BUCKET_MAX = int(bucket_of(np.array([LARGEST]))[0]) - 1
"""The last whose upper end a column can hold."""
Bucket = tuple[Annotated[int, msgspec.Meta(ge=0, le=BUCKET_MAX)], Count, Count]


class OperationTimes(Record):
    """What the requests of one operation took in a step; a bucket has its count and its largest."""

    requests: Count
    failed: Count
    mean_ns: Time
    deviation_ns: Time
    min_ns: Count
    p50_ns: Count
    p99_ns: Count
    p99_9_ns: Count
    max_ns: Count
    histogram: list[Bucket]
    robust_mean_ns: Time | None = None
    error_ns: Time | None = None
    """Standard error of the mean, of requests that depend on those before."""

    def __post_init__(self) -> None:
        """Check what one number says of another."""
        if self.requests != sum(count for _, count, _ in self.histogram):
            raise ValueError("the histogram does not hold all requests")


class StepResult(Record):
    """A step that is done."""

    step: Step
    elapsed_ns: Count
    iops: Time
    usual_iops: Time
    engine: str
    is_direct: bool
    steal_ratio: Share
    overruns: Count
    operations: dict[str, OperationTimes]
    is_emulation_late: bool = False

    def __post_init__(self) -> None:
        """Check that there is a sum over the operations."""
        if ALL not in self.operations:
            raise ValueError("there is no sum over the operations")


class State(Record):
    """The content of state.json: the steps that are done, and the options that they had.

    The options are compared and never followed: a file or folder is found by what the command
    names, and by what `made_file` remembers.
    """

    asked: dict[str, Any]
    is_made: bool
    """Whether the target is a file that was made for the measurement."""
    resumed: Count
    results: list[StepResult]

    def done(self, number: int, step: Step) -> bool:
        """Say whether step `number` is done and is this very one."""
        return number < len(self.results) and self.results[number].step == step


def open_state(output: Path, options: CharacterizeOptions) -> tuple[State, Path | None]:
    """Return what is done already, or nothing, and the file that was made for it.

    Raises UsageError when it had other options.
    """
    asked = _identity(options)
    file = output / PLACE / STATE
    new = State(asked=asked, is_made=False, resumed=0, results=[])
    if not os.path.lexists(file) or options.overwrite:
        if os.path.lexists(file):
            made_file.forget(output, removes=True)
            file.unlink()
        return new, None
    content = read_object(file, hint=FORCE_HINT)
    state = validate(content, State, file=file, hint=FORCE_HINT)
    _check_same(state, asked, file.parent)
    made = made_file.recall(output) if state.is_made else None
    target = options.target.path
    if state.is_made and (made is None or target is None or made.path != os.path.realpath(target)):
        raise UsageError(
            f"{target}: the file that the interrupted measurement made is gone", hint=FORCE_HINT
        )
    state.resumed += 1
    return state, None if made is None else Path(made.path)


def _check_same(state: State, asked: dict[str, Any], place: Path) -> None:
    other = [key for key in asked if state.asked.get(key) != asked[key]]
    if other:
        raise UsageError(
            f"{place}: an interrupted measurement was asked with another {other[0]}:"
            f" {state.asked.get(other[0])!r}, not {asked[other[0]]!r}",
            hint=f"ask as before to go on, or {FORCE_HINT}",
        )


PROFILE = "device/profile.toml"
RESULT = "device/device.json"


def _write_answer(
    folder: TraceFolder, state: State, target: Target, options: CharacterizeOptions
) -> dict[str, Any]:
    """Write tables, profile and device.json; return the content of the last."""
    results = msgspec.to_builtins(state.results)
    fitted, emulated = fit(results), options.target.profile()
    if emulated is not None:
        compare(fitted, emulated)
    name, taken, missing = _profile(folder, fitted, results, options=options)
    answer = DeviceAnswer(
        target=None if options.target.path is None else str(options.target.path),
        kind=target.about["kind"],
        device=options.target.device or None,
        engine=results[-1]["engine"],
        is_direct=all(result["is_direct"] for result in results),
        is_emulated=emulated is not None,
        may_write=target.may_write,
        confirm_with=target.about.get("confirm_with"),
        size_bytes=target.size_bytes,
        steps=len(results),
        failed=sum(result["operations"]["all"]["failed"] for result in results),
        is_filled=any(result["step"]["kind"] == "fill" for result in results),
        scale=options.amounts.scale,
        seed=options.seed,
        resumed=state.resumed,
        fit=fitted,
        name=name,
        taken=taken,
        missing=missing,
        profile=None if missing else PROFILE,
    )
    answer.filled_ratio = _written_by(results, "fill") / target.size_bytes
    answer.steady = _steady(results)
    answer.distributions = 0 if missing else len(measured_cells(results))
    answer.warnings = list(_warnings(answer, results))
    answer.headline = headline(answer, results)
    write_results(folder, RESULT, result=answer, tables=_tables(results, fitted))
    return dict(msgspec.to_builtins(answer))


def _tables(results: Sequence[Result], fitted: Sequence[Fitted]) -> dict[str, pa.Table]:
    return {
        "device/device_steps": _table(_steps(results), DEVICE_STEPS),
        "device/device_latency": _table(_buckets(results), DEVICE_LATENCY),
        "device/device_fit": _table(map(msgspec.structs.asdict, fitted), DEVICE_FIT),
    }


def _written_by(results: Sequence[Result], kind: str) -> int:
    steps = [result["step"] for result in results if result["step"]["kind"] == kind]
    return sum(step["requests"] * step["length_bytes"] for step in steps)


def _steady(results: Sequence[Result]) -> Steady | None:
    """Return the verdict over the rounds that were made; None without rounds."""
    rounds = [result for result in results if result["step"]["kind"] == ROUND]
    if not rounds:
        return None
    found = steady_state([result["iops"] for result in rounds])
    spread, slope = (
        one if math.isfinite(one) else None for one in (found.range_ratio, found.slope_ratio)
    )
    requests = rounds[0]["step"]["requests"]
    return Steady(found.rounds, requests, spread, slope, found.is_reached)


def _profile(
    folder: TraceFolder,
    fitted: Sequence[Fitted],
    results: Sequence[Result],
    *,
    options: CharacterizeOptions,
) -> tuple[str, list[str], list[str]]:
    """Write the profile if all of it is known; return its name, what was taken and is missing."""
    name = checked_name(options.name, path=options.target.path, device=options.target.device)
    measured = {one.parameter: one.value for one in fitted if one.is_in_profile}
    values, taken, missing = complete(
        measured,
        like=options.like,
        profiles=options.target.profiles,
        price_per_gb=options.price_per_gb,
    )
    if not missing:
        what = options.target.device or str(options.target.path)
        about = f"measured: {what}" + (f"; {', '.join(taken)} of {options.like}" if taken else "")
        tables: dict[str, list[Any]] = {**measured_quantiles(results)}
        if cells := measured_cells(results):
            tables["distributions"] = cells
        write_profile(folder.file(PROFILE), name, values=values, about=about, tables=tables)
    else:
        folder.file(PROFILE).unlink(missing_ok=True)  # of an earlier device
    return name, taken, missing


def _steps(results: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, result in enumerate(results):
        step = result["step"]
        for operation in ("all", *OPERATIONS):
            summary = result["operations"].get(operation)
            if summary is None:
                continue
            seconds = max(result["elapsed_ns"], 1) / 1e9
            yield {
                "step": number,
                **{key: step[key] for key in ("kind", "write_ratio", "depth", "length_bytes")},
                "operation": operation,
                "elapsed_ns": result["elapsed_ns"],
                "iops": summary["requests"] / seconds,
                "usual_iops": result["usual_iops"] if operation == "all" else None,
                **{key: value for key, value in summary.items() if key != "histogram"},
            }


def _buckets(results: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, result in enumerate(results):
        for _, operation, summary in _random([result]):
            for bucket, count, _ in summary["histogram"]:
                yield {
                    "step": number,
                    "kind": result["step"]["kind"],
                    "operation": operation,
                    "low_ns": bucket_low(bucket),
                    "high_ns": bucket_low(bucket + 1),
                    "requests": count,
                    "requests_ratio": count / summary["requests"],
                }


def _table(rows: Iterator[dict[str, Any]], columns: pa.Schema) -> pa.Table:
    """Return the rows as a table; a number that is not finite would be a defect."""
    found = list(rows)
    for row in found:
        if not all(math.isfinite(value) for value in row.values() if isinstance(value, float)):
            raise ValueError(f"{row} has a number that is not finite")
    return pa.Table.from_pylist(found, columns)


PLACE = "device"
RESULT_FILE = "device.json"
STATE = "state.json"
OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class CharacterizeOptions:
    """What to measure, how much of it, and how the fitted profile is called and completed."""

    target: TargetOptions
    amounts: Amounts = field(default_factory=Amounts)
    name: str = ""
    like: str = ""
    price_per_gb: float | None = None
    seed: int = 1
    keeps_file: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked before anything is measured."""
        checked_name(self.name, path=self.target.path, device=self.target.device)
        if self.price_per_gb is not None and not 0 < self.price_per_gb <= 1e12:
            raise UsageError(f"--price {self.price_per_gb:g}: not a price above 0")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: not a number from 0 up")
        if self.like:
            choose_profile(load_profiles(self.target.profiles), self.like)
        self.target.profile()


def characterize(
    output: Path, options: CharacterizeOptions, *, on_step: OnStep | None = None
) -> dict[str, Any]:
    """Measure the device into `output`/device and return the answer, device.json.

    Steps that an interrupted run has finished are not measured again. PartialError when this run
    is interrupted. Without a confirmation to write, only reading steps are measured.
    """
    checked_program()
    place = output / PLACE
    _check_free(place, options)
    state, made = open_state(output, options)
    with tempfile.TemporaryDirectory(prefix="tracekit-") as name:
        target = open_target(options.target, Path(name), made=made)
    if target.is_ours:
        made_file.state_folder()
    folder = measurement_folder(output)
    make_folder(folder.subfolder(PLACE))
    wanted = [
        step
        for step in steps(
            options.amounts, target.size_bytes, is_emulated=bool(options.target.device)
        )
        if target.may_write or not step.writes
    ]
    with scratch_folder(place / "run") as scratch:
        run = _Run(output, state, target, scratch, options)
        try:
            run.measure_all(wanted, on_step)
            if not options.target.device:
                run.check_rates()
        finally:
            if not state.results:
                made_file.forget(output, removes=not options.keeps_file)
    result = _write_answer(folder, state, run.target, options)
    made_file.forget(output, removes=not options.keeps_file)
    (place / STATE).unlink()
    return result


def _check_free(place: Path, options: CharacterizeOptions) -> None:
    if place.is_symlink():
        raise InputError(f"{place} is a link: it leads out of the trace folder", hint="remove it")
    is_done = (place / RESULT_FILE).exists() and not (place / STATE).exists()
    if is_done and not options.overwrite:
        raise UsageError(f"{place} holds a characterization", hint="pass --force to replace it")


@dataclass
class _Run:
    output: Path
    state: State
    target: Target
    scratch: Path
    options: CharacterizeOptions

    def measure_all(self, wanted: Sequence[Step], on_step: OnStep | None) -> None:
        """Run what is not done yet; of the rounds no more than it takes to be steady."""
        number = 0
        for shown, step in enumerate(wanted):
            if step.kind == ROUND and self._is_steady(number):
                continue
            if on_step is not None:
                on_step(step.label, shown, len(wanted))
            if not self.state.done(number, step):
                self.measure(number, step)
            number += 1
        del self.state.results[number:]

    def _is_steady(self, number: int) -> bool:
        rates = [one.iops for one in self.state.results[:number] if one.step.kind == ROUND]
        return steady_state(rates).is_reached

    def check_rates(self) -> None:
        """Raise InputError for a rate that no device can have; its steps are then measured anew."""
        results = msgspec.to_builtins(self.state.results)
        found = rate_fault(fit(results), results, copy_mib_s=memory_copy_mib_s())
        if found is not None:
            operation, fault = found
            steps_of = [
                number
                for number, one in enumerate(results)
                if one["step"]["kind"] == "size" and operation in one["operations"]
            ]
            self._refuse(steps_of[0], fault)

    def _refuse(self, number: int, fault: str) -> NoReturn:
        """Keep what was measured before step `number`, and raise InputError."""
        del self.state.results[number:]
        write_json(self.output / PLACE / STATE, msgspec.to_builtins(self.state))
        raise InputError(
            f"{fault}; no profile is written",
            hint="close other load and run the same command again: it goes on before that step",
        )

    def measure(self, number: int, step: Step) -> None:
        """Run one step and keep its result; PartialError when it was interrupted."""
        # What is made of earlier steps after an interruption would not be theirs.
        del self.state.results[number:]
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            place = Path(name)
            plan, records = place / "step.plan", place / "step.completions"
            seed = (self.options.seed, number)
            write_plan(plan, step, size_bytes=self.target.size_bytes, seed=seed)
            fast = Schedule("fast")
            player = replace(
                self.target.player,
                schedule=fast,
                depth=step.depth,
                threads=step.depth,
                no_calibration=True,
            )
            arguments = [*player.words(), "--completions", str(records)]
            outcome = run_program(plan, place / "step.json", arguments=arguments)
            self._keep_file()
            self._check(outcome.summary, step)
            latencies, pace = read_latencies(records, step.requests, depth=step.depth)
        if not latencies[ALL].count:
            failed = [f"{one['name']} ({one['meaning']})" for one in outcome.summary["errors"]]
            reason = ", ".join(failed) or "all were left out"
            raise InputError(f"not one request of '{step.label}' was done: {reason}")
        result = _step_result(step, outcome.summary, latencies, pace)
        if not self.options.target.device and (fault := mean_fault(msgspec.to_builtins(result))):
            self._refuse(number, fault)
        self.state.results.append(result)
        write_json(self.output / PLACE / STATE, msgspec.to_builtins(self.state))

    def _keep_file(self) -> None:
        """After the first step the file that was made for the run exists."""
        if self.target.is_ours and not self.state.is_made and self.target.path is not None:
            made_file.record(self.output, self.target.path)
            self.state.is_made = True
            self.target = self.target.confirmed()

    def _check(self, summary: dict[str, Any], step: Step) -> None:
        if summary["outcome"] != "interrupted":
            return
        made = made_file.recall(self.output) if self.state.results else None
        raise PartialError(
            f"interrupted in '{step.label}': {len(self.state.results)} steps are done and kept",
            hint="run the same command again to go on"
            + (f"; {made.path} stays until then" if made else ""),
        )


def _step_result(
    step: Step, summary: Mapping[str, Any], latencies: Mapping[str, Latencies], pace: Pace
) -> StepResult:
    return StepResult(
        step=step,
        elapsed_ns=pace.elapsed_ns,
        iops=latencies[ALL].count / max(pace.elapsed_ns, 1) * 1e9,
        usual_iops=pace.usual_iops,
        engine=summary["engine"]["used"],
        is_direct=summary["targets"][0]["is_direct"],
        steal_ratio=summary["fidelity"]["steal_ratio"],
        overruns=summary["engine"]["overruns"],
        is_emulation_late=not summary.get("emulation", {}).get("is_within_budget", True),
        operations={name: OperationTimes(**one.as_dict()) for name, one in latencies.items()},
    )


def _identity(options: CharacterizeOptions) -> dict[str, Any]:
    """Return the options that must be the same to resume an interrupted measurement."""
    target = options.target
    profile = target.profile()
    known_by = hashlib.sha256(repr(profile).encode()).hexdigest()[:16] if profile else ""
    return {
        "target": None if target.path is None else str(target.path.absolute()),
        "--device": target.device,
        "profile": known_by,
        "--engine": target.engine,
        "--size": target.size_bytes,
        "--direct": target.direct,
        "--write-to": [*target.write_to, *target.overwrite_signature],
        "--seed": options.seed,
        **{
            f"--{key.replace('_', '-')}": list(value) if isinstance(value, tuple) else value
            for key, value in vars(options.amounts).items()
        },
    }
