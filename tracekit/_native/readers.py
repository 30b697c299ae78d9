"""The readers of other tools' traces, for numpy and Arrow.

Open CAS telemetry (`replayer/read/octf.h`), texts with a delimiter (`replayer/read/columns.h`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.decode import Place, StoppedError, place_of
from tracekit._native.library import (
    Owned,
    address,
    array,
    call,
    constant,
    enumerators,
    plain,
    struct,
)

COLUMNS = enumerators("tk_octf_column", "TK_OCTF_")[:-1]
BLOCK_ROWS = (1 << 16) - 8
"""Columns that lay a power of two apart would take the same lines of a cache."""


class Problem(IntEnum):
    """Why a trace cannot be read on; `enum octf_problem_kind` has what the values mean."""

    NONE = constant("OCTF_PROBLEM_NONE")
    CUT = constant("OCTF_PROBLEM_CUT")
    LENGTH = constant("OCTF_PROBLEM_LENGTH")
    MESSAGE = constant("OCTF_PROBLEM_MESSAGE")
    HEADER = constant("OCTF_PROBLEM_HEADER")
    TIME = constant("OCTF_PROBLEM_TIME")
    PLACE = constant("OCTF_PROBLEM_PLACE")
    DEVICES = constant("OCTF_PROBLEM_DEVICES")
    READ = constant("OCTF_PROBLEM_READ")
    MEMORY = constant("OCTF_PROBLEM_MEMORY")


class OctfStats(SimpleNamespace):
    """What was read: the fields of `struct tk_octf_stats`, where each is explained."""


@dataclass(frozen=True)
class Device:
    """A device of the trace; name and size as it was described, or empty and 0."""

    id: int
    sectors: int
    name: str


class OctfError(StoppedError):
    """The reader stopped, with a Problem of this module."""


def is_octf(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of such a trace."""
    return bool(call("tk_octf_detect", head, len(head)))


class OctfReader(Owned):
    """Reads open descriptors of one trace, of the first behind `head`."""

    kind = "tk_octf"
    made_by, freed_by = "open", "close"
    failure = "the OCTF trace cannot be read"

    def __init__(self, fds: Sequence[int], head: bytes) -> None:
        super().__init__(array("int32_t", fds), len(fds), head, len(head))

    def read(self) -> dict[str, NDArray[np.int64]]:
        """Return the next requests by COLUMNS, of no rows at the end; raise OctfError."""
        block = np.empty((len(COLUMNS), BLOCK_ROWS), np.int64)
        rows = self._call("read", list(block), BLOCK_ROWS)
        if rows < 0:
            raise OctfError(place_of(self._read("problem", "octf_problem"), Problem))
        return {name: block[number, :rows] for number, name in enumerate(COLUMNS)}

    def devices(self) -> list[Device]:
        """Return the devices that occurred, in order of appearance."""
        found: list[Device] = []
        device = struct("tk_octf_device")
        while len(found) < self._call("device", len(found), device):
            fields = plain(device)
            found.append(Device(**fields | {"name": fields["name"].decode("utf-8", "replace")}))
        return found

    def stats(self) -> OctfStats:
        """Return what was read so far."""
        return OctfStats(**self._read("stats", "tk_octf_stats"))

    def cut(self, file: int) -> Place | None:
        """Return where input `file` ended within a message, if it did."""
        problem = self._read("cut", "octf_problem", file)
        return place_of(problem, Problem) if problem["kind"] else None


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

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        """Pickle it by its number: Python 3.11.0 to 3.11.3 do it by a call of getattr."""
        return Kind, (int(self),)


@dataclass
class Block:
    """What a block of lines holds."""

    values: list[NDArray[np.int64]]
    """For each column its numbers, or indices of words; empty of columns passed over."""
    rows: int
    lines: int
    wrong: list[tuple[int, bytes]]
    """Number in the block, from 0, and beginning of each wrong line."""


def examples(
    text: bytes | memoryview, *, begins: NDArray[Any], numbers: NDArray[Any], count: int
) -> list[tuple[int, bytes]]:
    """Return number and beginning of the first `count` wrong lines of a block."""
    return [
        (number, bytes(text[begin : begin + SHOWN_BYTES]).split(b"\n", 1)[0])
        for begin, number in zip(begins[:count].tolist(), numbers[:count].tolist(), strict=True)
    ]


class Depths(Owned):
    """Counts how many requests of a device are under way: `replayer/read/depths.h`."""

    kind = "tk_depths"
    made_by, freed_by = "open", "close"
    failure = "the queue depths cannot be counted"

    def __init__(self) -> None:
        super().__init__()
        self._devices = 0

    def __getstate__(self) -> list[list[int]]:
        """Return the ends of what is under way on each device."""
        found = []
        for device in range(self._devices):
            ends = np.empty(self._call("under_way", device, None, 0), np.int64)
            self._call("under_way", device, ends, len(ends))
            found.append(ends.tolist())
        return found

    def __setstate__(self, ends: list[list[int]]) -> None:
        """Begin with these under way, as if all had begun at time 0."""
        Depths.__init__(self)
        for device, of_one in enumerate(ends):
            same = np.full(len(of_one), device, np.int32)
            zeros, responses = np.zeros(len(of_one), np.int64), np.array(of_one, np.int64)
            self.count(same, times_ns=zeros, responses_ns=responses)
        self._devices = len(ends)

    def count(
        self,
        device: NDArray[np.int32],
        *,
        times_ns: NDArray[np.int64],
        responses_ns: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the ends (-1: not known) and depths of the next requests."""
        ends, depths = np.empty(len(device), np.int64), np.empty(len(device), np.int32)
        self._devices = max(self._devices, int(device.max(initial=-1)) + 1)
        self._check(self._call("count", device, times_ns, responses_ns, len(device), ends, depths))
        return ends, depths


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
        self._options = {"delimiter": delimiter, "choices": list(choices), "has_more": has_more}
        self._rows_a_byte = 1.0
        words = "".join(f"{word}\n" for word in choices).encode()
        kinds = array("struct tk_column", columns)
        super().__init__(kinds, len(columns), ord(delimiter), has_more, words)

    def __getstate__(self) -> dict[str, Any]:
        """Return how it was made, and the words of each column so far."""
        words = [self.words(place).to_pylist() for place in range(len(self._columns))]
        return {"columns": self._columns, "options": self._options, "words": words}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make one that knows these words."""
        ColumnReader.__init__(self, state["columns"], **state["options"])
        for place, words in enumerate(state["words"]):
            for word in words:
                text = word.encode()
                self._check(self._call("add_word", place, text, len(text)))

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
            examples(block, begins=wrong, numbers=wrong_lines, count=asked.wrong_count),
        )
        return found, asked.used

    def words(self, column: int) -> Any:
        """Return the words of a column seen so far as an Arrow array."""
        import pyarrow as pa

        found = struct("ArrowArray")
        self._check(self._call("words", column, found))
        return pa.Array._import_from_c(address(found), pa.string())
