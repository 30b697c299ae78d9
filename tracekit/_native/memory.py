"""Accesses to memory: texts of them, caches in front of it and row buffers in it.

`replayer/read/memory_text.h`, `replayer/model/memory_caches.h` and `buffer.h`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import Owned, constant, dtype_of, enumerators, out, struct, structs
from tracekit._native.readers import SPARE_RATIO, examples

OPERATIONS = enumerators("tk_memory_operation", "MEMORY_")[:-1]
MOST_BUFFERS = constant("BUFFER_MOST")
MOST_LEVELS = constant("MEMORY_LEVELS_MOST")
MOST_WAYS = constant("MEMORY_WAYS_MOST")
KINDS = constant("BUFFER_KINDS")
ACCESS = dtype_of("struct memory_access")
COUNTS = dtype_of("struct buffer_counts")
OUT_ROWS = 1 << 20
"""Enough for any access of the largest size in the smallest lines."""
SHORTEST_LINE_BYTES = 4


class Text(IntEnum):
    """A text of accesses; `enum tk_memory_format`."""

    LACKEY = constant("MEMORY_LACKEY")
    PERF_SCRIPT = constant("MEMORY_PERF_SCRIPT")
    PERF_REPORT = constant("MEMORY_PERF_REPORT")
    GEM5_PACKETS = constant("MEMORY_GEM5_PACKETS")
    GEM5_DEBUG = constant("MEMORY_GEM5_DEBUG")
    RAMULATOR = constant("MEMORY_RAMULATOR")
    RAMULATOR_CPU = constant("MEMORY_RAMULATOR_CPU")


@dataclass
class Block:
    """What some lines hold: columns of `rows`, of which -1 and a size of 0 are not known."""

    instructions: NDArray[np.int64]
    times_ns: NDArray[np.int64]
    addresses: NDArray[np.uint64]
    sizes: NDArray[np.int32]
    operations: NDArray[np.uint8]
    lines: int
    passed: int
    wrong: list[tuple[int, bytes]]
    """Number among the lines, from 0, and beginning of each wrong line."""

    @property
    def rows(self) -> int:
        """Accesses."""
        return len(self.addresses)


class MemoryReader(Owned):
    """Reads blocks of whole lines, and counts instructions from block to block."""

    kind = "tk_memory"
    made_by, freed_by = "open", "close"
    failure = "the memory accesses cannot be read"

    def __init__(self, text: Text) -> None:
        super().__init__(int(text))
        self._rows_a_byte = 1 / SHORTEST_LINE_BYTES

    def read(self, text: bytes | memoryview) -> Iterator[Block]:
        """Yield what the lines of the text hold."""
        used = 0
        while used < len(text):
            rest = text[used:]
            block, done = self._read_rows(rest)
            if not done:
                return
            self._rows_a_byte = (block.rows + len(block.wrong)) / done
            used += done
            yield block

    def _read_rows(self, text: bytes | memoryview) -> tuple[Block, int]:
        """Read as many lines as there is space for; return what was in how many first bytes."""
        capacity = int(len(text) * self._rows_a_byte * SPARE_RATIO) + 64
        columns: dict[str, Any] = {
            "instructions": np.empty(capacity, np.int64),
            "times_ns": np.empty(capacity, np.int64),
            "addresses": np.empty(capacity, np.uint64),
            "sizes": np.empty(capacity, np.int32),
            "operations": np.empty(capacity, np.uint8),
        }
        wrong, wrong_lines = np.empty((2, capacity), np.int64)
        asked = struct(
            "tk_memory_block",
            text=np.frombuffer(text, np.uint8),
            size=len(text),
            capacity=capacity,
            wrong=wrong,
            wrong_lines=wrong_lines,
            wrong_capacity=capacity,
            **columns,
        )
        self._check(self._call("read", asked))
        shown = examples(text, begins=wrong, numbers=wrong_lines, count=asked.wrong_count)
        filled = {name: column[: asked.rows] for name, column in columns.items()}
        return Block(**filled, lines=asked.lines, passed=asked.passed, wrong=shown), asked.used

    @property
    def instructions(self) -> int | None:
        """How many instructions were seen; None of a format without them."""
        found = int(self._call("instructions"))
        return None if found < 0 else found


class MemoryCaches(Owned):
    """Caches of so many (sets, ways) from the processor on; without any, accesses pass."""

    kind = "tk_memory_caches"
    failure = "the caches cannot be simulated"

    def __init__(self, levels: Sequence[tuple[int, int]], line_bytes: int) -> None:
        self._count = len(levels)
        given = structs("memory_level", [{"sets": sets, "ways": ways} for sets, ways in levels])
        super().__init__(given, self._count, line_bytes.bit_length() - 1)

    def add(
        self,
        addresses: NDArray[np.uint64],
        sizes: NDArray[np.int32],
        operations: NDArray[np.uint8],
    ) -> Iterator[NDArray[np.void]]:
        """Yield what the accesses (indices of OPERATIONS) ask of the memory (ACCESS).

        An array is valid until the next one is asked for.
        """
        rows, written = np.empty(OUT_ROWS, ACCESS), out("uint64_t")
        at = 0
        while at < len(addresses):
            parts = addresses[at:], sizes[at:], operations[at:]
            at += self._call("add", *parts, len(parts[0]), rows, OUT_ROWS, written)
            yield rows[: written[0]]

    def read(self) -> NDArray[np.uint64]:
        """Return rows by OPERATIONS: accesses, then those that missed in each level."""
        counts = np.zeros((self._count + 1, len(OPERATIONS)), np.uint64)
        self._call("read", counts)
        return counts

    @property
    def dirty(self) -> int:
        """Lines that were written and are not yet written back."""
        return int(self._call("dirty"))


class RowBuffers(Owned):
    """Counts what ascending numbers of row buffers of a memory hit; sizes are powers of two."""

    kind = "tk_buffer"
    failure = "the row buffers cannot be simulated"

    def __init__(self, row_bytes: int, line_bytes: int, buffers: Sequence[int]) -> None:
        self._count = len(buffers)
        setup = struct(
            "buffer_setup",
            row_shift=row_bytes.bit_length() - 1,
            line_shift=line_bytes.bit_length() - 1,
            count=self._count,
            buffers=buffers,
        )
        super().__init__(setup)

    def add(self, rows: NDArray[np.void]) -> None:
        """Go through accesses (ACCESS) in their order."""
        self._check(self._call("add", rows, len(rows)))

    def read(self) -> NDArray[np.void]:
        """Return COUNTS: LRU, then banks, by number of buffers, of reads and of writes."""
        counts = np.zeros((2, self._count, KINDS), COUNTS)
        self._call("read", counts)
        return counts
