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
from tracekit.units import SECTOR_BYTES

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

    def examples(self, rows: Sequence[int]) -> list[Example]:
        """Return what the rows are in the file."""
        places = rows if self.kept is None else [int(self.kept[row]) for row in rows]
        if self.text is None:
            return [(0, f"record {self.first + place + 1}") for place in places]
        texts = bytes(self.text).split(b"\n")
        lines = [at for at, text in enumerate(texts) if text.strip() and at not in self.wrong]
        found = [(lines[place], texts[lines[place]].decode("utf-8", "replace")) for place in places]
        return [(self.first + at + 1, text.rstrip()[:SHOWN_CHARACTERS]) for at, text in found]


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


FEWEST_PAIRS = 20
PAIRS_FACTOR = 10
FEWEST_REQUESTS = 100
MOST_PER_S = 5e6
LEAST_PER_S = 1e-3
GIB = 1 << 30
LARGEST_LENGTH_BYTES = GIB
LARGEST_PLACE_BYTES = 1 << 60
EPOCH_S = (631_152_000, 4_102_444_800)
"""1990 to 2100."""
SMALL_RATIO = 0.01
MOSTLY = 0.5
FEW_UNLIKE = 0.05
"""Of the numbers: so many may be unlike the others."""
LARGE_BYTES = 2 << 20
"""Half of the requests of a disk are not so large."""
MOST_BYTES_PER_S = 1e10
FAR_BYTES = 1 << 44
"""Beyond most disks."""
FINE = ("ms", "us")
FEWEST_TICKS = 60
FULL_RATIO = 0.9
CROWD = 4.0


def scaled(values: Any, factor: int) -> Any:
    """Return the numbers times the factor; as they are, and no copy, where it is 1."""
    return values if factor == 1 else values * factor


def _count(values: Any) -> int:
    """Return how many are true or not zero: a sum would make numbers of them first."""
    return int(np.count_nonzero(values))


@dataclass
class Evidence:
    """Counts of the whole trace that speak for or against the units."""

    units: Units
    requests: int = 0
    pairs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("bytes", "sectors"), 0))
    """Requests that begin where the one before ends, by the unit the lengths would have."""
    odd: int = 0
    """Requests whose place is no whole number of sectors."""
    byte_pairs: int = 0
    """Of places in sectors: requests that would follow the one before, were they bytes."""
    fine: int = 0
    """Of places in sectors: those that could be no bytes, as no sector begins there."""
    fine_lengths: int = 0
    """Lengths that are no whole sectors, were they bytes."""
    unlike: int = 0
    """Places that are no multiples of 512 sectors."""
    largest_length_bytes: int = 0
    largest_end_bytes: int = 0
    ticks: int = 0
    """Different times among the requests."""
    latest_ns: int | None = None

    def add_times(self, times_ns: Any) -> None:
        """Count some times, in ascending order and behind those before."""
        is_new = self.latest_ns is None or int(times_ns[0]) != self.latest_ns
        self.ticks += _count(times_ns[1:] != times_ns[:-1]) + is_new
        self.latest_ns = int(times_ns[-1])

    def add(self, places: Any, length: Any, *, device: Any) -> int:
        """Count some requests in the file's order; return how many begin within a sector.

        Places are bytes, lengths in the unit that they are taken for.
        """
        self.requests += len(places)
        follows = (device[1:] == device[:-1]) & (length[:-1] > 0)
        steps = places[1:] - places[:-1]
        for unit in self.pairs:
            ends = scaled(length[:-1], SIZE_BYTES[unit])
            self.pairs[unit] += _count((steps == ends) & follows)
        odd = _count(places & (SECTOR_BYTES - 1))
        self.odd += odd
        in_bytes = scaled(length, self.units.factor("length"))
        if self.units.offset == "sectors":
            self.byte_pairs += _count((steps == in_bytes[:-1] * SECTOR_BYTES) & follows)
            self.fine += _count(places & (SECTOR_BYTES * SECTOR_BYTES - 1))
        self.fine_lengths += _count(length & (SECTOR_BYTES - 1))
        if self.units.length == "sectors":
            self.unlike += _count(places & (SECTOR_BYTES * SECTOR_BYTES - 1))
        self.largest_length_bytes = max(self.largest_length_bytes, int(in_bytes.max()))
        self.largest_end_bytes = max(self.largest_end_bytes, int((places + in_bytes).max()))
        return odd

    def contradictions(self, *, span_ns: int, first_ns: int, usual_length: int) -> list[str]:
        """Return what cannot be under these units, in words; none if all is possible.

        `usual_length` is the median as it stands in the file.
        """
        units = self.units
        rate = self.requests / (span_ns / 1e9) if span_ns else 0.0
        # Whole seconds say nothing about a rate within one of them.
        has_rate = self.requests >= FEWEST_REQUESTS and span_ns > 0
        checks = [
            (
                self.odd > SMALL_RATIO * self.requests and not units.is_within,
                f"places cannot be {units.offset}: {self.odd:,} of {self.requests:,} are no whole"
                " sectors: --unit offset=sectors",
            ),
            (
                self.largest_length_bytes > LARGEST_LENGTH_BYTES,
                f"a request of {self.largest_length_bytes:,} bytes is longer than 1 GiB:"
                " another unit than --unit length?",
            ),
            (
                self.largest_end_bytes > LARGEST_PLACE_BYTES,
                f"a request ends at byte {self.largest_end_bytes:,}, beyond 1 EiB: --unit offset?",
            ),
            (
                has_rate and not LEAST_PER_S <= rate <= MOST_PER_S,
                f"{self.requests:,} requests in {span_ns / 1e9:,.6f} s are {rate:,.3g} a second:"
                f" times cannot be {units.time}, give --unit time=...",
            ),
        ]
        found = self._followers() + [text for is_wrong, text in checks if is_wrong]
        if self.requests >= FEWEST_REQUESTS and units.length == "sectors":
            found += self._bytes_as_sectors(usual_length * SECTOR_BYTES, span_ns)
        elif self.requests >= FEWEST_REQUESTS and units.length == "bytes":
            found += self._sectors_as_bytes(usual_length)
        return found + self._wrong_clocks(first_ns)

    def _followers(self) -> list[str]:
        """Return which unit the requests speak for that begin where the one before ends."""
        units, other = self.units, "sectors" if self.units.length == "bytes" else "bytes"
        mine, theirs = self.pairs.get(units.length, self.requests), self.pairs[other]
        least = max(FEWEST_PAIRS, PAIRS_FACTOR * mine)
        against = f"requests begin where the one before ends, against {mine:,}"
        # Of places in sectors and lengths in bytes either can be what the other is.
        are_bytes = units.length == "bytes" and not self._is_share(self.fine_lengths)
        found = []
        if theirs >= least and not (self.byte_pairs >= least and are_bytes):
            lengths = f"lengths look like {other}, not {units.length}"
            found.append(f"{lengths}: {theirs:,} {against}: --unit length={other}")
        if self.byte_pairs >= least and (are_bytes or units.length != "bytes"):
            places = "places look like bytes, not sectors"
            found.append(f"{places}: {self.byte_pairs:,} {against}: --unit offset=bytes")
        return found

    def _is_share(self, count: int) -> bool:
        """Say whether so many requests are more than a few."""
        return count > FEW_UNLIKE * self.requests

    def _bytes_as_sectors(self, usual_bytes: int, span_ns: int) -> list[str]:
        """Return what speaks for bytes where lengths are taken for sectors, and places perhaps."""
        rate = self.requests * usual_bytes / (span_ns / 1e9) if span_ns else 0.0
        is_large = usual_bytes >= LARGE_BYTES or rate > MOST_BYTES_PER_S
        size = f"half of the requests would have {usual_bytes:,} bytes and more"
        if span_ns:
            size += f", {rate:,.3g} bytes a second"
        size += f", and places go up to byte {self.largest_end_bytes:,}"
        whole = f"{self.requests - self.fine_lengths:,} of {self.requests:,} lengths"
        are_lengths = self.largest_length_bytes > 0 and not self._is_share(self.fine_lengths)
        are_places = self.units.offset == "sectors" and not self._is_share(self.fine)
        both = "bytes, --unit offset=bytes --unit length=bytes"
        # In sectors they may end where the next ones begin.
        is_apart = self.unlike > MOSTLY * self.requests and self.pairs["sectors"] < FEWEST_PAIRS
        if are_lengths and is_apart and (is_large or not self.fine_lengths):
            what = f"{whole} are multiples of 512 sectors, and the places are not"
            return [f"{what}: bytes, --unit length=bytes"]
        is_each = not self.fine_lengths and not self.fine
        if are_lengths and are_places and self.largest_end_bytes > GIB and (is_large or is_each):
            places = f"{self.requests - self.fine:,} places"
            return [f"{whole} and {places} are multiples of 512 sectors; {size}: {both}"]
        if usual_bytes >= LARGE_BYTES and rate > MOST_BYTES_PER_S:
            is_far = self.units.offset == "sectors" and self.largest_end_bytes > FAR_BYTES
            return [f"{size}: {both if is_far else 'bytes, --unit length=bytes'}"]
        return []

    def _sectors_as_bytes(self, usual_bytes: int) -> list[str]:
        """Return that most lengths in bytes are less than a sector and no whole ones."""
        if not 0 < usual_bytes < SECTOR_BYTES or self.fine_lengths <= MOSTLY * self.requests:
            return []
        return [
            f"lengths cannot be bytes: {self.fine_lengths:,} of {self.requests:,} are no whole"
            f" sectors, and half are {usual_bytes:,} or less: --unit length=sectors"
        ]

    def _wrong_clocks(self, first_ns: int) -> list[str]:
        unit, settled = self.units.time, self.units.settled_time
        found = []
        if self.units.is_wall and not EPOCH_S[0] <= first_ns / 1e9 <= EPOCH_S[1]:
            found.append(
                f"the first time is {first_ns / 1e9:,.0f} s after 1970, not within 1990 to 2100:"
                f" times cannot be {unit}{_other_clock(first_ns, unit)}"
            )
        if settled not in (None, unit):
            found.append(f"times of this format are {settled} by its own reader, not {unit}")
        return found

    def doubts(self, *, span_ns: int) -> list[str]:
        """Return what is possible under these units and yet unlikely, in words.

        A clock that is read in ms or finer has gaps; one of whole seconds has requests at each.
        """
        found = []
        is_part = self.units.length == "bytes" and self.fine_lengths > MOSTLY * self.requests
        if is_part and self.requests >= FEWEST_REQUESTS:
            found.append(f"{self.fine_lengths:,} of {self.requests:,} lengths are no whole sectors")
        is_counted = self.units.offset == "sectors" and self.requests >= FEWEST_REQUESTS
        if is_counted and self.fine == 0 and self.largest_end_bytes > LARGEST_LENGTH_BYTES:
            found.append(
                f"each of {self.requests:,} places is a multiple of 512 sectors:"
                " bytes, --unit offset=bytes?"
            )
        if self.units.time in FINE and self.ticks >= FEWEST_TICKS:
            is_full = self.ticks > FULL_RATIO * (span_ns // TIME_NS[self.units.time] + 1)
            crowd = self.requests / self.ticks
            if is_full and crowd >= CROWD:
                found.append(
                    f"{self.ticks:,} different times fill every {self.units.time} of the trace,"
                    f" with {crowd:,.1f} requests each: whole seconds, --unit time=s?"
                )
        return found


def _other_clock(first_ns: int, unit: str) -> str:
    """Return the unit in which a first time is one of 1990 to 2100, for a message, if there is one.

    There is none for filetime, which counts from another year.
    """
    if unit == "filetime" or first_ns <= 0:
        return ""
    ticks = first_ns / TIME_NS[unit]
    others = [name for name in TIME_NS if name not in ("filetime", "date", unit)]
    fitting = [name for name in others if EPOCH_S[0] <= ticks * TIME_NS[name] / 1e9 <= EPOCH_S[1]]
    return f", and can be {fitting[0]}: --unit time={fitting[0]}" if fitting else ""


@dataclass(frozen=True)
class ImportOptions:
    """How to import; the defaults are those of the command."""

    form: str | None = None
    columns: str | None = None
    delimiter: str = ","
    units: tuple[str, ...] = ()
    forces_units: bool = False
    most_bad_ratio: float = 0.01
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

    @property
    def table(self) -> Path:
        """The table of requests."""
        return self.folder / "requests.parquet"
