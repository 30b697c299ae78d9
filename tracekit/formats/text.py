"""Text formats of one request a line, decoded in blocks by Arrow's CSV reader.

A block that Arrow takes as it is costs one pass. A block with a wrong line is split into lines, the
wrong ones are told by a regular expression made of the same columns, and the rest is read again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit.formats.foreign import Columns, Units, bad_operation

INT = r"\s*[0-9]{1,18}\s*"
DECIMAL = r"\s*[0-9]{1,18}(?:\.[0-9]{0,9})?\s*"
POINT = r"\s*[0-9]{1,18}\.[0-9]{0,9}\s*"
KINDS = {"int": INT, "decimal": DECIMAL, "point": POINT, "decimal?": f"(?:{DECIMAL}|\\s*)"}
SHOWN_CHARACTERS = 120
KEPT_EXAMPLES = 5
NUMBERS = ("time", "offset", "length", "response", "pid", "queue")


@dataclass
class BadLines:
    """Lines that could not be read: how many of how many, and the first of them."""

    lines: int = 0
    bad: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    """Line number from 1, and the line's beginning."""
    passed: int = 0
    """Lines that the format knows and that are no requests."""
    carried_time: int = 0
    """The last time, of a format whose times stand on lines of their own."""

    def add(self, number: int, text: str) -> None:
        """Keep a wrong line as an example, if there are not enough of them."""
        if len(self.examples) < KEPT_EXAMPLES:
            self.examples.append((number, text[:SHOWN_CHARACTERS]))


@dataclass(frozen=True)
class TextFormat:
    """A format of one request a line; `columns` maps what a column holds to its kind, in order.

    Kinds are int, decimal (9 digits after the point), point (a decimal that has one), decimal?
    (may be empty), op, word, or a regular expression. Columns named `_...` are not read.
    """

    name: str
    columns: Mapping[str, str]
    units: Units
    operations: Mapping[str, str]
    """The format's word, in lower case, for each operation; `readahead` is a read."""
    delimiter: str = ","
    may_have_more: bool = False
    """More columns may follow; they are passed over."""
    passed: str = ""
    """A regular expression of lines that are no requests, and not wrong."""

    def line(self) -> str:
        """Return the regular expression of a good line."""
        words = "|".join(map(re.escape, self.operations))
        kinds = {**KINDS, "op": rf"\s*(?i:{words})\s*", "word": rf"[^{self.delimiter}\n]+"}
        parts = [kinds.get(kind, kind) for kind in self.columns.values()]
        rest = rf"(?:{re.escape(self.delimiter)}[^\n]*)?" if self.may_have_more else ""
        return "^" + re.escape(self.delimiter).join(parts) + rest + "\r?$"

    def matches(self, head: bytes) -> bool:
        """Say whether nearly all lines of the head, after its preamble, are good ones."""
        lines = head.decode("latin-1").splitlines()
        good_line = re.compile(self.line())
        good = [bool(good_line.match(line)) for line in lines if line.strip()]
        first = good.index(True) if True in good else len(good)
        return first < len(good) and sum(good) >= 0.9 * (len(good) - first)

    def preamble(self, head: bytes) -> int:
        """Return how many lines stand before the first good one, as a licence or a header."""
        good_line = re.compile(self.line())
        for number, line in enumerate(head.decode("latin-1").split("\n")):
            if good_line.match(line):
                return number
        return 0

    def decode(self, block: bytes, lines: BadLines) -> Columns | None:
        """Decode whole lines; wrong ones are added to `lines`. Return None if none is good."""
        table = self._typed(block)
        if table is None:
            kept = self._good_lines(block, lines)
            table = self._typed(kept) if kept else None
        lines.lines += block.count(b"\n")
        return self._columns(table) if table is not None and table.num_rows else None

    def _typed(self, block: bytes) -> Any:
        """Return the block's used columns, or None when a value is wrong."""
        import pyarrow as pa
        from pyarrow import csv

        decimal = pa.decimal128(38, 9)
        text = pa.dictionary(pa.int32(), pa.string())
        types = {"int": pa.int64(), **dict.fromkeys(("decimal", "decimal?", "point"), decimal)}
        used = {name: kind for name, kind in self.columns.items() if not name.startswith("_")}
        names = list(self.columns)
        if self.may_have_more:
            first = block[: block.find(b"\n")]
            names += [f"_{n}" for n in range(first.count(self.delimiter.encode()) + 1 - len(names))]
        try:
            table = csv.read_csv(
                pa.BufferReader(block),
                csv.ReadOptions(column_names=names),
                csv.ParseOptions(delimiter=self.delimiter, quote_char=False),
                csv.ConvertOptions(
                    column_types={name: types.get(kind, text) for name, kind in used.items()},
                    include_columns=list(used),
                    null_values=[""],
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            return None
        table = table.unify_dictionaries().combine_chunks()
        return table if self._is_sound(table, used) else None

    def _is_sound(self, table: Any, used: Mapping[str, str]) -> bool:
        import pyarrow.compute as pc

        for name, kind in used.items():
            column = table.column(name)
            if kind != "decimal?" and column.null_count:
                return False
            if kind in ("int", "decimal", "point") and len(column) and pc.min(column).as_py() < 0:
                return False
        if not table.num_rows or "op" not in used:
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
        if self.passed:
            known = pc.match_substring_regex(text, self.passed)
            lines.passed += pc.sum(known).as_py() or 0
            wrong = pc.and_not(wrong, known)
        places = pc.indices_nonzero(wrong)
        for place in places[:KEPT_EXAMPLES].to_pylist():
            lines.add(lines.lines + place + 1, text[place].as_py())
        lines.bad += len(places)
        kept = text.filter(good)
        if self.may_have_more:
            # Lines of different lengths: only the columns that all of them have.
            column = rf"[^{re.escape(self.delimiter)}]*"
            shared = re.escape(self.delimiter).join([column] * len(self.columns))
            kept = pc.replace_substring_regex(kept, f"^({shared}).*$", r"\1")
        whole = pa.ListArray.from_arrays(pa.array([0, len(kept)], pa.int32()), kept)
        joined = pc.binary_join(whole, "\n")[0].as_py()
        return joined.encode() + b"\n" if joined else b""

    def _columns(self, table: Any) -> Columns:
        found: dict[str, Any] = {}
        for name in NUMBERS:
            if name in table.column_names:
                found[name] = _numbers(table.column(name).chunk(0))
        words = {
            name: table.column(name).chunk(0)
            for name in ("op", "device", "volume", "process")
            if name in table.column_names
        }
        decimals = ("decimal", "decimal?", "point")
        scaled = {name for name, kind in self.columns.items() if kind in decimals}
        return Columns(numbers=found, words=words, rows=table.num_rows, scaled=scaled)


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
    """Return int64 values; decimals as billionths; -1 in place of what is empty."""
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
