"""The foreign formats, and which of them a file is by its content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tracekit.errors import InputError, UsageError
from tracekit.formats import (
    alibaba,
    arc,
    biosnoop,
    blkreplay,
    disksim,
    fio,
    fiu,
    mqsim,
    msr,
    spc,
    systor,
    tencent,
)
from tracekit.formats.events import EVENT_TEXTS
from tracekit.formats.octf import NAME as OCTF
from tracekit.formats.oracle import OracleFormat
from tracekit.formats.text import MOST_OF_THEM, TextFormat
from tracekit.formats.vscsi import VscsiFormat

Format = TextFormat | VscsiFormat | OracleFormat
TEXTS = (
    blkreplay.FORMAT, msr.FORMAT, spc.FORMAT, alibaba.FORMAT, tencent.FORMAT, systor.FORMAT,
    fiu.FORMAT, mqsim.FORMAT, disksim.FORMAT, arc.FORMAT, fio.V2, fio.V3,
    biosnoop.FORMAT,
)  # fmt: skip
FORMATS: dict[str, Format] = {
    known.name: known for known in (VscsiFormat(1), VscsiFormat(2), OracleFormat(), *TEXTS)
}


WITH_MORE = (msr.FORMAT, alibaba.FORMAT, systor.FORMAT)
"""Whose columns no other format begins with."""
BY_COMMAS = (msr.FORMAT, spc.FORMAT, alibaba.FORMAT, tencent.FORMAT, systor.FORMAT)
OTHER_DELIMITERS = {"\t": "a tab", ";": "a semicolon"}


def _variants() -> Iterator[TextFormat]:
    """Yield what others made of the formats: with more columns, or another delimiter."""
    for known in WITH_MORE:
        more = replace(known, may_have_more=True)
        yield more.because("the first lines; columns behind the format's are passed over")
    for known in BY_COMMAS:
        for delimiter, name in OTHER_DELIMITERS.items():
            other = replace(known, delimiter=delimiter)
            yield other.because(f"the first lines, whose columns {name} delimits")


def choose_format(head: bytes, name: str, *, given: str | None, is_lenient: bool = False) -> Format:
    """Return the given format, or the one that the file's first bytes are of.

    A lenient choice takes the format that most lines are of, so that the others can be shown as
    wrong. Raise UsageError for an unknown name, InputError when no format or several match.
    """
    if given is not None:
        if given not in FORMATS:
            hint = f"known are {', '.join([*EVENT_TEXTS, OCTF, *FORMATS])}"
            raise UsageError(f"--format {given}: there is no such format", hint=hint)
        alike = [other for other in _variants() if other.name == given and other.matches(head)]
        return FORMATS[given] if FORMATS[given].matches(head) or not alike else alike[0]
    found = [known for known in FORMATS.values() if known.matches(head)]
    found = found or [other for other in _variants() if other.matches(head)]
    if not found and is_lenient:
        found = [known for known in TEXTS if known.matches(head, least=MOST_OF_THEM)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(known.name for known in found)
        raise InputError(f"{name}: its content may be {names}", hint="choose one with --format")
    hint = "name the columns of a text with --columns or --regex; blktrace captures: tracekit parse"
    raise InputError(f"{name}: the content is of no known format: {head[:40]!r}", hint=hint)
