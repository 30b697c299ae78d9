"""Text formats that no delimiter cuts: a regular expression with named groups tells the columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tracekit.errors import UsageError
from tracekit.formats.foreign import Columns
from tracekit.formats.own import KINDS, NEEDED, OPERATIONS, own_units
from tracekit.formats.text import DATE, BadLines, TextFormat

SEPARATOR = "\x1f"
"""Between the groups of a line, once they were found: no text has it."""
UNKNOWN = "?"
"""The word of a group that took no part in a line."""


@dataclass(frozen=True)
class PatternFormat(TextFormat):
    """A text format whose lines are told by `pattern`, in RE2's and Python's common syntax.

    `columns` has the pattern's named groups with their kinds, which say how a value is converted;
    of kind int? a number that is not there is 0.
    """

    pattern: str = ""

    def line(self) -> str:
        """Return the regular expression of a good line."""
        return self.pattern

    def is_request(self, line: str) -> bool:  # noqa: ARG002 - nothing is known of other lines
        """Say that what stands before the first good line are no requests."""
        return False

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; wrong ones are added to `lines`. Return None if none is good."""
        import numpy as np

        whole = _utf8(block)
        text = text_lines(whole)
        columns = self._decoded(
            self._separated(text), lines, lambda number, _text: text[number].as_py().encode()
        )
        if columns is None:
            return None
        numbers = {
            name: np.maximum(values, 0) if self.columns[name] == "int?" else values
            for name, values in columns.numbers.items()
        }
        stands = replace(columns.block, text=whole) if columns.block else None
        return replace(columns, numbers=numbers, block=stands)

    def _separated(self, text: Any) -> Any:
        """Return for each line its groups between separators; empty lines stay so."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.extract_regex(text, self.pattern)
        groups = []
        for name, kind in self.columns.items():
            values = pc.ascii_trim_whitespace(pc.struct_field(found, name))
            if kind == "word":
                values = pc.if_else(pc.equal(values, ""), UNKNOWN, values)
            groups.append(pc.fill_null(values, ""))
        rows = pc.binary_join_element_wise(*groups, SEPARATOR)
        is_empty = pc.equal(pc.binary_length(pc.ascii_trim_whitespace(text)), 0)
        rows = pc.if_else(is_empty, "", rows)
        ended = pa.concat_arrays([rows, pa.array([""])])
        whole = pa.ListArray.from_arrays(pa.array([0, len(ended)], pa.int32()), ended)
        return memoryview(pc.binary_join(whole, "\n")[0].as_buffer())


def _utf8(block: bytes | memoryview) -> bytes:
    """Return the block with other characters in place of bytes that are no text."""
    whole = bytes(block)
    try:
        whole.decode()
    except UnicodeDecodeError:
        return whole.decode(errors="replace").encode()
    return whole


def text_lines(block: bytes) -> Any:
    """Return the block's lines, each without its ending, as an Arrow array of strings."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    return pc.ascii_rtrim(
        pa.Array.from_buffers(pa.binary(), len(ends), buffers).cast(pa.string(), safe=False),
        "\r\n",
    )


def has_dates(head: bytes, pattern: str) -> bool:
    """Say whether the first line that matches the pattern has a date as its time."""
    lines = (re.match(pattern, line) for line in head.decode("latin-1").splitlines())
    first = next((found for found in lines if found), None)
    return first is not None and bool(re.fullmatch(DATE, first["time"] or ""))


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
    columns: Mapping[str, str] = {name: "int?" if name == "pid" else KINDS[name] for name in groups}
    return PatternFormat(
        "own", columns, own_units(units), OPERATIONS, delimiter=SEPARATOR, pattern=pattern
    )
