"""Writes and reads the block plan of `replayer/INTERFACE.md`."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from tracekit._native.workload import tally
from tracekit.errors import InputError
from tracekit.plans import Records, bytes_of, layout, write_header
from tracekit.safe_open import open_regular
from tracekit.units import SECTOR_BYTES

MAGIC = b"TKPLAN\r\n"
VERSION = 3
PLAIN_VERSION = 2
"""Of a plan without operations on zones, whose table of targets has no place for them."""
STRIDE = 4096
MAX_TRANSFER_BYTES = 64 << 20
AFTER_MAX = 1 << 20
TARGETS_MAX = 64
CHUNK_RECORDS = 64 * STRIDE

OPERATIONS = (
    *("read", "write", "flush", "discard", "write_zeroes", "zone_append"),
    *("zone_reset", "zone_reset_all", "zone_open", "zone_close", "zone_finish"),
)
READ, WRITE, FLUSH, DISCARD, WRITE_ZEROES, ZONE_APPEND, ZONE_RESET = range(7)
ZONE_RESET_ALL, ZONE_OPEN, ZONE_CLOSE, ZONE_FINISH = range(7, 11)
PLAIN = ZONE_APPEND
"""Operations of a plain plan are below it."""
FUA, PREFLUSH, SYNC, META, READAHEAD = 1, 2, 4, 8, 16
FLAG_BITS = {
    "is_fua": FUA,
    "is_preflush": PREFLUSH,
    "is_sync": SYNC,
    "is_meta": META,
    "is_readahead": READAHEAD,
}
"""Columns of requests, and the bit of a record's flags that each becomes."""
LEVELS = ("queued", "issued")

HEADER = layout(
    "S8 magic, u4 version, u4 header_bytes, u4 record_bytes, u4 sector_bytes, u8 time_unit_ns,"
    " u8 record_count, u8 duration_ns, u8 records_offset, u8 index_offset, u4 index_stride,"
    " u4 index_bytes, u8 target_offset, u4 target_count, u4 target_bytes, u8 extent_offset,"
    " u4 extent_count, u4 extent_bytes, u8 max_transfer_bytes, V32 trace_sha256, u4 level,"
    " u4 tables_crc32, u4 index_crc32, V32 reserved, u4 header_crc32"
)
RECORD = layout(
    "u8 intended_ns, u8 sector, u8 request_id, u4 length_sectors, u1 operation, u1 flags,"
    " u2 target, u8 think_ns, u4 after, u4 reserved"
)
INDEX = layout("u8 first_ns, u4 crc32, u4 count")
TARGET = layout("S32 label, u8 needed_bytes, 11u8 counts, 11u8 bytes, u8 address_bits")
PLAIN_TARGET = layout("S32 label, u8 needed_bytes, 5u8 counts, 5u8 bytes, u8 address_bits")
EXTENT = layout(
    "S32 device, u8 source_sector, u8 sectors, u8 target_sector, u4 target, u4 reserved"
)


@dataclass(frozen=True)
class Extent:
    """A run of sectors of a traced device and where it lies on a target."""

    device: str
    source_sector: int
    sectors: int
    target: int
    target_sector: int


@dataclass(frozen=True)
class Tables:
    """What a plan says beside its records; `labels` and `needed_bytes` have one entry a target."""

    labels: tuple[str, ...]
    needed_bytes: tuple[int, ...]
    extents: tuple[Extent, ...]
    trace_sha256: bytes
    level: str


class PlanWriter:
    """Takes records in order of time, then tables; the file is complete after `finish`.

    While records are appended their `target` is the number of an extent and their sector that of
    the traced device: where an extent lies on its target is known only when all were seen.
    """

    def __init__(self, file: IO[bytes]) -> None:
        """Start a plan in an empty file that is open for reading and writing."""
        self._file = file
        self._file.write(bytes(HEADER.itemsize))
        self.count = 0

    def append(self, records: Records) -> None:
        """Append records whose `target` is an extent's number."""
        self._file.write(bytes_of(np.ascontiguousarray(records)))
        self.count += len(records)

    def finish(self, tables: Tables) -> dict[str, Any]:
        """Move the records to their targets, add index and tables; return totals by target."""
        totals, index = Totals(target_table(tables)), []
        for first in range(0, self.count, CHUNK_RECORDS):
            records = self._move(first, tables.extents)
            index.append(index_of(records))
            totals.add(records)
        return self._close(tables, index, totals)

    def _close(self, tables: Tables, blocks: list[Records], totals: Totals) -> dict[str, Any]:
        """Write what follows the records, and the header."""
        extents = [
            (e.device.encode()[:31], e.source_sector, e.sectors, e.target_sector, e.target, 0)
            for e in tables.extents
        ]
        index = np.concatenate([np.zeros(0, INDEX), *blocks])
        targets = as_plain(totals.targets)
        parts = {"index": index, "target": targets, "extent": np.array(extents, EXTENT)}
        contents = {name: part.tobytes() for name, part in parts.items()}
        values: dict[str, Any] = {
            "magic": MAGIC,
            "version": VERSION if targets.dtype == TARGET else PLAIN_VERSION,
            "header_bytes": HEADER.itemsize,
            "record_bytes": RECORD.itemsize,
            "sector_bytes": SECTOR_BYTES,
            "time_unit_ns": 1,
            "record_count": self.count,
            "records_offset": HEADER.itemsize,
            "index_stride": STRIDE,
            "target_count": len(totals.targets),
            "extent_count": len(extents),
            "tables_crc32": zlib.crc32(contents["target"] + contents["extent"]),
            "index_crc32": zlib.crc32(contents["index"]),
            "duration_ns": totals.duration_ns,
            "max_transfer_bytes": totals.max_transfer_bytes,
            "level": LEVELS.index(tables.level),
            "trace_sha256": tables.trace_sha256,
        }
        place = self._file.seek(0, 2)
        for name, part in parts.items():
            values |= {f"{name}_offset": place, f"{name}_bytes": part.itemsize}
            place += self._file.write(contents[name])
        write_header(self._file, HEADER, values=values)
        return {"duration_ns": totals.duration_ns, "operations": totals.operations}

    def _move(self, first: int, extents: tuple[Extent, ...]) -> Records:
        """Rewrite one chunk of records from extents to targets and return it."""
        place = HEADER.itemsize + first * RECORD.itemsize
        self._file.seek(place)
        count = min(CHUNK_RECORDS, self.count - first)
        records = np.frombuffer(bytearray(self._file.read(count * RECORD.itemsize)), RECORD)
        shift = np.array([e.target_sector - e.source_sector for e in extents], np.int64)
        target = np.array([e.target for e in extents], np.uint16)
        number = records["target"]
        # A flush has no place: its sector stays 0.
        moved = records["sector"] + shift[number].astype(np.uint64)
        records["sector"] = np.where(records["operation"] == FLUSH, 0, moved)
        records["target"] = target[number]
        self._file.seek(place)
        self._file.write(bytes_of(records))
        return records


class Totals:
    """Sums over all records, by target and by operation."""

    def __init__(self, targets: Records) -> None:
        """Count into a table of targets."""
        self.targets = targets
        self.duration_ns = 0
        self._most_sectors = 0

    def add(self, records: Records) -> None:
        """Count records, at least one; raise TracekitError for a target that there is not."""
        whole = np.ascontiguousarray(records)
        self._most_sectors = tally(whole, self.targets, most_sectors=self._most_sectors)
        self.duration_ns = int(records["intended_ns"][-1])

    @property
    def max_transfer_bytes(self) -> int:
        """The longest read or write."""
        return self._most_sectors * SECTOR_BYTES

    @property
    def operations(self) -> dict[str, int]:
        """How many records each operation has."""
        counts = self.targets["counts"].sum(axis=0).tolist()
        named = dict(zip(OPERATIONS, counts, strict=True))
        return {name: n for name, n in named.items() if n or name in OPERATIONS[:PLAIN]}


def target_table(tables: Tables) -> Records:
    """Return the table of targets with nothing counted yet."""
    targets = np.zeros(len(tables.labels), TARGET)
    targets["label"] = [label.encode() for label in tables.labels]
    targets["needed_bytes"] = tables.needed_bytes
    return targets


def as_plain(targets: Records) -> Records:
    """Return the table of a plain plan, or the same one if a target has operations on zones."""
    if targets["counts"][:, PLAIN:].any():
        return targets
    plain = np.zeros(len(targets), PLAIN_TARGET)
    for name in PLAIN_TARGET.names or ():
        column = targets[name]
        plain[name] = column if column.ndim == 1 else column[:, :PLAIN]
    return plain


def index_of(records: Records) -> Records:
    """Return the index of records, whose first one begins a block."""
    blocks = [records[first : first + STRIDE] for first in range(0, len(records), STRIDE)]
    rows = [(one["intended_ns"][0], zlib.crc32(bytes_of(one)), len(one)) for one in blocks]
    return np.array(rows, INDEX)


def map_records(plan: Path) -> Records:
    """Return the records of a plan, mapped; InputError for a file that is not a whole plan."""
    return _mapped(plan, "record")


def map_targets(plan: Path) -> Records:
    """Return the table of targets of a plan, mapped, as `map_records`."""
    return _mapped(plan, "target")


def _mapped(plan: Path, part: str) -> Records:
    with os.fdopen(open_regular(plan), "rb") as file:
        header = _header(file, plan, part)
        kind = _kind_of(part, header)
        offset, count = (int(header[name]) for name in _place_of(part))
        return np.memmap(file, kind, "r", offset=offset, shape=(count,))


def trace_sha256(plan: Path) -> str:
    """Return the hash of the trace of which a plan was made; InputError as `map_records`."""
    with os.fdopen(open_regular(plan), "rb") as file:
        return bytes(_header(file, plan, "record")["trace_sha256"]).hex()


def _place_of(part: str) -> tuple[str, str]:
    """Return the fields of the header that say where a part is, and how many of it there are."""
    return "records_offset" if part == "record" else f"{part}_offset", f"{part}_count"


def _kind_of(part: str, header: Any) -> np.dtype[Any]:
    """Return the type of a part's entries in a plan of this version."""
    tables = {PLAIN_VERSION: PLAIN_TARGET, VERSION: TARGET}
    return RECORD if part == "record" else tables[int(header["version"])]


def _header(file: IO[bytes], plan: Path, part: str) -> Any:
    head = file.read(HEADER.itemsize)
    header = np.frombuffer(head.ljust(HEADER.itemsize, b"\0"), HEADER)[0]
    offset, count = (int(header[name]) for name in _place_of(part))
    is_whole = (
        header["magic"] == MAGIC
        and header["version"] in (PLAIN_VERSION, VERSION)
        and header["header_crc32"] == zlib.crc32(head[:-4])
        and offset + count * _kind_of(part, header).itemsize <= os.fstat(file.fileno()).st_size
    )
    if not is_whole:
        raise InputError(f"{plan} is no whole plan of this version", hint="replay again")
    return header


def open_new(path: Path) -> IO[bytes]:
    """Open an empty file for a plan."""
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    # Of a file that was truncated ext4 writes all out when it is closed, even if it was empty.
    if os.fstat(number).st_size:
        os.ftruncate(number, 0)
    return os.fdopen(number, "wb+")


class FinalPlanWriter(PlanWriter):
    """Takes records that already lie on their targets: one pass, and nothing is read again.

    All that is appended but the last is a multiple of STRIDE records.
    """

    def __init__(self, file: IO[bytes], tables: Tables) -> None:
        """Start a plan in an empty file; the tables are known."""
        super().__init__(file)
        self._tables = tables
        self._index: list[Records] = []
        self._totals = Totals(target_table(tables))

    def append(self, records: Records) -> None:
        """Append records whose `target` and `sector` are final."""
        for first in range(0, len(records), CHUNK_RECORDS):
            chunk = records[first : first + CHUNK_RECORDS]
            self._index.append(index_of(chunk))
            self._totals.add(chunk)
            super().append(chunk)

    def close(self) -> dict[str, Any]:
        """Add index and tables; return totals."""
        return self._close(self._tables, self._index, self._totals)
