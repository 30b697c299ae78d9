"""Blocks of a text that are decoded: written by a task, read in their order, or by group.

A file of Arrow has the columns of each block, in the order of the text, and behind them the same
rows again, by group of volumes: whoever joins a group reads no other rows.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.arrow import number_column, texts, word_array
from tracekit.readers.damage import lines_of
from tracekit.readers.text import BadLines, TextFormat
from tracekit.readers.units import Block, Columns, Example

Words = dict[str, list[str]]
WORDS = b"words"
PACKED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class BlockLines:
    """The lines of a block: what was counted, and where it stands in the text."""

    begin: int
    end: int
    rows: int
    lines: int
    bad: int
    passed: int
    examples: tuple[Example, ...]
    wrong: tuple[int, ...]
    no_rows: frozenset[int]
    """Lines, from 0, that are no rows."""


@dataclass(frozen=True)
class Chunk:
    """A file of decoded blocks."""

    path: Path
    text: Path
    """What the places of the blocks are in: the trace's file, or what was unpacked of it."""
    blocks: tuple[BlockLines, ...]
    group_rows: tuple[int, ...]


@dataclass
class ChunkWriter:
    """Decodes blocks until they are written together."""

    form: TextFormat
    header: frozenset[bytes]
    groups: int
    _lines: BadLines = field(default_factory=BadLines)
    _blocks: list[BlockLines] = field(default_factory=list)
    _columns: list[Columns | None] = field(default_factory=list)

    def __len__(self) -> int:
        """Return how many blocks wait to be written."""
        return len(self._blocks)

    def add(self, block: memoryview, *, begin: int, before: bytes = b"", is_end: bool) -> None:
        """Decode a block that begins at this byte of the text; the last of a file may be cut."""
        lines = self._lines = BadLines(header=self.header, reader=self._lines.reader)
        text, columns = lines_of(block, before, form=self.form, is_end=is_end).text, None
        if len(text):
            columns = self.form.decode(text, lines)
        stands = columns.block if columns else None
        self._blocks.append(
            BlockLines(
                begin,
                begin + len(block),
                columns.rows if columns else 0,
                lines.lines,
                lines.bad,
                lines.passed,
                tuple(lines.examples),
                tuple(lines.wrong),
                stands.wrong if stands else frozenset(),
            )
        )
        self._columns.append(columns)

    def write(self, path: Path, *, text: Path) -> Chunk:
        """Write the blocks that wait; return where they are."""
        counts = np.zeros(self.groups, np.int64)
        if found := [columns for columns in self._columns if columns]:
            words = {name: texts(column)[0] for name, column in found[-1].words.items()}
            batches = [_batch_of(columns, found[0]) for columns in self._columns]
            rows = [_groups_of(batch, words, self.groups) for batch in batches]
            each = [np.bincount(one, minlength=self.groups) for one in rows]
            counts = np.sum(each, axis=0)
            parts = [
                batch.take(pa.array(np.argsort(one, kind="stable")))
                for batch, one in zip(batches, rows, strict=True)
            ]
            ends = [np.concatenate(([0], np.cumsum(one))).tolist() for one in each]
            by_group = (
                part.slice(end[group], end[group + 1] - end[group])
                for group in range(self.groups)
                for part, end in zip(parts, ends, strict=True)
            )
            schema = batches[0].schema.with_metadata({WORDS: json.dumps(words)})
            with pa.ipc.new_file(path, schema, options=PACKED) as out:
                for batch in (*batches, *by_group):
                    out.write_batch(batch)
        chunk = Chunk(path, text, tuple(self._blocks), tuple(counts.tolist()))
        self._blocks, self._columns, self._lines = [], [], BadLines()
        return chunk


def _batch_of(columns: Columns | None, like: Columns) -> Any:
    """Return the numbers of a block and the codes of its words; none of a block without rows."""
    found: dict[str, NDArray[Any]]
    if columns is None:
        found = dict.fromkeys(like.numbers, np.empty(0, np.int64))
        found |= dict.fromkeys(like.words, np.empty(0, np.int32))
    else:
        found = {**columns.numbers}
        found |= {name: texts(column)[1] for name, column in columns.words.items()}
    return pa.RecordBatch.from_pydict({name: number_column(one) for name, one in found.items()})


def _groups_of(batch: Any, words: Words, count: int) -> NDArray[np.int64]:
    """Return the group of each row's volume: the same in all files, whatever the codes."""
    found = np.zeros(len(batch), np.int64)
    for name in ("device", "volume"):
        if name in words:
            each = [zlib.crc32(f"{name} {word.strip()}".encode()) for word in words[name]]
            found += np.array(each, np.int64)[batch.column(name).to_numpy()]
    return found % count


class ChunkReader:
    """Reads a file of decoded blocks."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self._file = pa.ipc.open_file(pa.memory_map(str(chunk.path)))
        self.words: Words = json.loads(self._file.schema.metadata[WORDS])

    def numbers(self, block: int, *, group: int | None = None) -> dict[str, NDArray[Any]]:
        """Return the numbers of a block, or of the rows of a group in it, and codes of words."""
        place = block
        if group is not None:
            place += len(self.chunk.blocks) * (group + 1)
        batch = self._file.get_batch(place)
        return {name: batch.column(name).to_numpy() for name in batch.schema.names}

    def columns(
        self,
        numbers: Mapping[str, NDArray[Any]],
        words: Words,
        *,
        scaled: set[str],
        block: Block | None = None,
    ) -> Columns:
        """Return the columns of rows whose codes are places in these words."""
        return Columns(
            numbers={name: one for name, one in numbers.items() if name not in self.words},
            words={
                name: pa.DictionaryArray.from_arrays(
                    number_column(numbers[name], pa.int32()), word_array(words[name])
                )
                for name in self.words
            },
            rows=len(next(iter(numbers.values()))),
            scaled=scaled,
            block=block,
        )
