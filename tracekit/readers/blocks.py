"""The trace of another tool while it is read: its format, its blocks and their requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from tracekit.errors import InputError, UnorderedError
from tracekit.prefetch import ahead
from tracekit.readers.assemble import Assembler, Sorting
from tracekit.readers.formats import Format, RecordFormat, find_format
from tracekit.readers.stream import Feed
from tracekit.readers.text import KEPT_EXAMPLES, LARGEST_SUM, BadLines, TextFormat
from tracekit.readers.units import (
    SIZE_BYTES,
    TIME_NS,
    Block,
    Bounds,
    Columns,
    Import,
    Outliers,
    Units,
)

CHUNK_BYTES = 4 << 20
LONGEST_LINE_BYTES = 64 << 20

Whole = Callable[[bytearray, int], int]
"""How many of so many first bytes of a buffer are whole lines or records."""


def whole_lines(buffer: bytearray, size: int) -> int:
    """Return how many of the first `size` bytes are whole lines."""
    return buffer.rfind(b"\n", 0, size) + 1


def whole_records(record_bytes: int) -> Whole:
    """Return what counts the bytes of whole records."""
    return lambda _buffer, size: size - size % record_bytes


def blocks_of(fd: int, start: bytes, *, whole: Whole) -> Iterator[memoryview]:
    """Yield whole lines or records, some MiB at a time, and last what remains, whole or not.

    `start` was read from the descriptor already. A block is valid until the next one is asked for:
    all lie in one buffer. Raise InputError for a line that no text has.
    """
    buffer = bytearray(max(2 * CHUNK_BYTES, 2 * len(start)))
    buffer[: len(start)] = start
    size = len(start)
    while got := os.readv(fd, [memoryview(buffer)[size:]]):
        size += got
        if size < CHUNK_BYTES:
            continue
        end = whole(buffer, size)
        if end:
            yield memoryview(buffer)[:end]
            buffer[: size - end] = buffer[end:size]
            size -= end
        elif size == len(buffer):
            if size > LONGEST_LINE_BYTES:
                message = f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB: this is no text"
                raise InputError(message, hint="check the file")
            buffer = buffer + bytearray(size)
    if size:
        yield memoryview(buffer)[:size]


HEAD_BYTES = 1 << 16
BLOCKS_AHEAD = 1


class Reading:
    """One import while it runs."""

    def __init__(
        self, feed: Feed, run: Import, *, start: bytes, bounds: Bounds | None = None
    ) -> None:
        """Take `bounds` of a trace that is read once more: what lies beyond is a wrong line."""
        self._feed, self._on_bytes, options = feed, run.on_bytes, run.options
        self.lines = BadLines()
        self._rest = start
        whole = start if len(start) < HEAD_BYTES else start[: start.rfind(b"\n") + 1] or start
        form = find_format(start, whole, name=feed.name, options=options)
        self.format: Format = form
        self.units: Units = form.units.overridden(options.units)
        self.preamble = 0
        operations: dict[str, str] = {}
        is_scaled = False
        if isinstance(form, TextFormat):
            self.format = form = replace(form, units=self.units)
            self.preamble = form.preamble(whole, self.lines)
            operations = dict(form.operations)
            is_scaled = "time" in form.scaled()
            self._rest = start.split(b"\n", self.lines.lines)[-1]
        self.assembler = Assembler(self.units, operations, "trace")
        self.outliers = Outliers(self.units, is_scaled)
        self.bounds = bounds
        # Of records: 64-bit numbers of ns and bytes with what follows.
        factors = {
            "time": TIME_NS[self.units.time],
            "offset": SIZE_BYTES[self.units.offset],
            "length": SIZE_BYTES[self.units.length],
            "response": 2 * TIME_NS[self.units.response or "ns"],
        }
        possible = {name: (0, LARGEST_SUM // factor) for name, factor in factors.items()}
        self._possible = Bounds(possible)
        self.beyond = self._records = 0
        """Lines and records with a number beyond the bounds, and records read."""

    def batches(self, *, sorting: Sorting | None = None) -> Generator[Any]:
        """Yield the batches of requests, to the end of the file; the next are decoded meanwhile."""
        with closing(ahead(self._decoded(), most=BLOCKS_AHEAD)) as decoded:
            try:
                yield from self.assembler.batches(decoded, sorting=sorting)
            except UnorderedError:
                raise
            except InputError as problem:
                raise InputError(f"{self._feed.name}: {problem}", hint=problem.hint) from problem

    def _decoded(self) -> Generator[Columns]:
        form = self.format
        whole = whole_lines if isinstance(form, TextFormat) else whole_records(form.record_bytes)
        for block in blocks_of(self._feed.fd, self._rest, whole=whole):
            if isinstance(form, TextFormat):
                is_ended = block[-1] == ord("\n")
                columns = form.decode(block if is_ended else bytes(block) + b"\n", self.lines)
            else:
                columns = self._records_of(block, form)
            self._on_bytes(self._feed.done_bytes, self._feed.total_bytes)
            if columns is not None and self.bounds is not None:
                columns = self._without(columns, self.bounds)
            if columns is not None:
                self.outliers.see(columns)
                if columns.rows:
                    yield replace(columns, block=None)

    def _records_of(self, block: memoryview, form: RecordFormat) -> Columns | None:
        """Decode whole records; a cut one at the end and impossible ones are wrong lines."""
        if cut := len(block) % form.record_bytes:
            self.lines.add(0, f"{cut} bytes at the end are no whole record")
        if len(block) == cut:
            return None
        columns = form.decode(block[: len(block) - cut])
        columns = replace(columns, block=Block(self._records))
        self._records += columns.rows
        return self._without(columns, self._possible)

    def _without(self, columns: Columns, bounds: Bounds) -> Columns:
        """Return the columns without the rows beyond the bounds, which are counted and shown."""
        rows = bounds.outside(columns)
        if not len(rows) or columns.block is None:
            return columns
        self.beyond += len(rows)
        shown = rows[:KEPT_EXAMPLES].tolist()
        for row, (number, text) in zip(shown, columns.block.examples(shown), strict=True):
            reason = "" if number else f": {bounds.reason(columns, row)}"
            self.lines.add(number, f"{text}{reason}")
        self.lines.bad += len(rows) - len(shown)
        return columns.without(rows)
