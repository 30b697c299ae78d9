"""What of a trace of memory accesses reaches the memory: a hierarchy of caches, and its misses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit._native.memory import MOST_LEVELS, MOST_WAYS, OPERATIONS, MemoryCaches
from tracekit.arrow import ahead, ints, name_codes, read_columns
from tracekit.errors import InputError, UsageError
from tracekit.metadata import MemoryTrace, Record
from tracekit.store import TraceFolder
from tracekit.units import format_size, parse_size

STUDY_CACHES = "32KiB/8,256KiB/8,15MiB/20"
"""Size and ways of each level of the study's processor, an Intel Xeon E5-2620 v3 (section II A)."""
NO_CACHES = "none"
LEVEL = re.compile(r"(?P<size>[^/]+)/(?P<ways>[0-9]{1,3})")
LARGEST_ACCESS_BYTES = 1 << 20
MOST_LEVEL_BYTES = 1 << 30
REFUSAL = (
    "is a block trace, whose requests are whole blocks that missed the page cache: row buffers"
    " would hit 1 - access/row of any of them, which is no finding"
)
HOW = (
    "record memory accesses: valgrind --tool=lackey --trace-mem=yes --log-file=LOG COMMAND, then"
    " tracekit import LOG, and simulate buffer with its folder"
)
COLUMNS = ("address", "size_bytes", "operation")


class CacheLevel(Record):
    """A level of caches; the first is two of this size, of data and of instructions."""

    bytes: int
    ways: int


class LevelMisses(Record):
    """A level, and of how many accesses a line missed in it."""

    bytes: int
    ways: int
    fetches: int
    loads: int
    """Modifies are loads here, as they are read first."""
    stores: int


def parse_caches(text: str, *, line_bytes: int) -> tuple[CacheLevel, ...]:
    """Return the levels that `--caches` names, from the processor on; UsageError for none such."""
    if text.strip() == NO_CACHES:
        return ()
    levels = []
    for part in text.split(","):
        found = LEVEL.fullmatch(part.strip())
        hint = f"SIZE/WAYS of each level, as in {STUDY_CACHES}, or {NO_CACHES}"
        if found is None:
            raise UsageError(f"--caches {part}: no size and ways", hint=hint)
        size, ways = parse_size(found["size"], option="--caches"), int(found["ways"])
        if not 1 <= ways <= MOST_WAYS:
            raise UsageError(f"--caches {part}: {ways} ways are not 1 to {MOST_WAYS}", hint=hint)
        if size > MOST_LEVEL_BYTES or size == 0 or size % (ways * line_bytes):
            raise UsageError(
                f"--caches {part}: not whole sets of {ways} lines of {line_bytes} bytes, up to"
                f" {format_size(MOST_LEVEL_BYTES)}",
                hint=hint,
            )
        levels.append(CacheLevel(bytes=size, ways=ways))
    if len(levels) > MOST_LEVELS:
        raise UsageError(f"--caches: {len(levels)} levels are more than {MOST_LEVELS}")
    return tuple(levels)


def memory_trace(folder: TraceFolder) -> MemoryTrace:
    """Return what the folder's memory accesses are; InputError for another trace."""
    if not folder.has("memory_accesses"):
        if folder.has("requests"):
            raise InputError(f"{folder.path} {REFUSAL}", hint=HOW)
        raise InputError(f"{folder.path} has no memory accesses", hint=HOW)
    found = folder.info.memory
    return found if isinstance(found, MemoryTrace) else MemoryTrace()


@dataclass(frozen=True)
class Filtered:
    """What the caches did: misses by level, and lines that are not yet written back."""

    caches: list[LevelMisses]
    loads: int
    stores: int
    fetches: int
    dirty_lines: int


Take = Callable[[NDArray[np.void]], None]


def filter_accesses(
    folder: TraceFolder,
    levels: Sequence[CacheLevel],
    *,
    line_bytes: int,
    takers: Sequence[Take],
    on_rows: Callable[[int], None] | None = None,
) -> Filtered:
    """Take the folder's accesses through the caches.

    The last of `takers` gets what reaches the memory, and the first, if there are two, what loads
    and stores ask of the caches.
    """
    sets = [(level.bytes // (level.ways * line_bytes), level.ways) for level in levels]
    hierarchies = [(), sets] if len(takers) > 1 else [sets]
    caches = [MemoryCaches(one, line_bytes) for one in hierarchies]
    for addresses, sizes, operations in _read(folder):
        for cache, take in zip(caches, takers, strict=True):
            for rows in cache.add(addresses, sizes, operations):
                take(rows)
        if on_rows is not None:
            on_rows(len(addresses))
    counts = [[int(count) for count in row] for row in caches[-1].read()]
    by_level = [_by_kind(row) for row in counts]
    misses = [
        LevelMisses(bytes=level.bytes, ways=level.ways, **kinds)
        for level, kinds in zip(levels, by_level[1:], strict=True)
    ]
    return Filtered(misses, **by_level[0], dirty_lines=caches[-1].dirty)


def _by_kind(row: Sequence[int]) -> dict[str, int]:
    count = dict(zip(OPERATIONS, row, strict=True))
    return {
        "fetches": count["fetch"],
        "loads": count["load"] + count["modify"],
        "stores": count["store"],
    }


def _read(
    folder: TraceFolder,
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint8]]]:
    """Yield addresses, sizes (at least 1) and indices of OPERATIONS."""
    file = folder.require("memory_accesses", made_by="import")
    for batch in ahead(read_columns(file, COLUMNS)):
        operations = name_codes(batch["operation"], list(OPERATIONS))
        sizes = ints(batch["size_bytes"].cast("int64"), if_null=1)
        if len(sizes) and not 1 <= sizes.min() <= sizes.max() <= LARGEST_ACCESS_BYTES:
            wrong = sizes[(sizes < 1) | (sizes > LARGEST_ACCESS_BYTES)][0]
            raise InputError(f"{file}: an access has {wrong} bytes", hint="import the trace again")
        if len(operations) and operations.max() == len(OPERATIONS):
            raise InputError(
                f"{file}: an operation is not one of {', '.join(OPERATIONS)}",
                hint="import the trace again",
            )
        addresses = np.asarray(batch["address"].to_numpy(zero_copy_only=False), np.uint64)
        yield addresses, sizes.astype(np.int32), operations.astype(np.uint8)
