"""Units of another tool's columns: taken, checked against the numbers, outliers found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit.choices import Join
from tracekit.errors import UsageError
from tracekit.units import counted

TIME_NS = {"ns": 1, "us": 1_000, "filetime": 100, "ms": 1_000_000, "s": 1_000_000_000, "date": 1}
"""Nanoseconds in a unit of time; filetime is 100 ns since 1601, a date is read as ns of 1970."""
SIZE_BYTES = {"bytes": 1, "sectors": 512, "pages": 4096}
"""Bytes in a unit; of a page where its size is not known: then tables number pages as blocks."""
UNITS_OF = {
    "time": list(TIME_NS),
    "response": [name for name in TIME_NS if name != "date"],
    "offset": list(SIZE_BYTES),
    "length": list(SIZE_BYTES),
}
SHOWN_CHARACTERS = 120


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
    page_bytes: int | None = None
    """Given by the user."""
    is_within: bool = False
    """Places are within files, where any byte can be one."""
    settled_time: str | None = None
    """Unit of time that the format's own reader takes, where traces are often read in another."""

    @classmethod
    def of(cls, text: str) -> Units:
        """Return the units that a text names: of time, places, lengths, maybe responses; `wall`."""
        time, offset, length, *more = text.split()
        response = next((word for word in more if word != "wall"), None)
        return cls(time, offset, length, is_wall="wall" in more, response=response)

    def factor(self, name: str) -> int:
        """Return the bytes in the unit of `offset` or `length`."""
        unit: str = getattr(self, name)
        return self.page_bytes or SIZE_BYTES[unit] if unit == "pages" else SIZE_BYTES[unit]

    @property
    def has_pages(self) -> bool:
        """Whether places or lengths are pages."""
        return "pages" in (self.offset, self.length)

    def overridden(self, given: Iterable[str]) -> Units:
        """Return the units with the user's WHAT=UNIT; raise UsageError for unknown ones."""
        units = self
        for item in given:
            name, _, unit = item.partition("=")
            known = UNITS_OF.get(name, UNITS_OF["length"])
            if name not in UNITS_OF or unit not in known:
                raise UsageError(
                    f"--unit {item}: not one of time, response, offset or length with its unit",
                    hint=f"such as time=us or length=bytes; known here: {', '.join(known)}",
                )
            given_unit: dict[str, Any] = {name: unit}
            units = replace(units, **given_unit)
        return replace(units, is_wall=True) if units.time == "date" else units


Example = tuple[int, str]
"""Number and beginning of a line, or 0 and what names a record."""


def show_example(example: Example) -> str:
    """Return an example for a message."""
    number, text = example
    return f"line {number}: {text}" if number else text


def listed(texts: Iterable[str]) -> list[str]:
    """Return texts as the lines of a list below a message."""
    return [f"  {text}" for text in texts]


def wrong_lines(count: int) -> str:
    """Say that so many lines are left out."""
    return f"{counted(count, 'line')} {'was' if count == 1 else 'were'} wrong and left out"


@dataclass(frozen=True)
class Block:
    """The lines or records that columns were read from, to show a row as it stands in the file."""

    first: int
    """Lines or records of the file before it."""
    text: bytes | memoryview | None = None
    """The lines; None for records."""
    wrong: frozenset[int] = frozenset()
    """Lines of the block, from 0, that are no row."""
    kept: Any = None
    """Rows of the lines or records that are left, in their order; None if all are."""
    source: str = ""
    """Of one of several files: its name, behind each line."""

    def about(self, row: int) -> str:
        """Return in words which line or record a row is, about: blank lines are not counted."""
        place = row if self.kept is None else int(self.kept[row])
        what = "record" if self.text is None else "line"
        before = sum(line <= place for line in self.wrong)
        return f"{what} {self.first + place + before + 1:,}{self.source}"

    def examples(self, rows: Sequence[int]) -> list[Example]:
        """Return what the rows are in the file."""
        places = rows if self.kept is None else [int(self.kept[row]) for row in rows]
        if self.text is None:
            return [(0, f"record {self.first + place + 1}{self.source}") for place in places]
        texts = bytes(self.text).split(b"\n")
        lines = [at for at, text in enumerate(texts) if text.strip() and at not in self.wrong]
        found = [(lines[place], texts[lines[place]].decode("utf-8", "replace")) for place in places]
        return [
            (self.first + at + 1, text.rstrip()[:SHOWN_CHARACTERS] + self.source)
            for at, text in found
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
    """While it is decoded."""

    def without(self, rows: Any) -> Columns:
        """Return the columns without these rows, an array of their places."""
        is_kept = np.ones(self.rows, np.bool_)
        is_kept[rows] = False
        kept, block = np.flatnonzero(is_kept), self.block
        if block is not None:
            block = replace(block, kept=kept if block.kept is None else block.kept[kept])
        return replace(
            self,
            numbers={name: values[kept] for name, values in self.numbers.items()},
            words={name: column.filter(pa.array(is_kept)) for name, column in self.words.items()},
            rows=len(kept),
            block=block,
        )


def scaled(values: Any, factor: int) -> Any:
    """Return the numbers times the factor; as they are, and no copy, where it is 1."""
    return values if factor == 1 else values * factor


MOST_BAD_RATIO, MOST_DAMAGED_RATIO = 0.01, 0.5


@dataclass(frozen=True)
class ImportOptions:
    """How to import; the defaults are those of the command."""

    form: str | None = None
    columns: str | None = None
    delimiter: str | None = None
    """Between `columns`; None: a comma, or what a format file says."""
    units: tuple[str, ...] = ()
    forces_units: bool = False
    most_bad_ratio: float | None = None
    """Of the lines, wrong ones that are still read, if the user says it."""
    overwrite: bool = False
    regex: str | None = None
    """A line of the user's own text, with named groups; in place of `columns`."""
    blkparse_format: str | None = None
    """What was given to `blkparse -f`."""
    layout_file: Path | None = None
    """Of a text of events; default: layout.json beside it."""
    join: Join = "refuse"
    """What to do where the clock of a trace starts again."""
    operations: tuple[str, ...] = ()
    """WORD=OPERATION, of words that the format does not know."""
    described: int = 0
    """How many of these are of the format file."""
    operation: str | None = None
    """Of all requests, of a format that does not say it."""
    rate: float | None = None
    """Requests a second, of a format without times."""
    page_bytes: int | None = None
    """Of a format that counts pages."""
    explains: bool = False
    """Also say how other formats fit."""
    named: str = ""
    """The format file that the options are of."""
    salvages: bool = False
    """Pass over what is damaged in a text."""
    resumes: bool = False
    """Go on with an import that was killed."""

    def bad_ratio(self, *, is_damaged: bool) -> float:
        """Return how many of the lines may be wrong, of a file in which damage was found or not."""
        if self.most_bad_ratio is not None:
            return self.most_bad_ratio
        return MOST_DAMAGED_RATIO if is_damaged else MOST_BAD_RATIO


DEFAULTS = ImportOptions()
OnBytes = Callable[[int, int | None], None]
"""Called with the bytes read, of how many; None if that is not known."""


@dataclass(frozen=True)
class Import:
    """One import: what is read, into which folder, and how."""

    files: Sequence[Path]
    folder: Path
    options: ImportOptions
    on_bytes: OnBytes
    decoder: Any = None
    """Who decodes the parts of a text, and joins its rows later: a `parsed.Decoder`."""

    @property
    def table(self) -> Path:
        """The table of requests."""
        return self.folder / "requests.parquet"
