"""Runs a sweep: what was run before is kept, each run is on disk when it ends."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from tracekit.metadata import Record, read_object, validate
from tracekit.plans.file_plan import NO_STEP, OPERATIONS
from tracekit.store import (
    TraceFolder,
    measurement_folder,
    scratch_folder,
    write_batches,
    write_json,
    write_table,
)
from tracekit.sweep.grid import MEMORY_MIB, Guest, Memory, Run, Timing
from tracekit.tables import FILE_RUNS, SWEEP_OPERATIONS
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
    known = {result.target: _place(result.directory, result.memory or None) for result in results}
    for target in {run.target.name: run.target for run in runs}.values():
        medium = _medium(target.memory) if target.memory else None
        place = _place(str(target.directory), medium)
        if known.get(target.name, place) != place:
            raise UsageError(
                f"--target {target.name}={place}: in this folder {target.name} is"
                f" {known[target.name]}",
                hint="give it another name, or the results another --output",
            )


def _place(directory: str, memory: Mapping[str, Any] | None) -> str:
    """Name a place as `--target` does, memory with the times that its medium adds."""
    if directory.startswith("lab:"):
        return directory
    place = str(Path(directory).absolute())
    medium = (memory or {}).get("medium", {})
    times = [f"{medium[key]}ns" for key in ("read_line_ns", "write_line_ns") if key in medium]
    return place if memory is None else ":".join(["memory", place, *times])


STEPS = ("p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns")
ALL = "all"
LAB_DAX = "lab:dax="  # of runs that an older version made, which did not write is_dax
ResultRow = dict[str, Any]


def of_run(run: Run, summary: Mapping[str, Any], *, lab: Mapping[str, Any] | None) -> RunRecord:
    """Return what is kept of a run."""
    memory = run.target.memory
    kept = ("outcome", "ended_by", "counts", "timing", "steps", "errors", "timeline")
    return RunRecord(
        run_id=run.run_id,
        personality=run.personality.name,
        target=run.target.name,
        directory=str(run.target.directory),
        is_dax=run.target.is_dax,
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
    )


def write_runs(path: Path, results: Sequence[RunRecord]) -> None:
    """Write the table FILE_RUNS of all results."""
    settings = run_settings(results)
    rows = [row for pair in zip(results, settings, strict=True) for row in _rows(*pair)]
    write_table(path, pa.Table.from_pylist(rows, FILE_RUNS))


def _rows(result: RunRecord, settings: Mapping[str, Any]) -> Iterator[ResultRow]:
    summary = result.summary
    counts, steps = summary["counts"], summary["steps"]
    restored_ns = counts["untimed_ns"] / result.threads
    elapsed_ns = max(round(summary["timing"]["elapsed_ns"] - restored_ns), 1)
    same = {
        "run_id": result.run_id,
        "personality": result.personality,
        "target": result.target,
        "run": result.run,
        "threads": result.threads,
        "is_dax": result.directory.startswith(LAB_DAX) if result.is_dax is UNSET else result.is_dax,
        "files": _whole(settings.get("files")),
        "io_bytes": _whole(settings.get("io_size")),
        "settings": json.dumps(settings, sort_keys=True),
        "outcome": summary["outcome"],
        "elapsed_ns": elapsed_ns,
    }
    times = [
        float(step["latency"]["mean_ns"] * step["done"]) if step["latency"] else 0.0
        for step in steps
    ]
    total_ns = sum(times)
    done, failed = (sum(step[key] for step in steps) for key in ("done", "failed"))
    whole = {"step": ALL, "failed": failed, "time_ratio": 1.0, "mean_ns": total_ns / max(done, 1)}
    yield same | whole | _rates(done, counts["bytes"], elapsed_ns)
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
TABLE = "files/file_runs"
FULL = "full"  # what a run is that ended because nothing more could be written
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


def sweep(
    output: Path,
    runs: Sequence[Run],
    *,
    tell: Tell,
    replace: bool = False,
    again: bool = False,
    keeps_operations: bool = False,
) -> Swept:
    """Do the runs that the folder does not hold yet; return all results of the folder.

    `replace` removes what a run kept on a target; `again` makes runs that are there anew;
    `keeps_operations` keeps a row an operation, and makes runs anew that have none. A run that
    fails is reported and the next one begins; a signal ends the sweep, whatever it is at, and what
    is done is kept. Raises UsageError for a folder that is another thing, and for a target whose
    name was another place there.
    """
    folder = measurement_folder(output)
    place = folder.subfolder(RUNS)
    make_folder(place)
    check_places(read_runs(folder), runs)
    needed = [place, *([folder.subfolder(PLACE)] if keeps_operations else [])]
    wanted = [run for run in runs if again or not _is_there(run, needed)]
    how = _How(tell, replaces=replace, keeps_operations=keeps_operations)
    missing, stopped_by = _run_all(folder, wanted, how)
    results = read_runs(folder)
    if results:
        write_runs(folder.table(TABLE), results)
    made = len(wanted) - len(missing)
    kept = len(runs) - len(wanted)
    places = {run.target.directory / OWN_FOLDER for run in wanted if stopped_by}
    left = tuple(sorted(str(place) for place in places if place.is_dir()))
    return Swept(folder, made, kept, missing, bool(results), stopped_by, left)


def _is_there(run: Run, places: Sequence[Path]) -> bool:
    return all(any(place.glob(f"{run.run_id}.*")) for place in places)


@dataclass(frozen=True)
class _How:
    """What all runs of a sweep have in common."""

    tell: Tell
    replaces: bool
    keeps_operations: bool


def _run_all(folder: TraceFolder, runs: Sequence[Run], how: _How) -> tuple[list[str], str | None]:
    """Do the runs, each on disk when it ends; return what is missing and why, and what ended it."""
    missing: list[str] = []
    left, code = list(runs), 0
    with scratch_folder(folder.path / "plan") as scratch, raised_signals():
        try:
            while left:
                how.tell(f"run {len(runs) - len(left) + 1} of {len(runs)}: {words(left[0])}")
                error = _keep_one(folder, left[0], scratch, how)
                missing += [f"{words(left[0])}: {error}"] if error else []
                del left[0]
        except Stopped as stop:
            code = stop.code
        except StoppedError as stop:  # the program's own, or once the run was kept
            code = stop.exit_code
            if _is_there(left[0], [folder.subfolder(RUNS)]):
                del left[0]
    missing += [f"{words(one)}: interrupted" for one in left]
    return missing, signal.Signals(code - 128).name if code else None


def _keep_one(folder: TraceFolder, run: Run, scratch: Path, how: _How) -> str:
    """Do a run and keep it; return why there is none. A signal that comes then waits for that."""
    with waiting_signals("") as waiting:
        try:
            done = scratch / "done.bin" if how.keeps_operations else None
            result = _run_one(run, scratch, how=how, results=done, on_end=waiting.begin)
            if done:
                table = folder.table(f"{PLACE}/{run.run_id}")
                write_operations(table, done, steps=run.personality.labels)
            write_json(folder.file(f"{RUNS}/{run.run_id}.json"), msgspec.to_builtins(result))
        except StoppedError:
            raise
        except TracekitError as error:
            return str(error)
    return ""


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


def _run_one(
    run: Run,
    scratch: Path,
    *,
    how: _How,
    results: Path | None,
    on_end: Callable[[Outcome], None],
) -> RunRecord:
    """Make the plan, unless the run before had the same, and run it; Stopped: by a signal."""
    plan = scratch / "plan.bin"
    key = scratch / "plan.json"
    medium = run.target.medium
    content = json.dumps([repr(run.personality), run.timing.seed, repr(medium)])
    if not key.is_file() or key.read_text() != content:
        key.unlink(missing_ok=True)
        write_personality(run.personality, plan, seed=run.timing.seed, medium=medium)
        key.write_text(content)
    timing = run.timing
    arguments = ["--repeat", "0", "--duration-ns", str(timing.duration_ns)]
    arguments += ["--warm-up-ns", str(timing.warm_up_ns), "--cache", timing.cache]
    arguments += ["--replace"] if how.replaces else []
    outcome, lab = _run_plan(run, plan, arguments, tell=how.tell, results=results)
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
    return of_run(run, outcome.summary, lab=lab)


def _run_plan(
    run: Run, plan: Path, arguments: Sequence[str], *, tell: Tell, results: Path | None
) -> tuple[Outcome, dict[str, Any] | None]:
    """Run a plan on this machine or in a guest, which a signal ends with all that it did."""
    guest = run.target.guest
    if guest:
        return run_in_guest(plan, guest, arguments=arguments, tell=tell, results=results)
    summary = plan.with_name("summary.json")
    summary.unlink(missing_ok=True)  # of the run before
    arguments = [*arguments, *(["--results", str(results)] if results else [])]
    return run_files(plan, run.target.directory, summary=summary, arguments=arguments), None
