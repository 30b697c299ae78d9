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
BY_BLANKS = (fiu.FORMAT, mqsim.FORMAT, disksim.FORMAT)
DELIMITERS = {"\t": "a tab", ";": "a semicolon", ",": "a comma"}
NUMBERED = "[0-9]*"


def _variants() -> Iterator[TextFormat]:
    """Yield what others made of the formats: more or fewer columns, another delimiter, dates."""
    for known in WITH_MORE:
        more = replace(known, may_have_more=True)
        yield more.because("the first lines; columns behind the format's are passed over")
    for known in (*BY_COMMAS, *BY_BLANKS):
        for delimiter, name in DELIMITERS.items():
            if delimiter != known.delimiter and not (known in BY_BLANKS and delimiter == "\t"):
                other = replace(known, delimiter=delimiter)
                yield other.because(f"the first lines, whose columns {name} delimits")
    yield _without(msr.FORMAT, "response").because("the first lines, without response times")
    few = _without(blkreplay.FORMAT, "_delay", "_duration")
    yield few.because("the first lines, of four columns")
    for known in BY_COMMAS:
        numbered = replace(known, columns={"_number": NUMBERED, **known.columns}, telling="")
        yield numbered.because("the first lines, each with its number before the format's columns")
        dated = replace(known, units=known.units.overridden(["time=date"]))
        yield dated.because("the first lines, whose times are dates")
    for known in (msr.FORMAT, alibaba.FORMAT):
        in_s = replace(known.units, time="s")
        exact = replace(known, columns={**known.columns, "time": "point"}, units=in_s)
        yield exact.because("the first lines, whose times have a point: seconds since 1970")


def _blanked() -> Iterator[TextFormat]:
    """Yield the formats with blanks for commas, which tabs are, too."""
    for known in BY_COMMAS:
        other = replace(known, delimiter=" ")
        yield other.because("the first lines, whose columns blanks delimit")


def _without(known: TextFormat, *names: str) -> TextFormat:
    """Return the format without these columns."""
    kept = {name: kind for name, kind in known.columns.items() if name not in names}
    return replace(known, columns=kept)


def choose_format(head: bytes, name: str, *, given: str | None, is_lenient: bool = False) -> Format:
    """Return the given format, or the one that the file's first bytes are of.

    A lenient choice takes the format that most lines are of, so that the others can be shown as
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
