"""Plans written by hand, and the replay program run on them."""

import functools
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tracekit._native import program_path
from tracekit.plans import block_plan
from tracekit.plans.block_plan import DISCARD, WRITE, WRITE_ZEROES
from tracekit.replay.completions import HEADER, RECORD, STATUSES
from tracekit.units import SECTOR_BYTES

PERIOD_BYTES = 1 << 20
Bytes = npt.NDArray[np.uint8]
Record = tuple[int, ...]
Word = str | Path
DISK = {
    "seek_track_ns": 100_000,
    "seek_root_ns": 900_000,
    "seek_linear_ns": -200_000,
    "seek_unknown_ns": 400_000,
    "write_settle_ns": 50_000,
    "half_turn_ns": 300_000,
    "track_sectors": 64,
    "capacity_sectors": 10_000,
}
"""What makes an emulated device a disk whose head moves."""


@dataclass(frozen=True)
class Ran:
    """What one use of the program left."""

    code: int
    summary: dict[str, Any]
    messages: str
    completions: Path

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.summary["counts"])

    @property
    def target(self) -> dict[str, Any]:
        """What is said of the first target."""
        return dict(self.summary["targets"][0])

    @property
    def errors(self) -> dict[str, int]:
        return {error["name"]: error["count"] for error in self.summary["errors"]}

    def rows(self) -> npt.NDArray[np.void]:
        """Return the completion records, read without the product's own reader."""
        data = self.completions.read_bytes()
        header = np.frombuffer(data[: HEADER.itemsize], HEADER)[0]
        rows = np.frombuffer(data[HEADER.itemsize :], RECORD)
        assert header["record_count"] == len(rows)
        return rows

    def by_id(self) -> npt.NDArray[np.void]:
        """Return the completion records in the order of the plan."""
        rows = self.rows()
        return rows[np.argsort(rows["request_id"])]

    def statuses(self) -> dict[int, str]:
        """Return the status of each request id."""
        return {int(row["request_id"]): STATUSES[row["status"]] for row in self.rows()}

    def refused(self, *words: str, code: int = 1, lines: int = 1) -> None:
        """Check that the program said these words in one line, and left nothing."""
        assert (self.code, self.messages.count("\n")) == (code, lines), self.messages
        assert all(word in self.messages for word in words), self.messages
        assert self.summary == {}
        assert not self.completions.exists()
        assert list(self.completions.parent.glob("*.part")) == []


Replay = Callable[..., Ran]


def record(
    operation: int,
    sector: int = 0,
    sectors: int = 0,
    *,
    at_ns: int = 0,
    flags: int = 0,
    target: int = 0,
    think_ns: int = 0,
    after: int = 0,
) -> Record:
    """Return a record without its id: the position in the plan is its id."""
    return (at_ns, sector, 0, sectors, operation, flags, target, think_ns, after, 0)


WRITES = [record(WRITE, 0, 64), record(WRITE, 2048, 8), record(WRITE, 16384, 8)]


def write_plan(
    path: Path,
    records: Sequence[Record] | npt.NDArray[np.void],
    *,
    labels: tuple[str, ...] = ("default",),
    needed_sectors: int | None = None,
) -> Path:
    """Write a plan in which every target keeps its addresses."""
    rows = np.array(records, block_plan.RECORD)
    rows["request_id"] = np.arange(len(rows))
    # An operation on a zone has no length, and is within its target.
    sectors = np.maximum(rows["length_sectors"], rows["operation"] > block_plan.ZONE_APPEND)
    needed = needed_sectors or int((rows["sector"] + sectors).max())
    tables = block_plan.Tables(
        labels=labels,
        needed_bytes=(needed * SECTOR_BYTES,) * len(labels),
        extents=tuple(block_plan.Extent("disk", 0, needed, n, 0) for n in range(len(labels))),
        trace_sha256=bytes(range(32)),
        level="queued",
    )
    with block_plan.open_new(path) as out:
        writer = block_plan.PlanWriter(out)
        writer.append(rows)
        writer.finish(tables)
    return path


def command(plan: Path, *words: Word, results: str = "--completions", **options: Any) -> list[str]:
    """Return the command line, with results and summary beside the plan.

    `depth=8` becomes `--depth 8`, `keep=True` `--keep`; each value of a list has its own option,
    and `confirmed` is a target that may be written.
    """
    if confirmed := options.pop("confirmed", None):
        options |= {"target": confirmed, "write_to": confirmed}
    outputs = (results, plan.with_suffix(".done"), "--summary", plan.with_suffix(".json"))
    line = [str(word) for word in (program_path(), plan, *words, *outputs)]
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            line += [f"--{name.replace('_', '-')}", *([] if one is True else [str(one)])]
    return line


def play(plan: Path, line: list[str], **process: Any) -> Ran:
    """Run a command line of a plan; what an earlier run left beside it is removed before."""
    results, summary = plan.with_suffix(".done"), plan.with_suffix(".json")
    for path in (results, summary):
        path.unlink(missing_ok=True)
    process = {"timeout": 300} | process
    ended = subprocess.run(line, capture_output=True, text=True, check=False, **process)
    content = json.loads(summary.read_text()) if summary.exists() else {}
    return Ran(ended.returncode, content, ended.stderr, results)


def run(plan: Path, *words: Word, **options: Any) -> Ran:
    """Run the program on a plan, with the options of `command` and those of a process."""
    own = options.keys() & {"cwd", "env", "preexec_fn", "timeout"}
    process = {name: options.pop(name) for name in own}
    return play(plan, command(plan, *words, **options), **process)


@dataclass(frozen=True)
class Confirmed:
    """A device that may be written to, the file behind it, and the command line of a plan."""

    file: Path
    device: Path
    plan: Path
    line: list[str]

    def play(self, *line: str) -> Ran:
        """Run its command line, or another one of its plan."""
        return play(self.plan, list(line) or self.line)


def compile_c(*words: Word) -> None:
    """Run the C compiler, or skip where there is none."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    subprocess.run([compiler, *words], check=True)


def compiled(folder: Path, driver: str, *units: str) -> Path:
    """Compile a driver of this folder with some of the program's files, both watched."""
    here = Path(__file__).parent
    sources = [here / driver, *(here.parents[1] / "replayer/play" / unit for unit in units)]
    words = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined"]
    words += ["-I", str(here.parents[1] / "replayer"), "-o", str(folder / "driver")]
    compile_c(*words, *sources)
    return folder / "driver"


@functools.cache
def _period() -> Bytes:
    with np.errstate(over="ignore"):
        n = np.arange(PERIOD_BYTES // 8, dtype=np.uint64) + np.uint64(1)
        value = n * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    return value.astype("<u8").view(np.uint8)


def pattern(offset_bytes: int, length_bytes: int) -> Bytes:
    """Return what the program must have written at a place, by the formula of INTERFACE.md."""
    first = offset_bytes % PERIOD_BYTES
    times = -(-(first + length_bytes) // PERIOD_BYTES)
    whole = _period() if times == 1 else np.tile(_period(), times)
    return whole[first : first + length_bytes]


def expected_content(records: Sequence[Record], size_bytes: int) -> Bytes:
    """Return a target's content after the records ran one by one on a file of zeroes."""
    content = np.zeros(size_bytes, np.uint8)
    for _, sector, _, sectors, operation, *_ in records:
        start, length = sector * 512, sectors * 512
        if operation == WRITE:
            content[start : start + length] = pattern(start, length)
        elif operation in (DISCARD, WRITE_ZEROES):
            content[start : start + length] = 0
    return content


def content(path: Path) -> Bytes:
    """Return a file's bytes."""
    return np.frombuffer(path.read_bytes(), np.uint8)


def compiled_shim(folder: Path) -> Path:
    """Compile the library that stands between the program and the C library."""
    library, source = folder / "shim.so", Path(__file__).with_name("shim.c")
    compile_c("-shared", "-fPIC", "-o", library, source, "-ldl")
    return library


def device(**changes: int | str) -> str:
    """Return the words of an emulated device that takes no time but for what is given."""
    quick: dict[str, int | str] = {}
    quick |= dict.fromkeys(("read_setup_ns", "write_setup_ns", "flush_ns", "fua_ns"), 0)
    quick |= dict.fromkeys(("read_bytes_s", "write_bytes_s"), 10**12)
    return ",".join(f"{key}={value}" for key, value in (quick | changes).items())


def stop_in_the_run(place: Path, seconds: float) -> threading.Thread:
    """Take the processor from a replay for a time once its first completions are written."""

    def stop() -> None:
        while True:
            for log in place.rglob("*.part"):
                with suppress(OSError, ValueError):
                    pid = int(log.name.rsplit(".", 2)[1])
                    if log.stat().st_size > 64:
                        os.kill(pid, signal.SIGSTOP)
                        time.sleep(seconds)
                        os.kill(pid, signal.SIGCONT)
                        return
            time.sleep(0.005)

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    return thread


def run_first() -> None:
    """Let the process run before all others, where that is allowed."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
