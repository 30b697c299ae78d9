"""The trace of another tool while it is read: its format, its blocks and their requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from tracekit.errors import InputError, UnorderedError, UsageError
from tracekit.prefetch import ahead
from tracekit.readers.assemble import Assembler, Sorting
from tracekit.readers.formats import Format, choose_format
from tracekit.readers.stream import Feed
from tracekit.readers.text import (
    KEPT_EXAMPLES,
    LARGEST_SUM,
    BadLines,
    TextFormat,
    contradicts,
    dated,
    has_dates,
    header_format,
    user_format,
    user_pattern,
)
from tracekit.readers.units import (
    SIZE_BYTES,
    TIME_NS,
    Bounds,
    Columns,
    Import,
    ImportOptions,
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
        self._rest = head = start
        whole = head if len(head) < HEAD_BYTES else head[: head.rfind(b"\n") + 1] or head
        self.format: Format = _user_format(options, whole) or _matching(
            head, whole, feed.name, options
        )
        self.units: Units = self.format.units.overridden(options.units)
        self.preamble = 0
        operations = {}
        if isinstance(self.format, TextFormat):
            self.format = replace(self.format, units=self.units)
            self.preamble = self.format.preamble(whole, self.lines)
            operations = dict(self.format.operations)
            self._rest = self._rest.split(b"\n", self.lines.lines)[-1]
        self.assembler: Assembler = Assembler(self.units, operations, "trace")
        self.outliers: Outliers = Outliers(self.units, self._is_scaled())
        self.bounds = bounds
        self.beyond = self._records = 0
        """Lines and records with a number beyond the bounds, and records read."""

    def _is_scaled(self) -> bool:
        return isinstance(self.format, TextFormat) and "time" in self.format.scaled()

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
                columns = form.decode(_ended(block), self.lines)
            else:
                records = self._uncut(block, form.record_bytes)
                columns = form.decode(records) if records else None
            self._on_bytes(self._feed.done_bytes, self._feed.total_bytes)
            if columns is not None and (within := self._within(columns)) is not None:
                yield within

    def _within(self, columns: Columns) -> Columns | None:
        """Return the rows within the bounds; others are wrong lines. None if no row is left."""
        if columns.block is None:
            columns = replace(columns, first=self._records)
            self._records += columns.rows
            columns = self._without(columns, _possible(self.units))
        if self.bounds is not None:
            columns = self._without(columns, self.bounds)
        self.outliers.see(columns)
        return replace(columns, block=None) if columns.rows else None

    def _without(self, columns: Columns, bounds: Bounds) -> Columns:
        """Return the columns without the rows beyond the bounds, which are counted and shown."""
        rows = bounds.outside(columns)
        if not len(rows):
            return columns
        self.beyond += len(rows)
        self.lines.bad += len(rows)
        for row in rows[:KEPT_EXAMPLES]:
            number, text = columns.example(int(row), bounds.reason(columns, int(row)))
            self.lines.add(number, text)
        return columns.without(rows)

    def _uncut(self, block: memoryview, record_bytes: int) -> memoryview:
        """Return the block without a cut record at its end, which is counted."""
        if cut := len(block) % record_bytes:
            self.lines.bad += 1
            self.lines.add(0, f"{cut} bytes at the end are no whole record")
        return block[: len(block) - cut]


def _possible(units: Units) -> Bounds:
    """Return the numbers of records that are 64-bit numbers of ns and bytes with what follows."""
    factors = {
        "time": TIME_NS[units.time],
        "offset": SIZE_BYTES[units.offset],
        "length": SIZE_BYTES[units.length],
        "response": 2 * TIME_NS[units.response or "ns"],
    }
    return Bounds({name: (0, LARGEST_SUM // factor) for name, factor in factors.items()})


def _ended(block: memoryview) -> bytes | memoryview:
    return block if block[-1] == ord("\n") else bytes(block) + b"\n"


def _user_format(options: ImportOptions, head: bytes) -> TextFormat | None:
    if options.columns and options.regex:
        message = "--columns and --regex both name the columns"
        raise UsageError(message, hint="give one of them")
    if options.regex:
        pattern = user_pattern(options.regex, units=options.units)
        return dated(pattern, options.units) if has_dates(head, options.regex) else pattern
    if options.columns:
        own = user_format(options.columns, options.delimiter, units=options.units)
        other = dated(own, options.units)
        return other if not own.matches(head) and other.matches(head) else own
    return None


def _matching(head: bytes, whole: bytes, name: str, options: ImportOptions) -> Format:
    try:
        found = choose_format(whole, name, given=options.form)
    except InputError:
        if headed := header_format(head, units=options.units):
            return headed
        return choose_format(head, name, given=options.form, is_lenient=True)
    if options.form is None and isinstance(found, TextFormat) and contradicts(head, found):
        return header_format(head, units=options.units) or found
    return found
