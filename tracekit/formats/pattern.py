"""Text formats that no delimiter cuts: a regular expression with named groups tells the columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tracekit.errors import UsageError
from tracekit.formats.foreign import Units
from tracekit.formats.own import KINDS, NEEDED, OPERATIONS
from tracekit.formats.text import TextFormat, text_lines

NANO_DIGITS = 9


@dataclass(frozen=True)
class PatternFormat(TextFormat):
    """A text format whose lines are told by `pattern`, in RE2's and Python's common syntax.

    `columns` has the pattern's named groups with their kinds, which say how a value is converted.
    """

    pattern: str = ""

    def line(self) -> str:
        """Return the regular expression of a good line."""
        return self.pattern

    def _typed(self, block: bytes) -> Any:
        """Return the block's groups as columns, or None when a line does not match."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text = text_lines(block)
        text = text.filter(pc.greater(pc.binary_length(pc.ascii_trim_whitespace(text)), 0))
        found = pc.extract_regex(text, self.pattern)
        if found.null_count:
            return None
        columns = {}
        try:
            for name, kind in self.columns.items():
                values = pc.ascii_trim_whitespace(found.field(name))
                if kind in ("op", "word"):
                    columns[name] = pc.dictionary_encode(values)
                else:
                    values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
                    to = pa.int64() if kind == "int" else pa.decimal128(38, NANO_DIGITS)
                    columns[name] = values.cast(to)
        except pa.ArrowInvalid:
            return None
        table = pa.table(columns).combine_chunks()
        return table if self._is_sound(table, self.columns) else None


def own_pattern(pattern: str, *, units: Iterable[str]) -> PatternFormat:
    """Return the format of the user's regular expression; raise UsageError for what cannot be.

    Without a unit from the user, lengths and places are bytes and times seconds, to be checked.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        groups = list(re.compile(pattern).groupindex)
        pc.extract_regex(pa.array([""]), pattern)
    except (re.error, pa.ArrowInvalid) as problem:
        message = f"--regex {pattern}: {problem}"
        hint = "name all groups, as in (?P<time>[0-9.]+); no look-ahead or back reference"
        raise UsageError(message, hint=hint) from problem
    unknown = [name for name in groups if name not in KINDS]
    missing = [name for name in NEEDED if name not in groups]
    if unknown or missing:
        told = f"unknown groups {', '.join(unknown)}" if unknown else f"no {', '.join(missing)}"
        raise UsageError(f"--regex {pattern}: {told}", hint=f"known groups are {', '.join(KINDS)}")
    columns: Mapping[str, str] = {name: KINDS[name] for name in groups}
    base = Units("s", "bytes", "bytes", response="s").overridden(units)
    return PatternFormat("own", columns, base, OPERATIONS, pattern=pattern)
