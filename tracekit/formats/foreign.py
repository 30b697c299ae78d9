"""What the importers of foreign formats hand on: columns as they stand in the file, and units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError, UsageError

if TYPE_CHECKING:
    from tracekit.formats.strays import Bounds

TIME_NS = {
    "ns": 1,
    "us": 1_000,
    "filetime": 100,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "date": 1,
}
"""Nanoseconds in a unit of time; filetime is 100 ns since 1601, a date is read as ns of 1970."""
RESPONSE_UNITS = [name for name in TIME_NS if name != "date"]
SIZE_BYTES = {"bytes": 1, "sectors": 512, "pages": 4096}
SHOWN_CHARACTERS = 120
FILETIME_OF_1970 = 116_444_736_000_000_000


class StrayError(InputError):
    """Numbers contradict the units, and no longer without the lines that lie beyond `bounds`."""

    def __init__(self, message: str, *, bounds: Bounds, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.bounds = bounds


@dataclass(frozen=True)
class Units:
    """In which units a format counts."""

    time: str
    offset: str
    length: str
    is_wall: bool = False
    """Times count from 1970, or for filetime from 1601; else from the capture's start."""
    response: str | None = None
    """Unit of the response time, where the format has one."""
    settled_time: str | None = None
    """Unit of time that the format's own reader takes, where traces are often read in another."""

    def overridden(self, given: Iterable[str]) -> Units:
        """Return the units with the user's WHAT=UNIT; raise UsageError for unknown ones."""
        units = self
        for item in given:
            name, _, unit = item.partition("=")
            known = list(TIME_NS if name == "time" else SIZE_BYTES)
            if name == "response":
                known = RESPONSE_UNITS
            if name not in ("time", "response", "offset", "length") or unit not in known:
                raise UsageError(
                    f"--unit {item}: not one of time, response, offset or length with its unit",
                    hint=f"such as time=us or length=bytes; known here: {', '.join(known)}",
                )
            given_unit: dict[str, Any] = {name: unit}
            units = replace(units, **given_unit)
        return replace(units, is_wall=True) if units.time == "date" else units


@dataclass(frozen=True)
class Block:
    """The block of lines that columns were read from, to show a row as it stands in the file."""

    text: bytes | memoryview
    first: int
    """Lines of the file before it."""
    wrong: frozenset[int]
    """Lines of the block, from 0, that are no row."""
    kept: Any = None
    """Rows of the lines that are left, in their order; None if all are."""

    def lines(self, rows: Sequence[int]) -> list[tuple[int, str]]:
        """Return number and text of the rows' lines."""
        texts = bytes(self.text).split(b"\n")
        places = [at for at, text in enumerate(texts) if text.strip() and at not in self.wrong]
        if self.kept is not None:
            rows = [int(self.kept[row]) for row in rows]
        found = [places[row] for row in rows]
        return [
            (self.first + at + 1, texts[at].decode("utf-8", "replace").rstrip()) for at in found
        ]


@dataclass
class Columns:
    """Some requests as they stand in the file, column by column."""

    numbers: Mapping[str, Any]
    """int64 arrays: time, offset, length, response, pid; what is missing is not known."""
    words: Mapping[str, Any]
    """Arrow dictionary arrays: op, device, volume, process."""
    rows: int
    scaled: set[str] = field(default_factory=set)
    """Numbers that are nanoseconds already."""
    block: Block | None = None
    """Of a text, while it is decoded."""
    first: int = 0
    """Records before them, of what is no text."""

    def shown(self, rows: Sequence[int]) -> list[str]:
        """Return for each of the rows the line, with its number, or the number of its record."""
        if self.block is None:
            return [f"record {self.first + row + 1}" for row in rows]
        found = self.block.lines(rows) if len(rows) else []
        return [f"line {number}: {text[:SHOWN_CHARACTERS]}" for number, text in found]

    def example(self, row: int, reason: str) -> tuple[int, str]:
        """Return a wrong row's line number and text, or 0 and its record with the reason."""
        if self.block is not None:
            return self.block.lines([row])[0]
        return 0, f"record {self.first + row + 1}: {reason}"

    def without(self, rows: Any) -> Columns:
        """Return the columns without these rows, an array of their places."""
        import numpy as np
        import pyarrow as pa

        is_kept = np.ones(self.rows, np.bool_)
        is_kept[rows] = False
        kept, before = np.flatnonzero(is_kept), self.block.kept if self.block else None
        places = kept if before is None else before[kept]
        return replace(
            self,
            numbers={name: values[kept] for name, values in self.numbers.items()},
            words={name: column.filter(pa.array(is_kept)) for name, column in self.words.items()},
            rows=len(kept),
            block=replace(self.block, kept=places) if self.block else None,
        )


def bad_operation(words: Iterable[str], known: Mapping[str, str]) -> bool:
    """Say whether one of the words is no operation of the format."""
    return any(word.strip().lower() not in known for word in words)
