"""Texts whose values a delimiter separates: `replayer/read/columns.h` for numpy and Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import Owned, address, array, constant, struct

SPARE_RATIO = 1.25
"""Rows that a block has room for, of those that it has if its lines are as long as the last's."""
SHOWN_BYTES = 480
"""Of a wrong line; a character has at most four bytes."""


class Kind(IntEnum):
    """What a column holds; `enum tk_column_kind`."""

    PASSED = constant("COLUMN_TEXT_PASSED")
    INTEGER = constant("COLUMN_TEXT_INTEGER")
    DECIMAL = constant("COLUMN_TEXT_DECIMAL")
    POINT = constant("COLUMN_TEXT_POINT")
    MAYBE = constant("COLUMN_TEXT_MAYBE")
    CHOICE = constant("COLUMN_TEXT_CHOICE")
    DIGITS = constant("COLUMN_TEXT_DIGITS")
    WORD = constant("COLUMN_TEXT_WORD")
    NAME = constant("COLUMN_TEXT_NAME")
    DATE = constant("COLUMN_TEXT_DATE")


@dataclass
class Block:
    """What a block of lines holds."""

    values: list[NDArray[np.int64]]
    """For each column its numbers, or indices of words; empty of columns passed over."""
    rows: int
    lines: int
    wrong: list[tuple[int, bytes]]
    """Number in the block, from 0, and beginning of each wrong line."""


class ColumnReader(Owned):
    """Reads blocks of whole lines; the indices of words go on from block to block."""

    kind = "tk_columns"
    made_by, freed_by = "open", "close"
    failure = "the columns cannot be read"

    def __init__(
        self,
        columns: Sequence[tuple[Kind, int] | tuple[Kind, int, int]],
        delimiter: str,
        *,
        choices: Sequence[str] = (),
        has_more: bool = False,
    ) -> None:
        """Take kind, digits and, if any, the largest number of each column; a CHOICE's words."""
        self._columns = list(columns)
        self._rows_a_byte = 1.0
        words = "".join(f"{word}\n" for word in choices).encode()
        kinds = array("struct tk_column", columns)
        super().__init__(kinds, len(columns), ord(delimiter), has_more, words)

    def read(self, block: bytes | memoryview) -> Block:
        """Return what the lines of the block hold; a view must be of bytes one after the other."""
        # Each column of a line has a delimiter or the ending.
        most = len(block) // len(self._columns) + 1
        guess = int(len(block) * self._rows_a_byte * SPARE_RATIO) + 1
        found, used = self._read_rows(block, min(guess, most))
        if used < len(block):
            found, used = self._read_rows(block, most)
        self._rows_a_byte = (found.rows + len(found.wrong)) / max(len(block), 1)
        return found

    def _read_rows(self, block: bytes | memoryview, capacity: int) -> tuple[Block, int]:
        """Read at most so many rows; return what was found in how many first bytes."""
        values = [
            None if kind == Kind.PASSED else np.empty(capacity, np.int64)
            for kind, *_ in self._columns
        ]
        wrong, wrong_lines = np.empty((2, len(block) // 2 + 1), np.int64)
        asked = struct(
            "tk_columns_block",
            text=np.frombuffer(block, np.uint8),
            size=len(block),
            values=values,
            capacity=capacity,
            wrong=wrong,
            wrong_lines=wrong_lines,
            wrong_capacity=len(wrong),
        )
        self._check(self._call("read", asked))
        nothing = np.empty(0, np.int64)
        found = Block(
            [nothing if column is None else column[: asked.rows] for column in values],
            asked.rows,
            asked.lines,
            [],
        )
        count = asked.wrong_count
        for begin, number in zip(wrong[:count].tolist(), wrong_lines[:count].tolist(), strict=True):
            shown = bytes(block[begin : begin + SHOWN_BYTES])
            found.wrong.append((number, shown.split(b"\n", 1)[0]))
        return found, asked.used

    def words(self, column: int) -> Any:
        """Return the words of a column seen so far as an Arrow array."""
        import pyarrow as pa

        found = struct("ArrowArray")
        self._check(self._call("words", column, found))
        return pa.Array._import_from_c(address(found), pa.string())
