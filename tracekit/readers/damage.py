"""What a damaged text shows: wrong lines and where they are, and a last line that was cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracekit.readers.text import PatternFormat, TextFormat
from tracekit.readers.units import SHOWN_CHARACTERS

LINES_BEFORE = 100
"""The last line is compared with so many: leaving one more out is no reason to stop an import."""
TAIL_BYTES = 1 << 15
NEWLINE = ord("\n")


def is_cut(line: bytes, before: bytes, *, form: TextFormat) -> bool:
    """Say whether a last line without newline is no whole one, by the text before it.

    It has fewer columns than each of LINES_BEFORE lines, or as many and a shorter last one. Only
    its newline is missing where nothing says so.
    """
    is_blank = form.delimiter == " " or isinstance(form, PatternFormat)
    delimiter = None if is_blank else form.delimiter.encode()
    lines = [text.rstrip(b"\r") for text in before.split(b"\n")[1:] if text.strip()]
    rows = [_size_of(text, delimiter) for text in lines[-LINES_BEFORE:]]
    return len(rows) == LINES_BEFORE and _size_of(line, delimiter) < min(rows)


def _size_of(line: bytes, delimiter: bytes | None) -> tuple[int, int]:
    """Return how many columns a line has, and the length of the last."""
    words = line.split(delimiter)
    return len(words), len(words[-1].strip()) if words else 0


def last_line(number: int, line: bytes, *, why_not: str) -> str:
    """Say in words what became of a last line without newline."""
    shown = line.decode("utf-8", "replace").strip()[:SHOWN_CHARACTERS]
    done = f"is {why_not}: it was left out" if why_not else "was taken"
    end = "the last line has no newline, as where a file was cut"
    return f"{end}, and {done}: line {number}: {shown}"


@dataclass
class Damage:
    """Where the wrong lines of a text are, and how many bytes they have."""

    first: tuple[int, int] = (0, 0)
    """Number of the first one, and the byte at which it begins."""
    last: int = 0
    """Number of the last one."""
    wrong_bytes: int = 0
    zeros: int = 0
    """Bytes of value 0 in blocks with wrong lines."""
    line_bytes: float = 0.0
    """Of a line of such a block, in the mean without the wrong ones."""

    def see(self, block: bytes | memoryview, wrong: Sequence[int], *, line: int, byte: int) -> None:
        """Look at the wrong lines of a block, of which the first is `line` and begins at `byte`."""
        data = np.frombuffer(block, np.uint8)
        ends = np.append(np.flatnonzero(data == NEWLINE), len(data))
        begins = np.concatenate(([0], ends + 1))
        sizes = (ends - begins[:-1])[list(wrong)]
        if not self.last:
            self.first = (line + wrong[0], byte + int(begins[wrong[0]]))
        self.last = line + wrong[-1]
        self.wrong_bytes += int(sizes.sum())
        self.zeros += len(data) - int(np.count_nonzero(data))
        good = len(ends) - 1 - len(wrong)
        if good > 0:
            self.line_bytes = (len(data) - int(sizes.sum())) / good

    def in_words(self, bad: int) -> str:
        """Return where the wrong lines are, and how many may be gone in long ones."""
        if not self.last:
            return ""
        line, byte = self.first
        where = f" (line {line:,})" if line == self.last else f" (lines {line:,} to {self.last:,})"
        said = f": {self.wrong_bytes:,} bytes from byte {byte:,}{where}"
        if self.zeros:
            said += f", {self.zeros:,} of them zero"
        usual = self.wrong_bytes / self.line_bytes if self.line_bytes else 0
        if usual >= 2 * bad + 1:
            said += f"; about {usual:,.0f} lines have so many bytes"
        return said
