"""One capture of file operations: a source records the command's calls, which become tables."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import convert, to_builtins
from numpy.typing import NDArray

from tracekit import metadata
from tracekit._native.calls import APPEND, DIRECT, EXCLUSIVE, SYNC, TRUNCATE, Calls, Known, Start
from tracekit.arrow import count_names, number_column, text_column, word_array
from tracekit.capture.bpf_files import BpfFiles
from tracekit.capture.command import run_untraced
from tracekit.capture.file_source import FileSource, Job, Recorded
from tracekit.capture.kernel_state import opened
from tracekit.capture.recording import NothingRecordedError, closed_to_others
from tracekit.capture.strace import Strace
from tracekit.capture.unfinished import (
    RAW_NAME,
    START_NAME,
    FileWork,
    Manifest,
    Unfinished,
    new_unfinished,
)
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.helper_programs import find_helper, run_helper
from tracekit.invoking_user import User
from tracekit.layout import CaptureSummary
from tracekit.machine_state import boot_id
from tracekit.metadata import Record, TraceInfo
from tracekit.store import new_folder, write_batches, write_info, write_table
from tracekit.tables import EVIDENCE, FILE_KINDS, FILE_OPERATION_NAMES, FILE_OPERATIONS, FILES

MOST_BAD_RATIO = 0.01
AFTER = EVIDENCE.index("after")
FLAGS = {
    "is_direct": DIRECT,
    "is_sync": SYNC,
    "is_append": APPEND,
    "is_truncate": TRUNCATE,
    "is_exclusive": EXCLUSIVE,
}
MAYBE = (
    *("end_ns", "file_id", "other_file_id", "handle"),
    *("offset_bytes", "length_bytes", "done_bytes"),
)
HASH_DIGITS = 16


@dataclass(frozen=True)
class Decoded:
    """What a text held."""

    stats: dict[str, int]
    left_out: dict[str, int]
    files: int
    """Rows of `files`."""
    sizes: dict[str, int]
    """Files by the evidence of their sizes."""
    operations: dict[str, int]
    """Rows by operation."""


class Hashes:
    """Names that nobody can read back: a keyed hash, whose key is thrown away."""

    def __init__(self) -> None:
        """Take a new key."""
        self._key = secrets.token_bytes(32)

    def name(self, text: bytes) -> str:
        """Return what stands for a name."""
        found = hashlib.blake2b(text, key=self._key, digest_size=HASH_DIGITS // 2)
        return found.hexdigest()

    def path(self, path: bytes) -> str:
        """Return what stands for a path: as many parts, equal ones for equal ones."""
        return "/".join(self.name(part) if part else "" for part in path.split(b"/"))


def decode(text: Path, folder: Path, *, start: Start, hashes: Hashes | None = None) -> Decoded:
    """Write both tables into `folder` and return what was found.

    Raise InputError when the text is not strace's, or more than 1 % of its lines is not.
    """
    with opened(text) as fd:
        found, known = _decode_once(fd, folder, start, hashes)
        if known:
            # Sizes that were known at the end only give appended bytes their places.
            os.lseek(fd, 0, os.SEEK_SET)
            start = replace(start, known=start.known + known)
            found, _ = _decode_once(fd, folder, start, hashes)
    return found


def _decode_once(
    fd: int, folder: Path, start: Start, hashes: Hashes | None
) -> tuple[Decoded, tuple[Known, ...]]:
    """Decode the whole text; return what was found, and sizes that would tell more."""
    operations = Counter[str]()
    with Calls(fd, start) as calls:
        batches = _batches(calls, hashes, operations)
        write_batches(folder / "file_operations.parquet", batches, schema=FILE_OPERATIONS)
        stats = calls.stats()
        _reject_bad(calls, stats)
        paths, facts = calls.files()
        left_out = calls.left_out()
    table = _files(paths, facts, hashes)
    write_table(folder / "files.parquet", table)
    sizes = count_names(facts["evidence"][facts["is_used"] > 0], EVIDENCE)
    known: tuple[Known, ...] = ()
    if stats["unplaced"] and not any(one.evidence == AFTER for one in start.known):
        known = tuple(
            Known(path, int(fact["kind"]), int(fact["first_bytes"]), AFTER)
            for path, fact in zip(paths, facts, strict=True)
            if fact["evidence"] == AFTER and fact["is_used"]
        )
    return Decoded(stats, left_out, table.num_rows, sizes, operations), known


def _reject_bad(calls: Calls, stats: dict[str, int]) -> None:
    bad, lines = stats["bad_lines"], stats["lines"]
    if lines == 0:
        raise NothingRecordedError("no call was recorded", hint="the command was not started")
    # The last line is cut when strace is killed.
    if bad > max(1, lines * MOST_BAD_RATIO):
        raise InputError(
            f"{bad:,} of {lines:,} lines are not what strace prints; the first is line"
            f" {stats['first_bad_line']}: {calls.bad_line()!r}",
            hint="check the version: strace --version, 5.11 or newer",
        )


def _batches(
    calls: Calls, hashes: Hashes | None, operations: Counter[str]
) -> Iterator[pa.RecordBatch]:
    first = 0
    for rows in calls.batches():
        names = calls.processes()
        shown = names if hashes is None else [hashes.name(name.encode()) for name in names]
        yield _batch(rows, first, shown)
        first += len(rows)
        operations += count_names(rows["operation"], FILE_OPERATION_NAMES)


def _batch(rows: NDArray[np.void], first: int, processes: list[str]) -> pa.RecordBatch:
    made: dict[str, pa.Array] = {
        "operation_id": number_column(np.arange(first, first + len(rows), dtype=np.int64)),
        "process": text_column(rows["process"], processes),
        "operation": text_column(rows["operation"], FILE_OPERATION_NAMES),
        **{name: number_column((rows["flags"] & bit) != 0) for name, bit in FLAGS.items()},
        **{name: number_column(rows[name]) for name in ("start_ns", "pid", "tid", "error")},
    }
    for name in MAYBE:
        column = rows[name.removesuffix("_id")]
        made[name] = number_column(column, valid=column >= 0)
    columns = [made[name] for name in FILE_OPERATIONS.names]
    return pa.RecordBatch.from_arrays(columns, schema=FILE_OPERATIONS)


def _files(paths: list[bytes], facts: Any, hashes: Hashes | None) -> pa.Table:
    """Return the table of the files that a row names."""
    used = np.flatnonzero(facts["is_used"])
    facts = facts[used]
    # Names of unknown kind were asked for and never existed.
    kinds = np.maximum(facts["kind"], 1) - 1
    shown = [
        hashes.path(paths[place]) if hashes else paths[place].decode(errors="backslashreplace")
        for place in used
    ]
    sizes = np.where(kinds == 0, facts["first_bytes"], -1)
    columns = [
        number_column(used.astype(np.int64)),
        word_array(shown),
        text_column(kinds, FILE_KINDS),
        number_column(sizes, valid=sizes >= 0),
        text_column(facts["evidence"], EVIDENCE),
    ]
    return pa.Table.from_arrays(columns, schema=FILES)


SOURCES: dict[str, FileSource] = {one.name: one for one in (Strace(), BpfFiles())}
"""In the order in which they are tried."""
TRIALS = 20
"""Times as many calls of a program that is not traced show what one takes."""


@dataclass(frozen=True)
class Cost:
    """What tracing costs here, by a program that reads and writes single bytes."""

    call_ns: int
    """What a traced call takes longer in all."""
    duration_ns: int
    """How much longer its own duration looks in the trace."""


def choose(given: str | None) -> FileSource:
    """Return the given source, or the first one that works here.

    Raise UsageError for an unknown name, TracekitError with the reasons when none works.
    """
    if given is not None and given not in SOURCES:
        raise UsageError(
            f"--source {given}: not with --files", hint=f"known are {', '.join(SOURCES)}"
        )
    refused = {}
    for source in SOURCES.values() if given is None else [SOURCES[given]]:
        reason = source.probe()
        if reason is None:
            return source
        refused[source.name] = reason
    reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
    hint = SOURCES[given or next(iter(SOURCES))].remedy
    raise TracekitError(f"file operations cannot be captured: {reasons}", hint=hint)


def tracing_cost(source: FileSource) -> Cost | None:
    """Measure what tracing a call costs; None where dd(1) is missing or cannot be traced."""
    if find_helper("dd") is None:
        return None
    calls = source.probe_calls
    with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
        raw = Path(folder) / "raw"
        start_s = source.trial_s(_copy(1), raw)
        traced_s = source.trial_s(_copy(calls), raw)
        plain_s = _seconds(_copy(TRIALS * calls)) - _seconds(_copy(1))
        shown_ns = _mean_duration_ns(raw)
    plain_ns = max(plain_s, 0.0) * 1e9 / (2 * TRIALS * calls)
    call_ns = (traced_s - start_s) * 1e9 / (2 * calls) - plain_ns
    return Cost(max(round(call_ns), 0), max(round(shown_ns - plain_ns), 0))


def _copy(count: int) -> list[str]:
    return ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={count}", "status=none"]


def _seconds(program: Sequence[str]) -> float:
    began_s = time.perf_counter()
    run_helper(program, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - began_s


def _mean_duration_ns(raw: Path) -> float:
    """Return how long a read of /dev/zero took by what was recorded."""
    with opened(raw) as fd, Calls(fd, Start("/", below="/dev/zero")) as calls:
        durations = [rows["end_ns"] - rows["start_ns"] for rows in calls.batches()]
    return float(durations[0].mean()) if durations else 0.0


@dataclass(frozen=True)
class FileOptions:
    """How to capture file operations."""

    command: tuple[str, ...]
    source: str | None = None
    """None: the first that works here."""
    below: Path | None = None
    """Keep operations on what is below this folder only."""
    hashes_names: bool = False
    is_stdout_ours: bool = False
    runs_untraced: bool = False
    """Run the command untraced first, to measure what tracing costs it."""
    overwrite: bool = False
    user: User | None = None
    """Who the command runs as; None: with the rights of this process."""


@dataclass(frozen=True)
class FileCapture:
    """What a capture brought."""

    decoded: Decoded
    done: Recorded
    untraced_s: float | None
    cost: Cost | None
    source: FileSource

    @property
    def duration_s(self) -> float:
        """Return how long the command took, or what is recorded of it where nobody saw its end."""
        stats, ran = self.decoded.stats, self.done.ran
        return ran.command_s if ran else (stats["last_ns"] - stats["base_ns"]) / 1e9

    @property
    def exit_status(self) -> int | None:
        """Return how the command ended, negative for a signal; None where nobody saw it."""
        return self.done.ran.exit_status if self.done.ran else None

    @property
    def stopped_by(self) -> str | None:
        """Return what ended the recording before the command."""
        was_killed = self.done.ran is None and self.decoded.stats["endless"]
        return WHY_KILLED if was_killed else self.done.stopped_by


def lost_calls(stats: Mapping[str, Any]) -> str:
    """Say how many calls were lost, by the counts of a decoder."""
    if stats["endless"]:
        return f"at least {stats['lost']:,} calls lost, how many more is not known"
    return f"{stats['lost']:,} calls lost"


COUNTS = ("calls", "joined", "filtered", "adopted", "cloned", "submitted")
LOSSES = ("bad_lines", "orphan_ends", "unfinished", "abandoned", "backwards", "forced")


def trace_info(found: FileCapture, options: FileOptions) -> TraceInfo:
    """Return the content of trace.json."""
    decoded, stats = found.decoded, found.decoded.stats
    base_ns = stats["base_ns"]
    counts: dict[str, Any] = {
        "records": stats["lines"],
        "file_operations": stats["rows"],
        "files": decoded.files,
        "operations": dict(decoded.operations),
        "sizes": dict(decoded.sizes),
        **{name: stats[name] for name in COUNTS},
        "left_out": decoded.left_out,
    }
    duration_ns = stats["last_ns"] - base_ns
    losses: dict[str, int] = {name: stats[name] for name in LOSSES} | {"dropped": stats["lost"]}
    if stats["endless"]:
        losses["is_counted"] = False
    return TraceInfo(
        source=metadata.Source(format=found.source.name, kernel=platform.release()),
        clock=metadata.Clock(base_ns=base_ns, wall_ns=base_ns, duration_ns=duration_ns),
        counts=counts,
        loss=convert(losses, metadata.Loss),
        capture=to_builtins(_summary(found, options)),
        inferences=_inferences(found),
        warnings=_warnings(found),
    )


class Overhead(Record):
    """What tracing cost, as far as it was measured."""

    traced_ns: int
    untraced_ns: int | None
    ratio: float | None
    call_ns: int | None = None
    """Of a traced call, by the program that was timed before."""
    duration_ns: int | None = None
    expected_ns: int | None = None


class FileSummary(Record, kw_only=True):
    """`capture` of trace.json."""

    source: str
    command: list[str]
    below: str | None
    hashed_names: bool
    exit_status: int | None
    """None: the capture was killed, and nobody saw the end of the command."""
    stopped_by: str | None
    """The signal that ended it early, or that the capture was killed before its command ended."""
    overhead: Overhead


def _summary(found: FileCapture, options: FileOptions) -> FileSummary:
    cost, hides = found.cost, options.hashes_names
    traced_ns = round(found.duration_s * 1e9)
    plain_ns = None if found.untraced_s is None else round(found.untraced_s * 1e9)
    overhead = Overhead(
        traced_ns=traced_ns, untraced_ns=plain_ns, ratio=traced_ns / plain_ns if plain_ns else None
    )
    if cost is not None:
        overhead.call_ns, overhead.duration_ns = cost.call_ns, cost.duration_ns
        overhead.expected_ns = cost.call_ns * found.decoded.stats["calls"]
    return FileSummary(
        source=found.source.name,
        command=[] if hides else list(options.command),
        below=None if hides or options.below is None else str(options.below),
        hashed_names=hides,
        exit_status=found.exit_status,
        stopped_by=found.stopped_by,
        overhead=overhead,
    )


def _inferences(found: FileCapture) -> list[metadata.Inference]:
    stats = found.decoded.stats
    sizes = ", ".join(f"{name} {count:,}" for name, count in found.decoded.sizes.items())
    made = [("sizes of files before the first operation", sizes, "the column evidence of files")]
    if stats["adopted"]:
        evidence = "descriptors that were used and never seen opened; strace names the file"
        made.append(("open files", f"{stats['adopted']:,}", evidence))
    if stats["guessed_creates"]:
        evidence = "opened with O_CREAT and gone afterwards, or cut to nothing by the open"
        made.append(("files taken for new ones", f"{stats['guessed_creates']:,}", evidence))
    return metadata.inferences_of(made, stage="capture")


def _warnings(found: FileCapture) -> list[metadata.TraceWarning]:
    stats, cost, left_out = found.decoded.stats, found.cost or Cost(0, 0), found.decoded.left_out
    calls = ", ".join(f"{name} {count:,}" for name, count in left_out.items())
    unreal = [name for name in left_out if name.startswith("io_") and "setup" not in name]
    submitted = f"the command handed {stats['submitted']:,} operations to {' and '.join(unreal)}"
    cloned = f"{stats['cloned']:,} copies share their bytes (FICLONE): their rows moved none"
    bad, unplaced = stats["bad_lines"], stats["unplaced"]
    unfinished = stats["unfinished"] + stats["abandoned"]
    slower = (
        f"a call took about {cost.call_ns / 1e3:,.1f} us longer {found.source.how}, of which"
        f" {cost.duration_ns / 1e3:,.1f} us are in its duration"
    )
    places = f"the place of {unplaced:,} reads and writes is not known"
    lost, unseen = stats["lost"], stats["unseen"]
    dropped = f"{lost:,} calls were lost in the kernel, and it did not show {unseen:,} at most"
    if stats["endless"]:
        dropped = (
            f"how many calls were lost is not known: the recording was cut ({dropped} by then)"
        )
    failure = found.done.failure
    foreign = f"at least {stats['foreign']:,} calls of 32-bit programs are not recorded"
    unnamed = f"{stats['unnamed']:,} uses of descriptors of which the trace names no file"
    doubts = [
        ("lost_records", lost or unseen or stats["endless"], dropped),
        ("ended_early", failure, f"recording ended early: {failure}"),
        ("foreign_calls", stats["foreign"], foreign),
        ("unnamed_descriptors", stats["unnamed"], unnamed),
        ("traced_times", found.cost, slower),
        ("bad_lines", bad, f"{bad:,} lines cannot be understood"),
        ("unseen_operations", unreal, submitted),
        ("cloned_ranges", stats["cloned"], cloned),
        ("left_out_calls", calls, f"calls without a row: {calls}"),
        ("unknown_offsets", unplaced, places),
        ("unfinished_calls", unfinished, f"{unfinished:,} calls did not return"),
    ]
    return metadata.warnings_of(doubts, stage="capture")


MOST_FILES = 1_000_000
SNAPSHOT = EVIDENCE.index("snapshot")
FILE, DIRECTORY, OTHER = range(1, len(FILE_KINDS) + 1)
KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: DIRECTORY}


def files_below(folder: Path) -> tuple[Known, ...]:
    """Return what is below a folder, itself included; links are not followed.

    Raise UsageError when there is more than can be kept.
    """
    found = []
    for path, status in _walk(os.fsencode(folder)):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), OTHER)
        found.append(Known(path, kind, status.st_size if kind == FILE else -1, SNAPSHOT))
        if len(found) > MOST_FILES:
            raise UsageError(
                f"{folder}: more than {MOST_FILES:,} files are below it",
                hint="choose a smaller --below, or none",
            )
    return tuple(found)


def _walk(folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    yield folder, os.stat(folder)
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue  # it may not be entered, or it has just gone
        for entry in entries:
            try:
                yield entry.path, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def standard_files() -> tuple[tuple[int, str, int, int], ...]:
    """Return those standard streams that are files: number, path, position, flags of open."""
    found = []
    for number in range(3):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
            lines = Path(f"/proc/self/fdinfo/{number}").read_text().splitlines()
        except OSError:
            continue
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        if path.startswith("/") and not path.endswith(" (deleted)"):
            found.append((number, path, int(facts["pos"]), int(facts["flags"], 8)))
    return tuple(found)


# The kernel's times of files are those of its last tick, 10 ms at the most.
TICK_S = 0.02
WHY_KILLED = "the capture was killed"
AFTERWARDS = "what its command did then may be missing"


def capture_files(output: Path, *, options: FileOptions) -> FileCapture:
    """Run the command and record its file operations into the new trace folder `output`.

    What it records is kept in NAME.unfinished until then. Raise UsageError for a bad command,
    folder or output, TracekitError where no source works.
    """
    if shutil.which(options.command[0]) is None:
        raise UsageError(f"{options.command[0]}: there is no such program")
    below = options.below
    if below is not None and not below.is_dir():
        raise UsageError(f"{below} is no folder", hint="give --below a folder that is there")
    source = choose(options.source)
    cost = tracing_cost(source)
    found: FileCapture | None = None
    with new_unfinished(output) as left:
        try:
            with new_folder(output, overwrite=options.overwrite) as part, closed_to_others(part):
                untraced_s = None
                if options.runs_untraced:
                    untraced_s = run_untraced(
                        options.command, user=options.user, is_stdout_ours=options.is_stdout_ours
                    )
                work = _Work(left, options, source, cost, untraced_s)
                done = work.record(output)
                with left.kept(done.ran.exit_code if done.ran else 0):
                    found = work.write(part, done)
        except TracekitError:
            if found:  # somebody took its name, and it has another
                left.remove()
            raise
        left.remove()
    return found


@dataclass
class _Work:
    """A capture whose records are in its unfinished folder."""

    left: Unfinished
    options: FileOptions
    source: FileSource
    cost: Cost | None
    untraced_s: float | None
    began: Start = field(default_factory=lambda: Start("/"))

    @property
    def raw(self) -> Path:
        """What the source writes."""
        return self.left.path / RAW_NAME

    @property
    def start(self) -> Path:
        """What is known before the command begins."""
        return self.left.path / START_NAME

    def record(self, output: Path) -> Recorded:
        """Run the command; what a kill leaves is to be finished by `finish_files`."""
        below, options = self.options.below, self.options
        self.began = _start(below.resolve() if below else None)
        self.left.save(self._manifest(output))
        self.start.write_text(json.dumps(to_builtins(self.began)))
        time.sleep(TICK_S)
        job = Job(options.command, options.user, options.is_stdout_ours)
        try:
            return self.source.record(job, self.raw)
        except TracekitError:
            self.left.forget()
            raise

    def _manifest(self, output: Path) -> Manifest:
        options, untraced_s = self.options, self.untraced_s
        return Manifest(
            output=output.name,
            pid=os.getpid(),
            boot_id=boot_id(),
            began_ns=time.time_ns(),
            disks=[],
            layout={},
            summary=CaptureSummary(source=self.source.name, command=list(options.command)),
            files=FileWork(
                below=str(options.below) if options.below else None,
                hashes_names=options.hashes_names,
                untraced_ns=None if untraced_s is None else round(untraced_s * 1e9),
                cost=(self.cost.call_ns, self.cost.duration_ns) if self.cost else None,
            ),
        )

    @classmethod
    def of(cls, left: Unfinished, *, manifest: Manifest, work: FileWork) -> _Work:
        """Return what a killed capture left; raise NothingRecordedError where that is nothing."""
        options = FileOptions(
            command=tuple(manifest.summary.command),
            below=Path(work.below) if work.below else None,
            hashes_names=work.hashes_names,
        )
        cost = Cost(*work.cost) if work.cost else None
        untraced_s = None if work.untraced_ns is None else work.untraced_ns / 1e9
        found = cls(left, options, SOURCES[manifest.summary.source], cost, untraced_s)
        try:
            found.began = convert(json.loads(found.start.read_text()), Start)
            is_written = _is_being_written(found.raw)
        except (OSError, ValueError):  # the kill came before them
            raise NothingRecordedError(f"{WHY_KILLED} before its command began") from None
        if is_written:
            raise UsageError(f"{found.raw} is still written to", hint="wait for its command's end")
        return found

    def write(self, part: Path, done: Recorded) -> FileCapture:
        """Write the tables and trace.json into a folder."""
        hashes = Hashes() if self.options.hashes_names else None
        decoded = decode(self.raw, part, start=self.began, hashes=hashes)
        found = FileCapture(decoded, done, self.untraced_s, self.cost, self.source)
        write_info(part, trace_info(found, self.options))
        return found


def finish_files(left: Unfinished, output: Path, *, manifest: Manifest, work: FileWork) -> str:
    """Make the trace folder `output` of what a killed capture left; return how much that is.

    Raise UsageError while the command is still recorded, NothingRecordedError where it never was.
    """
    killed = _Work.of(left, manifest=manifest, work=work)
    with left.kept(), new_folder(output) as part, closed_to_others(part):
        stats = killed.write(
            part, Recorded(None, None, f"{WHY_KILLED}, {AFTERWARDS}")
        ).decoded.stats
    left.remove()
    return f"{stats['rows']:,} operations, {lost_calls(stats)}"


def _is_being_written(file: Path) -> bool:
    """Whether a process has the file open to write: strace goes on without its capture."""
    with opened(file) as number:
        try:
            fcntl.fcntl(number, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return True
        except OSError:
            return False  # a file system without leases
        fcntl.fcntl(number, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _start(below: Path | None) -> Start:
    """Return what is known before the command begins."""
    return Start(
        folder=str(Path.cwd()),
        below=str(below) if below else None,
        start_ns=time.time_ns(),
        known=files_below(below) if below else (),
        has_snapshot=below is not None,
        inherited=standard_files(),
    )
