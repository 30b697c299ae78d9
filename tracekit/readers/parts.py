"""The part of a file that is of another known format than the one that is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.readers.formats import OR, OTHERWISE, hint_of_parts, known_format
from tracekit.readers.units import Example


@dataclass(frozen=True)
class Part:
    """The part of a file that is of another format than what was read of it."""

    name: str
    lines: str
    """Where, in words."""
    begin: int
    """So many lines stand before the second part."""

    def in_words(self, form: str) -> str:
        """Return what the part is, beside what was read as `form`."""
        if form in self.name.split(OR):
            return f"{self.lines} it looks like {form}, {OTHERWISE}"
        return f"{self.lines} it looks like {self.name}, not {form}"

    @property
    def hint(self) -> str:
        """How to take the parts apart."""
        return hint_of_parts(self.begin)


def other_part(examples: Sequence[Example], *, bad: int, records: int) -> Part | None:
    """Return the part of another known format, by the first wrong lines; None if there is none.

    So many lines are `bad` beside the `records`.
    """
    if not (name := known_format([text for _, text in examples])):
        return None
    first, share = examples[0][0], bad / (bad + records)
    return Part(name, f"from line {first:,} on ({bad:,} lines, {share:.1%})", first - 1)
