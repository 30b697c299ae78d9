"""What a replay left whose program was killed, or could not write all of its completions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracekit import store
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.escapes import shell_word
from tracekit.metadata import Count, Record, read_object, validate
from tracekit.plans import block_plan
from tracekit.replay import completions
from tracekit.replay.compiler import PlanReport
from tracekit.replay.summary import ABSENT, ReplaySummary, content_of, read_summary

MOST_AHEAD = 1 << 20
"""Completions behind a request without one that are looked at; what is in flight is far fewer."""
Ids = npt.NDArray[np.uint64]


def first_without_completion(plan: Path, records: Path, *, begin: int, from_ns: int = 0) -> int:
    """Return the first record of the plan that was not completed: all before it were.

    `begin` and `from_ns` are the number and the time in the plan from which it ran. `records` is
    the program's file; its last record may be cut off. Records behind the one that is returned may
    be completed too, since requests complete in any order.
    """
    rows = block_plan.map_records(plan)
    at = max(begin, int(np.searchsorted(rows["intended_ns"], from_ns)) if from_ns else 0)
    ahead = np.zeros(0, np.uint64)
    for chunk in completions.read_records(records):
        ahead = np.concatenate([ahead, chunk["request_id"]])
        here = np.asarray(rows["request_id"][at : at + len(ahead)])
        done = _done(here, ahead)
        at += done
        ahead = _without(ahead, here[:done])
        if len(ahead) > MOST_AHEAD:
            break
    return at


def _done(planned: Ids, ended: Ids) -> int:
    """Return how many records at the start of `planned` are in `ended`, each for itself.

    The pieces of a request have its id: the second piece needs the id twice.
    """
    ids, counts = np.unique(ended, return_counts=True)
    order = np.argsort(planned, kind="stable")
    grouped = planned[order]
    nth = np.empty(len(planned), np.int64)
    nth[order] = np.arange(len(planned)) - np.searchsorted(grouped, grouped)
    place = np.searchsorted(ids, planned)
    known = place < len(ids)
    known[known] = ids[place[known]] == planned[known]
    known[known] = nth[known] < counts[place[known]]
    return int(np.argmin(known)) if not known.all() else len(planned)


def _without(ended: Ids, taken: Ids) -> Ids:
    """Return `ended` less one of each in `taken`, all of which are in it."""
    ids, counts = np.unique(ended, return_counts=True)
    counts -= np.bincount(np.searchsorted(ids, taken), minlength=len(ids))
    return np.repeat(ids, counts)


ABOUT = "unfinished.json"
TABLE = "unfinished.parquet"
PLAN = "plan.bin"
RECORDS = "completions.bin"
FILE_TABLE = "file_completions.parquet"
FILE_RECORDS = "results.bin"
SUMMARY = "summary.json"
SUFFIX = ".unfinished"
RESERVE_BYTES = 1 << 16
"""Kept free while the program runs, for the description of a run whose disk became full."""
HINT = "replay again without --resume"


@dataclass(frozen=True)
class StartedRun:
    """A run: its plan, how that was compiled, where its completions go, and where it starts.

    `first` and `from_ns` are the record and the time of the plan from which it runs; they and
    `is_timed` are of block replays. The name of `records` shows which kind of replay it is.
    """

    plan: Path
    records: Path
    compiled: Mapping[str, Any]
    first: int = 0
    from_ns: int = 0
    is_timed: bool = True

    @property
    def is_of_files(self) -> bool:
        """Whether it does file operations: these cannot be resumed, files are in between."""
        return self.records.name.startswith(FILE_RECORDS)

    def resume_point(self, records: Path) -> int | None:
        """Return the first record of the plan that is not in the program's file."""
        if self.is_of_files:
            return None
        return first_without_completion(self.plan, records, begin=self.first, from_ns=self.from_ns)

    def write_table(self, records: Path, folder: Path) -> int:
        """Convert the program's file to a table in the folder; return its rows."""
        if self.is_of_files:
            return completions.write_file_completions(records, folder / FILE_TABLE)
        return completions.write_completions(records, folder / TABLE, is_timed=self.is_timed)


class StartedNote(Record):
    """The content of unfinished.json while the program runs.

    It names no file: the plan and the completions are found by their own names beside it.
    """

    compiled: dict[str, Any]
    first: Count
    from_ns: Count
    is_timed: bool


class PartialRun(Record):
    """The content of unfinished.json; `next` is the resume point, null for file operations."""

    outcome: str
    error: str
    completions: Count | None
    next: Count | None
    compiled: dict[str, Any]
    """Empty where it was lost: then `next` is null, too."""


@contextmanager
def keeping(results: Path, run: StartedRun) -> Iterator[None]:
    """Keep the completions of a program that did not finish them in `results`.unfinished.

    It then holds the plan, unfinished.json (`PartialRun`) and a table, or the program's own file
    where the disk has no space for a table. The table of a block replay is unfinished.parquet, and
    another run can resume the plan; that of file operations is file_completions.parquet. The error
    is raised again, and names the folder. The results of a process of tracekit that was killed,
    `rescue` finds.
    """
    place = results.with_name(f"{results.name}{SUFFIX}")
    about = run.plan.parent / ABOUT
    started = StartedNote(
        compiled=dict(run.compiled), first=run.first, from_ns=run.from_ns, is_timed=run.is_timed
    )
    about.write_bytes(msgspec.json.encode(started).ljust(RESERVE_BYTES))
    try:
        yield
        about.unlink()
    except TracekitError as error:
        about.unlink()
        part = _records_of(run.records)
        if part is None:
            raise
        count = _keep(place, part, run, error=str(error))
        kept = "what completed" if count is None else f"{count:,} completions"
        again = (
            "replay again" if run.is_of_files else f"go on with --resume {shell_word(place.name)}"
        )
        raise TracekitError(f"{error}; {kept} kept in {place}", hint=again) from error


def rescue(replays: Path, names: set[str]) -> list[Path]:
    """Keep the results of replays of these names that were killed; return their folders."""
    return [
        kept
        for name in sorted(names)
        for left in store.left_behind(replays / name)
        if (kept := _rescue(left, replays / f"{name}{SUFFIX}")) is not None
    ]


def _rescue(left: Path, place: Path) -> Path | None:
    """Keep what a killed replay left; None where it left nothing that can be read.

    A folder may come from somebody else: links, and files by other names, are not touched.
    """
    plan, names = left / PLAN, (RECORDS, FILE_RECORDS)
    records = next((found for name in names if (found := _records_of(left / name))), None)
    if records is None or not _is_plain(left / ABOUT) or not _is_plain(plan):
        return None
    error = "tracekit was killed"
    try:
        note = validate(
            read_object(left / ABOUT, hint=HINT), StartedNote, file=left / ABOUT, hint=HINT
        )
        about = msgspec.structs.asdict(note)
    except InputError as torn:
        about, error = {"compiled": {}}, f"{error}, and what it was doing is lost: {torn}"
    try:
        _keep(place, records, StartedRun(plan, records, **about), error=error)
    except InputError:
        return None
    shutil.rmtree(left, ignore_errors=True)
    return place


def _records_of(whole: Path) -> Path | None:
    """Return the program's file, whole or not, if it holds completions."""
    least_bytes = completions.HEADER.itemsize
    files = [whole, *sorted(whole.parent.glob(f"{whole.name}.*.part"))]
    return next((f for f in files if _is_plain(f) and f.stat().st_size > least_bytes), None)


def _is_plain(file: Path) -> bool:
    """Say whether it is a file, and no link to one."""
    return file.is_file() and not file.is_symlink()


def _keep(place: Path, part: Path, run: StartedRun, *, error: str) -> int | None:
    """Move the plan to `place`, and the program's file or a table of it; return the table's rows.

    Until `place` is whole all stays where it is, unless the file system has no hard links.
    """
    with store.new_folder(place, overwrite=True, marker=ABOUT) as folder:
        resume_point = run.resume_point(part) if run.compiled else None
        rows: int | None = None
        try:
            rows = run.write_table(part, folder)
        except OSError:
            for table in folder.glob("*.parquet"):
                table.unlink()
            _move(part, folder / (FILE_RECORDS if run.is_of_files else RECORDS))
        _move(run.plan, folder / PLAN)
        about = PartialRun(
            outcome="unfinished",
            error=error,
            completions=rows,
            next=resume_point,
            compiled=dict(run.compiled),
        )
        store.write_json(folder / ABOUT, content_of(about))
    return rows


def _move(file: Path, target: Path) -> None:
    try:
        os.link(file, target, follow_symlinks=False)
    except OSError:
        file.rename(target)


def resumed(replays: Path, name: str) -> tuple[Path, PlanReport, int]:
    """Return the folder of the replay to resume, its plan, and how many records are done.

    Raises UsageError when it is not there or left nothing to do.
    """
    before = replays / name
    if (before / SUMMARY).is_file() and (before / PLAN).is_file():
        summary = read_summary(before / SUMMARY)
        return before, summary.compiled, _requests_handled(summary, name)
    places = (before, replays / f"{name}{SUFFIX}")
    left = next((place for place in places if (place / ABOUT).is_file()), None)
    if left is None or not (left / PLAN).is_file():
        files = (file for kind in (SUMMARY, ABOUT) for file in replays.glob(f"*/{kind}"))
        found = sorted(file.parent.name for file in files)
        names = ", ".join(name for name in found if not name.startswith("."))
        hint = f"there are: {names}" if names else "there is none in this trace folder"
        raise UsageError(f"--resume {name}: {before} holds no replay", hint=hint)
    about = validate(read_object(left / ABOUT, hint=HINT), PartialRun, file=left / ABOUT, hint=HINT)
    if about.next is None:
        reason = "it was of file operations; their files are gone"
        reason = reason if about.compiled else "how far it came is lost"
        raise UsageError(f"--resume {name}: {reason}", hint=HINT)
    compiled = validate(about.compiled, PlanReport, file=left / ABOUT, hint=HINT)
    return left, compiled, about.next


def _requests_handled(summary: ReplaySummary, name: str) -> int:
    """Return how many requests of the plan an earlier run left behind it, its own start included.

    In a closed loop requests go out in another order than the plan's: what stands behind the first
    one that is left is done again. Raises UsageError when it was not interrupted.
    """
    counts, window = summary.counts, summary.window
    if ABSENT in (counts, window, summary.compiled):
        raise UsageError(f"--resume {name}: its summary is not whole", hint=HINT)
    if summary.outcome != "interrupted" or not counts.not_reached:
        raise UsageError(
            f"--resume {name}: that replay reached its end, nothing is left to do",
            hint=HINT,
        )
    # Summaries before the look-ahead of closed loops have no "next".
    if window.next is ABSENT:
        return window.first + counts.planned - counts.not_reached
    return window.next
