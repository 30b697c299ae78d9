"""Traces for the benchmarks of reading: samples repeated, and records and texts made by a seed."""

import lzma
import random
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.bench.generate import write_capture
from tests.bench.harness import Bench, needs, run, tracekit
from tests.import_.octf import done, io
from tracekit.formats import ORACLE_RECORD
from tracekit.readers.binary import V1
from tracekit.tables import REQUESTS

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample-traces" / "oltp"
PERF = ROOT / "tests" / "import_" / "recorded" / "perf_ns.txt.xz"
HEADER_BYTES, PAYLOAD_SIZE_AT = 48, 46
CAPTURE = "repeated"
TIME = re.compile(r"^(.*\] )(\d+)(\.\d+:.*\n)$")
CPUS = 4
CHUNK = 1 << 20
Array = np.ndarray[Any, Any]


def offsets_of(data: bytes) -> Array:
    """Return where the records of a version 7 file begin."""
    offsets, at = [], 0
    while at < len(data):
        offsets.append(at)
        size = data[at + PAYLOAD_SIZE_AT : at + HEADER_BYTES]
        at += HEADER_BYTES + int.from_bytes(size, "little")
    return np.array(offsets)


def field_of(data: Array, offsets: Array, place: int, kind: str) -> tuple[Array, Array]:
    """Return a field of all records, and where its bytes are."""
    spots = offsets[:, None] + np.arange(place, place + np.dtype(kind).itemsize)
    return data[spots].view(kind), spots


def sample() -> dict[str, Array]:
    """Return the bytes of the sample capture by CPU."""
    return {
        path.stem.rpartition(".")[2]: np.frombuffer(lzma.decompress(path.read_bytes()), np.uint8)
        for path in sorted(SAMPLE.glob("*.xz"))
    }


def repeat_sample(folder: Path, rounds: int) -> None:
    """Write the sample capture again and again, a file a CPU; times and numbers go on."""
    files = sample()
    offsets = {cpu: offsets_of(data.tobytes()) for cpu, data in files.items()}
    times = {cpu: field_of(data, offsets[cpu], 8, "<u8")[0] for cpu, data in files.items()}
    first, last = min(t[0, 0] for t in times.values()), max(t[-1, 0] for t in times.values())
    folder.mkdir()
    for cpu, stored in files.items():
        sequences, sequence_at = field_of(stored, offsets[cpu], 4, "<u4")
        _, time_at = field_of(stored, offsets[cpu], 8, "<u8")
        with (folder / f"{CAPTURE}.blktrace.{cpu}").open("wb") as out:
            for number in range(rounds):
                data = stored.copy()
                moved = times[cpu] + np.uint64(number * (int(last - first) + 1_000_000))
                numbered = sequences + np.array(number * int(sequences[-1, 0]), "<u4")
                data[time_at], data[sequence_at] = moved.view(np.uint8), numbered.view(np.uint8)
                out.write(data.tobytes())
    shutil.copy(SAMPLE / "layout.json", folder)


def repeated(bench: Bench, records: int) -> tuple[Path, int]:
    """Return the sample capture repeated to about so many records, and how many they are."""
    once = sum(len(offsets_of(data.tobytes())) for data in sample().values())
    rounds = max(1, round(records / once))
    return bench.input(f"repeated-{rounds}", partial(repeat_sample, rounds=rounds)), rounds * once


def blkparse_text(bench: Bench, lines: int) -> Path:
    """Return what blkparse prints of that capture."""
    needs("blkparse", "blktrace")
    capture, _ = repeated(bench, lines)
    command = ["blkparse", "-i", CAPTURE]
    return bench.input(f"blkparse-{lines}.txt", lambda path: run(command, cwd=capture, to=path))


def write_perf(path: Path, lines: int) -> None:
    """Write a recorded text of perf again and again, with times that go on."""
    found = map(TIME.match, lzma.decompress(PERF.read_bytes()).decode().splitlines(True))
    parts = [match.groups() for match in found if match]
    with path.open("w") as out:
        for number in range(lines // len(parts) + 1):
            out.writelines(f"{a}{int(seconds) + 2 * number}{b}" for a, seconds, b in parts)


def write_csv(path: Path, lines: int) -> None:
    """Write requests of 50 devices in Alibaba's columns."""
    pick = random.Random(1)  # noqa: S311 - a fixed sequence, no secret
    now = 1_577_808_144_360_767
    with path.open("w") as out:
        for _ in range(lines):
            now += pick.randrange(200)
            place = pick.randrange(1 << 26) * 4096
            out.write(f"{pick.randrange(50)},{pick.choice('RW')},{place},4096,{now}\n")


def write_octf(folder: Path, requests: int) -> None:
    """Write files of four cpus; every request completes behind the next one's begin."""
    folder.mkdir()
    chance = random.Random(1)  # noqa: S311 - no secret
    files = [(folder / f"octf.trace.{cpu}").open("wb") for cpu in range(CPUS)]
    for number in range(1, requests + 1):
        at, lba = 10**12 + 1000 * number, chance.randrange(1 << 31)
        begun = io(at, 2 * number, number=number, lba=lba, device=8 << 20)
        ended = done(at + 1500, 2 * number + 1, number=number, lba=lba, device=8 << 20)
        files[number % CPUS].write(begun + ended)
    for file in files:
        file.close()


def write_records(path: Path, kind: np.dtype[np.void], count: int) -> None:
    """Write records of random places and lengths; times go on by some microseconds."""
    pick, now = np.random.default_rng(1), 0
    with path.open("wb") as out:
        for start in range(0, count, CHUNK):
            rows = min(CHUNK, count - start)
            times = now + np.cumsum(pick.integers(0, 200, rows))
            now = int(times[-1])
            values: dict[str, Any] = {
                "time": times // 1_000_000 if kind == ORACLE_RECORD else times,
                "length": 4096,
                "size": 4096,
                "command": np.where(pick.random(rows) < 0.5, 0x28, 0x2A),
                "version": 0x100 if kind == np.dtype(V1) else 0x200,
                "sector": pick.integers(0, 1 << 26, rows) * 8,
                "object": pick.integers(0, 1 << 26, rows) * 8,
                "response": pick.integers(50, 5000, rows),
                "next": -1,
            }
            records = np.zeros(rows, kind)
            for name in kind.names or ():
                records[name] = values.get(name, 0)
            out.write(records.tobytes())


def coded(codes: Array, names: tuple[str, ...]) -> Any:
    """Return a column of texts."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))


def filled(columns: dict[str, Any], schema: pa.Schema, fill: int = 0) -> Any:
    """Return a batch of the schema: the given columns; the rest null, or `fill`."""
    rows = len(next(iter(columns.values())))
    rest = pa.array(np.full(rows, fill))
    arrays = [
        pa.array(columns[field.name], None if pa.types.is_dictionary(field.type) else field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        if field.nullable
        else rest.cast(field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def request_batches(requests: int, chunk: Callable[[int, int], dict[str, Any]]) -> Iterator[Any]:
    """Yield rows of REQUESTS from what `chunk` gives for a first number and a count."""
    for first in range(0, requests, CHUNK):
        rows = min(CHUNK, requests - first)
        yield filled({"request_id": np.arange(first, first + rows)} | chunk(first, rows), REQUESTS)


def classified(bench: Bench, requests: int) -> Path:
    """Return a classified trace folder of a synthetic capture."""

    def make(path: Path) -> None:
        write_capture(bench.scratch / "capture", requests=requests, seed=1)
        tracekit("parse", bench.scratch / "capture", "-o", path)
        tracekit("classify", path)
        shutil.rmtree(bench.scratch / "capture")

    return bench.input(f"trace-{requests}", make)
