"""What a damaged text shows: wrong lines and where they are, and a last line that was cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracekit.readers.text import PatternFormat, TextFormat
from tracekit.readers.units import SHOWN_CHARACTERS
from tracekit.units import counted

LINES_BEFORE = 100
"""The last line is compared with so many: leaving one more out is no reason to stop an import."""
TAIL_BYTES = 1 << 15
MOST_PLACES = MOST_FILES = 5
"""So many are said of wrong lines."""
NEWLINE = ord("\n")


@dataclass(frozen=True)
class Lines:
    """The lines of a block that are to be decoded, and the last line of a file."""

    text: bytes | memoryview
    line: bytes
    why_not: str
    """Why the last line is left out, in words."""
    end: int
    """Where it begins."""


def lines_of(block: memoryview, before: bytes, *, form: TextFormat, is_end: bool) -> Lines:
    """Return the lines of a block, behind the text `before` it; the last of a file may be cut."""
    end = bytes(block).rfind(b"\n", 0, len(block) - 1) + 1 if is_end else len(block)
    line = bytes(block[end:])
    before += bytes(block[:end][-TAIL_BYTES:])
    if line and is_cut(line, before, form=form):
        return Lines(block[:end], line, "shorter than those before it", end)
    is_open = bool(line) and not line.endswith(b"\n")
    return Lines(bytes(block) + b"\n" if is_open else block, line, "", end)


def is_cut(line: bytes, before: bytes, *, form: TextFormat) -> bool:
    """Say whether a last line is no whole one, by the text before it.

    It has fewer columns than each of LINES_BEFORE lines, or as many and a shorter last one. With a
    newline it must have an empty one, or theirs be equally long: else it can be a smaller number.
    """
    is_blank = form.delimiter == " " or isinstance(form, PatternFormat)
    delimiter = None if is_blank else form.delimiter.encode()
    lines = [text.rstrip(b"\r") for text in before.split(b"\n")[1:] if text.strip()]
    rows = [_size_of(text, delimiter) for text in lines[-LINES_BEFORE:]]
    count, size = _size_of(line, delimiter)
    if len(rows) < LINES_BEFORE or (count, size) >= min(rows):
        return False
    are_fewer, sizes = count < min(rows)[0], {size for _, size in rows}
    is_clear = not line.endswith(b"\n") or are_fewer or not size or len(sizes) == 1
    return is_clear and (not line.endswith(b"\n") or form.are_good([line.decode("latin-1")])[0])


def _size_of(line: bytes, delimiter: bytes | None) -> tuple[int, int]:
    """Return how many columns a line has, and the length of the last."""
    words = line.split(delimiter)
    return len(words), len(words[-1].strip()) if words else 0


def last_line(number: int, line: bytes, *, why_not: str) -> str:
    """Say in words what became of a last line without newline, or of one that was cut."""
    shown = line.decode("utf-8", "replace").strip()[:SHOWN_CHARACTERS]
    done = f"is {why_not}: it was left out" if why_not else "was taken"
    end = "the last line has no newline, as where a file was cut, and"
    end = "the last line" if line.endswith(b"\n") else end
    return f"{end} {done}: line {number}: {shown}"


@dataclass
class Place:
    """Wrong lines one behind the other, by their numbers, and the byte at which they begin."""

    first: int
    last: int
    byte: int

    def lines(self) -> str:
        """Return which lines they are."""
        if self.first == self.last:
            return f"line {self.first:,}"
        return f"lines {self.first:,} to {self.last:,}"


@dataclass
class Damage:
    """Where the wrong lines of a file are, and how many bytes they have."""

    name: str = ""
    """Of one of several files."""
    bad: int = 0
    count: int = 0
    """Places; the first MOST_PLACES are kept."""
    places: list[Place] = field(default_factory=list)
    last: int = 0
    """Number of the last wrong line."""
    wrong_bytes: int = 0
    zeros: int = 0
    """Bytes of value 0 in blocks with wrong lines."""
    line_bytes: float = 0.0
    """Of a line of such a block, in the mean without the wrong ones."""

    def see(self, block: bytes | memoryview, wrong: Sequence[int], *, line: int, byte: int) -> None:
        """Look at the wrong lines of a block, of which the first is `line` and begins at `byte`."""
        data, rows = np.frombuffer(block, np.uint8), np.array(wrong)
        ends = np.append(np.flatnonzero(data == NEWLINE), len(data))
        begins = np.concatenate(([0], ends + 1))
        wrong_bytes = int((ends - begins[:-1])[rows].sum())
        firsts = rows[np.diff(rows, prepend=-2) > 1]
        lasts = rows[np.diff(rows, append=len(ends) + 1) > 1]
        goes_on = int(self.last > 0 and line + wrong[0] == self.last + 1)
        if goes_on and self.count == len(self.places):
            self.places[-1].last = line + int(lasts[0])
        for at in range(goes_on, min(len(firsts), goes_on + MOST_PLACES - len(self.places))):
            first, last = int(firsts[at]), int(lasts[at])
            self.places.append(Place(line + first, line + last, byte + int(begins[first])))
        self.count += len(firsts) - goes_on
        self.last, self.bad = line + wrong[-1], self.bad + len(wrong)
        self.wrong_bytes += wrong_bytes
        self.zeros += len(data) - int(np.count_nonzero(data))
        good = len(ends) - 1 - len(wrong)
        if good > 0:
            self.line_bytes = (len(data) - wrong_bytes) / good

    def in_words(self) -> str:
        """Return where the wrong lines are, and how many may be gone in long ones."""
        said = counted(self.wrong_bytes, "byte")
        if self.count == 1:
            said += f" from byte {self.places[0].byte:,} ({self.places[0].lines()})"
        else:
            shown = [f"{place.lines()} from byte {place.byte:,}" for place in self.places]
            if self.count > len(shown):
                shown.append(f"{self.count - len(shown):,} more, the last with line {self.last:,}")
            said += f" at {self.count:,} places, {', '.join(shown)}"
        if self.zeros:
            said += f", {self.zeros:,} of them zero"
        usual = self.wrong_bytes / self.line_bytes if self.line_bytes else 0
        if usual >= 2 * self.bad + 1:
            said += f"; about {usual:,.0f} lines have so many bytes"
        return f"{self.name}: {said}" if self.name else said


def damages_in_words(damages: Sequence[Damage]) -> str:
    """Return where the wrong lines of all files are, or nothing."""
    found = [damage.in_words() for damage in damages[:MOST_FILES] if damage.count]
    if len(damages) > MOST_FILES:
        found.append(f"and of {counted(len(damages) - MOST_FILES, 'more file')}")
    return "; ".join(found)
