"""The stage: measures step by step, then writes tables, profile and answer."""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np
import pyarrow as pa

from tracekit._native.players import checked_program, run_program
from tracekit.device import made_file
from tracekit.device.device_answer import (
    DeviceAnswer,
    Result,
    Steady,
    headline,
    random_steps,
    twice_fault,
    warnings_of,
)
from tracekit.device.fit import (
    CELL_KINDS,
    Fitted,
    checked_name,
    compare,
    complete,
    fit,
    mean_fault,
    measured_cells,
    measured_quantiles,
    memory_copy_mib_s,
    rate_fault,
    write_profile,
)
from tracekit.device.robust import steady_state
from tracekit.device.steps import (
    ALL,
    LEAST,
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
from tracekit.device.trace_mix import KIND, MixCell, TraceMix, cells_of, in_mix
from tracekit.devices import choose_profile, load_profiles
from tracekit.durable import make_folder
from tracekit.errors import InputError, PartialError, UsageError
from tracekit.metadata import LARGEST, Count, Record, read_object, validate
from tracekit.plans.block_plan import OPERATIONS
from tracekit.replay.player import Schedule
from tracekit.stolen_time import ATTEMPTS, MOST_LEFT_OUT, StealWatch, Stretches
from tracekit.store import (
    TraceFolder,
    measurement_folder,
    scratch_folder,
    write_json,
    write_results,
)
from tracekit.tables import DEVICE_FIT, DEVICE_LATENCY, DEVICE_STEPS
from tracekit.units import SECTOR_BYTES

UNMEASURED = ("fill", "precondition")
ONCE = (*UNMEASURED, ROUND, *CELL_KINDS)
"""Steps that are not run again: many, of which each says little."""
NEARLY_ALL = 0.9
"""Share of requests left out above which the rest is too few: then all count, and it is said."""
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
    left_out_ratio: Share = 0.0
    """Of the requests: those meanwhile time of a processor was stolen."""
    mix: list[MixCell] = msgspec.field(default_factory=list)
    """Of the requests of a trace: what they took, by kind."""

    def __post_init__(self) -> None:
        """Check that there is a sum over the operations."""
        if ALL not in self.operations:
            raise ValueError("there is no sum over the operations")


MOST_HOLES = 0.05


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

    @property
    def mix(self) -> list[MixCell]:
        """What the requests of the trace took, by kind."""
        return [cell for one in self.results for cell in one.mix]


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
            f" {_shown(state.asked.get(other[0]))}, not {_shown(asked[other[0]])}",
            hint=f"ask as before to go on, or {FORCE_HINT}",
        )


def _shown(value: object) -> str:
    """Return what a sentence calls the value of an option."""
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


PROFILE = "device/profile.toml"
RESULT = "device/device.json"


def _write_answer(
    folder: TraceFolder, state: State, target: Target, options: CharacterizeOptions
) -> dict[str, Any]:
    """Write tables, profile and device.json; return the content of the last."""
    results = msgspec.to_builtins(state.results)
    fitted, emulated = in_mix(fit(results), state.mix), options.target.profile()
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
        left_out_ratio=_left_out(state.results),
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
        mix=state.mix,
    )
    answer.filled_ratio = _written_by(results, "fill") / target.size_bytes
    answer.steady = _steady(results)
    answer.distributions = 0 if missing else len(measured_cells(results))
    answer.warnings = list(warnings_of(answer, results))
    answer.headline = headline(answer, results)
    write_results(folder, RESULT, result=answer, tables=_tables(results, fitted))
    return dict(msgspec.to_builtins(answer))


def _tables(results: Sequence[Result], fitted: Sequence[Fitted]) -> dict[str, pa.Table]:
    return {
        "device/device_steps": _table(_steps(results), DEVICE_STEPS),
        "device/device_latency": _table(_buckets(results), DEVICE_LATENCY),
        "device/device_fit": _table(map(msgspec.structs.asdict, fitted), DEVICE_FIT),
    }


def _left_out(results: Sequence[StepResult]) -> float:
    """Return the share of measured requests that was left out, or of those of the trace."""
    measured = [one for one in results if one.step.kind not in UNMEASURED]
    total = sum(one.step.requests for one in measured)
    lost = sum(one.left_out_ratio * one.step.requests for one in measured)
    of_trace = (one.left_out_ratio for one in measured if one.step.kind == KIND)
    return max(lost / max(total, 1), *of_trace, 0.0)


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
        steady = _steady(results)
        about += "; it was not steady" if steady is not None and not steady.is_reached else ""
        tables: dict[str, list[Any]] = {**measured_quantiles(results, measured)}
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
        for _, operation, summary in random_steps([result]):
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
UNFINISHED = f"{PLACE}/{STATE}"
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
    mix: TraceMix | None = None
    """The trace among whose requests the costs are measured at last."""
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
    if options.mix is not None and target.may_write:
        wanted.append(Step(KIND, options.mix.total, 1.0))
    with scratch_folder(place / "run") as scratch:
        run = _Run(output, state, target, scratch, options)
        try:
            run.measure_all(wanted, on_step)
            if not options.target.device:
                run.check_results()
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
            limited = self._limited(step, number) if step.kind == KIND else step
            if not self.state.done(number, limited):
                self.measure(number, limited)
            number += 1
        del self.state.results[number:]

    def _is_steady(self, number: int) -> bool:
        rates = [one.iops for one in self.state.results[:number] if one.step.kind == ROUND]
        return steady_state(rates).is_reached

    def _limited(self, step: Step, number: int) -> Step:
        """Return the step with the trace's requests, no more than take the seconds asked."""
        mix = self.options.mix
        means_ns = [
            one.operations[ALL].mean_ns
            for one in self.state.results[:number]
            if one.step.kind in ("random_read", "random_write")
        ]
        if mix is None or not means_ns:
            return step
        return replace(step, requests=mix.requests_for(max(*means_ns, 1.0)))

    def check_results(self) -> None:
        """Raise InputError for what no device can have; its steps are then measured anew."""
        results = msgspec.to_builtins(self.state.results)
        if twice := twice_fault(results):
            self._refuse(*twice)
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
        hint = "close other load and run the same command again: it goes on before that step"
        if holes := self._holes():
            fault += f"; {holes:.0%} of the file are holes, which no device reads"
            hint = "measure a file that is written, or let it be filled: --write-to and --force"
        raise InputError(f"{fault}; no profile is written", hint=hint)

    def _holes(self) -> float:
        """Return the share of a file that was never written, if that is more than a little."""
        path = self.target.path
        if path is None or not path.is_file():
            return 0.0
        found = path.stat()
        share = 1 - found.st_blocks * SECTOR_BYTES / max(found.st_size, 1)
        return share if share > MOST_HOLES else 0.0

    def measure(self, number: int, step: Step) -> None:
        """Run one step and keep its result; PartialError when it was interrupted.

        One that lost most of its requests to stolen time is run again, a few times.
        """
        # What is made of earlier steps after an interruption would not be theirs.
        del self.state.results[number:]
        is_small = step.kind in ONCE or step.requests <= LEAST
        attempts = 1 if self.options.target.device or is_small else ATTEMPTS
        found = list[StepResult]()
        while len(found) < attempts and (not found or found[-1].left_out_ratio > MOST_LEFT_OUT):
            found.append(self._ran(number, step))
        result = min(found, key=attrgetter("left_out_ratio"))
        if not self.options.target.device and (fault := mean_fault(msgspec.to_builtins(result))):
            self._refuse(number, fault)
        self.state.results.append(result)
        write_json(self.output / PLACE / STATE, msgspec.to_builtins(self.state))

    def _ran(self, number: int, step: Step) -> StepResult:
        """Run one step, and leave out what came while time of a processor was stolen."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as name:
            place = Path(name)
            plan, records = place / "step.plan", place / "step.completions"
            self._write_plan(plan, step, number)
            player = replace(
                self.target.player,
                schedule=Schedule("fast"),
                depth=step.depth,
                threads=step.depth,
                no_calibration=True,
            )
            arguments = [*player.words(), "--completions", str(records)]
            with StealWatch() as watch:
                outcome = run_program(plan, place / "step.json", arguments=arguments)
            self._keep_file()
            self._check(outcome.summary, step)
            stolen = Stretches()
            if not self.options.target.device:
                stolen = watch.found().since(outcome.summary["clock"]["start_ns"])
            latencies, pace = read_latencies(
                records, step.requests, depth=step.depth, stolen=stolen
            )
            if not pace.seen:
                failed = [f"{one['name']} ({one['meaning']})" for one in outcome.summary["errors"]]
                reason = ", ".join(failed) or "all were left out"
                raise InputError(f"not one request of '{step.label}' was done: {reason}")
            left_out_ratio = 1 - latencies[ALL].count / pace.seen
            if left_out_ratio > NEARLY_ALL:
                stolen = Stretches()
                latencies, pace = read_latencies(records, step.requests, depth=step.depth)
            cells = cells_of(plan, records, stolen=stolen) if step.kind == KIND else []
        result = _step_result(step, outcome.summary, latencies, pace, stolen=stolen)
        result.mix, result.left_out_ratio = cells, left_out_ratio
        return result

    def _write_plan(self, plan: Path, step: Step, number: int) -> None:
        size_bytes = self.target.size_bytes
        if step.kind == KIND and self.options.mix is not None:
            self.options.mix.write_plan(plan, step.requests, size_bytes=size_bytes)
        else:
            write_plan(plan, step, size_bytes=size_bytes, seed=(self.options.seed, number))

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
    step: Step,
    summary: Mapping[str, Any],
    latencies: Mapping[str, Latencies],
    pace: Pace,
    *,
    stolen: Stretches,
) -> StepResult:
    free_ns = pace.elapsed_ns - stolen.within(pace.first_ns or 0, pace.last_ns)
    return StepResult(
        step=step,
        elapsed_ns=pace.elapsed_ns,
        iops=latencies[ALL].count / max(free_ns, 1) * 1e9,
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
        "trace": None if options.mix is None else str(options.mix.folder.path.absolute()),
        **{
            f"--{key.replace('_', '-')}": list(value) if isinstance(value, tuple) else value
            for key, value in vars(options.amounts).items()
        },
    }
