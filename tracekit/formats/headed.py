"""A text of one request a line whose own header names the columns."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tracekit.errors import UsageError
from tracekit.formats.foreign import TIME_NS
from tracekit.formats.own import NEEDED, own_format
from tracekit.formats.text import DATE, TextFormat

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
DELIMITERS = ",;\t| "
"""In the order in which they are looked for."""
TIMES = ("time", "response")


def headed_format(head: bytes, *, units: Iterable[str]) -> TextFormat | None:
    """Return the format that the first line, a header, tells, or None when it is none.

    `units` are the user's. Raise UsageError when nobody says the unit of the times: it cannot be
    concluded of the numbers.
    """
    first, delimiter = _first_line(head)
    if not delimiter:
        return None
    columns, told = _columns(_titles(first, delimiter))
    if not set(NEEDED) <= set(columns):
        return None
    if _has_date(head, delimiter, columns.index("time")):
        told = [*(one for one in told if not one.startswith("time=")), "time=date"]
    given = [*told, *units]
    unsaid = [what for what in TIMES if what in columns and not _is_said(what, given)]
    if unsaid:
        shown = f"its header names the columns, but not the unit of {' and '.join(unsaid)}"
        hint = f"give --unit {unsaid[0]}=UNIT, one of {', '.join(TIME_NS)}"
        raise UsageError(f"{shown}: {first}", hint=hint)
    form = own_format(",".join(columns), delimiter, units=given)
    return form.because(f"its header: {first}")


def contradicts(head: bytes, form: TextFormat) -> bool:
    """Say whether the first line is a header that names other columns than the format has there."""
    first, delimiter = _first_line(head)
    columns, told = _columns(_titles(first, delimiter)) if delimiter else ([], [])
    known = ["device" if name == "volume" else name for name in form.columns]
    pairs = zip(columns, known, strict=False)
    units = [f"{name}={getattr(form.units, name)}" for name in ("time", "offset", "length")]
    names = [one.partition("=")[0] for one in units]
    is_other = any(one not in units for one in told if one.partition("=")[0] in names)
    if not set(NEEDED) <= set(columns):
        return False
    return is_other or any(ours not in ("-", own) for ours, own in pairs)


def _has_date(head: bytes, delimiter: str, place: int) -> bool:
    """Say whether the line behind the header has a date in this column."""
    line = head.decode("latin-1").split("\n")[1:2]
    words = _titles(line[0], delimiter) if line else []
    return len(words) > place and bool(re.fullmatch(DATE, words[place].strip(' "\r')))


def _first_line(head: bytes) -> tuple[str, str]:
    """Return the first line and what delimits it, which is nothing if it can be no header."""
    first = head.decode("latin-1").lstrip("#").partition("\n")[0].strip()
    delimiter = next((one for one in DELIMITERS if one in first), "")
    return first, "" if first[:1].isdigit() else delimiter


def _titles(first: str, delimiter: str) -> list[str]:
    return first.split() if delimiter == " " else first.split(delimiter)


def _columns(titles: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the columns by the names of own formats, and the units that their titles tell."""
    columns: list[str] = []
    told: list[str] = []
    for title in titles:
        word = re.sub(r"([a-z])([A-Z])", r"\1_\2", title.strip(' "\r')).lower()
        unit = UNIT.search(re.sub(r"_", " ", word))
        bare = re.sub(r"[^a-z]", "", word[: unit.start()] if unit else word)
        what, _, size = MEANING.get(bare, MEANING.get(re.sub(r"[^a-z]", "", word), "-")).partition(
            "="
        )
        if what in columns:
            what = "-"
        columns.append(what)
        if size:
            told.append(f"{what}={size}")
        if unit and what in (*TIMES, "offset", "length"):
            told.append(f"{what}={unit[1]}")
    return columns, [one for one in told if _is_unit(one)]


def _is_unit(told: str) -> bool:
    what, _, unit = told.partition("=")
    return (unit in TIME_NS) == (what in TIMES)


def _is_said(what: str, given: Iterable[str]) -> bool:
    return any(one.startswith(f"{what}=") for one in given)
