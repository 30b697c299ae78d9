"""Time the import of texts beside other readers of the same files, in one run.

The sample capture is repeated and printed by blkparse, a recorded text of perf is repeated, and a
CSV in Alibaba's columns is made. Each is read into columns by one core (CPU time), imported by
`tracekit import` (all of it, start included), and read by a Python loop and, the CSV, by DuckDB's
own reader on one thread. Runs alternate and the best of each counts.

    python -m tests.bench.texts FOLDER --lines 5000000
"""

from __future__ import annotations

import argparse
import functools
import lzma
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from tests.bench.decode import NAME, ROOT, repeat_sample
from tracekit._native.decode import Decoder, detect_text
from tracekit.readers.blocks import blocks_of, whole_lines
from tracekit.readers.formats import ALIBABA
from tracekit.readers.text import BadLines

RECORDED = ROOT / "tests" / "import_" / "recorded" / "perf_ns.txt.xz"
TIME = re.compile(r"^(.*\] )(\d+)(\.\d+:.*\n)$")
PYTHON_SHARE = 10
"""A Python loop reads the first lines only, one of so many."""


def print_blkparse(folder: Path, lines: int) -> tuple[Path, float]:
    """Write what blkparse prints of a long capture; return it and how long blkparse took."""
    capture = folder / "capture"
    repeat_sample(capture, lines)
    text = folder / "blkparse.txt"
    began = time.monotonic()
    with text.open("wb") as out:
        subprocess.run(["blkparse", "-i", NAME], cwd=capture, stdout=out, check=True)
    return text, time.monotonic() - began


def repeat_perf(folder: Path, lines: int) -> Path:
    """Write the recorded text again and again, with times that go on."""
    found = map(TIME.match, lzma.decompress(RECORDED.read_bytes()).decode().splitlines(True))
    parts = [match.groups() for match in found if match]
    text = folder / "perf.txt"
    with text.open("w") as out:
        for number in range(lines // len(parts) + 1):
            out.writelines(f"{a}{int(seconds) + 2 * number}{b}" for a, seconds, b in parts)
    return text


def make_csv(folder: Path, lines: int) -> Path:
    """Write requests of 50 devices in Alibaba's columns."""
    pick = random.Random(1)  # noqa: S311 - a fixed sequence, no secret
    text, now = folder / "alibaba.csv", 1_577_808_144_360_767
    with text.open("w") as out:
        for _ in range(lines):
            now += pick.randrange(200)
            place = pick.randrange(1 << 26) * 4096
            out.write(f"{pick.randrange(50)},{pick.choice('RW')},{place},4096,{now}\n")
    return text


def decode_events(path: Path) -> None:
    """Read a text of events into columns of requests."""
    fd = os.open(path, os.O_RDONLY)
    head = os.read(fd, 1 << 16)
    with Decoder([fd]) as decoder:
        decoder.set_text(detect_text(head), head)
        for _ in decoder.batches():
            pass
    os.close(fd)


def decode_csv(path: Path) -> None:
    """Read the CSV into columns."""
    lines, fd = BadLines(), os.open(path, os.O_RDONLY)
    for block in blocks_of(fd, b"", whole=whole_lines):
        ALIBABA.decode(block, lines)
    os.close(fd)


def python_loop(path: Path) -> None:
    """Read the first lines into lists, as a short script would."""
    columns: list[list[str]] = [[] for _ in range(6)]
    with path.open() as file:
        for line in islice(file, counted(path) // PYTHON_SHARE):
            for column, word in zip(columns, line.replace(",", " ").split(), strict=False):
                column.append(word)


@functools.cache
def counted(path: Path) -> int:
    """Return how many lines the file has."""
    return path.read_bytes().count(b"\n")


def duckdb_reader(path: Path) -> None:
    """Read the CSV by DuckDB into a table, on one thread."""
    import duckdb

    database = duckdb.connect()
    database.execute("set threads = 1")
    names = "{'d': 'VARCHAR', 'o': 'VARCHAR', 'p': 'BIGINT', 'n': 'BIGINT', 't': 'BIGINT'}"
    database.execute(f"create table t as from read_csv('{path}', header=false, columns={names})")


def run_import(path: Path) -> None:
    """Run the command, whose modules are compiled once and kept, as Python does if nobody minds."""
    environment = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(import_command(path), check=True, capture_output=True, env=environment)


def import_processor_s(path: Path) -> float:
    """Return the CPU seconds of the command, of all its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_import(path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def import_command(path: Path) -> list[str]:
    """Return the command that imports the file, or parses the capture."""
    program = str(Path(sysconfig.get_path("scripts")) / "tracekit")
    verb = "parse" if path.is_dir() and list(path.glob("*.blktrace.*")) else "import"
    return [program, verb, str(path), "-o", str(path.with_suffix(".trace")), "--force"]


def peak_mib(path: Path) -> float:
    """Return the peak memory of an import; a small process starts it, whose own does not count."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], capture_output=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", code, *import_command(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def processor_s(function: Callable[[Path], None], path: Path) -> float:
    """Return the CPU seconds of a call."""
    began = time.process_time()
    function(path)
    return time.process_time() - began


def wall_s(function: Callable[[Path], None], path: Path) -> float:
    """Return the seconds of a call."""
    began = time.monotonic()
    function(path)
    return time.monotonic() - began


def main() -> None:
    """Generate, time and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if not shutil.which("blkparse"):
        sys.exit("blkparse is not installed (Debian: blktrace)")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    blkparse, printed_s = print_blkparse(arguments.folder, arguments.lines)
    perf = repeat_perf(arguments.folder, arguments.lines)
    csv = make_csv(arguments.folder, arguments.lines)
    cases: list[tuple[str, str, Callable[[], float], Path, int]] = []
    for name, decode, path in (
        ("blkparse", decode_events, blkparse),
        ("perf", decode_events, perf),
        ("csv", decode_csv, csv),
    ):
        cases += [
            (name, "into columns", functools.partial(processor_s, decode, path), path, 1),
            (name, "tracekit import", functools.partial(wall_s, run_import, path), path, 1),
            (name, "its processor time", functools.partial(import_processor_s, path), path, 1),
            (name, "Python loop", functools.partial(processor_s, python_loop, path), path,
             PYTHON_SHARE),
        ]  # fmt: skip
    duckdb = functools.partial(processor_s, duckdb_reader, csv)
    cases.append(("csv", "DuckDB, one thread", duckdb, csv, 1))
    rate = counted(blkparse) / printed_s / 1e6
    print(f"{'blkparse':<10}{'printed by blkparse':<22}{rate:8.2f} M lines/s")
    for name, reader, measured_s, path, share in cases:
        best = min(measured_s() for _ in range(arguments.runs))
        rate = counted(path) / share / best / 1e6
        print(f"{name:<10}{reader:<22}{rate:8.2f} M lines/s")
    for path in (blkparse, perf, csv):
        print(f"{path.stem:<10}{'peak of an import':<22}{peak_mib(path):8.0f} MiB")


if __name__ == "__main__":
    main()
