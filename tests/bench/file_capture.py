"""What capturing file operations costs, and how fast strace's text becomes rows."""

import json
import os
import re
import subprocess
from functools import partial
from pathlib import Path

from tests.bench.harness import Bench, files_open, isolated, needs, timed, tracekit
from tracekit._native.calls import Calls, Start
from tracekit.capture.files import decode

LINE = re.compile(
    rb"^(\d+) +(\d+\.\d+) (\w+)\((\d+)<([^>]*)>, (?:\"\"\.\.\., )?(.*)\) = (-?\d+).* <(\d+\.\d+)>$"
)
SQL = (
    "drop table if exists t; create table t(a, b); insert into t select value,"
    " hex(randomblob(200)) from generate_series(1, 20000); create index i on t(b); vacuum;"
)
PROGRAMS = {
    "dd, 512 B at a time": ["dd", "if=/dev/zero", "of=out", "bs=512", "count=20000"],
    "dd, 1 MiB at a time": ["dd", "if=/dev/zero", "of=out", "bs=1M", "count=512"],
    "sqlite3, 20,000 rows in one transaction": ["sqlite3", "db", SQL],
    "tar of the Python library": ["tar", "cf", "out.tar", os.path.dirname(os.__file__)],
}


def overhead(out: Bench, name: str, program: list[str]) -> None:
    """Print what a program takes without and with the capture."""
    needs(program[0])
    # What is read for the first time would make the untraced run the slower one.
    subprocess.run(program, cwd=out.scratch, capture_output=True, check=True)
    words = [
        "capture",
        "--files",
        "--untraced",
        "--json",
        "--force",
        "-o",
        str(out.scratch / "trace"),
    ]
    here = Path.cwd()
    os.chdir(out.scratch)
    found = json.loads(tracekit(*words, "--", *program).output)
    os.chdir(here)
    cost, calls = found["capture"]["overhead"], found["counts"]["calls"]
    untraced_s, traced_s = cost["untraced_ns"] / 1e9, cost["traced_ns"] / 1e9
    more_us = (traced_s - untraced_s) * 1e6 / calls
    figures = {"untraced_s": untraced_s, "traced_s": traced_s, "ratio": cost["ratio"]}
    out.row(name, calls=calls, **figures, us_a_call=more_us)


def write_text(file: Path, lines: int) -> None:
    """Write lines as strace prints them, of four threads that read and write by turns."""
    with file.open("w") as out:
        for fd in range(3, 7):
            opened = f'openat(-100</w>, "f{fd}", 0x42, 0644) = {fd}</w/f{fd}> <0.000012345>'
            out.write(f"100 1800000000.{fd:09} {opened}\n")
        for number in range(lines):
            fd = 3 + number % 4
            name = ("write", "read", "fsync")[number % 3]
            rest, result = ("", 0) if name == "fsync" else (', ""..., 4096', 4096)
            seconds, ns = divmod((number + 10) * 1000, 10**9)
            call = f"{name}({fd}</w/f{fd}>{rest}) = {result} <0.000000900>"
            out.write(f"100 {1800000000 + seconds}.{ns:09} {call}\n")


def rows(file: Path, lines: int) -> None:
    """Decode without a table."""
    with files_open([file]) as fds, Calls(fds[0], Start("/w")) as calls:
        assert sum(len(batch) for batch in calls.batches()) == lines + 4


def tables(file: Path, folder: Path) -> None:
    decode(file, folder, start=Start("/w"))


def python_loop(file: Path) -> None:
    """Match the lines with one regular expression."""
    with file.open("rb") as lines:
        assert sum(LINE.match(line.rstrip()) is not None for line in lines)


def bench(out: Bench, *, lines: int = 2_000_000) -> None:
    """Decode a text of strace: rows only, with both tables, in a loop; then capture programs."""
    file = out.input(f"strace-{lines}.txt", partial(write_text, lines=lines))
    ways = {
        "rows": (rows, file, lines),
        "with tables": (tables, file, out.scratch),
        "Python loop": (python_loop, file),
    }
    rates = {
        name: lambda way=way: lines / timed(*way)[1].wall_s / 1e6 for name, way in ways.items()
    }
    out.compare("strace's text", rates, rounds=1, unit="M lines/s")
    out.row("with tables", peak_mib=isolated(tables, file, out.scratch)[1].peak_mib)
    needs("strace")
    for name, program in PROGRAMS.items():
        with out.part(name):
            overhead(out, name, program)
