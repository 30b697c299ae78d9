"""What capturing file operations costs, and how fast strace's text becomes rows.

python tests/bench/file_capture.py FOLDER [--lines 2000000]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

from tracekit._native.calls import Calls, Start
from tracekit.capture.files import decode

LINE = re.compile(
    rb"^(\d+) +(\d+\.\d+) (\w+)\((\d+)<([^>]*)>, (?:\"\"\.\.\., )?(.*)\) = (-?\d+).* <(\d+\.\d+)>$"
)
PROGRAMS = {
    "dd, 512 B at a time": ["dd", "if=/dev/zero", "of=out", "bs=512", "count=20000"],
    "dd, 1 MiB at a time": ["dd", "if=/dev/zero", "of=out", "bs=1M", "count=512"],
    "sqlite3, 20,000 rows in one transaction": [
        "sqlite3",
        "db",
        "drop table if exists t; create table t(a, b); insert into t select value,"
        " hex(randomblob(200)) from generate_series(1, 20000); create index i on t(b); vacuum;",
    ],
    "tar of the Python library": ["tar", "cf", "out.tar", os.path.dirname(os.__file__)],
}


def overhead(folder: Path) -> None:
    """Print what each program takes without and with the capture."""
    for name, program in PROGRAMS.items():
        # What is read for the first time would make the untraced run the slower one.
        subprocess.run(program, cwd=folder, capture_output=True, check=True)
        trace = folder / "trace"
        command = ["capture", "--files", "--untraced", "--json", "--force", "-o", str(trace)]
        ran = subprocess.run(
            [sys.executable, "-m", "tracekit", *command, "--", *program],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(ran.stdout)
        cost, calls = found["capture"]["overhead"], found["counts"]["calls"]
        print(
            f"{name}: {calls:,} calls, untraced {cost['untraced_ns'] / 1e9:.2f} s, traced"
            f" {cost['traced_ns'] / 1e9:.2f} s, {cost['ratio']:.1f} times;"
            f" {(cost['traced_ns'] - cost['untraced_ns']) / 1e3 / calls:.1f} us a call"
        )


def text_of(file: Path, lines: int) -> None:
    """Write lines as strace prints them, of four threads that read and write by turns."""
    with file.open("wb") as out:
        for fd in range(3, 7):
            opened = f'openat(-100</w>, "f{fd}", 0x42, 0644) = {fd}</w/f{fd}> <0.000012345>\n'
            out.write(f"100 1800000000.{fd:09} {opened}".encode())
        for first in range(0, lines, 1000):
            part = []
            for number in range(first, first + 1000):
                fd = 3 + number % 4
                name = ("write", "read", "fsync")[number % 3]
                rest = "" if name == "fsync" else ', ""..., 4096'
                result = 0 if name == "fsync" else 4096
                seconds, ns = divmod((number + 10) * 1000, 10**9)
                part.append(
                    f"100 {1800000000 + seconds}.{ns:09} {name}({fd}</w/f{fd}>{rest})"
                    f" = {result} <0.000000900>\n"
                )
            out.write("".join(part).encode())


def peer(file: Path) -> float:
    """Return how long a loop of Python takes to match the lines with one regular expression."""
    began_s = time.perf_counter()
    found = 0
    with file.open("rb") as lines:
        for line in lines:
            found += LINE.match(line.rstrip()) is not None
    assert found
    return time.perf_counter() - began_s


def speed(folder: Path, lines: int) -> None:
    """Print lines a second: rows only, with both tables, and of a loop in Python."""
    file = folder / "text"
    text_of(file, lines)
    fd = os.open(file, os.O_RDONLY)
    began_s = time.perf_counter()
    with Calls(fd, Start("/w")) as calls:
        rows = sum(len(batch) for batch in calls.batches())
    native_s = time.perf_counter() - began_s
    os.close(fd)
    assert rows == lines + 4
    began_s = time.perf_counter()
    decode(file, folder, start=Start("/w"))
    whole_s = time.perf_counter() - began_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"rows: {lines / native_s / 1e6:.2f} M lines/s, with tables {lines / whole_s / 1e6:.2f}")
    print(f"peak memory {peak_mib:.0f} MiB; a loop in Python {lines / peer(file) / 1e6:.2f}")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, default=2_000_000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    speed(given.folder, given.lines)
    overhead(given.folder)


if __name__ == "__main__":
    main()
