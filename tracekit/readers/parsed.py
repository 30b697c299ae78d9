"""A text whose parts were decoded by tasks, read as if that was done here.

A part is some blocks of a plain file, as `blocks_of` makes them, or a whole compressed file.
What is counted in a trace and concluded of it is left to the same `Reading`, block after block.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import InputError
from tracekit.readers import reading
from tracekit.readers.assemble import Assembler, Sorting, places_of
from tracekit.readers.checkpoint import Again
from tracekit.readers.damage import TAIL_BYTES
from tracekit.readers.decoded import Chunk, ChunkReader, ChunkWriter, Words
from tracekit.readers.files import BYTE_ORDER_MARK
from tracekit.readers.formats import FioLog
from tracekit.readers.outliers import Bounds
from tracekit.readers.reading import Reading, blocks_of, whole_lines
from tracekit.readers.salvage import Salvage
from tracekit.readers.stream import Feed, Zeros, changed, is_plain, open_feeds, skip
from tracekit.readers.text import PatternFormat, TextFormat
from tracekit.readers.units import Block, Columns, Import, ImportOptions, Units
from tracekit.readers.unknown import TIMES

PART_BLOCKS = 4
STEP_BYTES = 1 << 16
READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Text:
    """What is known of a text before its parts are decoded."""

    form: TextFormat
    header: frozenset[bytes]
    """Lines that may stand again where files were joined."""
    files: tuple[Path, ...]
    """In their order, absolute."""
    begin: int
    """Byte of the first file's text at which its requests begin."""
    salvages: bool
    states: tuple[tuple[int, int], ...]
    """Size and time of each file, as it was at first."""


@dataclass(frozen=True)
class Part:
    """What one task does of a file: some blocks, all of it, or its digest."""

    file: int
    """Its number in the text."""
    ends: tuple[int, ...] = ()
    """Bytes at which blocks begin and end; none of a whole file."""
    is_last: bool = True
    """The file ends with it."""
    is_digest: bool = False

    @property
    def bytes(self) -> int:
        """How long its blocks are."""
        return self.ends[-1] - self.ends[0] if self.ends else 0


@dataclass(frozen=True)
class Stored:
    """What is known of a file that was read to its end."""

    bytes: int
    sha256: str
    compression: str | None = None
    is_empty: bool = False
    failure: InputError | None = None
    zeros: Zeros = field(default_factory=list)
    salvage: Salvage | None = None

    def hexdigest(self) -> str:
        """Return the digest as `hashlib` does."""
        return self.sha256


@dataclass(frozen=True)
class Decoded:
    """What a task made of a part: chunks, and what it knows of a file of which it read all."""

    part: Part
    chunks: tuple[Chunk, ...] = ()
    stored: Stored | None = None


def text_of(read: Reading) -> Text | None:
    """Return a text that was begun to be read; None where a block says nothing by itself.

    Fio's log of version 2 has times on lines of their own, places within files are numbered as they
    come, records have no lines, and without times requests are numbered.
    """
    form = read.format
    if not isinstance(form, TextFormat) or read.feeds[0].total_bytes is None:
        return None
    is_known = type(form) in (TextFormat, PatternFormat)
    is_known |= isinstance(form, FioLog) and form.version > 2
    if not is_known or TIMES in read.lacks:
        return None
    files = tuple(feed.path.absolute() for feed in read.feeds)
    salvages, states = read.feeds[0].salvage is not None, tuple(map(_state_of, files))
    return Text(form, read.lines.header, files, read.begin, salvages, states)


def _state_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def parts_of(text: Text) -> list[Part]:
    """Return the parts of a text: PART_BLOCKS blocks each, or whole files."""
    found = list[Part]()
    for number, file in enumerate(text.files):
        ends = None if text.salvages or not is_plain(file) else _ends_of(text, number)
        if ends is None:
            found.append(Part(number))
            continue
        found.append(Part(number, is_digest=True))
        last = len(ends) - 1
        for first in range(0, last, PART_BLOCKS):
            end = min(first + PART_BLOCKS, last)
            found.append(Part(number, tuple(ends[first : end + 1]), is_last=end == last))
    return found


def _begin_of(text: Text, file: int, head: bytes) -> int:
    """Return the byte at which the requests of a file begin, behind a mark of UTF-8."""
    if file:
        return 0
    return text.begin + len(BYTE_ORDER_MARK) * head.startswith(BYTE_ORDER_MARK)


def _ends_of(text: Text, file: int) -> list[int] | None:
    """Return where the blocks of a plain file begin and end, as `blocks_of` finds them.

    None where there is none, or a line is longer than a block.
    """
    with text.files[file].open("rb") as source:
        fd, size = source.fileno(), os.fstat(source.fileno()).st_size
        ends = [_begin_of(text, file, os.pread(fd, len(BYTE_ORDER_MARK), 0))]
        while ends[-1] < size:
            rest, end = size - ends[-1], size
            if rest >= reading.CHUNK_BYTES:
                end = _line_end(fd, ends[-1], ends[-1] + min(2 * reading.CHUNK_BYTES, rest) - 1)
            if end == ends[-1] and rest >= 2 * reading.CHUNK_BYTES:
                return None
            ends.append(end if end > ends[-1] else size)
    return ends if len(ends) > 1 else None


def _line_end(fd: int, begin: int, end: int) -> int:
    """Return behind which byte the last line ends that is whole before `end`; `begin` if none."""
    while end > begin:
        first = max(begin, end - STEP_BYTES)
        if found := os.pread(fd, end - first, first).rfind(b"\n") + 1:
            return first + found
        end = first
    return begin


def decode_part(part: Part, *, text: Text, folder: Path, groups: int) -> Decoded:
    """Do a part, in a new folder within `folder`; an attempt of another task has its own."""
    place = Path(tempfile.mkdtemp(dir=folder))
    file = text.files[part.file]
    if part.is_digest:
        return Decoded(part, stored=_digest_of(file))
    writer = ChunkWriter(text.form, text.header, groups)
    if not part.ends:
        return _decode_file(text, part, place, writer)
    with file.open("rb") as source:
        fd = source.fileno()
        first = _begin_of(text, part.file, os.pread(fd, len(BYTE_ORDER_MARK), 0))
        for begin, end in pairwise(part.ends):
            is_end = part.is_last and end == part.ends[-1]
            tail = max(first, begin - TAIL_BYTES) if is_end else begin
            data = os.pread(fd, end - tail, tail)
            block = memoryview(data)[begin - tail :]
            writer.add(block, begin=begin, before=data[: begin - tail], is_end=is_end)
    return Decoded(part, (writer.write(place / "0.arrow", text=file),))


def _digest_of(file: Path) -> Stored:
    digest, size = hashlib.sha256(), 0
    with file.open("rb", buffering=0) as source:
        while data := source.read(READ_BYTES):
            digest.update(data)
            size += len(data)
    return Stored(size, digest.hexdigest())


def _decode_file(text: Text, part: Part, place: Path, writer: ChunkWriter) -> Decoded:
    """Decode a whole file; what is unpacked of it is kept, to show lines as they stand in it."""
    chunks, at, before = list[Chunk](), 0, b""
    is_end = list[bool]()
    unpacked = place / "text"
    with (
        open_feeds([text.files[part.file]], salvages=text.salvages) as (feed,),
        unpacked.open("wb") as out,
    ):
        head = os.read(feed.fd, STEP_BYTES)
        start = skip(feed, _begin_of(text, part.file, head), head=head)
        on_end = partial(is_end.append, True)
        blocks = blocks_of(feed.fd, start, whole=whole_lines, on_end=on_end)
        for block in blocks:
            writer.add(block, begin=at, before=before, is_end=bool(is_end))
            out.write(block)
            at, before = at + len(block), (before + bytes(block[-TAIL_BYTES:]))[-TAIL_BYTES:]
            if len(writer) == PART_BLOCKS or is_end:
                chunks.append(writer.write(place / f"{len(chunks)}.arrow", text=unpacked))
        feed.finish()
        failure = feed.problem()
        said = feed.hashed_bytes, feed.digest.hexdigest(), feed.compression, feed.is_empty
        stored = Stored(*said, failure, feed.zeros, feed.salvage)
    return Decoded(part, tuple(chunks), stored)


class Decoder(Protocol):
    """Who decodes the parts of a text, and joins its rows later."""

    def decode(self, text: Text) -> list[Decoded]:
        """Return what became of each of `parts_of` the text, in their order."""

    def take(self, joining: Joining) -> None:
        """Take what is needed to join the rows: nothing speaks against the trace."""


@dataclass
class DecodedText:
    """A text that was decoded."""

    text: Text
    head: bytes
    parts: list[Decoded]

    def feeds(self) -> list[Feed]:
        """Return its files as if each had been read here to its end."""
        found = []
        for number, path in enumerate(self.text.files):
            parts = (one for one in self.parts if one.part.file == number)
            stored = next(one.stored for one in parts if one.stored is not None)
            size, time_ns = self.text.states[number]
            feed = Feed(path, total_bytes=size, hashed_bytes=stored.bytes, digest=stored)
            feed.compression, feed.is_empty = stored.compression, stored.is_empty
            feed.zeros, feed.salvage = stored.zeros, stored.salvage
            feed.failure = stored.failure or changed(
                feed.name, before=(size, time_ns), now=_state_of(path)
            )
            found.append(feed)
        return found


class ParsedReading(Reading):
    """The reading of a text whose blocks are decoded."""

    def __init__(
        self,
        feeds: Sequence[Feed],
        run: Import,
        *,
        start: bytes,
        again: Again,
        decoded: Sequence[Decoded],
    ) -> None:
        super().__init__(feeds, run, start=start, again=again)
        self._marks = None
        self._parts = decoded
        self._words = Words()
        """Of all columns, in the order in which they come."""
        self._at_block: tuple[Chunk, int] | None = None
        self._reader: ChunkReader | None = None
        self._codes: dict[str, NDArray[np.int32]] = {}
        """Places of the words of a chunk in `_words`."""

    def _opened(self, feed: Feed) -> AbstractContextManager[None]:  # noqa: ARG002 - it was read
        return nullcontext()

    def _blocks(self, feed: Feed, at: int) -> Iterator[memoryview]:  # noqa: ARG002 - known by `at`
        chunks = [chunk for one in self._parts if one.part.file == at for chunk in one.chunks]
        for chunk in chunks:
            with chunk.text.open("rb") as file:
                text = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            self._open(chunk)
            for number, block in enumerate(chunk.blocks):
                self._at_block = chunk, number
                self._is_end = chunk is chunks[-1] and number == len(chunk.blocks) - 1
                yield text[block.begin : block.end]

    def _open(self, chunk: Chunk) -> None:
        """Open the file of a chunk, if it has rows, and learn its words."""
        self._reader, self._codes = None, {}
        if not any(chunk.group_rows):
            return
        self._reader = ChunkReader(chunk)
        for name, words in self._reader.words.items():
            known = self._words.setdefault(name, [])
            self._codes[name] = np.array(places_of(words, known), np.int32)

    def _decode(self, text: bytes | memoryview, form: TextFormat) -> Columns | None:
        """Take what was decoded of the block, of which `lines` get to know."""
        if self._at_block is None or not isinstance(self.format, type(form)):
            return None
        chunk, number = self._at_block
        block, lines = chunk.blocks[number], self.lines
        first = lines.lines
        lines.wrong, lines.passed = list(block.wrong), lines.passed + block.passed
        for line, shown in block.examples:
            lines.add(first + line, shown)
        lines.bad += block.bad - len(block.examples)
        lines.lines += block.lines
        if self._reader is None or not block.rows:
            return None
        numbers = self._reader.numbers(number)
        numbers |= {name: codes[numbers[name]] for name, codes in self._codes.items()}
        stands = Block(first, text, block.no_rows, source=lines.source)
        return self._reader.columns(numbers, self._words, scaled=form.scaled(), block=stands)


@dataclass(frozen=True)
class Joining:
    """What is needed to join the rows of groups of volumes."""

    chunks: tuple[Chunk, ...]
    """In the order of the text."""
    scaled: frozenset[str]
    bounds: Bounds | None
    units: Units
    operations: Mapping[str, str]
    rate: float | None
    operation: str | None
    first_ns: int
    is_ordered: bool
    """The requests stand in order of time."""

    def batches(self, group: int, *, sorting: Sorting | None) -> Iterator[Any]:
        """Yield the requests of a group in their order, which `sorting` makes if need be."""
        assembler = Assembler(
            self.units, self.operations, "trace", rate=self.rate, operation=self.operation
        )
        assembler.begin_at(self.first_ns)
        yield from assembler.batches(self._blocks(group), sorting=sorting)

    def _blocks(self, group: int) -> Iterator[Columns]:
        for chunk in (one for one in self.chunks if one.group_rows[group]):
            reader = ChunkReader(chunk)
            for number in range(len(chunk.blocks)):
                numbers = reader.numbers(number, group=group)
                columns = reader.columns(numbers, reader.words, scaled={*self.scaled})
                if self.bounds is not None:
                    columns = columns.without(self.bounds.outside(columns))
                if columns.rows:
                    yield columns


def joining_of(read: Reading, found: DecodedText, *, options: ImportOptions) -> Joining:
    """Return what is needed to join the rows of a text that was read to its end."""
    form = found.text.form
    return Joining(
        chunks=tuple(chunk for one in found.parts for chunk in one.chunks),
        scaled=frozenset(form.scaled()),
        bounds=read.bounds,
        units=read.units,
        operations=dict(form.operations),
        rate=options.rate,
        operation=options.operation,
        first_ns=read.assembler.first_ns,
        is_ordered=not read.disorder.behind,
    )
