"""Captures, texts and binary traces read by tracekit, beside other readers of the same files."""

import functools
import json
import os
import struct
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import duckdb
import numpy as np

from tests.bench.harness import Bench, Used, files_open, needs, run, timed, tracekit
from tests.bench.inputs import (
    CAPTURE,
    CPUS,
    blkparse_text,
    repeated,
    write_csv,
    write_octf,
    write_perf,
    write_records,
)
from tracekit._native.decode import Decoder, detect_text
from tracekit._native.readers import OctfReader
from tracekit.formats import ORACLE_RECORD
from tracekit.readers.binary import V1, V2, OracleFormat, VscsiFormat
from tracekit.readers.formats import ALIBABA
from tracekit.readers.reading import blocks_of, whole_lines, whole_records
from tracekit.readers.text import BadLines


def bench_decode(out: Bench, *, records: int = 10_000_000, rounds: int = 3) -> None:
    """Parse the sample capture, repeated with times and numbers that go on, one plain file a CPU.

    `blkparse` prints its default text to /dev/null; `tracekit parse` pairs the events and writes
    Parquet.
    """
    needs("blkparse", "blktrace")
    capture, count = repeated(out, records)
    trace = out.scratch / "trace"
    ways = {
        "blkparse": lambda: run(["blkparse", "-i", CAPTURE], cwd=capture),
        "tracekit parse": lambda: tracekit("parse", capture, "-o", trace, "--force"),
    }
    rates = {name: lambda way=way: count / way().wall_s / 1e6 for name, way in ways.items()}
    out.compare("wall time", rates, rounds=rounds, unit="M records/s")
    parsed = json.loads((trace / "trace.json").read_text())["counts"]["records"]
    if parsed != count:
        raise SystemExit(f"{parsed} of {count} records were parsed")


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


SAME_TABLE = """
import sys, duckdb
kinds = {
    "bigint": "getrq_ns insert_ns merge_ns issue_ns transfer_ns complete_ns merged_into",
    "varchar": "process partition cgroup", "int": "pid",
}
unknown = [f'null::{kind} as "{name}"' for kind, names in kinds.items() for name in names.split()]
same = [f"false as is_{flag}" for flag in ("sync", "meta", "fua", "preflush", "readahead")]
same += [f"0::int as {name}" for name in ("cpu", "error", "requeue_count", "split_count")]
columns = {"d": "VARCHAR", "o": "VARCHAR", "p": "BIGINT", "n": "BIGINT", "t": "BIGINT"}
duckdb.execute("set threads = 2")
duckdb.execute(f'''copy (
    select row_number() over () - 1 as request_id, (t - 1577808144360767) * 1000 as queue_ns,
        d as device, p // 512 as sector, n as length_bytes, 1::int as depth, 'unknown' as role,
        if(o = 'R', 'read', 'write') as operation, {", ".join(unknown + same)}
    from read_csv('{sys.argv[1]}', header = false, columns = {columns})
) to '{sys.argv[2]}' (format parquet, compression zstd, compression_level 1)''')
"""
"""DuckDB alone writes the table of the CSV, in the order of its lines."""


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


def bench_texts(out: Bench, *, lines: int = 5_000_000, rounds: int = 3) -> None:
    """Import the repeated sample as blkparse prints it, a recorded text of perf, and a CSV.

    Each is read into columns by one core (CPU time), imported by `tracekit import` (wall time),
    and read by a Python loop and, the CSV, by DuckDB's reader on one thread (CPU time). In the end
    the command and DuckDB on two threads write the table of the CSV, starts included (wall time).
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
    same, made = out.scratch / "same.parquet", out.scratch / "trace" / "requests.parquet"
    ways = {
        "tracekit import": lambda: imported(out, csv),
        "DuckDB, the same table": lambda: run([sys.executable, "-c", SAME_TABLE, csv, same]),
    }
    rates = {name: lambda way=way: counted(csv) / way().wall_s / 1e6 for name, way in ways.items()}
    out.compare("csv to Parquet, two threads", rates, rounds=rounds, unit="M lines/s")
    sizes = {"tracekit_mib": made.stat().st_size / 2**20, "duckdb_mib": same.stat().st_size / 2**20}
    out.row("csv to Parquet", **sizes)


Kind = np.dtype[np.void]
LETTERS = {"<u2": "H", "<u4": "I", "<u8": "Q", "<i8": "q"}
FORMS: tuple[tuple[VscsiFormat | OracleFormat, Kind], ...] = (
    (VscsiFormat(1), np.dtype(V1)),
    (VscsiFormat(2), np.dtype(V2)),
    (OracleFormat(), ORACLE_RECORD),
)
RECORDS_SHARE = 20
"""The Python loops read the first records only, one of so many."""


def decode_blktrace(folder: Path) -> None:
    paths = sorted(folder.glob(f"{CAPTURE}.blktrace.*"))
    with files_open(paths) as fds, Decoder(fds) as decoder:
        for _ in decoder.batches():
            pass


def decode_octf(folder: Path) -> None:
    paths = sorted(folder.glob("octf.trace.*"))
    with files_open(paths) as fds, OctfReader(fds, b"") as reader:
        while len(reader.read()["time"]):
            pass


def decode_fixed(path: Path, form: VscsiFormat | OracleFormat) -> None:
    with files_open([path]) as fds:
        for block in blocks_of(fds[0], b"", whole=whole_records(form.record_bytes)):
            form.decode(block)


def unpack(path: Path, kind: Kind) -> None:
    """Unpack the first records, as a short script would."""
    record = struct.Struct("<" + "".join(LETTERS[kind[name].str] for name in kind.names or ()))
    columns: list[list[int]] = [[] for _ in kind.names or ()]
    count = path.stat().st_size // record.size // RECORDS_SHARE
    for values in islice(record.iter_unpack(path.read_bytes()), count):
        for column, value in zip(columns, values, strict=True):
            column.append(value)


def unpack_octf(folder: Path, messages: int) -> None:
    """Decode the fields of so many messages of the first file, and no more."""
    data, at = (folder / "octf.trace.0").read_bytes(), 0
    for _ in range(messages):
        size, at = _varint(data, at)
        _fields(data, at, at + size)
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes, at: int, end: int) -> dict[int, object]:
    found: dict[int, object] = {}
    while at < end:
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7:
            found[tag >> 3] = _fields(data, at, at + value)
            at += value
        else:
            found[tag >> 3] = value
    return found


def bench_binaries(out: Bench, *, records: int = 10_000_000, rounds: int = 3) -> None:
    """Import the repeated sample, OCTF messages, and records of vscsi and oracleGeneral.

    blktrace's events are paired, OCTF's requests and completions joined; the others have a request
    a record. "Into columns" and the Python loops, which only unpack, are CPU time of one core; the
    command's time is wall time, start included.
    """
    capture, count = repeated(out, records)
    loops: Loops = {"into columns": (decode_blktrace, 1)}
    read_beside(out, "blktrace", capture, loops, count=count, rounds=rounds)
    requests = records // 4
    octf = out.input(f"octf-{requests}", partial(write_octf, requests=requests))
    share = CPUS * RECORDS_SHARE
    loops = {"into columns": (decode_octf, 1)}
    loops["Python loop"] = partial(unpack_octf, messages=requests * 2 // share), share
    read_beside(out, "octf", octf, loops, count=requests * 2, rounds=rounds)
    for form, kind in FORMS:
        write = partial(write_records, kind=kind, count=records)
        path = out.input(f"{form.name}-{records}.bin", write)
        loops = {"into columns": (partial(decode_fixed, form=form), 1)}
        loops["Python loop"] = partial(unpack, kind=kind), RECORDS_SHARE
        read_beside(out, form.name, path, loops, count=records, rounds=rounds)
