"""What a replay left whose program was killed, or whose results could not all be written."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from tracekit import store
from tracekit._native.players import Outcome
from tracekit.arrow import batches_of
from tracekit.durable import exchange, rename_aside, rename_new, sync
from tracekit.errors import (
    InputError,
    PartialError,
    StoppedError,
    TracekitError,
    UsageError,
    foreign_error,
)
from tracekit.escapes import shell_word
from tracekit.metadata import Count, Record, read_object, validate
from tracekit.plans import block_plan
from tracekit.replay import completions
from tracekit.replay.compiler import PlanReport
from tracekit.replay.summary import (
    ABSENT,
    FileReplaySummary,
    ReplaySummary,
    check_budget,
    content_of,
    file_fit_warnings,
    find_warnings,
    parse_budget,
    read_summary,
)

MOST_AHEAD = 1 << 20
"""Completions behind a request without one that are looked at; what is in flight is far fewer."""
Ids = npt.NDArray[np.uint64]
NONE: Ids = np.zeros(0, np.uint64)
UNKNOWN = completions.STATUSES.index("unknown")


@dataclass(frozen=True)
class Reached:
    """How far a run came: all records before `next` were completed, and those in `done` behind."""

    next: int
    done: Ids = field(default_factory=NONE.copy)


def reached(
    plan: Path, ended: Iterable[Ids], *, begin: int, from_ns: int = 0, done: Ids = NONE
) -> Reached:
    """Return how far a run of the plan came whose requests `ended`, by their ids.

    `begin` and `from_ns` are the number and the time in the plan from which it ran, `done` the
    numbers of records behind that which an earlier run had completed.
    """
    rows = block_plan.map_records(plan)
    at = max(begin, int(np.searchsorted(rows["intended_ns"], from_ns)) if from_ns else 0)
    ahead = np.asarray(rows["request_id"][done])
    for ids in ended:
        ahead = np.concatenate([ahead, ids])
        here = np.asarray(rows["request_id"][at : at + len(ahead)])
        is_done = _are_in(here, ahead)
        count = len(here) if is_done.all() else int(np.argmin(is_done))
        at += count
        ahead = _without(ahead, here[:count])
        if len(ahead) > MOST_AHEAD:
            break
    behind = np.asarray(rows["request_id"][at : at + len(ahead) + MOST_AHEAD])
    return Reached(at, (at + np.flatnonzero(_are_in(behind, ahead))).astype(np.uint64))


def _are_in(planned: Ids, ended: Ids) -> npt.NDArray[np.bool_]:
    """Say of each of `planned` whether it is in `ended`, each for itself.

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
    return known


def _without(ended: Ids, taken: Ids) -> Ids:
    """Return `ended` less one of each in `taken`, all of which are in it."""
    ids, counts = np.unique(ended, return_counts=True)
    counts -= np.bincount(np.searchsorted(ids, taken), minlength=len(ids))
    return np.repeat(ids, counts)


def ended_in_file(records: Path) -> Iterator[Ids]:
    """Yield the ids of the program's file; its last record may be cut off."""
    for rows in completions.read_records(records):
        yield rows["request_id"][rows["status"] != UNKNOWN]


def _ended_in_table(table: Path) -> Iterator[Ids]:
    for batch in batches_of(pq.ParquetFile(table), ["request_id", "status"]):
        is_known = np.array(batch["status"].to_pylist()) != "unknown"
        yield batch["request_id"].to_numpy(zero_copy_only=False).astype(np.uint64)[is_known]


ABOUT = "unfinished.json"
TABLE = "unfinished.parquet"
WHOLE = "completions.parquet"
"""The table of all that a replay did."""
PLAN = "plan.bin"
DONE = "done.bin"
"""Numbers of the plan's records that an earlier run completed, behind the first that it did not."""
RECORDS = "completions.bin"
FILE_TABLE = "file_completions.parquet"
FILE_RECORDS = "results.bin"
PROGRAM_SUMMARY = "program.json"
"""The program's own summary, of which the summary is made."""
SUMMARY = "summary.json"
FILE_SUMMARY = "file_summary.json"
MARK = ".results.tracekit-whole"
"""In a folder whose results are whole until it has its name; a killed command may leave it."""
SUFFIX = ".unfinished"
OF_UNFINISHED = re.compile(rf"{re.escape(SUFFIX)}(-\d+)?$")
RESERVE_BYTES = 1 << 16
"""Kept free while the program runs, for the description of a run whose disk became full."""
HINT = "replay again without --resume"
ENDS_S = 12.0
"""How long a program whose command was killed takes to end: INTERFACE.md, "Signals"."""


@dataclass(frozen=True)
class StartedRun:
    """A run: its plan, how that was compiled, where its completions go, and where it starts.

    `first` and `from_ns` are the record and the time of the plan from which it runs; they and
    `is_timed` are of block replays. The name of `records` shows which kind of replay it is.
    `context` has the fields of the summary that tracekit knows before the run, `replaces` whether
    earlier results of the name are replaced.
    """

    plan: Path
    records: Path
    compiled: Mapping[str, Any]
    first: int = 0
    from_ns: int = 0
    is_timed: bool = True
    context: Mapping[str, Any] = field(default_factory=dict)
    budget: tuple[str, ...] = ()
    replaces: bool = False

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.plan.parent

    @property
    def is_of_files(self) -> bool:
        """Whether it does file operations: these cannot be resumed, files are in between."""
        return self.records.name.startswith(FILE_RECORDS)

    def reached(self, records: Path) -> Reached | None:
        """Return how far it came by the program's file; None for file operations."""
        if self.is_of_files:
            return None
        done = read_done(self.folder)
        ended = ended_in_file(records)
        return reached(self.plan, ended, begin=self.first, from_ns=self.from_ns, done=done)

    def write_table(self, records: Path, table: Path) -> int:
        """Convert the program's file to a table; return its rows."""
        if self.is_of_files:
            return completions.write_file_completions(records, table)
        return completions.write_completions(records, table, is_timed=self.is_timed)

    def summary(self, outcome: Outcome, **more: Any) -> Any:
        """Return the program's summary with what tracekit knows; `more` are further fields."""
        kind = FileReplaySummary if self.is_of_files else ReplaySummary
        known = {**self.context, "messages": outcome.messages.splitlines()}
        fields = {**outcome.summary, **known, "compiled": self.compiled}
        whole = validate(fields, kind, file=self.folder / PROGRAM_SUMMARY, hint=HINT)
        summary = msgspec.structs.replace(whole, **more)
        if isinstance(summary, ReplaySummary) and summary.outcome != "dry_run":
            # Without a request there were no times to keep.
            budget = parse_budget(self.budget) if summary.issue_error else {}
            summary.budget = check_budget(summary, budget)
            summary.warnings = find_warnings(summary)
        elif isinstance(summary, FileReplaySummary):
            summary.warnings = file_fit_warnings(summary)
        return summary

    def write_results(self) -> None:
        """Write the table of a run that ended; nothing of a dry run."""
        table = FILE_TABLE if self.is_of_files else WHOLE
        if self.records.exists():
            self.write_table(self.records, self.folder / table)

    def write_summary(self, summary: Any) -> dict[str, Any]:
        """Write the summary, which comes last; return its content."""
        content = content_of(summary)
        store.write_json(self.folder / (FILE_SUMMARY if self.is_of_files else SUMMARY), content)
        return content

    def told(self) -> dict[str, Any] | None:
        """Return the program's summary if the run ended in order and its results are whole."""
        place = self.folder / PROGRAM_SUMMARY
        if not _is_plain(place) or not completions.is_complete(self.records):
            return None
        try:
            found = read_object(place, hint=HINT)
        except InputError:
            return None
        return found if found.get("outcome") in ("finished", "full") else None

    def remove_natives(self, *, is_resumable: bool = False) -> None:
        """Remove the program's files; one that can be resumed keeps what earlier runs did."""
        names = (self.records.name, PROGRAM_SUMMARY, *(() if is_resumable else (DONE,)))
        for name in names:
            (self.folder / name).unlink(missing_ok=True)


def read_done(folder: Path) -> Ids:
    """Return the numbers of records that earlier runs of a plan completed behind its start."""
    file, count = folder / DONE, len(block_plan.map_records(folder / PLAN))
    if not _is_plain(file):
        return NONE
    done = np.fromfile(file, "<u8", MOST_AHEAD).astype(np.uint64)
    if (done[1:] <= done[:-1]).any() or (done >= count).any():
        raise InputError(f"{file} holds no numbers of records of {folder / PLAN}", hint=HINT)
    return done


def write_done(folder: Path, done: Ids) -> list[str]:
    """Keep these numbers for the program; return its words."""
    if not len(done):
        return []
    done.astype("<u8").tofile(folder / DONE)
    return ["--done", str(folder / DONE)]


class StartedNote(Record):
    """The content of unfinished.json while the program runs.

    It names no file: the plan and the completions are found by their own names beside it.
    """

    compiled: dict[str, Any]
    first: Count
    from_ns: Count
    is_timed: bool
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    budget: tuple[str, ...] = ()
    replaces: bool = False


class PartialRun(Record):
    """The content of unfinished.json; `next` is the resume point, null for file operations.

    The outcome `finished` is that of a run that ended, whose command did not: its results are
    whole, and only their folder has not its name.
    """

    outcome: str
    error: str
    completions: Count | None
    next: Count | None
    compiled: dict[str, Any]
    """Empty where it was lost: then `next` is null, too."""
    replaces: bool = False


class KeptError(PartialError):
    """A run that was interrupted and cannot be gone on with; what it did is in `place`."""

    def __init__(self, message: str, place: Path, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.place = place


@contextmanager
def keeping(results: Path, run: StartedRun) -> Iterator[None]:
    """Keep the results of a run when its program fails, or the block before its end.

    They then are in `results`.unfinished: the plan, unfinished.json (`PartialRun`) and a table, or
    the program's own files where there is no time or space for a table. The table of a block
    replay is unfinished.parquet, and another run can resume the plan; that of file operations is
    file_completions.parquet. The error is raised again, and names the folder; a PartialError
    becomes a KeptError. The results of a process of tracekit that was killed, `rescue` finds.
    """
    place = _free_place(results.with_name(f"{results.name}{SUFFIX}"), replaces=run.replaces)
    about = run.folder / ABOUT
    names = [one for one in StartedNote.__struct_fields__ if one != "compiled"]
    note = {name: getattr(run, name) for name in names}
    started = StartedNote(compiled=dict(run.compiled), **note)
    text = msgspec.json.encode(started)
    about.write_bytes(text.ljust(RESERVE_BYTES))
    try:
        yield
        about.rename(run.folder / MARK)
    except BaseException as error:
        os.truncate(about, len(text))
        try:
            kept = _kept(place, run, error)
        except KeyboardInterrupt as stopped:  # a signal while it was kept: that is done quickly
            kept = _kept(place, run, stopped)
        if kept is error:
            raise
        raise kept from error


def _kept(place: Path, run: StartedRun, error: BaseException) -> BaseException:
    """Keep what there is; return the error to be raised, which names the place."""
    known = error if isinstance(error, TracekitError) else None
    if known is None and isinstance(error, Exception):
        known = foreign_error(error)
    is_stopped = not isinstance(error, Exception)
    if known is None and not is_stopped:
        return error
    text = "stopped by a signal" if known is None else str(known)
    if (told := run.told()) is not None:
        place = _set_aside(run.folder, place)
        kept = f"{text}; the run itself has ended, and all of it is kept in {place}"
        resume = f"--resume {shell_word(base_name(place.name))}"
        again = "the next replay of this name" if run.is_of_files else resume
        is_part = told.get("outcome") == "interrupted" and not run.is_of_files
        rest = "and runs the rest" if is_part else "without a request"
        hint = f"{again} makes the results of it, {rest}"
    elif (part := _records_of(run.records)) is not None:
        rows, is_kept = None, False
        if not is_stopped:
            with suppress(OSError):
                rows, is_kept = _keep(place, part, run, error=text), True
        if not is_kept:  # for want of time or of space for anything: the next command does that
            place = _set_aside(run.folder, place)
        what = "what completed" if rows is None else f"{rows:,} completions"
        kept = f"{text}; {what} kept in {place}"
        hint = (
            "replay again" if run.is_of_files else f"go on with --resume {shell_word(place.name)}"
        )
    else:
        return error
    if is_stopped:
        code = getattr(error, "code", None)
        code = code if isinstance(code, int) else 128 + signal.SIGINT
        return StoppedError(kept, exit_code=code, hint=hint)
    if isinstance(error, PartialError):
        return KeptError(kept, place, hint=hint)
    return TracekitError(kept, hint=hint)


def _set_aside(folder: Path, place: Path) -> Path:
    """Give a folder the name of what is unfinished, in place of an earlier one; return it.

    That takes no space on the disk. What is there and is not ours stays.
    """
    if place.exists() and not _is_plain(place / ABOUT):
        return rename_aside(folder, place)
    if place.exists():
        exchange(folder, place)
        shutil.rmtree(folder, ignore_errors=True)
    else:
        rename_new(folder, place)
    sync(place.parent)
    return place


def _free_place(place: Path, *, replaces: bool) -> Path:
    """Return the name for what is unfinished.

    Only a part is replaced, and only where earlier results of the name are.
    """
    return next(one for one in _numbered(place) if _is_free(one, replaces=replaces))


def _is_free(place: Path, *, replaces: bool) -> bool:
    about = _about(place)
    is_part = about is not None and about.outcome != "finished"
    return not _is_plain(place / ABOUT) or (is_part and replaces)


def _numbered(place: Path) -> Iterator[Path]:
    """Yield a place and those with a number, without end."""
    yield place
    yield from (place.with_name(f"{place.name}-{number}") for number in count(2))


def _places(place: Path) -> list[Path]:
    """Return the places with something that is unfinished."""
    return list(
        takewhile(lambda one: _is_plain(one / ABOUT) or _is_plain(one / MARK), _numbered(place))
    )


def base_name(name: str) -> str:
    """Return the name of the replay of which this is unfinished."""
    return OF_UNFINISHED.sub("", name)


def _about(place: Path) -> PartialRun | None:
    """Return what is kept there; None for nothing, and for a run as the program left it."""
    try:
        found = read_object(place / ABOUT, hint=HINT)
        return validate(found, PartialRun, file=place / ABOUT, hint=HINT)
    except (InputError, OSError):
        return None


def rescue(replays: Path, names: set[str]) -> list[Path]:
    """Keep the results of replays of these names that were killed; return their folders."""
    found = []
    for name in sorted(names):
        first = replays / f"{base_name(name)}{SUFFIX}"
        for left in store.left_behind(replays / name):
            found.append(_rescue(left, first))
        for place in _places(first):
            is_native = _is_plain(place / MARK) or _about(place) is None
            if is_native and not place.is_symlink():
                found.append(_rescue(place, first))
    return [kept for kept in found if kept is not None]


def _rescue(left: Path, first: Path) -> Path | None:
    """Keep what a killed replay left, in `first` or beside it; return where.

    None where it left nothing that can be read. What is set aside already stays where it is.

    A folder may come from somebody else: links, and files by other names, are not touched.
    """
    _await_end(left)
    plan, names = left / PLAN, (RECORDS, FILE_RECORDS)
    if _is_plain(left / MARK) and _is_plain(plan):
        return _complete_marked(left, first)
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
    run = StartedRun(plan, records, **about)
    place = _place_of(left, first, replaces=run.replaces)
    try:
        if run.compiled and run.told() is not None:
            aside = left if left == place else _set_aside(left, place)
            return _complete(replace(run, plan=aside / PLAN, records=aside / records.name))
        _keep(place, records, run, error=error)
    except InputError:
        return None
    if left != place:
        shutil.rmtree(left, ignore_errors=True)
    return place


def _place_of(left: Path, first: Path, *, replaces: bool) -> Path:
    return left if left.name.startswith(first.name) else _free_place(first, replaces=replaces)


def _records_of(whole: Path) -> Path | None:
    """Return the program's file, whole or not, if it holds completions."""
    least_bytes = completions.HEADER.itemsize
    files = [whole, *sorted(whole.parent.glob(f"{whole.name}.*.part"))]
    return next((f for f in files if _is_plain(f) and f.stat().st_size > least_bytes), None)


def _is_plain(file: Path) -> bool:
    """Say whether it is a file, and no link to one."""
    return file.is_file() and not file.is_symlink()


def _await_end(left: Path) -> None:
    """Wait for the program of a killed command, which ends in order and still writes there."""
    end_s = time.monotonic() + ENDS_S
    pids = [int(part.suffixes[-2][1:]) for part in left.glob("*.bin.[0-9]*.part")]
    for pid in pids:
        while _is_program(pid, left) and time.monotonic() < end_s:
            time.sleep(0.02)


def _is_program(pid: int, left: Path) -> bool:
    """Say whether a process is the program that runs the plan in a folder."""
    try:
        return os.fsencode(left / PLAN) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _complete(run: StartedRun) -> Path:
    """Make the results of a run that ended, where the program left its files; return the folder.

    Where that is not possible the program's files stay, and the next command tries again.
    """
    with suppress(OSError, TracekitError):
        run.write_results()
        run.write_summary(run.summary(Outcome(run.told() or {}, "", is_partial=False)))
        _tell_finished(run.folder, replaces=run.replaces)
        run.remove_natives()
    return run.folder


def _complete_marked(left: Path, first: Path) -> Path:
    """Keep a folder whose results are whole and have not their name; return where."""
    try:
        note = read_object(left / MARK, hint=HINT)
    except InputError:
        note = {}
    place = _place_of(left, first, replaces=bool(note.get("replaces")))
    place = left if left == place else _set_aside(left, place)
    _tell_finished(place, replaces=bool(note.get("replaces")))
    for name in (MARK, RECORDS, FILE_RECORDS, PROGRAM_SUMMARY, DONE):
        (place / name).unlink(missing_ok=True)
    return place


def _tell_finished(place: Path, *, replaces: bool) -> None:
    error = "the command ended before its results had their name"
    about = PartialRun(
        outcome="finished", error=error, completions=None, next=None, compiled={}, replaces=replaces
    )
    store.write_json(place / ABOUT, content_of(about))


def completed(replays: Path, name: str) -> dict[str, Any] | None:
    """Give the results of a run that ended, and that `rescue` kept, its name; return its summary.

    Of one that was interrupted the rest is still to be run. None where there is none. Raises
    UsageError when the name is taken and was not to be replaced.
    """
    results = replays / base_name(name)
    found = ((one, _about(one)) for one in _places(results.with_name(f"{results.name}{SUFFIX}")))
    whole = (one for one in found if one[1] is not None and one[1].outcome == "finished")
    place, about = next(whole, (results, None))
    if about is None or place.is_symlink():
        return None
    content = content_of(read_summary(place / SUMMARY))
    if results.exists() and not about.replaces:
        raise UsageError(f"{results} exists already", hint=f"rename it or {place}")
    if results.exists():
        exchange(place, results)
        shutil.rmtree(place, ignore_errors=True)
    else:
        rename_new(place, results)
    (results / ABOUT).unlink()
    sync(replays)
    return content


def _keep(place: Path, part: Path, run: StartedRun, *, error: str) -> int | None:
    """Move the plan to `place`, and the program's file or a table of it; return the table's rows.

    Until `place` is whole all stays where it is, unless the file system has no hard links.
    """
    with store.new_folder(place, overwrite=True, marker=ABOUT) as folder:
        found = run.reached(part) if run.compiled else None
        rows = _table_of(part, run, folder)
        if rows is None:
            _move(part, folder / (FILE_RECORDS if run.is_of_files else RECORDS))
        _move(run.plan, folder / PLAN)
        if _is_plain(run.folder / FILE_SUMMARY):
            _move(run.folder / FILE_SUMMARY, folder / FILE_SUMMARY)
        if found is not None:
            write_done(folder, found.done)
        about = PartialRun(
            outcome="unfinished",
            error=error,
            completions=rows,
            next=None if found is None else found.next,
            compiled=dict(run.compiled),
        )
        store.write_json(folder / ABOUT, content_of(about))
    return rows


def _table_of(part: Path, run: StartedRun, folder: Path) -> int | None:
    """Write the table of what completed; return its rows, None without space for it."""
    table = folder / (FILE_TABLE if run.is_of_files else TABLE)
    try:
        return run.write_table(part, table)
    except OSError:
        table.unlink(missing_ok=True)
        return None


def _move(file: Path, target: Path) -> None:
    try:
        os.link(file, target, follow_symlinks=False)
    except OSError:
        file.rename(target)


def resumed(replays: Path, name: str) -> tuple[Path, PlanReport, Reached]:
    """Return the folder of the replay to resume, its plan, and how far it came.

    Raises UsageError when it is not there or left nothing to do.
    """
    before = replays / name
    if (before / SUMMARY).is_file() and (before / PLAN).is_file():
        summary = read_summary(before / SUMMARY)
        return before, summary.compiled, _reached_before(before, summary, name)
    places = (before, replays / f"{name}{SUFFIX}")
    left = next((place for place in places if (place / ABOUT).is_file()), None)
    if left is None or not (left / PLAN).is_file():
        files = (file for kind in (SUMMARY, ABOUT) for file in replays.glob(f"*/{kind}"))
        found = sorted({file.parent.name for file in files})
        names = ", ".join(name for name in found if not name.startswith("."))
        hint = f"there are: {names}" if names else "there is none in this trace folder"
        raise UsageError(f"--resume {name}: {before} holds no replay", hint=hint)
    about = validate(read_object(left / ABOUT, hint=HINT), PartialRun, file=left / ABOUT, hint=HINT)
    if about.next is None:
        reason = "it was of file operations; their files are gone"
        reason = reason if about.compiled else "how far it came is lost"
        raise UsageError(f"--resume {name}: {reason}", hint=HINT)
    compiled = validate(about.compiled, PlanReport, file=left / ABOUT, hint=HINT)
    if about.next == len(block_plan.map_records(left / PLAN)):
        raise UsageError(
            f"--resume {name}: all its requests have completed, nothing is left to do",
            hint=f"what completed is in {left}",
        )
    return left, compiled, Reached(about.next, read_done(left))


def _reached_before(folder: Path, summary: ReplaySummary, name: str) -> Reached:
    """Return how far an earlier run came, its own start included.

    In a closed loop, of several submitters, and where requests are unknown, some behind the first
    one that is left were done. Raises UsageError when it was not interrupted.
    """
    counts, window = summary.counts, summary.window
    if ABSENT in (counts, window, summary.compiled):
        raise UsageError(f"--resume {name}: its summary is not whole", hint=HINT)
    if summary.outcome != "interrupted" or not (counts.not_reached or counts.unknown):
        raise UsageError(
            f"--resume {name}: that replay reached its end, nothing is left to do",
            hint=HINT,
        )
    # Summaries before the look-ahead of closed loops have no "next".
    if window.next is ABSENT:
        return Reached(window.first + counts.planned - counts.not_reached)
    table = folder / WHOLE
    is_in_order = not counts.unknown and summary.pace != "closed" and summary.submitters == 1
    if not is_in_order and table.is_file():
        ended, done = _ended_in_table(table), read_done(folder)
        return reached(folder / PLAN, ended, begin=window.first, done=done)
    return Reached(window.next)
