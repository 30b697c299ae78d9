"""The formats of other tools: the columns of each, and which of them a file is by its content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tracekit.errors import InputError, UsageError
from tracekit.readers import fio
from tracekit.readers.binary import OracleFormat, VscsiFormat
from tracekit.readers.events import EVENT_TEXTS
from tracekit.readers.octf import NAME as OCTF
from tracekit.readers.text import (
    MOST_OF_THEM,
    OPERATIONS,
    POINT,
    READ_OR_WRITE,
    RWBS,
    SEPARATOR,
    BadLines,
    PatternFormat,
    TextFormat,
    column_kinds,
)
from tracekit.readers.units import Columns, Units

ALIBABA = TextFormat(
    "alibaba",
    column_kinds("device:word op offset length time"),
    Units("us", "bytes", "bytes", is_wall=True),
    READ_OR_WRITE,
)

ARC = TextFormat(
    "arc",
    column_kinds(r"offset length _zero:[0-9]+ _number:[0-9]+\s*"),
    Units("us", "pages", "pages"),
    {},
    delimiter=" ",
)

KINDS = {
    **dict.fromkeys(("d", "de"), "discard"),
    "r": "read",
    "w": "write",
    "f": "flush",
    "n": "other",
}
BIOSNOOP_FLAGS = ["".join(flags) for flags in product(("", "f"), ("", "a"), ("", "s"), ("", "m"))]
BIOSNOOP_OPERATIONS = {
    before + kind + flags: "readahead" if kind == "r" and "a" in flags else name
    for before in ("", "f")
    for kind, name in KINDS.items()
    for flags in BIOSNOOP_FLAGS
} | {f"fn{flags}": "flush" for flags in BIOSNOOP_FLAGS}
"""R and W of older versions, and the kernel's rwbs letters of newer ones."""


@dataclass(frozen=True)
class Biosnoop(PatternFormat):
    """Lines of biosnoop, of which the header names the columns."""

    def is_request(self, line: str) -> bool:
        """Say whether a line that is no good one begins with a time."""
        return bool(re.match(r"\s*[0-9]+\.[0-9]+\s", line))

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; times become those at which the requests began."""
        columns = super().decode(block, lines)
        if columns is None:
            return None
        numbers = dict(columns.numbers)
        waited = numbers.pop("queue")
        spans = numbers["response"] + np.maximum(waited, 0)
        numbers["response"] = spans
        numbers["time"] = numbers["time"] - spans
        return replace(columns, numbers=numbers)


BIOSNOOP = Biosnoop(
    "biosnoop",
    column_kinds(
        "time:point process:word pid device:word op offset:int? length queue:decimal?"
        " response:decimal"
    ),
    Units("s", "sectors", "bytes", response="ms"),
    BIOSNOOP_OPERATIONS,
    delimiter=SEPARATOR,
    passed=r"^(?:\s*TIME\(s\)|\^C|Tracing )",
    pattern=r"^(?P<time>[0-9]{1,18}\.[0-9]{1,9})\s+(?P<process>[^\s].*?)\s+(?P<pid>[0-9]{1,18})\s+"
    r"(?:(?P<device>[^\s]+)\s+)?(?P<op>(?i:f?(?:[rwfn]|de?)f?a?s?m?))\s+"
    r"(?:-1|18446744073709551615|(?P<offset>[0-9]{1,18}))\s+(?P<length>[0-9]{1,18})(?:\s*[SR?])?"
    r"(?:\s+(?:-1\.0+|(?P<queue>[0-9]{1,9}\.[0-9]{1,9})))?"
    r"\s+(?P<response>[0-9]{1,9}\.[0-9]{1,9})\s*$",
)

LETTERS = {word: OPERATIONS[word] for word in ("r", "w", "d", "ra", "ff", "n", *RWBS)}
"""The kernel's, which are copied from blktrace."""

BLKREPLAY = TextFormat(
    "blkreplay",
    column_kinds(r"time:decimal offset length op _delay:[^;\n]* _duration:[^;\n]*"),
    Units("s", "sectors", "sectors"),
    LETTERS,
    delimiter=";",
)


HEX_DIGITS = 16
DISKSIM_FLAGS = {
    word: "read" if flags & 1 else "write"
    for flags in range(HEX_DIGITS * HEX_DIGITS)
    for word in (f"{flags:x}", f"0x{flags:x}", f"{flags:08x}"[: 8 if flags < HEX_DIGITS else 2])
} | {f"0x{flags:08x}": "read" if flags & 1 else "write" for flags in range(HEX_DIGITS)}
"""Also with leading zeros, as %08x writes them."""

DISKSIM = TextFormat(
    "disksim",
    column_kinds("time:decimal device:digits offset length op"),
    Units("ms", "sectors", "sectors"),
    {**DISKSIM_FLAGS, **READ_OR_WRITE},
    delimiter=" ",
    required=rf"^{POINT}",  # MQSim's times are whole numbers
)

FIU = TextFormat(
    "fiu",
    column_kinds("time pid process:name offset length op device:digits volume:digits"),
    Units("ns", "sectors", "sectors"),
    READ_OR_WRITE,
    delimiter=" ",
    may_have_more=True,
)

MQSIM = TextFormat(
    "mqsim",
    column_kinds("time device:digits offset length op"),
    Units("ns", "sectors", "sectors"),
    {"0": "write", "1": "read", "2": "zone", **READ_OR_WRITE},
    delimiter=" ",
)

MSR = TextFormat(
    "msr",
    column_kinds("time device:word volume:word op offset length response:decimal?"),
    Units("filetime", "bytes", "bytes", is_wall=True, response="filetime"),
    READ_OR_WRITE,
)

SPC = TextFormat(
    "spc",
    column_kinds("device:digits offset length op time:decimal"),
    Units("s", "sectors", "bytes"),
    READ_OR_WRITE,
    may_have_more=True,
    required=r'^\s*"?[0-9]{1,8}\b',  # a longer number is a time, as in Tencent's traces
)

SYSTOR = TextFormat(
    "systor",
    column_kinds("time:decimal response:decimal? op device:word offset length"),
    Units("s", "bytes", "bytes", is_wall=True, response="s"),
    READ_OR_WRITE,
)

TENCENT = TextFormat(
    "tencent",
    column_kinds("time offset length op device:digits"),
    Units("s", "sectors", "sectors", is_wall=True),
    {"0": "read", "1": "write", **READ_OR_WRITE},
    required=r'^\s*"?[0-9]{9,}\b|^[^A-Za-z]*$',  # with letters, SPC's places have fewer digits
)


Format = TextFormat | VscsiFormat | OracleFormat
TEXTS = (
    BLKREPLAY, MSR, SPC, ALIBABA, TENCENT, SYSTOR,
    FIU, MQSIM, DISKSIM, ARC, fio.V2, fio.V3,
    BIOSNOOP,
)  # fmt: skip
FORMATS: dict[str, Format] = {
    known.name: known for known in (VscsiFormat(1), VscsiFormat(2), OracleFormat(), *TEXTS)
}


WITH_MORE = (MSR, ALIBABA, SYSTOR)
"""Whose columns no other format begins with."""
BY_COMMAS = (MSR, SPC, ALIBABA, TENCENT, SYSTOR)
BY_BLANKS = (FIU, MQSIM, DISKSIM)
DELIMITERS = {"\t": "a tab", ";": "a semicolon", ",": "a comma"}
NUMBERED = "[0-9]*"


def _variants() -> Iterator[TextFormat]:
    """Yield what others made of the formats: more or fewer columns, another delimiter, dates."""
    for known in WITH_MORE:
        more = replace(known, may_have_more=True)
        yield more.with_evidence("the first lines; columns behind the format's are passed over")
    for known in (*BY_COMMAS, *BY_BLANKS):
        for delimiter, name in DELIMITERS.items():
            if delimiter != known.delimiter and not (known in BY_BLANKS and delimiter == "\t"):
                other = replace(known, delimiter=delimiter)
                yield other.with_evidence(f"the first lines, whose columns {name} delimits")
    yield _without(MSR, "response").with_evidence("the first lines, without response times")
    few = _without(BLKREPLAY, "_delay", "_duration")
    yield few.with_evidence("the first lines, of four columns")
    for known in BY_COMMAS:
        numbered = replace(known, columns={"_number": NUMBERED, **known.columns}, required="")
        yield numbered.with_evidence(
            "the first lines, each with its number before the format's columns"
        )
        dated = replace(known, units=known.units.overridden(["time=date"]))
        yield dated.with_evidence("the first lines, whose times are dates")
    for known in (MSR, ALIBABA):
        in_s = replace(known.units, time="s")
        exact = replace(known, columns={**known.columns, "time": "point"}, units=in_s)
        yield exact.with_evidence("the first lines, whose times have a point: seconds since 1970")


def _blanked() -> Iterator[TextFormat]:
    """Yield the formats with blanks for commas, which tabs are, too."""
    for known in BY_COMMAS:
        other = replace(known, delimiter=" ")
        yield other.with_evidence("the first lines, whose columns blanks delimit")


def _without(known: TextFormat, *names: str) -> TextFormat:
    """Return the format without these columns."""
    kept = {name: kind for name, kind in known.columns.items() if name not in names}
    return replace(known, columns=kept)


def choose_format(head: bytes, name: str, *, given: str | None, is_lenient: bool = False) -> Format:
    """Return the given format, or the one that the file's first bytes are of.

    A lenient options takes the format that most lines are of, so that the others can be shown as
    wrong. Raise UsageError for an unknown name, InputError when no format or several match.
    """
    if given is not None:
        if given not in FORMATS:
            hint = f"known are {', '.join([*EVENT_TEXTS, OCTF, *FORMATS])}"
            raise UsageError(f"--format {given}: there is no such format", hint=hint)
        others = (other for other in (*_variants(), *_blanked()) if other.name == given)
        alike = [other for other in others if other.matches(head)]
        return FORMATS[given] if FORMATS[given].matches(head) or not alike else alike[0]
    found = [known for known in FORMATS.values() if known.matches(head)]
    found = found or [other for other in _variants() if other.matches(head)]
    found = found or [other for other in _blanked() if other.matches(head)]
    if not found and is_lenient:
        found = [known for known in TEXTS if known.matches(head, least=MOST_OF_THEM)]
    if len({known.name for known in found}) == 1:
        return found[0]
    if found:
        names = ", ".join(known.name for known in found)
        raise InputError(f"{name}: its content may be {names}", hint="choose one with --format")
    hint = "name the columns of a text with --columns or --regex; blktrace captures: tracekit parse"
    raise InputError(f"{name}: the content is of no known format: {head[:40]!r}", hint=hint)
