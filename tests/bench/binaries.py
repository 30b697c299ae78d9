"""The import of binary traces: into columns by one core, and the whole command to Parquet."""

import struct
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from tests.bench.harness import Bench, files_open
from tests.bench.inputs import CAPTURE, CPUS, repeated, write_octf, write_records
from tests.bench.texts import Loops, read_beside
from tracekit._native.decode import Decoder
from tracekit._native.octf import OctfReader
from tracekit.formats import ORACLE_RECORD
from tracekit.readers.binary import V1, V2, OracleFormat, VscsiFormat
from tracekit.readers.blocks import blocks_of, whole_records

Kind = np.dtype[np.void]
LETTERS = {"<u2": "H", "<u4": "I", "<u8": "Q", "<i8": "q"}
FORMS: tuple[tuple[VscsiFormat | OracleFormat, Kind], ...] = (
    (VscsiFormat(1), np.dtype(V1)),
    (VscsiFormat(2), np.dtype(V2)),
    (OracleFormat(), ORACLE_RECORD),
)
PYTHON_SHARE = 20
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
    count = path.stat().st_size // record.size // PYTHON_SHARE
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


def bench(out: Bench, *, records: int = 10_000_000, rounds: int = 3) -> None:
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
    share = CPUS * PYTHON_SHARE
    loops = {"into columns": (decode_octf, 1)}
    loops["Python loop"] = partial(unpack_octf, messages=requests * 2 // share), share
    read_beside(out, "octf", octf, loops, count=requests * 2, rounds=rounds)
    for form, kind in FORMS:
        write = partial(write_records, kind=kind, count=records)
        path = out.input(f"{form.name}-{records}.bin", write)
        loops = {"into columns": (partial(decode_fixed, form=form), 1)}
        loops["Python loop"] = partial(unpack, kind=kind), PYTHON_SHARE
        read_beside(out, form.name, path, loops, count=records, rounds=rounds)
