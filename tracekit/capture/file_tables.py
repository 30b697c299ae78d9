"""What strace wrote becomes the tables `file_operations` and `files`, in bounded memory."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.arrow import array_of, texts_of, words_of
from tracekit.errors import InputError
from tracekit.native.calls import APPEND, DIRECT, EXCLUSIVE, SYNC, TRUNCATE, Calls, Known, Start
from tracekit.schema.file_operations import (
    EVIDENCE,
    FILE_KINDS,
    FILE_OPERATION_NAMES,
    FILE_OPERATIONS,
    FILES,
)
from tracekit.store import write_batches, write_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

MOST_BAD_RATIO = 0.01
AFTER = EVIDENCE.index("after")
FLAGS = {
    "is_direct": DIRECT,
    "is_sync": SYNC,
    "is_append": APPEND,
    "is_truncate": TRUNCATE,
    "is_exclusive": EXCLUSIVE,
}
MAYBE = (
    *("end_ns", "file_id", "other_file_id", "handle"),
    *("offset_bytes", "length_bytes", "done_bytes"),
)
HASH_DIGITS = 16


@dataclass(frozen=True)
class Decoded:
    """What a text held."""

    stats: dict[str, int]
    left_out: dict[str, int]
    files: int
    """Rows of `files`."""
    sizes: dict[str, int]
    """Files by the evidence of their sizes."""
    operations: dict[str, int]
    """Rows by operation."""


class Hashes:
    """Names that nobody can read back: a keyed hash, whose key is thrown away."""

    def __init__(self) -> None:
        """Take a new key."""
        self._key = secrets.token_bytes(32)

    def name(self, text: bytes) -> str:
        """Return what stands for a name."""
        found = hashlib.blake2b(text, key=self._key, digest_size=HASH_DIGITS // 2)
        return found.hexdigest()

    def path(self, path: bytes) -> str:
        """Return what stands for a path: as many parts, equal ones for equal ones."""
        return "/".join(self.name(part) if part else "" for part in path.split(b"/"))


def decode(text: Path, folder: Path, *, start: Start, hashes: Hashes | None = None) -> Decoded:
    """Write both tables into `folder` and return what was found.

    Raise InputError when the text is not strace's, or more than 1 % of its lines is not.
    """
    fd = os.open(text, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found, known = _decode_once(fd, folder, start, hashes)
        if known:
            # Sizes that were known at the end only give appended bytes their places.
            os.lseek(fd, 0, os.SEEK_SET)
            start = replace(start, known=start.known + known)
            found, _ = _decode_once(fd, folder, start, hashes)
    finally:
        os.close(fd)
    return found


def _decode_once(
    fd: int, folder: Path, start: Start, hashes: Hashes | None
) -> tuple[Decoded, tuple[Known, ...]]:
    """Decode the whole text; return what was found, and sizes that would tell more."""
    import numpy as np

    operations: dict[str, int] = {}
    with Calls(fd, start) as calls:
        batches = _batches(calls, hashes, operations)
        write_batches(folder / "file_operations.parquet", batches, schema=FILE_OPERATIONS)
        stats = calls.stats()
        _refuse_bad(calls, stats)
        paths, facts = calls.files()
        left_out = calls.left_out()
    table = _files(paths, facts, hashes)
    write_table(folder / "files.parquet", table)
    counted = np.bincount(facts["evidence"][facts["is_used"] > 0], minlength=len(EVIDENCE))
    sizes = {name: int(count) for name, count in zip(EVIDENCE, counted, strict=True) if count}
    known: tuple[Known, ...] = ()
    if stats["unplaced"]:
        known = tuple(
            Known(path, int(fact["kind"]), int(fact["first_bytes"]), AFTER)
            for path, fact in zip(paths, facts, strict=True)
            if fact["evidence"] == AFTER and fact["is_used"]
        )
        known = () if any(one.evidence == AFTER for one in start.known) else known
    return Decoded(stats, left_out, table.num_rows, sizes, operations), known


def _refuse_bad(calls: Calls, stats: dict[str, int]) -> None:
    bad, lines = stats["bad_lines"], stats["lines"]
    if lines == 0:
        raise InputError("strace wrote nothing", hint="the command was not started")
    # The last line is cut when strace is killed.
    if bad > max(1, lines * MOST_BAD_RATIO):
        raise InputError(
            f"{bad:,} of {lines:,} lines are not what strace prints; the first is line"
            f" {stats['first_bad_line']}: {calls.bad_line()!r}",
            hint="check the version: strace --version, 5.11 or newer",
        )


def _batches(
    calls: Calls, hashes: Hashes | None, operations: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    import numpy as np
    import pyarrow as pa

    first = 0
    for rows in calls.batches():
        names = calls.processes()
        shown = names if hashes is None else [hashes.name(name.encode()) for name in names]
        yield pa.RecordBatch.from_arrays(_columns(rows, first, shown), schema=FILE_OPERATIONS)
        first += len(rows)
        counts = np.bincount(rows["operation"], minlength=len(FILE_OPERATION_NAMES))
        for name, count in zip(FILE_OPERATION_NAMES, counts, strict=True):
            if count:
                operations[name] = operations.get(name, 0) + int(count)


def _columns(rows: NDArray[np.void], first: int, processes: list[str]) -> list[pa.Array]:
    import numpy as np

    made: dict[str, pa.Array] = {
        "operation_id": array_of(np.arange(first, first + len(rows), dtype=np.int64)),
        "process": words_of(rows["process"], processes),
        "operation": words_of(rows["operation"], FILE_OPERATION_NAMES),
    }
    for name, bit in FLAGS.items():
        made[name] = array_of((rows["flags"] & bit) != 0)
    for name in MAYBE:
        made[name] = array_of(rows[name], valid=rows[name] >= 0)
    for name in ("start_ns", "pid", "tid", "error"):
        made[name] = array_of(rows[name])
    return [made[name] for name in FILE_OPERATIONS.names]


def _files(paths: list[bytes], facts: Any, hashes: Hashes | None) -> pa.Table:
    """Return the table of the files that a row names."""
    import numpy as np
    import pyarrow as pa

    used = np.flatnonzero(facts["is_used"])
    facts = facts[used]
    # A kind that nothing tells is that of names that were asked for and never there.
    kinds = np.maximum(facts["kind"], 1) - 1
    if hashes is None:
        shown = [paths[place].decode(errors="backslashreplace") for place in used]
    else:
        shown = [hashes.path(paths[place]) for place in used]
    sizes = np.where(kinds == 0, facts["first_bytes"], -1)
    columns = [
        array_of(used.astype(np.int64)),
        texts_of(shown),
        words_of(kinds, FILE_KINDS),
        array_of(sizes, valid=sizes >= 0),
        words_of(facts["evidence"], EVIDENCE),
    ]
    return pa.Table.from_arrays(columns, schema=FILES)
