"""Reads a text or records of another tool block by block, and looks at what is in it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from typing import Any

from tracekit.arrow import count_names, texts
from tracekit.errors import InputError, UnorderedError, UsageError
from tracekit.prefetch import ahead
from tracekit.readers import checkpoint
from tracekit.readers.assemble import Assembler, Sorting
from tracekit.readers.checkpoint import Again
from tracekit.readers.damage import TAIL_BYTES, Damage, last_line, lines_of
from tracekit.readers.disorder import Disorder
from tracekit.readers.formats import (
    Format,
    RecordFormat,
    find_format,
    formats_in_words,
)
from tracekit.readers.hypotheses import Judgement
from tracekit.readers.outliers import Bounds, Outliers
from tracekit.readers.parts import Part, other_part
from tracekit.readers.pieces import Piece
from tracekit.readers.restarts import Restarts
from tracekit.readers.stream import Feed, drain, opened, progress_of, skip
from tracekit.readers.text import KEPT_EXAMPLES, LARGEST_SUM, BadLines, TextFormat
from tracekit.readers.unit_changes import UnitChanges
from tracekit.readers.unit_parts import UnitParts
from tracekit.readers.units import (
    TIME_NS,
    Block,
    Columns,
    Import,
    ImportOptions,
    Units,
)
from tracekit.readers.unknown import given_of, lacks_of, reject_known

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


def blocks_of(
    fd: int, start: bytes, *, whole: Whole, on_end: Callable[[], None] = lambda: None
) -> Iterator[memoryview]:
    """Yield whole lines or records, some MiB at a time, and last what remains, whole or not.

    It has the last line or record; `on_end` is called before it. `start` was read from the
    descriptor already. A block is valid until the next one is asked for: all lie in one buffer.
    Raise InputError for a line that no text has.
    """
    buffer = bytearray(max(2 * CHUNK_BYTES, 2 * len(start)))
    buffer[: len(start)] = start
    size = len(start)
    while got := _fill(fd, memoryview(buffer)[size:]):
        size += got
        if size < CHUNK_BYTES:
            continue
        end = whole(buffer, size - 1)
        if end:
            yield memoryview(buffer)[:end]
            buffer[: size - end] = buffer[end:size]
            size -= end
        elif size == len(buffer):
            if size > LONGEST_LINE_BYTES:
                message = f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB: this is no text"
                raise InputError(message, hint="check the file")
            buffer = buffer + bytearray(size)
    on_end()
    if size:
        yield memoryview(buffer)[:size]


def _fill(fd: int, buffer: memoryview) -> int:
    """Fill a buffer as far as there is something; a pipe has blocks as a file has, so."""
    size = 0
    while size < len(buffer) and (got := os.readv(fd, [buffer[size:]])):
        size += got
    return size


HEAD_BYTES = 1 << 16
BLOCKS_AHEAD = 1
CHECKPOINT_BYTES = 1 << 30
"""Of text: a killed import is gone on with from the last multiple, about."""
KNOWN = (
    *("lines", "damages", "last_line", "outliers", "restarts", "disorder", "beyond", "pieces"),
    *("unit_changes", "unit_parts"),
    *("of_files", "words", "_at", "_begin", "_times", "_before", "_bytes", "_records", "_rows"),
)
"""What a reading knows of the text before a mark."""


class Reading:
    """One import while it runs."""

    judgement: Judgement | None = None
    words: Counter[str] | None
    """How often each word of operations stands in it, if the user says what some mean."""
    of_files: list[tuple[int, int]]
    """Wrong lines and requests of each file that was read."""
    pieces: list[Piece]

    def __init__(self, feeds: Sequence[Feed], run: Import, *, start: bytes, again: Again) -> None:
        """Take what is known of a trace that is read once more."""
        self.feeds, self._on_bytes, options = feeds, run.on_bytes, run.options
        self.name = feeds[0].name if len(feeds) == 1 else f"{feeds[0].name} to {feeds[-1].name}"
        self.lines, self._start = BadLines(), start
        cut = start if len(start) < HEAD_BYTES else start[: start.rfind(b"\n") + 1]
        self.head = whole = cut or start
        form = find_format(start, whole, name=feeds[0].name, options=options)
        self.format: Format = form
        self.units: Units = replace(
            form.units.overridden(options.units), page_bytes=options.page_bytes
        )
        self.fits = formats_in_words(whole, form, options=options) if options.explains else ""
        self.preamble, self.is_scaled = 0, False
        self._at, self._begin, self._times, self._before = 0, 0, list[int](), b""
        """Which file is read, bytes of those before, times of it, and the end of the last block."""
        self.damages, self.last_line, self.pieces, self.of_files = list[Damage](), "", [], []
        operations: dict[str, str] = {}
        _reject_words(form, options, name=self.name)
        if isinstance(form, TextFormat):
            operations = dict(form.operations)
            self._begin_text(replace(form, units=self.units), start)
        else:
            self._bytes = form.header_bytes
        self.lacks, self.given = lacks_of(self.format, self.units), given_of(options)
        reject_known(options, self.lacks, name=self.name, form=form.name, has_units=True)
        self.assembler = Assembler(
            self.units, operations, "trace", rate=options.rate, operation=options.operation
        )
        self.outliers = Outliers(self.units, self.is_scaled)
        self.unknown = [what for what in self.lacks if what not in self.given]
        self.bounds, self.shifts, self._possible = again.bounds, again.shifts, _possible(self.units)
        self.restarts, self.disorder = Restarts(is_wall=self.units.is_wall), Disorder()
        self.unit_changes = UnitChanges(self.units.factor("length"))
        self.unit_parts = UnitParts(self.units.factor("offset"), self.units.factor("length"))
        self.words = Counter() if options.operations else None
        self.beyond = self._records = self._rows = 0
        """Lines and records with a number beyond the bounds, records read, and rows of them."""
        self._marks = checkpoint.begin(run, again)

    def _begin_text(self, form: TextFormat, start: bytes) -> None:
        """Pass over what stands before the first request of the text."""
        self.format, self.is_scaled = form, "time" in form.scaled()
        self.preamble = form.preamble(self.head, self.lines)
        self._bytes = len(start) - len(start.split(b"\n", self.lines.lines)[-1])
        if self.lines.wrong:
            self._damage_of_file().see(start[: self._bytes], self.lines.wrong, line=1, byte=0)

    @property
    def begin(self) -> int:
        """Byte of the first file at which its requests begin, before it is read."""
        return self._bytes

    def go_on(self, state: checkpoint.State) -> None:
        """Go on behind what was read when this state was written."""
        if state.known:
            vars(self).update(checkpoint.unpack(state.known))
            self.assembler.go_on(state.rows)

    def other_part(self) -> Part | None:
        """Return the part that is of another format, if one is."""
        bad, rows = self.lines.bad, self.assembler.rows
        return other_part(self.lines.examples, bad=bad, records=rows)

    def of_damaged(self) -> tuple[int, int]:
        """Return wrong lines and requests of the files whose salvaged lines may be wrong."""
        each = zip(self.feeds, self.of_files, strict=True)
        damaged = [found for feed, found in each if feed.has_doubt]
        return sum(bad for bad, _ in damaged), sum(rows for _, rows in damaged)

    def _mark(self) -> checkpoint.Mark | None:
        """Return a mark behind the block that was read, if it is time for one."""
        marks = self._marks
        if marks is None or self._bytes // CHECKPOINT_BYTES == marks.state.at // CHECKPOINT_BYTES:
            return None
        known = checkpoint.pack({name: vars(self)[name] for name in KNOWN})
        self._marks = replace(marks, state=replace(marks.state, at=self._bytes, known=known))
        return self._marks

    def batches(self, *, sorting: Sorting | None = None) -> Generator[Any]:
        """Yield the batches of requests, to the end of the file; the next are decoded meanwhile.

        Among them are marks, where a killed import can be gone on with.
        """
        with closing(ahead(self._decoded(), most=BLOCKS_AHEAD)) as decoded:
            try:
                yield from self.assembler.batches(decoded, sorting=sorting)
            except UnorderedError:
                raise
            except InputError as problem:
                raise InputError(f"{self.name}: {problem}", hint=problem.hint) from problem

    def _decoded(self) -> Generator[Columns | checkpoint.Mark]:
        for at, feed in enumerate(self.feeds):
            with self._opened(feed):
                if at < self._at:  # read before the import was killed
                    drain(feed)
                    continue
                if at > self._at:
                    self._at, self._begin, self._times = at, self._bytes, []
                    self.lines.lines, self._before = 0, b""
                if len(self.feeds) > 1:
                    self.lines.source = f" [{feed.path.name}]"
                yield from self._of_feed(feed, at)
            if feed.failure is not None:
                return

    def _opened(self, feed: Feed) -> AbstractContextManager[None]:
        """Open one of the files for as long as it is read."""
        return opened(feed)

    def _blocks(self, feed: Feed, at: int) -> Iterator[memoryview]:
        """Yield the blocks of one file; `_is_end` is set before the last."""
        form, head = self.format, b"" if at else self._start
        whole = whole_lines if isinstance(form, TextFormat) else whole_records(form.record_bytes)
        on_end = partial(setattr, self, "_is_end", True)
        start = skip(feed, self._bytes - self._begin, head=head)
        return blocks_of(feed.fd, start, whole=whole, on_end=on_end)

    def _decode(self, text: bytes | memoryview, form: TextFormat) -> Columns | None:
        """Decode whole lines of a block."""
        return form.decode(text, self.lines)

    def _of_feed(self, feed: Feed, at: int) -> Generator[Columns | checkpoint.Mark]:
        """Decode one file."""
        form, self._is_end = self.format, False
        for block in self._blocks(feed, at):
            if isinstance(form, TextFormat):
                columns = self._text_of(block, form)
            else:
                columns = self._records_of(block, form)
            self._on_bytes(*progress_of(self.feeds))
            if columns is not None and self.bounds is not None:
                columns = self._without(columns, self.bounds)
            if columns is not None:
                columns = self._of_one_clock(columns)
                self.outliers.see(columns)
                self.unit_changes.see(columns)
                self.unit_parts.see(columns)
                if columns.rows:
                    if len(self.feeds) > 1 and "time" in columns.numbers:
                        moments = self.assembler.times_of(columns)
                        self._times += [int(moments.min()), int(moments.max())]
                    yield replace(columns, block=None)
            if mark := self._mark():
                yield mark
        if self._times:
            self.pieces.append(Piece(feed.path.name, min(self._times), max(self._times)))
        bad, rows = (sum(counts) for counts in zip((0, 0), *self.of_files, strict=True))
        self.of_files.append((self.lines.bad - bad, self._rows - rows))

    def _text_of(self, block: memoryview, form: TextFormat) -> Columns | None:
        """Decode lines, of which the last of the file may have no newline, or be cut."""
        first, byte, lines = self.lines.lines + 1, self._bytes - self._begin, self.lines
        self._bytes += len(block)
        found = lines_of(block, self._before, form=form, is_end=self._is_end)
        text, line, why_not, end = found.text, found.line, found.why_not, found.end
        is_open = bool(line) and not line.endswith(b"\n")
        before, self._before = self._before + bytes(block[:end][-TAIL_BYTES:]), b""
        columns = self._decode(text, form) if len(text) else None
        if columns is not None and self.words is not None:
            words, codes = texts(columns.words["op"])
            self.words += count_names(codes, words)
        if len(text) and lines.wrong:
            self._damage_of_file().see(text, lines.wrong, line=first, byte=byte)
        if why_not:
            lines.lines += 1
            lines.add(lines.lines, line.decode("utf-8", "replace").rstrip("\r\n"))
        elif is_open and len(text) and lines.wrong[-1:] == [lines.lines - first]:
            why_not = "wrong"
        if line.strip() and (why_not or is_open):
            self.last_line = last_line(lines.lines, line, why_not=why_not) + lines.source
        else:
            self._before = before[-TAIL_BYTES:]
        return columns

    def _damage_of_file(self) -> Damage:
        """Return what is known of the wrong lines of the file that is read."""
        name = self.feeds[self._at].path.name if len(self.feeds) > 1 else ""
        if not self.damages or self.damages[-1].name != name:
            self.damages.append(Damage(name))
        return self.damages[-1]

    def _of_one_clock(self, columns: Columns) -> Columns:
        """Look where the clock starts again; where that is known, let the times go on."""
        first, self._rows = self._rows, self._rows + columns.rows
        if self.shifts is None:
            self.restarts.see(columns, row=first)
        else:
            times = self.shifts.shifted(columns.numbers["time"], row=first)
            columns = replace(columns, numbers={**columns.numbers, "time": times})
        self.disorder.see(columns)
        return columns

    def _records_of(self, block: memoryview, form: RecordFormat) -> Columns | None:
        """Decode whole records; a cut one at the end and impossible ones are wrong lines."""
        self._bytes += len(block)
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


def _possible(units: Units) -> Bounds:
    """Return the numbers that records can have: 64 bits of ns and bytes with what follows."""
    factors = {
        "time": TIME_NS[units.time],
        "offset": units.factor("offset"),
        "length": units.factor("length"),
        "response": 2 * TIME_NS[units.response or "ns"],
    }
    return Bounds({name: (0, LARGEST_SUM // factor) for name, factor in factors.items()})


def _reject_words(form: Format, options: ImportOptions, *, name: str) -> None:
    """Raise UsageError for words of operations of a format that has none."""
    if options.operations and not (isinstance(form, TextFormat) and "op" in form.columns):
        message = f"{name}: --op: {form.name} has no words of operations"
        raise UsageError(message, hint="leave --op out")
