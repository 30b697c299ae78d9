"""Texts whose values a delimiter separates: `replayer/read/columns.h` for numpy and Arrow."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tracekit._native import library
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ARROW_ARRAY_WORDS = 10  # struct ArrowArray
SPARE_RATIO = 1.25
"""Rows that a block has room for, of those that it has if its lines are as long as the last's."""
SHOWN_BYTES = 480
"""Of a wrong line; a character has at most four bytes."""


class Kind(IntEnum):
    """What a column holds; `enum tk_column_kind`."""

    PASSED = 0
    INTEGER = 1
    DECIMAL = 2
    POINT = 3
    MAYBE = 4
    CHOICE = 5
    DIGITS = 6
    WORD = 7
    NAME = 8
    DATE = 9


class _Column(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("digits", ctypes.c_int32), ("most", ctypes.c_int64)]


class _Block(ctypes.Structure):
    _fields_ = [
        ("text", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("values", ctypes.POINTER(ctypes.c_void_p)),
        ("capacity", ctypes.c_int64),
        ("wrong", ctypes.c_void_p),
        ("wrong_lines", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("wrong_capacity", "wrong_count", "lines", "rows")),
        ("used", ctypes.c_int64),
    ]


@dataclass
class Block:
    """What a block of lines holds."""

    values: list[NDArray[np.int64]]
    """For each column its numbers, or indices of words; empty of columns passed over."""
    rows: int
    lines: int
    wrong: list[tuple[int, bytes]]
    """Number in the block, from 0, and beginning of each wrong line."""


@functools.cache
def _native() -> ctypes.CDLL:
    native = library()
    handle, out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    native.tk_columns_open.argtypes = [
        *(ctypes.POINTER(_Column), ctypes.c_int64, ctypes.c_int32, ctypes.c_int32),
        *(ctypes.c_char_p, out),
    ]
    native.tk_columns_read.argtypes = [handle, ctypes.POINTER(_Block)]
    native.tk_columns_words.argtypes = [handle, ctypes.c_int64, ctypes.c_void_p]
    native.tk_columns_close.argtypes = [handle]
    native.tk_columns_close.restype = None
    return native


def _check(status: int) -> None:
    if status:
        raise TracekitError("the columns cannot be read", hint="close other programs and try again")


class ColumnReader:
    """Reads blocks of whole lines; the indices of words go on from block to block."""

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
        self._handle = ctypes.c_void_p()
        native = _native()
        array = (_Column * len(columns))(*(_Column(*column) for column in columns))
        words = "".join(f"{word}\n" for word in choices).encode()
        opened = ctypes.byref(self._handle)
        _check(
            native.tk_columns_open(
                array, len(columns), ord(delimiter), int(has_more), words, opened
            )
        )
        weakref.finalize(self, native.tk_columns_close, self._handle)

    def read(self, block: bytes | memoryview) -> Block:
        """Return what the lines of the block hold; a view must be of bytes one after the other."""
        # Each column of a line has a delimiter or the ending.
        most = len(block) // len(self._columns) + 1
        guess = int(len(block) * self._rows_a_byte * SPARE_RATIO) + 1
        found, used = self._read(block, min(guess, most))
        if used < len(block):
            found, used = self._read(block, most)
        self._rows_a_byte = (found.rows + len(found.wrong)) / max(len(block), 1)
        return found

    def _read(self, block: bytes | memoryview, capacity: int) -> tuple[Block, int]:
        """Read with room for so many rows; return what was found in how many first bytes."""
        import numpy as np

        values = [
            np.empty(capacity if column[0] != Kind.PASSED else 0, np.int64)
            for column in self._columns
        ]
        wrong = np.empty((2, len(block) // 2 + 1), np.int64)
        found = Block(values, 0, 0, [])
        places = [array.ctypes.data if len(array) else None for array in values]
        asked = _Block(
            size=len(block),
            values=(ctypes.c_void_p * len(places))(*places),
            capacity=capacity,
            wrong=wrong[0].ctypes.data,
            wrong_lines=wrong[1].ctypes.data,
            wrong_capacity=wrong.shape[1],
        )
        text = np.frombuffer(block, np.uint8)
        asked.text = text.ctypes.data
        _check(_native().tk_columns_read(self._handle, ctypes.byref(asked)))
        found.rows, found.lines = asked.rows, asked.lines
        found.values = [array[: asked.rows] if len(array) else array for array in values]
        for begin, number in wrong[:, : asked.wrong_count].T.tolist():
            shown = bytes(block[begin : begin + SHOWN_BYTES])
            found.wrong.append((number, shown.split(b"\n", 1)[0]))
        return found, asked.used

    def words(self, column: int) -> Any:
        """Return the words of a column seen so far as an Arrow array."""
        import pyarrow as pa

        array = (ctypes.c_uint64 * ARROW_ARRAY_WORDS)()
        place = ctypes.addressof(array)
        _check(_native().tk_columns_words(self._handle, column, place))
        return pa.Array._import_from_c(place, pa.string())
