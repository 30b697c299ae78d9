"""Texts whose places lie within files or blocks: each piece of one gets places of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tracekit.readers.text import READ_OR_WRITE, BadLines, TextFormat, column_kinds
from tracekit.readers.units import Columns, Units

PIECE_BYTES = 64 << 20
PIECE_BITS = 36
"""Of the number of a piece within its file, beside which the file's has place in 63 bits."""


@dataclass(frozen=True)
class Within(TextFormat):
    """Requests at places within files, which lie nowhere.

    The pieces of 64 MiB of all files lie one behind the other, in the order in which they first
    come. A line may stand for several requests, by a column `count`.
    """

    assumes: str = (
        "each 64 MiB of a file have places of their own, one behind the other as they come:"
        " distances between files mean nothing"
    )

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; places become those on one device."""
        columns = super().decode(block, lines)
        if columns is None:
            return None
        numbers = dict(columns.numbers)
        files, offsets = numbers.pop("file"), numbers["offset"]
        keys = files.astype(np.int64) << PIECE_BITS | offsets // PIECE_BYTES
        used, inverse = np.unique(keys, return_inverse=True)
        firsts = np.full(len(used), len(keys), np.int64)
        np.minimum.at(firsts, inverse, np.arange(len(keys)))
        for place in np.argsort(firsts):
            lines.pieces.setdefault(int(used[place]), len(lines.pieces))
        pieces = np.array([lines.pieces[int(key)] for key in used], np.int64)[inverse]
        numbers["offset"] = pieces * PIECE_BYTES + offsets % PIECE_BYTES
        return _repeated(replace(columns, numbers=numbers))


def _repeated(columns: Columns) -> Columns:
    """Return each row as many times as its `count` says."""
    numbers = dict(columns.numbers)
    counts = numbers.pop("count", None)
    if counts is None or (counts == 1).all():
        return replace(columns, numbers=numbers)
    rows = np.repeat(np.arange(columns.rows), np.maximum(counts, 1))
    return replace(
        columns,
        numbers={name: values[rows] for name, values in numbers.items()},
        words={name: column.take(pa.array(rows)) for name, column in columns.words.items()},
        rows=len(rows),
        block=columns.block and replace(columns.block, kept=rows),
    )


def _within(
    name: str, header: str, kinds: Mapping[str, str], *, units: str, operations: Mapping[str, str]
) -> Within:
    """Return the format of the columns that a header names, of which `kinds` has those to read."""
    is_blank = "," not in header
    others = r"[^ \t\n]+" if is_blank else r"[^,\n]*"
    if is_blank:  # Baleen's times have fractions
        kinds = {**kinds, "op_time": "time:decimal"}
    names = re.split(r"\s+" if is_blank else ",", header)
    columns = dict[str, str]()
    for column in names:
        columns |= column_kinds(kinds[column]) if column in kinds else {f"_{column}": others}
    return Within(
        name,
        columns,
        replace(Units.of(units), is_within=True),
        operations,
        delimiter=" " if is_blank else ",",
        evidence="its header, or columns as in its published files",
    )


THESIOS_HEADER = (
    "filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,service_class,"
    "from_flash_cache,cache_hit,request_io_size_bytes,disk_io_size_bytes,response_io_size_bytes,"
    "start_time,disk_time,simulated_disk_start_time,simulated_latency"
)
"""As published: github.com/google-research-datasets/thesios."""
THESIOS_KINDS = {
    "filename": "file:word",
    "file_offset": "offset",
    "application": "process:word",
    "op_type": "op",
    "request_io_size_bytes": "length",
    "start_time": "time:decimal",
    "simulated_latency": "response:decimal",
}
TECTONIC_HEADER = (
    "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count,"
    "host_name,rs_shard_id"
)
"""As published: github.com/facebook/CacheLib, cachebench/test_configs/trace_replay/block_chunk."""
TECTONIC_KINDS = {
    "op_time": "time:int",
    "block_id": "file:word",
    "io_size": "length",
    "io_offset": "offset",
    "op_name": "op",
    "op_count": "count:int",
}
STATES = ("Permanent", "Temporary", "NotInitialized")
TECTONIC_WORDS = {
    f"{call}.{state}".lower(): kind
    for call, kind in (("getChunkData", "read"), ("getChunk", "read"), ("putChunk", "write"))
    for state in STATES
} | {"1": "read", "2": "read", "3": "write", "4": "write", "5": "read", "6": "write"}
"""Names, and their numbers in the traces of Baleen (FAST '24): github.com/wonglkd/BCacheSim."""

THESIOS = _within(
    "thesios", THESIOS_HEADER, THESIOS_KINDS, units="s bytes bytes s wall", operations=READ_OR_WRITE
)
TECTONIC = _within(
    "tectonic", TECTONIC_HEADER, TECTONIC_KINDS, units="s bytes bytes wall",
    operations=TECTONIC_WORDS,
)  # fmt: skip
KNOWN = (
    (THESIOS, "filename", THESIOS_KINDS, "s bytes bytes s wall"),
    (TECTONIC, "block_id", TECTONIC_KINDS, "s bytes bytes wall"),
)
HEADER = re.compile(rb"^#?[ \t]*((?:\w+[ ,])+\w+)[ \t]*\r?$", re.MULTILINE)


def headed_within(head: bytes) -> Within | None:
    """Return the format of files' requests that the first line names, in whatever order."""
    found = HEADER.match(head)
    header = found[1].decode() if found else ""
    names = set(re.split("[ ,]", header))
    for form, first, kinds, units in KNOWN:
        needed = set(kinds) - {"op_count", "application", "simulated_latency"}
        if first in names and needed <= names:
            return _within(form.name, header, kinds, units=units, operations=form.operations)
    return None
