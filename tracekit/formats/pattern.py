"""Text formats that no delimiter cuts: a regular expression with named groups tells the columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tracekit.errors import UsageError
from tracekit.formats.foreign import Columns, Units, bad_operation
from tracekit.formats.own import KINDS, NEEDED, OPERATIONS
from tracekit.formats.text import (
    DECIMALS,
    KEPT_EXAMPLES,
    NUMBERS,
    WORDS,
    BadLines,
    TextFormat,
)

NANO_DIGITS = 9
LARGEST = 1 << 63


@dataclass(frozen=True)
class PatternFormat(TextFormat):
    """A text format whose lines are told by `pattern`, in RE2's and Python's common syntax.

    `columns` has the pattern's named groups with their kinds, which say how a value is converted.
    """

    pattern: str = ""

    def line(self) -> str:
        """Return the regular expression of a good line."""
        return self.pattern

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; wrong ones are added to `lines`. Return None if none is good."""
        whole = bytes(block)
        try:
            whole.decode()
        except UnicodeDecodeError:
            whole = whole.decode(errors="replace").encode()
        table = self._typed(whole)
        if table is None:
            kept = self._good_lines(whole, lines)
            table = self._typed(kept) if kept else None
        lines.lines += whole.count(b"\n")
        if table is None or not table.num_rows:
            return None
        found = {name: table.column(name).chunk(0) for name in table.column_names}
        return Columns(
            numbers={name: _numbers(found[name]) for name in NUMBERS if name in found},
            words={name: found[name] for name in WORDS if name in found},
            rows=table.num_rows,
            scaled=self.scaled(),
        )

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
                    exact = pa.int64() if kind == "int" else pa.decimal128(38, NANO_DIGITS)
                    columns[name] = values.cast(exact)
                    if kind in DECIMALS:
                        cut = pa.decimal128(38, self._digits(name))
                        columns[name] = columns[name].cast(cut, safe=False)
        except pa.ArrowInvalid:
            return None
        table = pa.table(columns).combine_chunks()
        return table if self._is_sound(table) else None

    def _is_sound(self, table: Any) -> bool:
        import pyarrow.compute as pc

        for name, kind in self.columns.items():
            column = table.column(name)
            if kind != "decimal?" and column.null_count:
                return False
            if kind not in ("op", "word") and len(column) > column.null_count:
                most = (LARGEST - 1) // 10 ** (self._digits(name) if kind in DECIMALS else 0)
                if not 0 <= pc.min(column).as_py() <= pc.max(column).as_py() <= most:
                    return False
        if not table.num_rows:
            return True
        words = table.column("op").chunk(0).dictionary.to_pylist()
        return not bad_operation(words, self.operations)

    def _good_lines(self, block: bytes, lines: BadLines) -> bytes:
        """Return the block without its wrong lines, which are counted; empty ones are no lines."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text = text_lines(block)
        good = pc.match_substring_regex(text, self.line())
        wrong = pc.and_(
            pc.invert(good), pc.greater(pc.utf8_length(pc.ascii_trim_whitespace(text)), 0)
        )
        places = pc.indices_nonzero(wrong)
        for place in places[:KEPT_EXAMPLES].to_pylist():
            lines.add(lines.lines + place + 1, text[place].as_py())
        lines.bad += len(places)
        kept = text.filter(good)
        whole = pa.ListArray.from_arrays(pa.array([0, len(kept)], pa.int32()), kept)
        joined = pc.binary_join(whole, "\n")[0].as_py()
        return joined.encode() + b"\n" if joined else b""


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


def _numbers(column: Any) -> Any:
    """Return int64 values; -1 in place of what is empty."""
    import numpy as np
    import pyarrow as pa

    values = np.frombuffer(column.buffers()[1], np.int64)
    if pa.types.is_decimal(column.type):
        # The low half of each 128-bit number, of which the high half is zero here.
        values = values[::2]
    values = values[column.offset : column.offset + len(column)]
    if column.null_count:
        is_there = np.asarray(column.is_valid().to_pylist(), np.bool_)
        values = np.where(is_there, values, -1)
    return values


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
