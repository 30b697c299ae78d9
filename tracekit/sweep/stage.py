"""Runs a sweep: what was run before is kept, each run is on disk when it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.contract import read_object
from tracekit.errors import TracekitError
from tracekit.native.files import run_files
from tracekit.native.replay import Outcome
from tracekit.personality.plan import write_personality
from tracekit.sizes import format_duration
from tracekit.store import TraceFolder, measurement_folder, scratch_folder, write_json
from tracekit.sweep.answer import of_run, write_runs
from tracekit.sweep.conditions import check_places
from tracekit.sweep.grid import Run
from tracekit.sweep.guest import run_in_guest
from tracekit.sweep.operations import PLACE as OPERATIONS
from tracekit.sweep.operations import write_operations

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
    fails is told and the next one goes on; an interruption ends the sweep. Raises UsageError for a
    folder that is another thing, and for a target whose name was another place there.
    """
    folder = measurement_folder(output)
    place = folder.path / RUNS
    place.mkdir(parents=True, exist_ok=True)
    check_places(read_results(folder), runs)
    needed = [place, *([folder.path / OPERATIONS] if keeps_operations else [])]
    wanted = [run for run in runs if again or not _is_there(run, needed)]
    missing = _run_all(
        folder, wanted, tell=tell, replace=replace, keeps_operations=keeps_operations
    )
    results = read_results(folder)
    if results:
        write_runs(folder.table(TABLE), results)
    made = len(wanted) - len(missing)
    return Swept(folder, made, len(runs) - len(wanted), missing, has_results=bool(results))


def _is_there(run: Run, places: Sequence[Path]) -> bool:
    return all(any(place.glob(f"{run.run_id}.*")) for place in places)


def _run_all(
    folder: TraceFolder,
    runs: Sequence[Run],
    *,
    tell: Tell,
    replace: bool,
    keeps_operations: bool,
) -> list[str]:
    """Do the runs, each on disk when it ends; return what is missing and why."""
    missing: list[str] = []
    with scratch_folder(folder.path / "plan") as scratch:
        for number, run in enumerate(runs, start=1):
            tell(f"run {number} of {len(runs)}: {words(run)}")
            try:
                done = scratch / "done.bin" if keeps_operations else None
                result = _run_one(run, scratch, replace=replace, tell=tell, results=done)
            except TracekitError as error:
                missing.append(f"{words(run)}: {error}")
                continue
            except KeyboardInterrupt:
                result = None  # before the program could take it
            if result is None:
                return missing + [f"{words(one)}: interrupted" for one in runs[number - 1 :]]
            if done:
                table = folder.path / OPERATIONS / f"{run.run_id}.parquet"
                write_operations(table, done, steps=run.personality.labels)
            write_json(folder.path / RUNS / f"{run.run_id}.json", result)
    return missing


def read_results(folder: TraceFolder) -> list[Mapping[str, Any]]:
    """Return what each run of the folder left, in order of their names."""
    hint = "remove the file and sweep again"
    files = sorted((folder.path / RUNS).glob("*.json"))
    return [read_object(file, hint=hint) for file in files]


def words(run: Run) -> str:
    """Say in a few words which run it is."""
    settings = " ".join(f"{key}={value}" for key, value in run.settings.items())
    return " ".join(
        filter(None, [run.personality.name, settings, f"on {run.target.name}, number {run.number}"])
    )


def _run_one(
    run: Run, scratch: Path, *, replace: bool, tell: Tell, results: Path | None
) -> dict[str, Any] | None:
    """Make the plan, unless the run before had the same, and run it; None: interrupted."""
    plan = scratch / "plan.bin"
    key = scratch / "plan.json"
    medium = run.target.medium
    told = json.dumps([repr(run.personality), run.timing.seed, repr(medium)])
    if not key.is_file() or key.read_text() != told:
        key.unlink(missing_ok=True)
        write_personality(run.personality, plan, seed=run.timing.seed, medium=medium)
        key.write_text(told)
    timing = run.timing
    arguments = [
        "--repeat",
        "0",
        "--duration-ns",
        str(timing.duration_ns),
        "--warm-up-ns",
        str(timing.warm_up_ns),
        "--cache",
        timing.cache,
        *(["--replace"] if replace else []),
    ]
    outcome, lab = _run_plan(run, plan, arguments, tell=tell, results=results)
    if outcome and outcome.summary["outcome"] == FULL:
        raise TracekitError(_full(run, outcome.summary))
    return of_run(run, outcome.summary, lab=lab) if outcome else None


def _full(run: Run, summary: Mapping[str, Any]) -> str:
    """Say when and where a file system was full: its rates are of a part of the time."""
    elapsed_ns = summary["timing"]["elapsed_ns"]
    return (
        f"{run.target.directory} was full after {format_duration(elapsed_ns)}; free space there,"
        " or use fewer or smaller files"
    )


def _run_plan(
    run: Run, plan: Path, arguments: Sequence[str], *, tell: Tell, results: Path | None
) -> tuple[Outcome | None, dict[str, Any] | None]:
    """Run a plan on this machine or in a guest; None: interrupted."""
    guest = run.target.guest
    if guest:
        try:
            return run_in_guest(plan, guest, arguments=arguments, tell=tell, results=results)
        except KeyboardInterrupt:
            return None, None  # the guest is gone, and what it did with it
    summary = plan.with_name("summary.json")
    arguments = [*arguments, *(["--results", str(results)] if results else [])]
    outcome = run_files(plan, run.target.directory, summary=summary, arguments=arguments)
    return (None if outcome.summary["outcome"] == "interrupted" else outcome), None
