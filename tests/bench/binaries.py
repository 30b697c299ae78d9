"""Time the import of binary traces: into columns by one core, and the whole command to Parquet.

blktrace is the sample capture repeated, and its columns are requests: events are paired. Of OCTF
requests and completions are joined. vscsi and oracleGeneral have a request a record. "Into columns"
is CPU time of one core, the command's time is all of it, start included. Beside them a Python loop
that unpacks the records of the fixed formats, one after the other. The best of each counts.

    python -m tests.bench.binaries FOLDER --records 10000000
"""

from __future__ import annotations

import argparse
import os
import struct
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.decode import NAME, repeat_sample
from tests.bench.octf import write_trace
from tests.bench.texts import peak_mib, processor_s, run_import, wall_s
from tracekit._native.decode import Decoder
from tracekit._native.octf import OctfReader
from tracekit.formats import ORACLE_RECORD
from tracekit.readers.binary import V1, V2, OracleFormat, VscsiFormat
from tracekit.readers.blocks import blocks_of, whole_records

Fixed = VscsiFormat | OracleFormat
PYTHON_SHARE = 20
"""The Python loop reads the first records only, one of so many."""
CHUNK = 1_000_000


def write_records(path: Path, kind: np.dtype[np.void], count: int) -> Path:
    """Write records of random places and lengths; times go on by some microseconds."""
    random, now = np.random.default_rng(1), 0
    with path.open("wb") as out:
        for start in range(0, count, CHUNK):
            rows = min(CHUNK, count - start)
            records = np.zeros(rows, kind)
            times = now + np.cumsum(random.integers(0, 200, rows))
            now = int(times[-1])
            filled: dict[str, Any] = {
                "time": times // 1_000_000 if kind == ORACLE_RECORD else times,
                "length": 4096,
                "size": 4096,
                "command": np.where(random.random(rows) < 0.5, 0x28, 0x2A),
                "version": 0x100 if kind == np.dtype(V1) else 0x200,
                "sector": random.integers(0, 1 << 26, rows) * 8,
                "object": random.integers(0, 1 << 26, rows) * 8,
                "response": random.integers(50, 5000, rows),
                "next": -1,
            }
            for name in kind.names or ():
                records[name] = filled.get(name, 0)
            out.write(records.tobytes())
    return path


def decode_fixed(form: Fixed) -> Callable[[Path], None]:
    """Return what reads a file of fixed records into columns."""

    def read(path: Path) -> None:
        fd = os.open(path, os.O_RDONLY)
        for block in blocks_of(fd, b"", whole=whole_records(form.record_bytes)):
            form.decode(block)
        os.close(fd)

    return read


def unpack(kind: np.dtype[np.void]) -> Callable[[Path], None]:
    """Return a loop that unpacks the first records, as a short script would."""
    letters = {"<u2": "H", "<u4": "I", "<u8": "Q", "<i8": "q"}
    record = struct.Struct("<" + "".join(letters[kind[name].str] for name in kind.names or ()))

    def loop(path: Path) -> None:
        columns: list[list[int]] = [[] for _ in kind.names or ()]
        count = path.stat().st_size // record.size // PYTHON_SHARE
        for values in islice(record.iter_unpack(path.read_bytes()), count):
            for column, value in zip(columns, values, strict=True):
                column.append(value)

    return loop


def decode_blktrace(folder: Path) -> None:
    """Read a capture into columns of requests."""
    fds = [os.open(path, os.O_RDONLY) for path in sorted(folder.glob(f"{NAME}.blktrace.*"))]
    with Decoder(fds) as decoder:
        for _ in decoder.batches():
            pass
    for fd in fds:
        os.close(fd)


def decode_octf(folder: Path) -> None:
    """Read a trace into columns of requests."""
    fds = [os.open(path, os.O_RDONLY) for path in sorted(folder.glob("octf.trace.*"))]
    with OctfReader(fds, b"") as reader:
        while len(reader.read()["time"]):
            pass
    for fd in fds:
        os.close(fd)


def main() -> None:
    """Generate, time and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    folder, count = arguments.folder, arguments.records
    for name in ("capture", "octf"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    records = repeat_sample(folder / "capture", count)
    write_trace(folder / "octf", count // 4)
    cases: list[tuple[str, Path, int, Callable[[Path], None], Callable[[Path], None] | None]] = [
        ("blktrace", folder / "capture", records, decode_blktrace, None),
        ("octf", folder / "octf", count // 4 * 2, decode_octf, None),
    ]
    fixed: list[tuple[Fixed, np.dtype[np.void]]] = [
        *(
            (VscsiFormat(1), np.dtype(V1)),
            (VscsiFormat(2), np.dtype(V2)),
            (OracleFormat(), ORACLE_RECORD),
        ),
    ]
    for form, kind in fixed:
        path = write_records(folder / f"{form.name}.bin", kind, count)
        cases.append((form.name, path, count, decode_fixed(form), unpack(kind)))
    for name, path, rows, decode, loop in cases:
        tell(name, "into columns, one core", rows, best(processor_s, decode, path, arguments.runs))
        tell(name, "tracekit, to Parquet", rows, best(wall_s, run_import, path, arguments.runs))
        if loop is not None:
            taken = best(processor_s, loop, path, arguments.runs)
            tell(name, "Python loop", rows // PYTHON_SHARE, taken)
        print(f"{name:<15}{'peak of the command':<24}{peak_mib(path):8.0f} MiB", flush=True)


def best(
    clock: Callable[[Callable[[Path], None], Path], float],
    function: Callable[[Path], None],
    path: Path,
    runs: int,
) -> float:
    """Return the least seconds of several runs."""
    return min(clock(function, path) for _ in range(runs))


def tell(name: str, what: str, records: int, seconds: float) -> None:
    """Print a rate."""
    print(f"{name:<15}{what:<24}{records / seconds / 1e6:8.2f} M records/s", flush=True)


if __name__ == "__main__":
    main()
