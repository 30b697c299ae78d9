"""One capture of file operations: strace runs the command, its text becomes the tables."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import convert, to_builtins
from numpy.typing import NDArray

from tracekit import metadata
from tracekit._native.calls import APPEND, DIRECT, EXCLUSIVE, SYNC, TRUNCATE, Calls, Known, Start
from tracekit.arrow import count_names, number_column, text_column, word_array
from tracekit.capture.command import Ran, run, run_untraced, signals_held
from tracekit.capture.kernel_state import opened
from tracekit.capture.programs import probe_failure
from tracekit.capture.recording import closed_to_others
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.helper_programs import (
    find_helper,
    helper_environment,
    run_helper,
    why_missing,
    withheld,
)
from tracekit.invoking_user import User
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
        raise InputError("strace wrote nothing", hint="the command was not started")
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


NAME = "strace"
# What the decoder follows. `?` lets strace pass over calls that this machine does not have.
FOLLOWED = (
    *("open", "openat", "openat2", "creat", "close", "close_range", "dup", "dup2", "dup3", "fcntl"),
    *("read", "pread64", "readv", "preadv", "preadv2"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2"),
    *("sendfile", "copy_file_range", "splice", "lseek", "ftruncate", "truncate", "fallocate"),
    *("fsync", "fdatasync", "sync_file_range", "sync", "syncfs", "getdents", "getdents64"),
    *("stat", "lstat", "fstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"),
    *("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat"),
    *("mkdir", "mkdirat", "rmdir", "mmap", "munmap", "msync"),
    *("clone", "clone3", "fork", "vfork", "execve", "execveat", "exit", "exit_group"),
    *("chdir", "fchdir", "prctl", "symlink", "symlinkat", "mknod", "mknodat", "ioctl"),
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
    *("setxattr", "lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "fgetxattr"),
    *("listxattr", "llistxattr", "flistxattr", "removexattr", "lremovexattr", "fremovexattr"),
)
# What moves bytes or names in ways that no row can stand for: reported by name and number.
COUNTED = (
    *("io_uring_setup", "io_uring_enter", "io_submit", "open_by_handle_at", "chroot"),
    *("pivot_root", "vmsplice", "tee"),
    *("setxattrat", "getxattrat", "listxattrat", "removexattrat", "file_setattr"),
)
# Numbers instead of names of flags (-X raw) are short and need no table; -s 0 keeps what is read
# and written out of the text; -y names what is behind descriptors that were never seen opened.
OPTIONS = (
    *("-f", "-y", "-s", "0", "-X", "raw", "--seccomp-bpf", "--quiet=attach,personality"),
    *("--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns"),
    *("-e", "signal=none"),
)
PROBE_CALLS = 2000
PROBE_S = 20.0
REMEDY = "apt install strace (5.11 or newer)"


@dataclass(frozen=True)
class Cost:
    """What tracing costs here, by a program that reads and writes single bytes."""

    call_ns: int
    """What a traced call takes longer in all."""
    duration_ns: int
    """How much longer its own duration looks in the trace."""


def command(output: Path, traced: Sequence[str], *, user: User | None = None) -> list[str]:
    """Return the command that runs `traced` as the user and writes its calls to `output`."""
    program = find_helper(NAME)
    if program is None:
        raise TracekitError(why_missing(NAME), hint=REMEDY)
    calls = ",".join(f"?{name}" for name in (*FOLLOWED, *COUNTED))
    words = [program, *OPTIONS, "-o", str(output), "-e", f"trace={calls}"]
    if user is not None:
        if user.name is None:
            raise UsageError(
                f"--files as user {user.uid}: strace knows users by name, and this one has none",
                hint="give another --user, or --user root",
            )
        words.append(f"--user={user.name}")
    variables = withheld() | (user.variables if user else {})
    return [*words, *(f"--env={name}={text}" for name, text in variables.items()), "--", *traced]


def probe() -> str | None:
    """Return why strace cannot be used here, or None when it can."""
    with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
        try:
            return probe_failure(command(Path(folder) / "text", ["true"]), within_s=PROBE_S)
        except TracekitError as error:
            return str(error)


def tracing_cost() -> Cost | None:
    """Measure what tracing a call costs; None where dd(1) is missing or cannot be traced."""
    if find_helper("dd") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
        text = Path(folder) / "text"
        start_s = _seconds(command(text, _copy(1)))
        traced_s = _seconds(command(text, _copy(PROBE_CALLS)))
        plain_s = _seconds(_copy(20 * PROBE_CALLS)) - _seconds(_copy(1))
        shown_ns = _mean_duration_ns(text)
    plain_ns = max(plain_s, 0.0) * 1e9 / (40 * PROBE_CALLS)
    call_ns = (traced_s - start_s) * 1e9 / (2 * PROBE_CALLS) - plain_ns
    return Cost(max(round(call_ns), 0), max(round(shown_ns - plain_ns), 0))


def _copy(count: int) -> list[str]:
    return ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={count}", "status=none"]


def _seconds(program: Sequence[str]) -> float:
    began_s = time.perf_counter()
    run_helper(program, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - began_s


def _mean_duration_ns(text: Path) -> float:
    """Return how long a read of /dev/zero took by the text."""
    with opened(text) as fd, Calls(fd, Start("/", below="/dev/zero")) as calls:
        durations = [rows["end_ns"] - rows["start_ns"] for rows in calls.batches()]
    return float(durations[0].mean()) if durations else 0.0


@dataclass(frozen=True)
class FileOptions:
    """How to capture file operations."""

    command: tuple[str, ...]
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
    duration_s: float
    untraced_s: float | None
    cost: Cost | None
    exit_status: int
    stopped_by: str | None
    failure: str | None = None
    """Why not all is recorded that the command did."""


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
    return TraceInfo(
        source=metadata.Source(format=NAME, kernel=platform.release()),
        clock=metadata.Clock(base_ns=base_ns, wall_ns=base_ns, duration_ns=duration_ns),
        counts=counts,
        loss=convert({name: stats[name] for name in LOSSES}, metadata.Loss),
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

    source: str = NAME
    command: list[str]
    below: str | None
    hashed_names: bool
    exit_status: int
    stopped_by: str | None
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
        f"a call took about {cost.call_ns / 1e3:,.1f} us longer under strace, of which"
        f" {cost.duration_ns / 1e3:,.1f} us are in its duration"
    )
    places = f"the place of {unplaced:,} reads and writes is not known"
    doubts = [
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
LEAST_FREE_BYTES = 4 << 20
TEXT_PER_TABLE = 4
"""The tables take less than this part of the text."""


def capture_files(output: Path, *, options: FileOptions) -> FileCapture:
    """Run the command and record its file operations into the new trace folder `output`.

    Raise UsageError for a bad command, folder or output, TracekitError where strace does not work.
    """
    if shutil.which(options.command[0]) is None:
        raise UsageError(f"{options.command[0]}: there is no such program")
    below = options.below
    if below is not None and not below.is_dir():
        raise UsageError(f"{below} is no folder", hint="give --below a folder that is there")
    below = below.resolve() if below else None
    reason = probe()
    if reason is not None:
        raise TracekitError(f"file operations cannot be captured: {reason}", hint=REMEDY)
    cost = tracing_cost()
    with new_folder(output, overwrite=options.overwrite) as part, closed_to_others(part):
        untraced_s = None
        if options.runs_untraced:
            untraced_s = run_untraced(
                options.command, user=options.user, is_stdout_ours=options.is_stdout_ours
            )
        known = files_below(below) if below else ()
        began = Start(
            folder=str(Path.cwd()),
            below=str(below) if below else None,
            start_ns=time.time_ns(),
            known=known,
            has_snapshot=below is not None,
            inherited=standard_files(),
        )
        time.sleep(TICK_S)
        text = part / "strace.txt"
        ran, stopped_by, failure = _traced(options, text)
        decoded = decode(text, part, start=began, hashes=Hashes() if options.hashes_names else None)
        text.unlink()
        found = FileCapture(
            decoded, ran.command_s, untraced_s, cost, ran.exit_status, stopped_by, failure
        )
        write_info(part, trace_info(found, options))
    return found


def _traced(options: FileOptions, text: Path) -> tuple[Ran, str | None, str | None]:
    """Run the command under strace; return how it ended.

    Return also the signal that ended it early, and why the text is not whole.
    """
    limit = Limit(text)
    with signals_held() as stop:
        ran = run(
            command(text, options.command, user=options.user),
            stop,
            popen={"env": helper_environment()},
            is_stdout_ours=options.is_stdout_ours,
            each=limit,
        )
        if limit.kept_bytes is not None:
            os.truncate(text, limit.kept_bytes)
    return ran, stop.name, limit.why


class Limit:
    """Keeps strace's text from filling its disk: strace, on which the command depends, goes on."""

    def __init__(self, text: Path) -> None:
        """Watch the disk of `text`."""
        self._text = text
        self.kept_bytes: int | None = None
        """What is kept of the text, once the disk is nearly full."""

    @property
    def why(self) -> str | None:
        """Why the text is not whole."""
        if self.kept_bytes is None:
            return None
        return f"{self._text.parent.parent}: less than {LEAST_FREE_BYTES >> 20} MiB were left"

    def __call__(self) -> None:
        """Look, and free what came after the disk was nearly full."""
        found = os.statvfs(self._text.parent)
        size = self._text.stat().st_size if self._text.exists() else 0
        wanted = max(LEAST_FREE_BYTES, size // TEXT_PER_TABLE)
        if self.kept_bytes is None and found.f_bavail * found.f_frsize < wanted:
            self.kept_bytes = size
        if self.kept_bytes is not None and size > self.kept_bytes:
            # What strace writes next lies behind a hole.
            os.truncate(self._text, self.kept_bytes)
