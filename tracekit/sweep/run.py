"""Runs a sweep: what was run before is kept, each run is on disk when it ends."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, UnsetType

from tracekit._native import PROGRAM
from tracekit._native.players import (
    DONE,
    OWN_FOLDER,
    PARTIAL,
    USAGE,
    Outcome,
    Stopped,
    columns_of,
    raised_signals,
    read_results,
    run_files,
    waiting_signals,
)
from tracekit.arrow import text_column
from tracekit.durable import make_folder
from tracekit.errors import StoppedError, TracekitError, UsageError
from tracekit.lab.session import Ended, Job, session
from tracekit.machine_state import MachineState, Reading
from tracekit.metadata import Record, read_object, validate
from tracekit.plans.file_plan import NO_STEP, OPERATIONS
from tracekit.repeats import Turn, mean_of
from tracekit.store import (
    TraceFolder,
    measurement_folder,
    scratch_folder,
    write_batches,
    write_json,
    write_table,
)
from tracekit.sweep.grid import (
    MEMORY_MIB,
    Guest,
    Memory,
    Place,
    Run,
    Target,
    Timing,
    Until,
    place_of,
)
from tracekit.sweep.judgement import compare_targets, outliers, steady_state
from tracekit.tables import FILE_COMPARISONS, FILE_RUNS, SWEEP_OPERATIONS
from tracekit.units import format_duration
from tracekit.workload.file_plan import write_personality

SUMMARY = "summary.json"
WITHOUT_DAX = "umount $LAB_DAX && mount -t ext4 -o dax=never /dev/pmem0 $LAB_DAX || exit 1; "
TIMEOUT_S = 3600


def run_in_guest(
    plan: Path,
    guest: Guest,
    *,
    arguments: Sequence[str],
    tell: Callable[[str], None],
    results: Path | None = None,
) -> tuple[Outcome, dict[str, Any]]:
    """Boot a guest, run the plan on its file system, and return what the program and lab reported.

    `results` becomes the file with a record an operation, which the guest leaves.

    Raises TracekitError with the program's message when it refused or failed, and for a lab that
    this machine cannot have.
    """
    with scratch_folder(plan.with_name("share")) as share:
        shutil.copy(plan, share / plan.name)
        if results:
            arguments = [*arguments, "--results", f"$LAB_OUT/{results.name}"]
        job = _job(guest, share, plan.name, arguments)
        with session(job, on_step=tell) as ended:
            lab = {"accelerator": ended.accelerator, "exact": guest.is_exact}
            outcome = _outcome(ended)
            if results:
                shutil.copy(ended.folder / "files" / results.name, results)
            return outcome, {**lab, "memory_mib": MEMORY_MIB, **_medium(guest)}


def _medium(of: Guest | Memory) -> dict[str, Any]:
    return {"medium": vars(of.medium)} if of.medium else {}


def _job(guest: Guest, share: Path, plan: str, arguments: Sequence[str]) -> Job:
    place = "$LAB_FS" if guest.disk else "$LAB_DAX"
    words = [PROGRAM, plan, place, "--summary", f"$LAB_OUT/{SUMMARY}", *arguments]
    remount = WITHOUT_DAX if guest.memory_mib and not guest.is_dax else ""
    return Job(
        ("sh", "-c", remount + " ".join(words)),
        disks=(guest.disk,) if guest.disk else (),
        dax_mib=guest.memory_mib,
        memory_mib=MEMORY_MIB,
        share=share,
        is_exact=guest.is_exact,
        timeout_s=TIMEOUT_S,
    )


def _outcome(ended: Ended) -> Outcome:
    messages = (ended.folder / "stderr").read_text(errors="replace")
    if ended.exit_status not in (DONE, PARTIAL):
        lines = [line.removeprefix(f"{PROGRAM}: ") for line in messages.splitlines()]
        text = "; ".join(lines) or f"status {ended.exit_status}, and nothing was said"
        kind = UsageError if ended.exit_status == USAGE else TracekitError
        raise kind(f"in the guest: {text}")
    summary = (ended.folder / "files" / SUMMARY).read_text(errors="backslashreplace")
    return Outcome(json.loads(summary), messages, ended.exit_status == PARTIAL)


PLACE = "files/operations"


def write_operations(path: Path, results: Path, *, steps: Sequence[str]) -> None:
    """Write the rows of a results file; `steps` are the labels of the plan, in its order."""
    make_folder(path.parent)
    write_batches(path, _batches(results, steps), schema=SWEEP_OPERATIONS)


def _batches(results: Path, steps: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for rows in read_results(results):
        step = rows["step"].astype(np.int32)
        made = columns_of(rows, words=OPERATIONS) | {
            "step": text_column(np.where(step == NO_STEP, -1, step), steps)
        }
        columns = [made[name] for name in SWEEP_OPERATIONS.names]
        yield pa.RecordBatch.from_arrays(columns, schema=SWEEP_OPERATIONS)


class RunRecord(Record, kw_only=True):
    """The content of files/runs/*.json: a run's options, what the program reported, and the lab."""

    run_id: str
    personality: str
    target: str
    directory: str
    is_dax: bool | UnsetType = UNSET
    run: int
    threads: int
    settings: dict[str, Any]
    definition: str | UnsetType = UNSET
    timing_asked: Timing
    summary: dict[str, Any]
    """Some keys of the program's summary."""
    directory_told: dict[str, Any] | UnsetType = UNSET
    preparation: dict[str, Any] | UnsetType = UNSET
    lab: dict[str, Any] | UnsetType = UNSET
    memory: dict[str, Any] | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    """Of its plan; older versions gave that of `timing_asked` to all repeats."""
    plan_digest: str | UnsetType = UNSET
    turn: Turn | UnsetType = UNSET
    place: Place | UnsetType = UNSET
    """Of the directory on this machine; a guest's is none."""
    machine: MachineState | UnsetType = UNSET
    not_used: tuple[str, ...] | UnsetType = UNSET
    """What a file of filebench says that changes nothing here, in words."""

    @property
    def draw(self) -> Any:
        """Return what its plan was; two of the same in a guest that counts time are one run."""
        if self.plan_digest is not UNSET:
            return self.plan_digest
        return self.timing_asked.seed if self.seed is UNSET else self.seed


def run_settings(results: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return the settings of each run: its parameters, and what its personality's runs differ in.

    That is named as its option; a definition that was changed by its digest. Runs of versions that
    did not write a definition count as of the only one that is known.
    """
    environments = [dict(_run_environment(result)) for result in results]
    values: dict[tuple[str, str], set[Any]] = {}
    for result, found in zip(results, environments, strict=True):
        for key, value in found.items():
            values.setdefault((result.personality, key), set()).add(value)
    return [
        dict(result.settings)
        | {key: value for key, value in found.items() if len(values[result.personality, key]) > 1}
        for result, found in zip(results, environments, strict=True)
    ]


def _run_environment(result: RunRecord) -> Iterator[tuple[str, Any]]:
    timing = result.timing_asked
    yield "--cache", timing.cache
    yield "--seed", timing.seed
    yield "--duration", f"{timing.duration_ns / 1e9:.9g}s"
    yield "--warm-up", f"{timing.warm_up_ns / 1e9:.9g}s"
    if result.lab is not UNSET:
        yield "--exact", "yes" if result.lab["exact"] else "no"
    if result.definition is not UNSET:
        yield "definition", result.definition


def check_places(results: Sequence[RunRecord], runs: Sequence[Run]) -> None:
    """Raise UsageError when a target of that name was another place in the runs that are there."""
    known = {
        result.target: _place(result.directory, (result.lab or {}) | (result.memory or {}))
        for result in results
    }
    for target in {run.target.name: run.target for run in runs}.values():
        of = target.memory or target.guest
        memory = {"stands_for_dax": True} if target.memory else {}
        place = _place(str(target.directory), memory | (_medium(of) if of else {}))
        if known.get(target.name, place) != place:
            raise UsageError(
                f"--target {target.name}={place}: in this folder {target.name} is"
                f" {known[target.name]}",
                hint="give it another name, or the results another --output",
            )


def _place(directory: str, about: Mapping[str, Any]) -> str:
    """Name a place as `--target` does; `about`: the fields of its memory, or of its guest."""
    medium = about.get("medium", {})
    older = " (the memory of an older version)" if medium and "name" not in medium else ""
    if directory.startswith("lab:"):
        return f"{directory}{older}"
    words = [str(Path(directory).absolute()), *([medium["name"]] if "name" in medium else [])]
    return ":".join(["memory", *words] if "stands_for_dax" in about else words) + older


STEPS = ("p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns")
ALL = "all"
LAB_DAX = "lab:dax="  # of runs that an older version made, which did not write is_dax
ResultRow = dict[str, Any]


def of_run(
    run: Run, summary: Mapping[str, Any], *, lab: Mapping[str, Any] | None, **more: Any
) -> RunRecord:
    """Return what is kept of a run; `more` are other fields of the record."""
    memory = run.target.memory
    kept = ("outcome", "ended_by", "counts", "timing", "issue_error", "steps", "errors", "timeline")
    return RunRecord(
        run_id=run.run_id,
        personality=run.personality.name,
        target=run.target.name,
        directory=str(run.target.directory),
        run=run.number,
        threads=run.personality.threads,
        settings=dict(run.personality.parameters),
        definition=run.personality.definition,
        timing_asked=run.timing,
        summary={key: summary[key] for key in kept},
        directory_told=summary["directory"],
        preparation=summary["preparation"],
        lab=dict(lab) if lab else UNSET,
        memory={"stands_for_dax": memory.stands_for_dax, **_medium(memory)} if memory else UNSET,
        seed=run.seed,
        not_used=run.personality.not_used or UNSET,
        **more,
    )


def write_runs(folder: TraceFolder, results: Sequence[RunRecord]) -> None:
    """Write the tables FILE_RUNS and FILE_COMPARISONS of all results."""
    names = _identities(results)
    copies = _copies(results, names)
    rows = [row for pair in zip(results, names, strict=True) for row in _rows(*pair)]
    for row in rows:
        row["is_copy"] = row["run_id"] in copies
    whole = [row for row in rows if row["step"] == ALL and not row["is_copy"]]
    stand_out = _outliers(whole)
    for row in rows:
        row["is_outlier"] = row["run_id"] in stand_out
    write_table(folder.table(TABLE), pa.Table.from_pylist(rows, FILE_RUNS))
    compared = pa.Table.from_pylist(compare_targets(whole), FILE_COMPARISONS)
    write_table(folder.table(COMPARISONS), compared)


point_of = itemgetter("personality", "target", "settings")
"""What repeats of a row's run have in common: `settings` are those of `run_settings`."""


def _identities(results: Sequence[RunRecord]) -> list[ResultRow]:
    return [_identity(*pair) for pair in zip(results, run_settings(results), strict=True)]


def _copies(results: Sequence[RunRecord], names: Sequence[ResultRow]) -> set[str]:
    """Return the runs that repeat another one's plan in a guest whose time is deterministic."""
    seen = set()
    copies = set()
    for result, row in sorted(zip(results, names, strict=True), key=lambda pair: pair[0].run):
        if result.lab is UNSET or not result.lab["exact"]:
            continue
        plan = (point_of(row), result.draw)
        if plan in seen:
            copies.add(result.run_id)
        seen.add(plan)
    return copies


def _outliers(whole: Sequence[ResultRow]) -> set[str]:
    """Return the runs whose rate stands out among those of their point."""
    groups: dict[Any, list[ResultRow]] = {}
    for row in whole:
        groups.setdefault(point_of(row), []).append(row)
    return {
        row["run_id"]
        for rows in groups.values()
        for row, far in zip(rows, outliers([r["steps_per_second"] for r in rows]), strict=True)
        if far
    }


def _rates_of_points(results: Sequence[RunRecord]) -> dict[str, list[float]]:
    """Return for each run the rates of all repeats of its point, without copies."""
    names = _identities(results)
    copies = _copies(results, names)
    points: dict[Any, list[float]] = {}
    for result, row in zip(results, names, strict=True):
        rates = points.setdefault(point_of(row), [])
        if result.run_id not in copies:
            rates.append(_whole_rates(result)["steps_per_second"])
    return {row["run_id"]: points[point_of(row)] for row in names}


def _identity(result: RunRecord, settings: Mapping[str, Any]) -> ResultRow:
    """Return what all rows of a run have in common."""
    return {
        "run_id": result.run_id,
        "personality": result.personality,
        "target": result.target,
        "run": result.run,
        "threads": result.threads,
        "is_dax": result.directory.startswith(LAB_DAX) if result.is_dax is UNSET else result.is_dax,
        "files": _whole(settings.get("files")),
        "io_bytes": _whole(settings.get("io_size")),
        "settings": json.dumps(settings, sort_keys=True),
        "outcome": result.summary["outcome"],
        "seed": result.timing_asked.seed if result.seed is UNSET else result.seed,
        "position": None if result.turn is UNSET else result.turn.position,
    }


def _elapsed_ns(result: RunRecord) -> int:
    restored_ns: float = result.summary["counts"]["untimed_ns"] / result.threads
    elapsed_ns: int = result.summary["timing"]["elapsed_ns"]
    return max(round(elapsed_ns - restored_ns), 1)


def _whole_rates(result: RunRecord) -> ResultRow:
    """Return what a run did, all steps together."""
    done = sum(step["done"] for step in result.summary["steps"])
    return _rates(done, result.summary["counts"]["bytes"], _elapsed_ns(result))


def _rows(result: RunRecord, identity: ResultRow) -> Iterator[ResultRow]:
    steps, elapsed_ns = result.summary["steps"], _elapsed_ns(result)
    same = identity | {"elapsed_ns": elapsed_ns}
    times = [
        float(step["latency"]["mean_ns"] * step["done"]) if step["latency"] else 0.0
        for step in steps
    ]
    total_ns = sum(times)
    rates = _whole_rates(result)
    whole = {
        "step": ALL,
        "failed": sum(step["failed"] for step in steps),
        "time_ratio": 1.0,
        "mean_ns": total_ns / max(rates["steps"], 1),
    }
    steady = steady_state(result.summary["timeline"], rates["steps_per_second"])
    yield same | whole | rates | vars(steady)
    for step, time_ns in zip(steps, times, strict=True):
        latency = step["latency"] or {}
        yield (
            same
            | _rates(step["done"], step["bytes"], elapsed_ns)
            | {
                "step": step["name"],
                "failed": step["failed"],
                "time_ratio": time_ns / total_ns if total_ns else 0.0,
                "mean_ns": latency.get("mean_ns", 0.0),
                **{key: latency.get(key) for key in STEPS},
            }
        )


def _rates(done: int, moved: int, elapsed_ns: int) -> ResultRow:
    seconds = elapsed_ns / 1e9
    return {
        "steps": done,
        "bytes": moved,
        "steps_per_second": done / seconds,
        "bytes_per_second": moved / seconds,
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


RUNS = "files/runs"
INTERVALS = 200  # of a run's timeline
LEAST_INTERVAL_NS = 5_000_000  # in which the program looks once
TABLE = "files/file_runs"
COMPARISONS = "files/file_comparisons"
FULL = "full"  # what a run is that ended because nothing more could be written
OUT_OF_FILES = "out_of_files"  # because a thread found no file that it could use
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Swept:
    """What a sweep left: its folder, and how many runs are of now, of before, and missing."""

    folder: TraceFolder
    made: int
    kept: int
    missing: list[str]
    has_results: bool
    stopped_by: str | None = None
    """Name of the signal that ended it."""
    left_behind: tuple[str, ...] = ()
    """Folders of files that a run made and had no time to remove."""


@dataclass(frozen=True)
class SweepOptions:
    """What all runs of a sweep have in common."""

    replaces: bool = False
    """Remove what a run kept on a target."""
    again: bool = False
    """Make runs that are there anew."""
    keeps_operations: bool = False
    """Keep a row an operation, and make runs anew that have none."""
    until: Until | None = None
    """Do repeats above its `least` of those points alone that need them."""
    series: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")
    """When the sweep began."""


def sweep(output: Path, runs: Sequence[Run], *, options: SweepOptions, tell: Tell) -> Swept:
    """Do the runs that the folder does not hold yet; return all results of the folder.

    A run that fails is reported and the next one begins; a signal ends the sweep, whatever it is
    at, and what is done is kept. Raises UsageError for a folder that is another thing, and for a
    target whose name was another place there.
    """
    folder = measurement_folder(output)
    place = folder.subfolder(RUNS)
    make_folder(place)
    check_places(read_runs(folder), runs)
    needed = [place, *([folder.subfolder(PLACE)] if options.keeps_operations else [])]
    wanted: list[Run] = []
    missing: list[str] = []
    kept, stopped_by = 0, None
    for some in _rounds(folder, runs, options.until):
        new = [run for run in some if options.again or not _is_there(run, needed)]
        lost, stopped_by = _run_all(folder, new, options, first=len(wanted) + 1, tell=tell)
        wanted += new
        kept += len(some) - len(new)
        missing += lost
        if stopped_by:
            break
    results = read_runs(folder)
    if results:
        write_runs(folder, results)
    made = len(wanted) - len(missing)
    places = {run.target.directory / OWN_FOLDER for run in wanted if stopped_by}
    left = tuple(sorted(str(place) for place in places if place.is_dir()))
    return Swept(folder, made, kept, missing, bool(results), stopped_by, left)


def _rounds(
    folder: TraceFolder, runs: Sequence[Run], until: Until | None
) -> Iterator[Sequence[Run]]:
    """Yield the runs that are to be done in any case, then repeats of points that need more."""
    if until is None:
        yield runs
        return
    yield [run for run in runs if run.number <= until.least]
    for number in range(until.least + 1, until.most + 1):
        rates = _rates_of_points(read_runs(folder))
        more = [
            run
            for run in runs
            if run.number == number and _needs_more(rates.get(run.before.run_id), until)
        ]
        if more:
            yield more


def _needs_more(rates: Sequence[float] | None, until: Until) -> bool:
    """Whether the interval of a point's rate is wider than asked; None: its last run failed."""
    if rates is None:
        return False
    found = mean_of(rates)
    return found.high is None or found.high - found.mean > until.precision * found.mean


def _is_there(run: Run, places: Sequence[Path]) -> bool:
    return all(any(place.glob(f"{run.run_id}.*")) for place in places)


def _run_all(
    folder: TraceFolder, runs: Sequence[Run], options: SweepOptions, *, first: int, tell: Tell
) -> tuple[list[str], str | None]:
    """Do the runs, each on disk when it ends; return what is missing and why, and what ended it."""
    missing, code = {run.run_id: "interrupted" for run in runs}, 0
    with scratch_folder(folder.path / "plan") as scratch, raised_signals():
        try:
            for place, run in enumerate(runs):
                tell(f"run {place + 1} of {len(runs)}: {words(run)}")
                turn = Turn(series=options.series, pair=run.number, position=first + place)
                _keep_one(folder, _One(run, turn, scratch, options, tell), missing)
        except Stopped as stop:
            code = stop.code
        except StoppedError as stop:  # the program's own, or once the run was kept
            code = stop.exit_code
    lost = [f"{words(run)}: {missing[run.run_id]}" for run in runs if run.run_id in missing]
    return lost, signal.Signals(code - 128).name if code else None


@dataclass(frozen=True)
class _One:
    """A run that is to be done now."""

    run: Run
    turn: Turn
    scratch: Path
    options: SweepOptions
    tell: Tell

    @property
    def results(self) -> Path | None:
        """Return the file with a record an operation, if it is asked for."""
        return self.scratch / "done.bin" if self.options.keeps_operations else None


def _keep_one(folder: TraceFolder, one: _One, missing: dict[str, str]) -> None:
    """Do a run and keep it, or say in `missing` why not. A signal that comes then waits for that.

    Only what is kept is taken out of `missing`, whatever was there of an older run.
    """
    with waiting_signals("") as waiting:
        try:
            result = _run_one(one, on_end=waiting.begin)
            if one.results:
                table = folder.table(f"{PLACE}/{result.run_id}")
                write_operations(table, one.results, steps=one.run.personality.labels)
            waiting.raises = False
            write_json(folder.file(f"{RUNS}/{result.run_id}.json"), msgspec.to_builtins(result))
            missing.pop(result.run_id, None)
        except StoppedError:
            raise
        except TracekitError as error:
            missing[one.run.run_id] = str(error)


def read_runs(folder: TraceFolder) -> list[RunRecord]:
    """Return the runs of the folder, in order of their names."""
    hint = "remove the file and sweep again"
    files = folder.files(f"{RUNS}/*.json")
    return [
        validate(read_object(file, hint=hint), RunRecord, file=file, hint=hint) for file in files
    ]


def words(run: Run) -> str:
    """Say in a few words which run it is."""
    settings = " ".join(f"{key}={value}" for key, value in run.settings.items())
    return " ".join(
        filter(None, [run.personality.name, settings, f"on {run.target.name}, number {run.number}"])
    )


def _run_one(one: _One, *, on_end: Callable[[Outcome], None]) -> RunRecord:
    """Make the plan, unless the run before had the same, and run it; Stopped: by a signal."""
    run = one.run
    where = _where(run.target)
    digest = _make_plan(run, one.scratch)
    before = Reading()
    outcome, lab = _run_plan(one)
    if outcome.summary["outcome"] == "interrupted":
        raise Stopped(next(iter(outcome.signals), signal.SIGINT))
    on_end(outcome)
    if outcome.summary["outcome"] == FULL:
        # Its rates are of a part of the time.
        elapsed = format_duration(outcome.summary["timing"]["elapsed_ns"])
        raise TracekitError(
            f"{run.target.directory} was full after {elapsed}; free space there, or use fewer or"
            " smaller files"
        )
    if outcome.summary["outcome"] == OUT_OF_FILES:
        raise TracekitError(outcome.messages.strip().removeprefix(f"{PROGRAM}: "))
    return of_run(
        run,
        outcome.summary,
        lab=lab,
        plan_digest=digest,
        machine=before.until(Reading()),
        turn=one.turn,
        **where,
    )


def _where(target: Target) -> dict[str, Any]:
    """Return how a target's files are used and, of a directory of this machine, its mount."""
    try:
        place = UNSET if target.guest else place_of(target.directory)
        is_dax = target.is_dax
    except OSError as error:
        raise TracekitError(f"{target.directory}: {error.strerror}") from None
    return {"is_dax": is_dax, "place": place}


PLAN = "plan.bin"


def _make_plan(run: Run, scratch: Path) -> str:
    """Write the plan, unless the one that is there is the same, and return its digest."""
    plan, key = scratch / PLAN, scratch / "plan.json"
    medium = run.target.medium
    content = json.dumps([repr(run.personality), run.seed, repr(medium)])
    if not key.is_file() or key.read_text() != content:
        key.unlink(missing_ok=True)
        write_personality(run.personality, plan, seed=run.seed, medium=medium)
        key.write_text(content)
    with plan.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _arguments(timing: Timing) -> list[str]:
    """Return the program's options, with a timeline as fine as `steady_state` needs."""
    interval_ns = max(timing.duration_ns // INTERVALS, LEAST_INTERVAL_NS)
    return [
        *("--repeat", "0", "--duration-ns", str(timing.duration_ns)),
        *("--warm-up-ns", str(timing.warm_up_ns), "--cache", timing.cache),
        *("--interval-ns", str(interval_ns)),
    ]


def _run_plan(one: _One) -> tuple[Outcome, dict[str, Any] | None]:
    """Run a plan on this machine or in a guest, which a signal ends with all that it did."""
    target, plan = one.run.target, one.scratch / PLAN
    arguments = [*_arguments(one.run.timing), *(["--replace"] if one.options.replaces else [])]
    if target.guest:
        return run_in_guest(
            plan, target.guest, arguments=arguments, tell=one.tell, results=one.results
        )
    summary = plan.with_name("summary.json")
    summary.unlink(missing_ok=True)  # of the run before
    arguments += ["--results", str(one.results)] if one.results else []
    return run_files(plan, target.directory, summary=summary, arguments=arguments), None
