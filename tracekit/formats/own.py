"""A user's own text of one request a line, by the names of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tracekit.errors import UsageError
from tracekit.formats.foreign import Units
from tracekit.formats.text import TextFormat

KINDS = {
    "time": "decimal",
    "op": "op",
    "offset": "int",
    "length": "int",
    "response": "decimal?",
    "device": "word",
    "process": "word",
    "pid": "int",
}
NEEDED = ("time", "op", "offset", "length")
RWBS = {
    f"{flush}{letter}{more}": name
    for flush in ("", "f")
    for letter, name in (("r", "read"), ("w", "write"), ("d", "discard"))
    for more in ("s", "m", "sm", "f", "fs", "fsm", "fm", "a", "as", "am", "asm", "")
    if flush + more
}
"""The kernel's letters of an operation and what goes with it, as WS; a before is readahead."""
OPERATIONS = {
    **{
        word: "readahead" if word in ("ra", "ras", "ram", "rasm") else name
        for word, name in RWBS.items()
    },
    "ff": "flush",
    **dict.fromkeys(("diskread", "pread", "pread64", "preadv", "reads"), "read"),
    **dict.fromkeys(("diskwrite", "pwrite", "pwrite64", "pwritev", "writes"), "write"),
    **dict.fromkeys(("diskflush", "fdatasync"), "flush"),
    **dict.fromkeys(("r", "rd", "read", "8", "28", "0x28", "88", "0x88", "a8"), "read"),
    **dict.fromkeys(("w", "wr", "write", "a", "2a", "0x2a", "8a", "0x8a", "aa"), "write"),
    **dict.fromkeys(("f", "flush", "sync", "fsync", "35", "0x35"), "flush"),
    **dict.fromkeys(("d", "discard", "trim", "unmap", "42", "0x42"), "discard"),
    **dict.fromkeys(("ra", "readahead"), "readahead"),
    "n": "other",
}
"""Words and, in hexadecimal, SCSI commands."""


def own_format(columns: str, delimiter: str, *, units: Iterable[str]) -> TextFormat:
    """Return the format of the user's columns; raise UsageError for what cannot be.

    Without a unit from the user, lengths and places are bytes and times seconds, to be checked.
    """
    found: dict[str, str] = {}
    for number, name in enumerate(part.strip() for part in columns.split(",")):
        if name != "-" and (name not in KINDS or name in found):
            raise UsageError(
                f"--columns {columns}: '{name}' is unknown or there twice",
                hint=f"known are {', '.join(KINDS)} and - for what to pass over",
            )
        passed_over = "" if name != "-" else rf"[^{delimiter}\n]*"
        found[name if name != "-" else f"_{number}"] = passed_over or KINDS[name]
    missing = [name for name in NEEDED if name not in found]
    if missing:
        message = f"--columns {columns}: there is no {', '.join(missing)}"
        raise UsageError(message, hint="name the columns in their order")
    if len(delimiter) != 1 or delimiter in '"\n\r':
        raise UsageError(f"--delimiter {delimiter!r} is not one character", hint="such as ';'")
    return TextFormat("own", found, own_units(units), OPERATIONS, delimiter)


def dated(form: TextFormat, units: Iterable[str]) -> TextFormat:
    """Return a format of one's own whose times are dates, unless `units` say another unit."""
    if any(unit.startswith("time=") for unit in units):
        return form
    other = replace(form, units=form.units.overridden(["time=date"]))
    return other.because("its times are dates")


def own_units(units: Iterable[str]) -> Units:
    """Return the units of a text of one's own; filetimes count from 1601, others from anywhere."""
    found = Units("s", "bytes", "bytes", response="s").overridden(units)
    return replace(found, is_wall=found.time in ("filetime", "date"))
