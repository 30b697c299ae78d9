"""The import of texts beside other readers of the same files."""

import functools
import os
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import duckdb

from tests.bench.harness import Bench, Used, files_open, needs, run, timed, tracekit
from tests.bench.inputs import CAPTURE, blkparse_text, repeated, write_csv, write_perf
from tracekit._native.decode import Decoder, detect_text
from tracekit.readers.blocks import blocks_of, whole_lines
from tracekit.readers.formats import ALIBABA
from tracekit.readers.text import BadLines

Loops = dict[str, tuple[Callable[[Path], None], int]]
PYTHON_SHARE = 10
"""A Python loop reads the first lines only, one of so many."""


def decode_events(path: Path) -> None:
    """Read a text of events into columns of requests."""
    with files_open([path]) as fds, Decoder(fds) as decoder:
        head = os.read(fds[0], 1 << 16)
        decoder.set_text(detect_text(head), head)
        for _ in decoder.batches():
            pass


def decode_csv(path: Path) -> None:
    """Read the CSV into columns."""
    lines = BadLines()
    with files_open([path]) as fds:
        for block in blocks_of(fds[0], b"", whole=whole_lines):
            ALIBABA.decode(block, lines)


def python_loop(path: Path) -> None:
    """Read the first lines into lists, as a short script would."""
    columns: list[list[str]] = [[] for _ in range(6)]
    with path.open() as file:
        for line in islice(file, counted(path) // PYTHON_SHARE):
            for column, word in zip(columns, line.replace(",", " ").split(), strict=False):
                column.append(word)


def duckdb_reader(path: Path) -> None:
    """Read the CSV by DuckDB into a table, on one thread."""
    database = duckdb.connect()
    database.execute("set threads = 1")
    names = "{'d': 'VARCHAR', 'o': 'VARCHAR', 'p': 'BIGINT', 'n': 'BIGINT', 't': 'BIGINT'}"
    database.execute(f"create table t as from read_csv('{path}', header=false, columns={names})")


@functools.cache
def counted(path: Path) -> int:
    """Return how many lines the file has."""
    return path.read_bytes().count(b"\n")


def imported(out: Bench, path: Path) -> Used:
    """Run the command that imports the file or parses the capture."""
    verb = "parse" if path.is_dir() and list(path.glob("*.blktrace.*")) else "import"
    return tracekit(verb, path, "-o", out.scratch / "trace", "--force")


def read_beside(
    out: Bench, case: str, path: Path, loops: Loops,
    *, count: int, rounds: int,
) -> None:  # fmt: skip
    """Compare loops in this process (CPU time; one of so many records) and the command (wall)."""
    commands: list[Used] = []

    def command() -> float:
        commands.append(imported(out, path))
        return count / commands[-1].wall_s / 1e6

    def loop(function: Callable[[Path], None], share: int) -> float:
        return count / share / timed(function, path)[1].cpu_s / 1e6

    ways: dict[str, Callable[[], float]] = {"tracekit, whole command": command}
    ways |= {name: partial(loop, *found) for name, found in loops.items()}
    out.compare(case, ways, rounds=rounds, unit="M a second")
    cpu_s, peak_mib = min(u.cpu_s for u in commands), max(u.peak_mib for u in commands)
    out.row(f"{case}: whole command", cpu_s=cpu_s, peak_mib=peak_mib)


def bench(out: Bench, *, lines: int = 5_000_000, rounds: int = 3) -> None:
    """Import the repeated sample as blkparse prints it, a recorded text of perf, and a CSV.

    Each is read into columns by one core (CPU time), imported by `tracekit import` (wall time),
    and read by a Python loop and, the CSV, by DuckDB's reader on one thread (CPU time).
    """
    needs("blkparse", "blktrace")
    capture, _ = repeated(out, lines)
    blkparse = blkparse_text(out, lines)
    perf = out.input(f"perf-{lines}.txt", partial(write_perf, lines=lines))
    csv = out.input(f"alibaba-{lines}.csv", partial(write_csv, lines=lines))
    printed = run(["blkparse", "-i", CAPTURE], cwd=capture, to=out.scratch / "printed")
    out.row("printed by blkparse", **{"M a second": counted(blkparse) / printed.wall_s / 1e6})
    cases = (("blkparse", decode_events, blkparse), ("perf", decode_events, perf))
    for name, decode, path in (*cases, ("csv", decode_csv, csv)):
        loops: Loops = {"into columns": (decode, 1), "Python loop": (python_loop, PYTHON_SHARE)}
        if path is csv:
            loops["DuckDB, one thread"] = (duckdb_reader, 1)
        read_beside(out, name, path, loops, count=counted(path), rounds=rounds)
