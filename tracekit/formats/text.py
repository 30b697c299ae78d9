"""Text formats of one request a line, decoded in blocks by the native reader of columns.

A format is known by a regular expression that is made of the same table of columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit.formats.foreign import (
    FILETIME_OF_1970,
    SHOWN_CHARACTERS,
    SIZE_BYTES,
    TIME_NS,
    Block,
    Columns,
    Units,
)
from tracekit.native.columns import SHOWN_BYTES, ColumnReader, Kind
from tracekit.native.columns import Block as Found

INT = r"\s*(?:0[xX][0-9A-Fa-f]+|[0-9]{1,19})\s*"
EXPONENT = r"[eE][+-]?[0-9]{1,2}"
DECIMAL = rf"\s*[0-9]+(?:\.[0-9]*)?(?:{EXPONENT})?\s*"
POINT = rf"\s*[0-9]+(?:\.[0-9]*(?:{EXPONENT})?|{EXPONENT})\s*"
DATE = (
    r"\s*[0-9]{4}(?:-[0-9]{2}-|/[0-9]{2}/)[0-9]{2}(?:[Tt]|[ \t]+)[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(?:\.[0-9]+)?(?:[Zz]|\s*UTC|\s*[+-][0-9]{2}:?(?:[0-9]{2})?)?\s*"
)
KINDS = {
    "int": INT,
    "digits": r"\s*[0-9]+\s*",
    "decimal": DECIMAL,
    "point": POINT,
    "decimal?": f"(?:{DECIMAL}|\\s*)",
}
COMMENT = re.compile(rb"\s*(?:#|//)")
NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?")
LARGEST_SUM = (1 << 62) - 1
"""Of ns or bytes: two such numbers, as a place and a length, have a 64-bit sum."""
READ_OR_WRITE = {"r": "read", "w": "write", "read": "read", "write": "write"}
LARGEST_PID = (1 << 31) - 1
NEARLY_ALL = 0.9
MOST_OF_THEM = 0.5
KEPT_EXAMPLES = 5
NUMBERS = ("time", "offset", "length", "response", "pid", "queue")
WORDS = ("op", "device", "volume", "process")
DECIMALS = ("decimal", "decimal?", "point")
RESPONSES = ("response", "queue")
KIND_OF = {
    "int": Kind.INTEGER,
    "decimal": Kind.DECIMAL,
    "point": Kind.POINT,
    "decimal?": Kind.MAYBE,
    "int?": Kind.MAYBE,
    "op": Kind.CHOICE,
    "digits": Kind.DIGITS,
    "word": Kind.WORD,
    "name": Kind.NAME,
    "date": Kind.DATE,
}


@dataclass
class BadLines:
    """Lines that could not be read: how many of how many, and the first of them."""

    lines: int = 0
    bad: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    """Line number from 1, and the line's beginning."""
    passed: int = 0
    """Lines that are no requests and not wrong: known ones, comments, the header once more."""
    header: frozenset[bytes] = frozenset()
    """Lines before the first good one, which stand again where files were joined."""
    carried_time: int = 0
    """The last time, of a format whose times stand on lines of their own."""
    first_time: int = 0
    times: int = 0
    """Of such a format: the first of these times, and how many there are."""
    reader: ColumnReader | None = None
    """What reads the lines, and knows the words that they had."""

    def add(self, number: int, text: str) -> None:
        """Keep a wrong line as an example, if there are not enough of them."""
        if len(self.examples) < KEPT_EXAMPLES:
            self.examples.append((number, text[:SHOWN_CHARACTERS]))

    @staticmethod
    def shown(example: tuple[int, str]) -> str:
        """Return an example for a message; of what is no line the number is 0."""
        number, text = example
        return f"line {number}: {text}" if number else text


@dataclass(frozen=True)
class TextFormat:
    """A format of one request a line; `columns` maps what a column holds to its kind, in order.

    Kinds are int, decimal, point (a decimal that has one), decimal? (may be empty), op, digits (a
    name of them), word and name (a word that may hold blanks). Times in dates are of their own
    kind. One more delimiter may end a line. Columns named `_...` are not read, and have a regular
    expression. A value may stand in quotes, unless blanks delimit.
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
    evidence: str = "the first lines or records"
    """What tells the format."""
    telling: str = ""
    """A regular expression that a good line of the head must match, where another format's lines
    are good ones, too."""

    def because(self, evidence: str) -> TextFormat:
        """Return the format with what tells it."""
        return replace(self, evidence=evidence)

    def line(self) -> str:
        """Return the regular expression of a good line."""
        words = "|".join(map(re.escape, self.operations))
        is_blank = self.delimiter == " "
        delimiter = r"[ \t]+" if is_blank else re.escape(self.delimiter)
        word = r"[^ \t\0\n]+" if is_blank else rf'[^{re.escape(self.delimiter)}\0\n"]+'
        words_of = rf"{word}(?:[ \t]+[^ \t\0\n]+)*?" if is_blank else word
        op = rf"\s*(?i:{words})\s*"
        kinds = {**KINDS, "op": op, "word": word, "name": words_of, "date": DATE}
        parts = [kinds.get(self._stored(name), kind) for name, kind in self.columns.items()]
        if not is_blank:
            parts = [
                f"(?:{part}|{self._quoted(name, part)})"
                for name, part in zip(self.columns, parts, strict=True)
            ]
        if self.delimiter == "\t":
            parts = [part.replace(r"\s*", " *") for part in parts]
        end = "" if is_blank else rf"(?:{delimiter}[ \t]*)?"
        rest = rf"(?:{delimiter}[^\n]*)?" if self.may_have_more else end
        return "^" + delimiter.join(parts) + rest + "\r?$"

    def _quoted(self, name: str, part: str) -> str:
        if name.startswith("_"):
            part = r'[^"\n]*'
        elif self.columns[name] in ("word", "name"):
            part = r'[^"\0\n]+'
        return rf'\s*"{part}"\s*'

    def matches(self, head: bytes, *, least: float = NEARLY_ALL) -> bool:
        """Say whether this share of the lines of the head, after its preamble, are good ones."""
        lines = [line for line in head.decode("latin-1").splitlines() if line.strip()]
        good_line, telling = re.compile(self.line()), re.compile(self.telling)
        first = next((at for at, line in enumerate(lines) if good_line.match(line)), len(lines))
        header, told = set(lines[:first]), re.compile(COMMENT.pattern.decode())
        rest = [line for line in lines[first:] if line not in header and not told.match(line)]
        good = [line for line in rest if good_line.match(line)]
        if not good or len(good) < least * len(rest):
            return False
        return any(telling.match(line) for line in good)

    def preamble(self, head: bytes, lines: BadLines) -> int:
        """Return how many lines stand before the first good one, as a licence or a header.

        Requests among them are wrong lines, and counted in `lines`, not in what is returned.
        """
        good_line = re.compile(self.line())
        before = head.decode("latin-1").split("\n")
        first = next((at for at, line in enumerate(before) if good_line.match(line)), 0)
        wrong = [at for at, line in enumerate(before[:first]) if self.is_request(line)]
        for at in wrong:
            lines.add(at + 1, before[at].rstrip("\r"))
        passed = [line.rstrip("\r") for at, line in enumerate(before[:first]) if at not in wrong]
        lines.header = frozenset(line.encode("latin-1")[:SHOWN_BYTES] for line in passed if line)
        lines.bad, lines.lines = len(wrong), first
        return first - len(wrong)

    def is_request(self, line: str) -> bool:
        """Say whether a line that is no good one has a number where the format has one."""
        if line.lstrip().startswith(("#", "//")) or (self.passed and re.match(self.passed, line)):
            return False
        words = line.split() if self.delimiter == " " else line.split(self.delimiter)
        pairs = zip(words, self.columns, strict=False)
        return any(NUMBER.fullmatch(word.strip(' \t\r"')) for word, at in pairs if at in NUMBERS)

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; wrong ones are added to `lines`. Return None if none is good."""
        return self._decoded(block, lines, lambda _number, text: text)

    def _decoded(
        self, block: bytes | memoryview, lines: BadLines, shown: Callable[[int, bytes], bytes]
    ) -> Columns | None:
        """Decode; `shown` returns a wrong line as it stands in the file, by its number and text."""
        if lines.reader is None:
            lines.reader = ColumnReader(
                [
                    (self._kind(name), self._digits(name), self.largest(name))
                    for name in self.columns
                ],
                self.delimiter,
                choices=list(self.operations),
                has_more=self.may_have_more,
            )
        found, first = lines.reader.read(block), lines.lines
        self._count([(at, shown(at, text)) for at, text in found.wrong], lines, of=found.lines)
        if not found.rows:
            return None
        places = {name: place for place, name in enumerate(self.columns)}
        return Columns(
            numbers={name: found.values[places[name]] for name in NUMBERS if name in places},
            words={name: self._words(lines.reader, found, places[name], name) for name in WORDS
                   if name in places},
            rows=found.rows,
            scaled=self.scaled(),
            block=Block(block, first, frozenset(at for at, _ in found.wrong)),
        )  # fmt: skip

    def scaled(self) -> set[str]:
        """Return the numbers that are nanoseconds already: decimals, cut to whole ones; dates."""
        decimals = [name for name in self.columns if self._stored(name) in (*DECIMALS, "date")]
        return {name for name in decimals if self._unit(name) != "filetime"}

    def _stored(self, name: str) -> str:
        """Return the kind of a column; a time in dates is of its own."""
        is_date = name == "time" and self.units.time == "date"
        return "date" if is_date else self.columns[name]

    def _unit(self, name: str) -> str:
        unit = self.units.response if name in RESPONSES else self.units.time
        return unit or "s"

    def _digits(self, name: str) -> int:
        """Return how many digits behind the point of a column make nanoseconds of its unit.

        Nanoseconds since 1601 are no 64-bit number: of a filetime none is read.
        """
        unit = self._unit(name)
        if self._stored(name) not in DECIMALS or unit == "filetime":
            return 0
        return len(str(TIME_NS.get(unit, 1))) - 1

    def largest(self, name: str) -> int:
        """Return the largest number of the column that can be one; 0 where any can.

        Times and places with what follows them must be 64-bit numbers of ns and bytes.
        """
        if name == "pid":
            return LARGEST_PID
        if name in ("offset", "length"):
            unit = self.units.offset if name == "offset" else self.units.length
            return LARGEST_SUM // SIZE_BYTES[unit]
        if name not in ("time", *RESPONSES):
            return 0
        unit = self._unit(name)
        if name == "time" and unit == "filetime" and self.units.is_wall:
            return FILETIME_OF_1970 + LARGEST_SUM // TIME_NS[unit]
        most = LARGEST_SUM if name == "time" else LARGEST_SUM // len(RESPONSES)
        return most if name in self.scaled() else most // TIME_NS.get(unit, 1)

    def _kind(self, name: str) -> Kind:
        if name.startswith("_"):
            return Kind.PASSED
        return KIND_OF[self._stored(name)]

    def _words(self, reader: ColumnReader, found: Found, place: int, name: str) -> Any:
        import pyarrow as pa

        from tracekit.columns import number_column, text_column

        indices = found.values[place]
        if name == "op":
            return text_column(indices, list(self.operations))
        words = reader.words(place)
        return pa.DictionaryArray.from_arrays(number_column(indices, pa.int32()), words)

    def _count(self, wrong: Sequence[tuple[int, bytes]], lines: BadLines, *, of: int) -> None:
        """Count a block `of` so many lines, and tell those that are no requests from wrong ones."""
        known = re.compile(self.passed.encode()) if self.passed else None
        for number, text in wrong:
            is_known = known is not None and known.match(text)
            if is_known or COMMENT.match(text) or text.rstrip(b"\r") in lines.header:
                lines.passed += 1
                continue
            lines.bad += 1
            lines.add(lines.lines + number + 1, text.decode("utf-8", "replace"))
        lines.lines += of
