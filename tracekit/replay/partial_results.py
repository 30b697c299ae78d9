"""What a replay left whose program was killed, or could not write all of its completions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracekit import store
from tracekit.errors import TracekitError, UsageError
from tracekit.metadata import Record, read_object, validate
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
    header = np.fromfile(plan, block_plan.HEADER, 1)[0]
    offset, count = int(header["records_offset"]), int(header["record_count"])
    rows = np.memmap(plan, block_plan.RECORD, "r", offset=offset, shape=(count,))
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


class PartialRun(Record):
    """The content of unfinished.json; `next` is the resume point, null for file operations."""

    outcome: str
    error: str
    completions: int | None
    next: int | None
    compiled: dict[str, Any]


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
    started = {**asdict(run), "plan": run.plan.name, "records": run.records.name}
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
        again = "replay again" if run.is_of_files else f"go on with --resume {place.name}"
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
    if not (left / ABOUT).is_file() or not (left / PLAN).is_file():
        return None
    started = msgspec.json.decode((left / ABOUT).read_bytes())
    records = _records_of(left / started["records"])
    if records is None:
        return None
    (left / ABOUT).unlink()
    run = StartedRun(**{**started, "plan": left / PLAN, "records": records})
    _keep(place, records, run, error="tracekit was killed")
    shutil.rmtree(left, ignore_errors=True)
    return place


def _records_of(whole: Path) -> Path | None:
    """Return the program's file, whole or not, if it holds completions."""
    least_bytes = completions.HEADER.itemsize
    files = [whole, *whole.parent.glob(f"{whole.name}.*.part")]
    return next((f for f in files if f.is_file() and f.stat().st_size > least_bytes), None)


def _keep(place: Path, part: Path, run: StartedRun, *, error: str) -> int | None:
    """Move the program's file to `place` and make a table of it; return its rows if it fits."""
    with store.new_folder(place, overwrite=True, marker=ABOUT) as folder:
        resume_point = run.resume_point(part)
        moved = part.rename(folder / (FILE_RECORDS if run.is_of_files else RECORDS))
        run.plan.rename(folder / PLAN)
        rows: int | None = None
        try:
            rows = run.write_table(moved, folder)
            moved.unlink()
        except OSError:
            for table in folder.glob("*.parquet"):
                table.unlink()
        about = PartialRun(
            outcome="unfinished",
            error=error,
            completions=rows,
            next=resume_point,
            compiled=dict(run.compiled),
        )
        store.write_json(folder / ABOUT, content_of(about))
    return rows


def resumed(replays: Path, name: str) -> tuple[Path, PlanReport, int]:
    """Return the folder of the replay to resume, its plan, and how many records are done.

    Raises UsageError when it is not there or left nothing to do.
    """
    before = replays / name
    if (before / SUMMARY).is_file() and (before / PLAN).is_file():
        summary = read_summary(before / SUMMARY)
        return before, summary.compiled, _requests_handled(summary)
    places = (before, replays / f"{name}{SUFFIX}")
    left = next((place for place in places if (place / ABOUT).is_file()), None)
    if left is None or not (left / PLAN).is_file():
        files = (file for kind in (SUMMARY, ABOUT) for file in replays.glob(f"*/{kind}"))
        names = ", ".join(sorted(file.parent.name for file in files))
        hint = f"there are: {names}" if names else "there is none in this trace folder"
        raise UsageError(f"--resume {name}: {before} holds no replay", hint=hint)
    about = validate(read_object(left / ABOUT, hint=HINT), PartialRun, file=left / ABOUT, hint=HINT)
    if about.next is None:
        raise UsageError(
            f"--resume {name}: it was of file operations; their files are gone", hint=HINT
        )
    return left, msgspec.convert(about.compiled, PlanReport), about.next


def _requests_handled(summary: ReplaySummary) -> int:
    """Return how many requests of the plan an earlier run left behind it, its own start included.

    In a closed loop requests go out in another order than the plan's: what stands behind the first
    one that is left is done again. Raises UsageError when it was not interrupted.
    """
    counts, window = summary.counts, summary.window
    if summary.outcome != "interrupted" or not counts.not_reached:
        raise UsageError(
            f"--resume {summary.name}: that replay reached its end, nothing is left to do",
            hint=HINT,
        )
    # Summaries before the look-ahead of closed loops have no "next".
    if window.next is ABSENT:
        return window.first + counts.planned - counts.not_reached
    return window.next
