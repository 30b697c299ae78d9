"""Text formats of one request a line: by a delimiter, a regular expression, or their own header."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit._native.readers import SHOWN_BYTES, ColumnReader, Kind
from tracekit.arrow import number_column, text_column
from tracekit.errors import UsageError
from tracekit.formats import FILETIME_OF_1970
from tracekit.readers.salvage import has_damage
from tracekit.readers.units import (
    SHOWN_CHARACTERS,
    TIME_NS,
    Block,
    Columns,
    Example,
    Units,
)
from tracekit.tables import OPERATIONS as OPERATION_NAMES

INT = r"\s*(?:0[xX][0-9A-Fa-f]+|[0-9]{1,19})\s*"
EXPONENT = r"[eE][+-]?[0-9]{1,2}"
DECIMAL = rf"\s*[0-9]+(?:\.[0-9]*)?(?:{EXPONENT})?\s*"
POINT = rf"\s*[0-9]+(?:\.[0-9]*(?:{EXPONENT})?|{EXPONENT})\s*"
DATE = (
    r"\s*[0-9]{4}(?:-[0-9]{2}-|/[0-9]{2}/)[0-9]{2}(?:[Tt]|[ \t]+)[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(?:\.[0-9]+)?(?:[Zz]|\s*UTC|\s*[+-][0-9]{2}:?(?:[0-9]{2})?)?\s*"
)
COMMENT = re.compile(rb"\s*(?:#|//)")
DECIMAL_COMMA = re.compile(r"[0-9]+,[0-9]+")
THOUSANDS = re.compile(r"[1-9][0-9]{0,2},[0-9]{3}")
"""What looks like a decimal comma and may group the digits of a larger number."""
WHOLE = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]+")
NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?")
LARGEST_SUM = (1 << 62) - 1
"""Of ns or bytes: two such numbers, as a place and a length, have a 64-bit sum."""
FLAGS = ("0", "1")
"""That stand for reads and writes in many texts, in either order."""
READ_OR_WRITE = {"r": "read", "w": "write", "read": "read", "write": "write"}
LARGEST_PID = (1 << 31) - 1
LARGEST_COUNT = 1 << 16
"""Of requests that one line stands for."""
NEARLY_ALL = 0.9
MOST_OF_THEM = 0.5
KEPT_EXAMPLES = 5
NUMBERS = ("time", "offset", "length", "response", "pid", "queue", "count", "file")
WORDS = ("op", "device", "volume", "process")
DECIMALS = ("decimal", "decimal?", "point")
RESPONSES = ("response", "queue")
KINDS = {
    "int": (Kind.INTEGER, INT),
    "int?": (Kind.MAYBE, INT),
    "digits": (Kind.DIGITS, r"\s*[0-9]+\s*"),
    "decimal": (Kind.DECIMAL, DECIMAL),
    "decimal?": (Kind.MAYBE, f"(?:{DECIMAL}|\\s*)"),
    "point": (Kind.POINT, POINT),
    "date": (Kind.DATE, DATE),
    "op": (Kind.CHOICE, ""),
    "word": (Kind.WORD, ""),
    "name": (Kind.NAME, ""),
}
"""How the reader takes a kind of column, and its regular expression; of words it is a format's."""


@dataclass
class BadLines:
    """Lines that could not be read: how many of how many, and the first of them."""

    lines: int = 0
    bad: int = 0
    examples: list[Example] = field(default_factory=list)
    passed: int = 0
    """Lines that are no requests and not wrong: known ones, comments, the header once more."""
    header: frozenset[bytes] = frozenset()
    """Lines before the first good one, which stand again where files were joined."""
    carried_time: int = 0
    """The last time, of a format whose times stand on lines of their own."""
    first_time: int = 0
    times: int = 0
    """Of such a format: the first of these times, and how many there are."""
    wrong: list[int] = field(default_factory=list)
    """Which lines of the last block are wrong, from 0."""
    pieces: dict[int, int] = field(default_factory=dict)
    """Of a format whose places are within files: where each piece of a file lies."""
    reader: ColumnReader | None = None
    """What reads the lines, and knows the words that they had."""
    source: str = ""
    """Of one of several files: its name, behind each line."""

    def add(self, number: int, text: str) -> None:
        """Count a wrong line, and keep it as an example if there are not enough of them."""
        self.bad += 1
        if len(self.examples) < KEPT_EXAMPLES:
            self.examples.append((number, text[:SHOWN_CHARACTERS] + self.source))


USUAL_KINDS = {"time": "int", "op": "op", "offset": "int", "length": "int", "pid": "int"}


def column_kinds(text: str) -> dict[str, str]:
    """Return the columns that a text names in their order, each as NAME or NAME:KIND."""
    pairs = (word.partition(":") for word in text.split())
    return {name: kind or USUAL_KINDS[name] for name, _, kind in pairs}


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
    """How the format was recognised."""
    required: str = ""
    """A regular expression that a good line of the head must match, where another format's lines
    are good ones, too."""
    assumes: str = ""
    """What stands in no line, and is taken so."""

    def line(self) -> str:
        """Return the regular expression of a good line."""
        is_blank = self.delimiter == " "
        delimiter = r"[ \t]+" if is_blank else re.escape(self.delimiter)
        parts = [self._part(name) for name in self.columns]
        if self.delimiter == "\t":
            parts = [part.replace(r"\s*", " *") for part in parts]
        end = "" if is_blank else rf"(?:{delimiter}[ \t]*)?"
        rest = rf"(?:{delimiter}[^\n]*)?" if self.may_have_more else end
        return "^" + delimiter.join(parts) + rest + "\r?$"

    def _part(self, name: str) -> str:
        """Return the regular expression of a column, in quotes or not."""
        kind, is_blank = self._stored(name), self.delimiter == " "
        part = KINDS[kind][1] if kind in KINDS else kind
        with_comma = part.replace(r"\.[0-9]*", r"(?:\.[0-9]*|,[0-9]+)")
        if kind in DECIMALS and self.delimiter != ",":
            part = with_comma
        if kind == "op":
            words = dict.fromkeys(
                form for word in self.operations for form in (word, as_read(word))
            )
            part = rf"\s*(?i:{'|'.join(map(re.escape, words))})\s*"
        elif kind in ("word", "name"):
            part = r"[^ \t\0\n]+" if is_blank else rf'[^{re.escape(self.delimiter)}\0\n"]+'
            part += r"(?:[ \t]+[^ \t\0\n]+)*?" if is_blank and kind == "name" else ""
        if is_blank:
            return part
        quoted = with_comma if kind in DECIMALS else part
        quoted = r'[^"\n]*' if name.startswith("_") else quoted
        quoted = r'[^"\0\n]+' if kind in ("word", "name") else quoted
        return rf'(?:{part}|\s*"{quoted}"\s*)'

    def with_words(self, given: Mapping[str, str]) -> Self:
        """Return the format with the user's words for operations, if it has a column of them."""
        if not given or "op" not in self.columns:
            return self
        # The reader knows upper case of ASCII's letters alone.
        cases = {
            form: name
            for word, name in given.items()
            for form in ([word] if word.isascii() else [word, word.capitalize(), word.upper()])
        }
        return replace(self, operations={**self.operations, **cases})

    def unknown_words(self, lines: Sequence[str]) -> list[str]:
        """Return the words of operations that the format does not know, in lines wrong by them."""
        if "op" not in self.columns:
            return []
        found, place = list[str](), list(self.columns).index("op")
        for line in lines:
            words = line.split() if self.delimiter == " " else line.split(self.delimiter)
            word = words[place].strip(' \t\r"').lower() if place < len(words) else ""
            may_be = word.isalpha() or word in FLAGS
            is_new = may_be and word not in (*self.operations, *found)
            if is_new and self.with_words({word: "read"}).are_good([line])[0]:
                found.append(word)
        return found

    def wrong_word(self, line: str) -> str:
        """Return in words which column of a wrong line is no number; nothing if that is not it."""
        for name, word in zip(self.columns, self._words(line), strict=False):
            kind = self._stored(name)
            if kind == "int" and not WHOLE.fullmatch(word):
                return f"its {name} is {word or 'empty'}, no whole number"
            if kind in DECIMALS and word.startswith("-"):
                return f"its {name} is {word}, below zero"
        return ""

    def matches(self, head: bytes, *, least: float = NEARLY_ALL) -> bool:
        """Say whether this share of the lines of the head, after its preamble, are good ones."""
        ratio = self.good_ratio(head)
        return ratio > 0 and ratio >= least

    def good_ratio(self, head: bytes) -> float:
        """Return the share of good ones of the lines of the head, after its preamble.

        It is 0 where none has what the format requires.
        """
        lines = [line for line in re.split("\r\n?|\n", head.decode("latin-1")) if line.strip()]
        are_good = self.are_good(lines)
        first = are_good.index(True) if True in are_good else len(lines)
        header, comment = set(lines[:first]), re.compile(COMMENT.pattern.decode())
        rest = [
            (line, is_good)
            for line, is_good in zip(lines[first:], are_good[first:], strict=True)
            if line not in header and not comment.match(line) and not self._is_passed(line)
        ]
        good = [line for line, is_good in rest if is_good]
        is_one = any(re.match(self.required, line) for line in good)
        return len(good) / len(rest) if is_one else 0.0

    def _is_passed(self, line: str) -> bool:
        return bool(self.passed) and re.match(self.passed, line) is not None

    def are_good(self, lines: Sequence[str]) -> list[bool]:
        """Say of each line whether it is a good one."""
        good_line = re.compile(self.line())
        return [good_line.match(line) is not None for line in lines]

    def with_comma(self, head: bytes) -> str:
        """Return a number of the head with a decimal comma; empty where there is none.

        It is one that groups no thousands, if there is such a one.
        """
        places = [n for n, name in enumerate(self.columns) if self._stored(name) in DECIMALS]
        found = ""
        for line in head.decode("latin-1").replace("\r", "").split("\n"):
            if "," not in line or (self.delimiter == "," and '"' not in line):
                continue
            is_blank = self.delimiter == " "
            words = line.split() if is_blank else next(csv.reader([line], delimiter=self.delimiter))
            for word in (words[place].strip() for place in places if place < len(words)):
                if DECIMAL_COMMA.fullmatch(word):
                    found = found or word
                    if not THOUSANDS.fullmatch(word):
                        return word
        return found

    def first_good(self, lines: Sequence[str]) -> int:
        """Return the place of the first good line, 0 if none is."""
        are_good = self.are_good(lines)
        return are_good.index(True) if True in are_good else 0

    def preamble(self, head: bytes, lines: BadLines) -> int:
        """Return how many lines stand before the first good one, as a licence or a header.

        Requests and damage among them are wrong lines, and counted in `lines`, not in what is
        returned.
        """
        before = head.decode("latin-1").split("\n")
        first, passed = self.first_good(before), []
        for number, line in enumerate(before[:first], start=1):
            is_end = number == 1 and self._is_end_of_request(line)
            if self.is_request(line) or is_end or has_damage(line.encode("latin-1")):
                shown = line.rstrip("\r").encode("latin-1").decode("utf-8", "replace")
                lines.add(number, shown)
                lines.wrong.append(number - 1)
            else:
                passed.append(line)
        # A header that no request follows is no wrong line, either.
        is_head = not before[0][:1].isdigit() and not self.is_request(before[0])
        is_head = is_head and before[0] not in before[1:]
        known = passed or before[: int(is_head)]
        shown_of = (line.rstrip("\r").encode("latin-1")[:SHOWN_BYTES] for line in known)
        lines.header, lines.lines = frozenset(filter(None, shown_of)), first
        return len(passed)

    def is_request(self, line: str) -> bool:
        """Say whether a line that is not a good one has a number where the format has one."""
        if line.lstrip().startswith(("#", "//")) or self._is_passed(line):
            return False
        pairs = zip(self._words(line), self.columns, strict=False)
        return any(NUMBER.fullmatch(word) for word, at in pairs if at in NUMBERS)

    def _is_end_of_request(self, line: str) -> bool:
        """Say whether a line has the last columns of a request, cut in one before them."""
        words = self._words(line)
        fewest = 2 if NUMBER.fullmatch(words[0]) else 3
        if not fewest <= len(words) < len(self.columns):
            return False
        pairs = [*zip(reversed(words[1:]), reversed([*self.columns]), strict=False)]
        are_numbers = [NUMBER.fullmatch(word) is not None for word, at in pairs if at in NUMBERS]
        are_words = [word.lower() in self.operations for word, at in pairs if at == "op"]
        return any(are_numbers) and all(are_numbers + are_words)

    def _words(self, line: str) -> list[str]:
        words = line.split() if self.delimiter == " " else line.split(self.delimiter)
        return [word.strip(' \t\r"') for word in words]

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; wrong ones are added to `lines`. Return None if none is good."""
        return self._decoded(block, lines, lambda _number, text: text)

    def _decoded(
        self, block: bytes | memoryview, lines: BadLines, shown: Callable[[int, bytes], bytes]
    ) -> Columns | None:
        """Decode; `shown` returns a wrong line as it stands in the file, by its number and text."""
        if lines.reader is None:
            lines.reader = ColumnReader(
                [self._column(name) for name in self.columns],
                self.delimiter,
                choices=list(self.operations),
                has_more=self.may_have_more,
            )
        found, first = lines.reader.read(block), lines.lines
        self._count([(at, shown(at, text)) for at, text in found.wrong], lines, of=found.lines)
        if not found.rows:
            return None
        reader, choices = lines.reader, list(self.operations)
        values = dict(zip(self.columns, found.values, strict=True))
        words = {}
        for place, name in enumerate(self.columns):
            if name == "op":
                words[name] = text_column(values[name], choices)
            elif name in WORDS:
                indices = number_column(values[name], pa.int32())
                words[name] = pa.DictionaryArray.from_arrays(indices, reader.words(place))
        return Columns(
            numbers={name: values[name] for name in NUMBERS if name in values},
            words=words,
            rows=found.rows,
            scaled=self.scaled(),
            block=Block(first, block, frozenset(at for at, _ in found.wrong), source=lines.source),
        )

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

    def _column(self, name: str) -> tuple[Kind, int, int]:
        """Return kind, digits and largest number of a column for the reader.

        So many digits behind its point make nanoseconds of a decimal. Nanoseconds since 1601 are
        no 64-bit number: of a filetime none is read.
        """
        if name.startswith("_"):
            return Kind.PASSED, 0, 0
        kind, unit = self._stored(name), self._unit(name)
        is_whole = kind not in DECIMALS or unit == "filetime"
        digits = 0 if is_whole else len(str(TIME_NS[unit])) - 1
        return KINDS[kind][0], digits, self.largest(name)

    def largest(self, name: str) -> int:
        """Return the largest number of the column that can be one; 0 where any can.

        Times and places with what follows them must be 64-bit numbers of ns and bytes.
        """
        if name in ("pid", "count"):
            return LARGEST_PID if name == "pid" else LARGEST_COUNT
        if name in ("offset", "length"):
            return LARGEST_SUM // self.units.factor(name)
        if name not in ("time", *RESPONSES):
            return 0
        unit = self._unit(name)
        if name == "time" and unit == "filetime" and self.units.is_wall:
            return FILETIME_OF_1970 + LARGEST_SUM // TIME_NS[unit]
        most = LARGEST_SUM if name == "time" else LARGEST_SUM // len(RESPONSES)
        return most if name in self.scaled() else most // TIME_NS[unit]

    def _count(self, wrong: Sequence[tuple[int, bytes]], lines: BadLines, *, of: int) -> None:
        """Count a block `of` so many lines, and tell those that are no requests from wrong ones."""
        known = re.compile(self.passed.encode()) if self.passed else None
        lines.wrong = []
        for number, text in wrong:
            is_known = known is not None and known.match(text)
            if is_known or COMMENT.match(text) or text.rstrip(b"\r") in lines.header:
                lines.passed += 1
            else:
                lines.wrong.append(number)
                lines.add(lines.lines + number + 1, text.decode("utf-8", "replace"))
        lines.lines += of


USER_COLUMNS = column_kinds(
    "time:decimal op offset length response:decimal? device:word process:word pid"
)
NEEDED = ("time", "op", "offset", "length")
RWBS = {
    f"{flush}{letter}{more}": name
    for flush in ("", "f")
    for letter, name in (("r", "read"), ("w", "write"), ("d", "discard"))
    for more in ("s", "m", "sm", "f", "fs", "fsm", "fm", "a", "as", "am", "asm", "")
    if flush + more
}
"""The kernel's letters of an operation and what goes with it, as WS; a before is readahead."""
WORDS_OF = {
    "read": "r rd read 8 28 0x28 88 0x88 a8 diskread pread pread64 preadv reads",
    "write": "w wr write a 2a 0x2a 8a 0x8a aa diskwrite pwrite pwrite64 pwritev writes",
    "flush": "f ff flush sync fsync fdatasync diskflush 35 0x35",
    "discard": "d discard trim unmap 42 0x42",
    "readahead": "ra ras ram rasm readahead",
    "other": "n",
}
"""Words and, in hexadecimal, SCSI commands."""
OPERATIONS = RWBS | {word: name for name, words in WORDS_OF.items() for word in words.split()}


def user_format(columns: str, delimiter: str, *, units: Iterable[str]) -> TextFormat:
    """Return the format of the user's columns; raise UsageError for what cannot be.

    Without a unit from the user, lengths and places are bytes and times seconds, to be checked.
    """
    found: dict[str, str] = {}
    for number, name in enumerate(part.strip() for part in columns.split(",")):
        if name != "-" and (name not in USER_COLUMNS or name in found):
            raise UsageError(
                f"--columns {columns}: '{name}' is unknown or there twice",
                hint=f"known are {', '.join(USER_COLUMNS)} and - for what to pass over",
            )
        passed_over = "" if name != "-" else rf"[^{delimiter}\n]*"
        found[name if name != "-" else f"_{number}"] = passed_over or USER_COLUMNS[name]
    missing = [name for name in NEEDED if name not in found]
    if missing:
        message = f"--columns {columns}: there is no {', '.join(missing)}"
        raise UsageError(message, hint="name the columns in their order")
    if len(delimiter) != 1 or delimiter in '"\n\r':
        raise UsageError(f"--delimiter {delimiter!r} is not one character", hint="such as ';'")
    return TextFormat("own", found, user_units(units), OPERATIONS, delimiter)


def dated(form: TextFormat, units: Iterable[str]) -> TextFormat:
    """Return the user's format with dates for times, unless `units` say another unit."""
    if any(unit.startswith("time=") for unit in units):
        return form
    dates = form.units.overridden(["time=date"])
    return replace(form, units=dates, evidence="its times are dates")


def user_units(units: Iterable[str]) -> Units:
    """Return the units of the user's text; filetimes count from 1601, others from anywhere."""
    found = Units("s", "bytes", "bytes", response="s").overridden(units)
    return replace(found, is_wall=found.time in ("filetime", "date"))


def as_read(word: str) -> str:
    """Return a word as it stands in the head of a file, which is read byte by byte."""
    return word.encode().decode("latin-1")


def user_words(given: Iterable[str]) -> dict[str, str]:
    """Return the user's WORD=OPERATION; raise UsageError for what is none."""
    found = {}
    for item in given:
        word, _, name = item.partition("=")
        if not word.strip() or name not in (*OPERATION_NAMES, "readahead"):
            known = ", ".join((*OPERATION_NAMES[:4], "readahead", "other"))
            raise UsageError(f"--op {item}: not a word and what it means", hint=f"such as {known}")
        found[word.strip().lower()] = name
    return found


SEPARATOR = "\x1f"
"""Between the groups of a line, once they were found: no text has it."""
UNKNOWN = "?"
"""The word of a group that took no part in a line."""


@dataclass(frozen=True)
class PatternFormat(TextFormat):
    """A text format whose lines match `pattern`, in RE2's and Python's common syntax.

    `columns` has the pattern's named groups with their kinds, which say how a value is converted;
    of kind int? a number that is not there is 0, but for that of a process.
    """

    pattern: str = ""

    def line(self) -> str:
        """Return the regular expression of a good line."""
        return self.pattern

    def are_good(self, lines: Sequence[str]) -> list[bool]:
        """Say of each line whether it matches; RE2's time grows with its length and no faster."""
        found = pc.match_substring_regex(_strings(lines), f"^(?:{self.pattern})")
        return list(found.to_pylist())

    def is_request(self, line: str) -> bool:  # noqa: ARG002 - nothing is known of other lines
        """Say that what stands before the first good line are no requests."""
        return False

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; wrong ones are added to `lines`. Return None if none is good."""
        whole = bytes(block).decode(errors="replace").encode()  # what is no text is replaced
        text = text_lines(whole)
        columns = self._decoded(
            self._separated(text), lines, lambda number, _text: text[number].as_py().encode()
        )
        if columns is None:
            return None
        numbers = {
            name: np.maximum(values, 0)
            if self.columns[name] == "int?" and name != "pid"
            else values
            for name, values in columns.numbers.items()
        }
        stands = replace(columns.block, text=whole) if columns.block else None
        return replace(columns, numbers=numbers, block=stands)

    def _separated(self, text: Any) -> Any:
        """Return for each line its groups between separators; empty lines stay so."""
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


def text_lines(block: bytes) -> Any:
    """Return the block's lines, each without its ending, as an Arrow array of strings."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    return pc.ascii_rtrim(
        pa.Array.from_buffers(pa.binary(), len(ends), buffers).cast(pa.string(), safe=False), "\r\n"
    )


def has_dates(head: bytes, pattern: str) -> bool:
    """Say whether the first line that matches the pattern has a date as its time."""
    found = pc.extract_regex(_strings(head.decode("latin-1").splitlines()), f"^(?:{pattern})")
    times = pc.drop_null(pc.struct_field(found, "time"))
    return len(times) > 0 and bool(re.fullmatch(DATE, times[0].as_py()))


def _strings(lines: Sequence[str]) -> Any:
    """Return the lines as an Arrow array; of a list Arrow makes one with pandas imported."""
    return text_lines("".join(f"{line}\n" for line in lines).encode())


def user_pattern(pattern: str, *, units: Iterable[str]) -> PatternFormat:
    """Return the format of the user's regular expression; raise UsageError for what cannot be.

    Without a unit from the user, lengths and places are bytes and times seconds, to be checked.
    """
    try:
        groups = list(re.compile(pattern).groupindex)
        pc.extract_regex(pa.array([""]), pattern)
    except (re.error, pa.ArrowInvalid) as problem:
        message = f"--regex {pattern}: {problem}"
        hint = "name all groups, as in (?P<time>[0-9.]+); no look-ahead or back reference"
        raise UsageError(message, hint=hint) from problem
    unknown = [name for name in groups if name not in USER_COLUMNS]
    missing = [name for name in NEEDED if name not in groups]
    if unknown or missing:
        wrong = f"unknown groups {', '.join(unknown)}" if unknown else f"no {', '.join(missing)}"
        raise UsageError(
            f"--regex {pattern}: {wrong}", hint=f"known groups are {', '.join(USER_COLUMNS)}"
        )
    columns: Mapping[str, str] = {
        name: "int?" if name == "pid" else USER_COLUMNS[name] for name in groups
    }
    return PatternFormat(
        "own", columns, user_units(units), OPERATIONS, delimiter=SEPARATOR, pattern=pattern
    )


NAMES = {
    "time": "time timestamp ts datetime arrival arrivaltime queuetime optime ctime start starttime",
    "op": "op operation opcode optype opname type iotype rw rwbs cmd command action direction",
    "offset": "offset byteoffset fileoffset ioffset place position address",
    "offset=sectors": "lba lbn lbnumber sector startsector blkno",
    "length": "length len size iosize bytes requestsize reqsize sizebytes nbytes",
    "length=sectors": "sectors nsectors numsectors sectorcount blkcount",
    "device": "device dev deviceid disk disknumber diskid lun volume volumeid vol asu drive",
    "response": "response responsetime resptime latency elapsed",
    "process": "process processname comm proc",
    "pid": "pid tid",
}
"""What a column may be called, in lower case and without other letters; a sector's are units."""
MEANING = {name: what for what, names in NAMES.items() for name in names.split()}
UNIT = re.compile(r"[\W_]*\b(ns|us|ms|s|bytes|sectors)[\])]?$")
DELIMITERS = ";\t|, "
"""In the order in which they are looked for: numbers may have commas for points."""
TIMES = ("time", "response")


def header_format(head: bytes, *, units: Iterable[str], name: str) -> TextFormat | None:
    """Return the format that the header names, or None if the first line is not a header.

    `units` are the user's, `name` is the file's. Raise UsageError when nobody says the unit of the
    times: it cannot be concluded of the numbers.
    """
    first, delimiter, columns, units_named = _header(head)
    if not set(NEEDED) <= set(columns):
        return None
    second = head.decode("latin-1").split("\n")[1:2]
    values = dict(zip(columns, _split(second[0], delimiter) if second else [], strict=False))
    if re.fullmatch(DATE, values.get("time", "").strip(' "\r')):
        units_named = [*(one for one in units_named if not one.startswith("time=")), "time=date"]
    given = [*units_named, *units]
    said = {one.partition("=")[0] for one in given}
    unsaid = [what for what in TIMES if what in columns and what not in said]
    if unsaid:
        shown = f"{name}: its header names the columns, but not the unit of {' and '.join(unsaid)}"
        hint = f"give --unit {unsaid[0]}=UNIT, one of {', '.join(TIME_NS)}"
        raise UsageError(f"{shown}: {first}", hint=hint)
    form = user_format(",".join(columns), delimiter, units=given)
    return replace(form, evidence=f"its header: {first}")


def names_columns(head: bytes) -> bool:
    """Say whether the first line is a header of the columns that a request needs."""
    return set(NEEDED) <= set(_header(head)[2])


def contradicts(head: bytes, form: TextFormat) -> bool:
    """Say whether the first line is a header and names other columns than the format has."""
    _, _, columns, units_named = _header(head)
    if not set(NEEDED) <= set(columns):
        return False
    known = ["device" if name == "volume" else name for name in form.columns]
    pairs = zip(columns, known, strict=False)
    units = {name: getattr(form.units, name) for name in ("time", "offset", "length")}
    named = (one.split("=") for one in units_named)
    is_other = any(units.get(name, unit) != unit for name, unit in named)
    return is_other or any(ours not in ("-", own) for ours, own in pairs)


def names_others(head: bytes, form: TextFormat) -> str:
    """Return the first line if it is a header that names other columns than the format has."""
    first, _, columns, _ = _header(head)
    known = ["device" if name == "volume" else name for name in form.columns]
    if isinstance(form, PatternFormat) or len(columns) < len(known):
        return ""
    pairs = zip(columns, known, strict=False)
    others = [name for name, own in pairs if name not in ("-", own) and not own.startswith("_")]
    return first if len(others) > 1 else ""


def _split(line: str, delimiter: str) -> list[str]:
    return line.split() if delimiter == " " else line.split(delimiter)


def _header(head: bytes) -> tuple[str, str, list[str], list[str]]:
    """Return the first line, what delimits it, its columns by the names of own formats, and units.

    There are no columns if it can be no header.
    """
    first = head.decode("latin-1").lstrip("#").partition("\n")[0].strip()
    delimiter = next((one for one in DELIMITERS if one in first), "")
    columns: list[str] = []
    units: list[str] = []
    if first[:1].isdigit() or not delimiter:
        return first, delimiter, columns, units
    for title in _split(first, delimiter):
        word = re.sub(r"([a-z])([A-Z])", r"\1_\2", title.strip(' "\r')).lower()
        unit = UNIT.search(re.sub(r"_", " ", word))
        bare = re.sub(r"[^a-z]", "", word[: unit.start()] if unit else word)
        meaning = MEANING.get(bare, MEANING.get(re.sub(r"[^a-z]", "", word), "-"))
        what, _, size = meaning.partition("=")
        what = "-" if what in columns else what
        columns.append(what)
        found = [size, unit[1] if unit and what in (*TIMES, "offset", "length") else ""]
        units += [f"{what}={one}" for one in found if one and (one in TIME_NS) == (what in TIMES)]
    return first, delimiter, columns, units
