"""Writes the file plan of `replayer/INTERFACE.md`, in bounded memory."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import accumulate
from typing import IO, Any

import numpy as np

from tracekit.errors import InputError
from tracekit.plans import Records, bytes_of, layout, write_header

KINDS = ("file", "directory")
NONE = 0xFFFFFFFF  # no file, other file, handle or record to wait for
MAX_NAME_BYTES = 255

FILE = layout(
    "u8 size_bytes, u8 name_offset, u4 name_bytes, u4 parent, u1 kind, u1 is_present, V6 reserved"
)


class FileTable:
    """The paths of a plan; numbers are given in the order of `add`, from 0."""

    def __init__(self) -> None:
        """Start without any path."""
        self._numbers: dict[str, int] = {}
        self._names: list[bytes] = []
        self._rows: list[tuple[int, int, int, int]] = []

    def __len__(self) -> int:
        """Return how many paths there are."""
        return len(self._rows)

    def add(self, path: str, *, kind: str = "file", size_bytes: int = 0, there: bool = True) -> int:
        """Add a path that is relative to the target directory and return its number.

        `there`: it exists before the first operation, a file with `size_bytes` bytes. Directories
        on the way that were not added before are added as such. Raises InputError for a path that
        leaves the target directory, came before, or lies below a file or a directory that is not
        there.
        """
        if path in self._numbers:
            raise InputError(f"the path {path!r} is in the plan twice")
        head, _, name = path.rpartition("/")
        parent = self._parent(head, path) if head or path.startswith("/") else NONE
        encoded = name.encode(errors="surrogateescape")
        if name in ("", ".", "..") or b"\0" in encoded or len(encoded) > MAX_NAME_BYTES:
            raise InputError(
                f"the path {path!r} cannot be in a plan: {name!r} is no name",
                hint="paths are relative to the target directory, without '.' and '..'",
            )
        if there and parent != NONE and not self._rows[parent][3]:
            raise InputError(f"the path {path!r} is there before the run, its directory is not")
        number = len(self._rows)
        self._numbers[path] = number
        self._names.append(encoded)
        self._rows.append((size_bytes, parent, KINDS.index(kind), int(there)))
        return number

    def number(self, path: str) -> int | None:
        """Return the number of a path, None when it was not added."""
        return self._numbers.get(path)

    def _parent(self, head: str, path: str) -> int:
        known = self._numbers.get(head)
        if known is None:
            known = self.add(head, kind="directory")
        if KINDS[self._rows[known][2]] != "directory":
            raise InputError(f"the path {path!r} lies below {head!r}, which is a file")
        return known

    def rows(self) -> tuple[tuple[int, int, int, int], ...]:
        """Return size in bytes, parent, kind and presence of each path."""
        return tuple(self._rows)

    def arrays(self) -> tuple[Records, bytes]:
        """Return the table as in the file, and the names one after the other."""
        offsets = accumulate(map(len, self._names), initial=0)
        rows = [
            (size_bytes, offset, len(name), parent, kind, there, b"")
            for (size_bytes, parent, kind, there), name, offset in zip(
                self._rows, self._names, offsets, strict=False
            )
        ]
        return np.array(rows, FILE), b"".join(self._names)


MAGIC = b"TKFILE\r\n"
VERSION = 1
MAX_TRANSFER_BYTES = 64 << 20
MAX_STEPS = 255
MOST_LINE_NS = 1_000_000  # of a line of slower memory
NO_STEP = 255
AT_POSITION = 0xFFFFFFFFFFFFFFFF  # offset of a transfer that goes on where the last one ended

OPERATIONS = (
    "open", "create", "close", "read", "write", "fsync", "fdatasync", "sync_file_range", "stat",
    "rename", "link", "unlink", "mkdir", "rmdir", "readdir", "truncate", "fallocate", "mmap",
    "munmap", "msync", "sync", "chmod", "chown", "utimens",
)  # fmt: skip
CODES = {name: code for code, name in enumerate(OPERATIONS)}
DIRECT, SYNC, APPEND, EXCLUSIVE, TRUNCATE, READ, WRITE, UNTIMED = (1 << bit for bit in range(8))
CONTINUES, DATA_SYNC, KEEP_SIZE, PUNCH_HOLE = (1 << bit for bit in range(8, 12))
REPEATABLE, HAS_FLOW, HAS_MEMORY = 1, 4, 8

HEADER = layout(
    "S8 magic, u4 version, u4 header_bytes, u4 record_bytes, u4 thread_bytes, u4 step_bytes,"
    " u4 file_bytes, u8 record_count, u8 duration_ns, u8 name_bytes, u4 file_count,"
    " u4 thread_count, u4 step_count, u4 handle_count, u8 max_transfer_bytes, u8 needed_bytes,"
    " u4 flags, u4 records_crc32, u4 tables_crc32, V12 reserved,"
    " u8 flow_bytes, V4 reserved_too, u4 header_crc32"
)
RECORD = layout(
    "u8 start_ns, u8 think_ns, u8 offset, u8 length, u8 operation_id, u4 file, u4 other,"
    " u4 handle, u4 after, u2 expected_error, u2 flags, u1 operation, u1 step, u2 reserved"
)
THREAD = layout("u8 first, u8 count, u4 pid, u4 tid")
STEP = layout("S32 label")
MEMORY = layout(
    "u4 line_bytes, V4 reserved, u4 read_latency_ns, u4 read_line_ps, u4 read_device_ps,"
    " u4 write_latency_ns, u4 write_line_ps, u4 write_device_ps"
)


def new_records(count: int) -> Records:
    """Return `count` records that name no file, other file, handle, predecessor and step."""
    records = np.zeros(count, RECORD)
    for name in ("file", "other", "handle", "after"):
        records[name] = NONE
    records["step"] = NO_STEP
    return records


@dataclass(frozen=True)
class Medium:
    """Memory that is slower than this machine's: `replayer/model/slow_memory.h` says how.

    A transfer takes the latency, the time of a line for each further line, and its turn of the
    device, of which all threads together get no more than one line in its time (0: no limit).
    """

    name: str
    """How a target names it."""
    read_latency_ns: int
    write_latency_ns: int
    line_bytes: int = 64
    read_line_ps: int = 0
    read_device_ps: int = 0
    write_line_ps: int = 0
    write_device_ps: int = 0

    def table(self) -> bytes:
        """Return the part of a plan."""
        rows = np.zeros(1, MEMORY)
        for name, value in vars(self).items():
            if name != "name":
                rows[name] = value
        return rows.tobytes()


@dataclass(frozen=True)
class Setting:
    """What a file plan says beside its records and paths.

    `needed_bytes` is the space that the run may take; None: each file at its longest.
    """

    steps: tuple[str, ...] = ()
    is_repeatable: bool = False
    needed_bytes: int | None = None
    medium: Medium | None = None
    flow: bytes = b""
    """What `flow_plan.flow_bytes` returned; then the records are the flow's operations, and the
    next two say what they need."""
    handles: int = 0
    transfer_bytes: int = 0


class FilePlanWriter:
    """Takes records thread by thread, then the table of files; `finish` makes the file complete."""

    def __init__(self, file: IO[bytes]) -> None:
        """Start a plan in an empty file that is open for writing."""
        self._file = file
        self._file.write(bytes(HEADER.itemsize))
        self._threads: list[list[int]] = []
        self._totals = _Totals()
        self.count = 0

    def thread(self, pid: int = 0, tid: int = 0) -> None:
        """Begin the next thread; both numbers are for the reader alone."""
        self._threads.append([self.count, 0, pid, tid])

    def append(self, records: Records) -> None:
        """Append records to the thread that was begun last, in its order."""
        data = bytes_of(np.ascontiguousarray(records))
        self._file.write(data)
        self._totals.add(records, zlib.crc32(data, self._totals.crc32))
        self._threads[-1][1] += len(records)
        self.count += len(records)

    def finish(self, files: FileTable, setting: Setting) -> dict[str, int]:
        """Add the tables and the header; return operations by name.

        Raises InputError for a plan without thread or with a step's label that does not fit.
        """
        table, names = files.arrays()
        threads = np.array([tuple(row) for row in self._threads], THREAD)
        if len(threads) == 0:
            raise InputError("a file plan needs at least one thread")
        steps = _step_table(setting.steps)
        memory = setting.medium.table() if setting.medium else b""
        parts = (threads.tobytes(), steps.tobytes(), table.tobytes(), memory, setting.flow, names)
        for part in parts:
            self._file.write(part)
        flags = (
            (REPEATABLE if setting.is_repeatable else 0)
            | (HAS_FLOW if setting.flow else 0)
            | (HAS_MEMORY if memory else 0)
        )
        needed_bytes = setting.needed_bytes
        if needed_bytes is None:
            needed_bytes = self._totals.needed_bytes(table)
        values = {
            "record_count": self.count,
            "name_bytes": len(names),
            "file_count": len(table),
            "thread_count": len(threads),
            "step_count": len(steps),
            "tables_crc32": zlib.crc32(b"".join(parts)),
            "flags": flags,
            "needed_bytes": needed_bytes,
            "flow_bytes": len(setting.flow),
        }
        totals = self._totals.values()
        totals["handle_count"] = max(totals["handle_count"], setting.handles)
        totals["max_transfer_bytes"] = max(totals["max_transfer_bytes"], setting.transfer_bytes)
        write_header(self._file, HEADER, values=totals | values)
        return self._totals.operations()


class _Totals:
    """What the header says of all records."""

    def __init__(self) -> None:
        self.crc32 = 0
        self._duration_ns = 0
        self._handles = 0
        self._transfer_bytes = 0
        self._counts = np.zeros(len(OPERATIONS), np.int64)
        self._ends = np.zeros(0, np.uint64)

    def add(self, records: Records, crc32: int) -> None:
        self.crc32 = crc32
        if len(records) == 0:
            return
        operation, handle = records["operation"], records["handle"]
        self._duration_ns = max(self._duration_ns, int(records["start_ns"].max()))
        numbers = handle[handle != NONE].astype(np.int64)
        self._handles = max(self._handles, int(numbers.max(initial=-1)) + 1)
        moves = np.isin(operation, (CODES["read"], CODES["write"]))
        longest = int(records["length"][moves].max(initial=0))
        self._transfer_bytes = max(self._transfer_bytes, longest)
        self._counts += np.bincount(operation, minlength=len(OPERATIONS))
        self._grow(records)

    def _grow(self, records: Records) -> None:
        growing = [CODES[name] for name in ("write", "truncate", "fallocate")]
        makes = np.isin(records["operation"], growing)
        chosen = records[makes & (records["file"] != NONE)]
        if len(chosen) == 0:
            return
        more = int(chosen["file"].max()) + 1 - len(self._ends)
        self._ends = np.pad(self._ends, (0, max(more, 0)))
        length, offset, file = chosen["length"], chosen["offset"], chosen["file"]
        placed = offset != AT_POSITION
        offset = np.where(chosen["operation"] == CODES["truncate"], 0, offset)
        np.maximum.at(self._ends, file[placed], offset[placed] + length[placed])
        np.add.at(self._ends, file[~placed], length[~placed])

    def needed_bytes(self, table: Records) -> int:
        ends = np.pad(self._ends, (0, max(len(table) - len(self._ends), 0)))
        there = np.where(table["is_present"] == 1, table["size_bytes"], 0)
        return int(np.maximum(ends[: len(table)], there).sum(dtype=np.uint64))

    def operations(self) -> dict[str, int]:
        counts = zip(OPERATIONS, self._counts.tolist(), strict=True)
        return {name: count for name, count in counts if count}

    def values(self) -> dict[str, Any]:
        """Return the header's values that records alone decide, and the sizes of its tables."""
        sizes = {"header": HEADER, "record": RECORD, "thread": THREAD, "step": STEP, "file": FILE}
        return {
            "magic": MAGIC,
            "version": VERSION,
            **{f"{name}_bytes": kind.itemsize for name, kind in sizes.items()},
            "duration_ns": self._duration_ns,
            "handle_count": self._handles,
            "max_transfer_bytes": self._transfer_bytes,
            "records_crc32": self.crc32,
        }


def _step_table(labels: tuple[str, ...]) -> Any:
    for label in labels:
        is_plain = label.isascii() and label.isprintable() and " " not in label
        if not is_plain or not 0 < len(label) < 32:
            raise InputError(f"the step {label!r} needs a label of 1 to 31 plain characters")
    if len(labels) > MAX_STEPS:
        raise InputError(f"a file plan has at most {MAX_STEPS} steps, not {len(labels)}")
    return np.array([(label.encode(),) for label in labels], STEP)
