"""The formats of other tools: the columns of each, and which of them a file is by its content."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from types import MappingProxyType
from typing import Any

import numpy as np

from tracekit._native.decode import Text, detect_text
from tracekit.arrow import texts
from tracekit.errors import InputError, UsageError
from tracekit.readers import text
from tracekit.readers.binary import LCS, ORACLE_OP_NS, OracleFormat, VscsiFormat, lcs_format
from tracekit.readers.drivers import NAMES
from tracekit.readers.hypotheses import (
    CANNOT_BE,
    LEAST_MARGIN,
    Finding,
    Hypothesis,
    scored,
    seen_of,
)
from tracekit.readers.refused import reject_by_name, reject_lone_head
from tracekit.readers.salvage import HEAD_BYTES, is_text
from tracekit.readers.sniffer import likely_columns
from tracekit.readers.text import (
    OPERATIONS,
    READ_OR_WRITE,
    BadLines,
    TextFormat,
    column_kinds,
)
from tracekit.readers.tool_texts import BIOSNOOP, DTRACE, IOSNOOP, XPERF, dtrace_iosnoop
from tracekit.readers.units import (
    SHOWN_CHARACTERS,
    TIME_NS,
    Columns,
    ImportOptions,
    Units,
    listed,
)
from tracekit.readers.within import TECTONIC, THESIOS, headed_within


def _text(
    name: str,
    columns: str,
    units: str,
    operations: Mapping[str, str] = READ_OR_WRITE,
    **more: Any,
) -> TextFormat:
    """Return a format by the texts of its columns and units."""
    return TextFormat(name, column_kinds(columns), Units.of(units), operations, **more)


ALIBABA = _text("alibaba", "device:word op offset length time", "us bytes bytes wall")
MSR = _text(
    "msr",
    "time device:word volume:word op offset length response:decimal?",
    "filetime bytes bytes filetime wall",
)
SPC = _text(
    "spc",
    "device:digits offset length op time:decimal",
    "s sectors bytes",
    may_have_more=True,
    required=r'^\s*"?[0-9]{1,8}\b',  # a longer number is a time, as in Tencent's traces
)
SYSTOR = _text(
    "systor", "time:decimal response:decimal? op device:word offset length", "s bytes bytes s wall"
)
TENCENT = _text(
    "tencent",
    "time offset length op device:digits",
    "s sectors sectors wall",
    {"0": "read", "1": "write", **READ_OR_WRITE},
    required=r'^\s*"?[0-9]{9,}\b|^[^A-Za-z]*$',  # with letters, SPC's places have fewer digits
)

K5CLOUD = _text("k5cloud", "device:digits time:decimal op offset length", "s bytes bytes")
"""As its README has it: iotta.snia.org/traces/parallel/26930."""
VSCSI_TEXT = _text(
    "vscsi-text",
    r"_serial:[^,\n]* length _segments:[^,\n]* op offset time",
    "us sectors bytes",
    required="(?!)",  # without its header its lines may be SPC's
    passed=r"(?i:[#\s]*(?:vscsi cmd trace|serial number,io data length))",
)
VSCSI_HEADERS = (b"vscsi cmd trace", b"serial number,io data length")
"""What vscsiStats writes before the lines, perhaps behind a #: a title, the columns."""
VSCSI_LINE = 80

ARC = _text(
    "arc", r"offset length _zero:[0-9]+ _number:[0-9]+\s*", "us pages pages", {}, delimiter=" "
)
FIU = _text(
    "fiu",
    "time pid process:name offset length op device:digits volume:digits",
    "ns sectors sectors",
    delimiter=" ",
    may_have_more=True,
)
MQSIM = _text(
    "mqsim",
    "time device:digits offset length op",
    "ns sectors sectors",
    {"0": "write", "1": "read", "2": "zone", **READ_OR_WRITE},
    delimiter=" ",
)
HEX_DIGITS = 16
DISKSIM_FLAGS = {
    word: "read" if flags & 1 else "write"
    for flags in range(HEX_DIGITS * HEX_DIGITS)
    for word in (f"{flags:x}", f"0x{flags:x}", f"{flags:08x}"[: 8 if flags < HEX_DIGITS else 2])
} | {f"0x{flags:08x}": "read" if flags & 1 else "write" for flags in range(HEX_DIGITS)}
"""Also with leading zeros, as %08x writes them."""
DISKSIM = _text(
    "disksim",
    "time:decimal device:digits offset length op",
    "ms sectors sectors",
    {**DISKSIM_FLAGS, **READ_OR_WRITE},
    delimiter=" ",
    required=rf"^{text.POINT}",  # MQSim's times are whole numbers
)

LETTERS = {word: OPERATIONS[word] for word in ("r", "w", "d", "ra", "ff", "n", *text.RWBS)}
"""The kernel's, which are copied from blktrace."""
BLKREPLAY = _text(
    "blkreplay",
    r"time:decimal offset length op _delay:[^;\n]* _duration:[^;\n]*",
    "s sectors sectors",
    LETTERS,
    delimiter=";",
)

FIO_ACTIONS = {"read": "read", "write": "write", "trim": "discard"}
FIO_ACTIONS |= dict.fromkeys(("sync", "datasync", "sync_file_range"), "flush")
WAIT = "wait"
FEWEST_WAITS = 3


@dataclass(frozen=True)
class FioLog(TextFormat):
    """An I/O log of fio, known by its first line; places and lengths are bytes within its files.

    Version 3 has the time of each line in us since fio's start. Version 2 has times on lines of
    their own, `FILE wait T 0`: fio's code takes T as ms since its start, though its documentation
    says us since the wait before.
    """

    version: int = 3
    has_times: bool = True
    """Of version 2: that there are waits."""

    def of(self, head: bytes) -> FioLog:
        """Return the format of a log with this head: of version 2 some have no waits."""
        is_timed = self.version > 2 or re.search(rb"^\S+ wait ", head, re.MULTILINE) is not None
        return replace(self, has_times=is_timed)

    def matches(self, head: bytes, *, least: float = 0.0) -> bool:  # noqa: ARG002 - one line decides
        """Say whether the first line names this version."""
        return head.startswith(f"fio version {self.version} iolog".encode())

    def is_request(self, line: str) -> bool:
        """Say whether a line that is not a good one is a request, and not the log's first."""
        return not line.startswith("fio version") and super().is_request(line)

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; a flush has no place, and the waits of version 2 become times.

        Raise InputError when the waits run backwards.
        """
        columns = super().decode(block, lines)
        if columns is None:
            return None
        words, indices = texts(columns.words["op"])
        kinds = np.array([self.operations[word.strip().lower()] for word in words])[indices]
        is_wait = kinds == self.operations[WAIT] if self.version == 2 else np.zeros(len(kinds))
        if self.version == 2 and self.has_times:
            columns = _timed(columns, is_wait, lines)
            kinds = kinds[kinds != self.operations[WAIT]]
        elif is_wait.any():
            raise InputError(
                "its waits begin behind its first 64 KiB: what is before has no time",
                hint="import the lines from the first wait on by themselves, with the log's head",
            )
        numbers = dict(columns.numbers)
        for name in ("offset", "length"):
            numbers[name] = np.where(kinds == "flush", 0, numbers[name])
        return replace(columns, numbers=numbers) if columns.rows else None


def same_waits(lines: BadLines) -> list[str]:
    """Return in words that all waits of a log of version 2 are the same, if they are.

    As ms since fio's start, which fio takes them for, all requests would be of one moment.
    """
    if lines.times < FEWEST_WAITS or not 0 < lines.first_time == lines.carried_time:
        return []
    return [
        f"each of {lines.times:,} waits is {lines.first_time}: fio takes them as ms since its"
        " start, and these seem to count from the wait before"
    ]


def _timed(columns: Columns, is_wait: object, lines: BadLines) -> Columns:
    """Return the requests without the waits, each with the time of the last wait before it."""
    waits = np.asarray(is_wait, np.bool_)
    ends = np.concatenate(([lines.carried_time], columns.numbers["offset"][waits]))
    if (np.diff(ends) < 0).any():
        place = int(np.flatnonzero(np.diff(ends) < 0)[0])
        raise InputError(
            f"the waits run backwards, from {ends[place]} to {ends[place + 1]}: fio takes them as"
            " ms since its start, and these seem to count from the wait before",
            hint="write the log again with a newer fio: version 3 has the time of each request",
        )
    if len(ends) > 1 and not lines.times:
        lines.first_time = int(ends[1])
    lines.times += len(ends) - 1
    lines.carried_time = int(ends[-1])
    rest = columns.without(np.flatnonzero(waits))
    return replace(rest, numbers={**rest.numbers, "time": ends[np.cumsum(waits)][~waits]})


FIO_2 = FioLog(
    "fio2",
    column_kinds("device:word op offset length"),
    Units("ms", "bytes", "bytes", settled_time="ms"),
    {**FIO_ACTIONS, WAIT: "other"},
    delimiter=" ",
    passed=r"^[^ ]+ (?:add|open|close)\s*$",
    version=2,
)
FIO_3 = FioLog(
    "fio3",
    column_kinds("time device:word op offset length"),
    Units("us", "bytes", "bytes"),
    FIO_ACTIONS,
    delimiter=" ",
    passed=r"^[0-9]+ [^ ]+ (?:add|open|close)\s*$",
)


RecordFormat = VscsiFormat | OracleFormat
Format = TextFormat | RecordFormat
TEXTS = (
    BLKREPLAY, MSR, SPC, ALIBABA, TENCENT, SYSTOR,
    FIU, MQSIM, DISKSIM, ARC, FIO_2, FIO_3,
    BIOSNOOP, IOSNOOP, XPERF, DTRACE,
    VSCSI_TEXT, K5CLOUD, THESIOS, TECTONIC,
)  # fmt: skip
OBJECTS = (
    OracleFormat(),
    OracleFormat("oracleGeneralOpNS", ORACLE_OP_NS),
    OracleFormat(LCS),
)
FORMATS: dict[str, Format] = {
    known.name: known for known in (VscsiFormat(1), VscsiFormat(2), *OBJECTS, *TEXTS)
}


WITH_MORE = (MSR, ALIBABA, SYSTOR)
"""Whose columns no other format begins with."""
BY_COMMAS = (MSR, SPC, ALIBABA, TENCENT, SYSTOR)
BY_BLANKS = (FIU, MQSIM, DISKSIM)
DELIMITERS = {"\t": "a tab", ";": "a semicolon", ",": "a comma"}
NUMBERED = "[0-9]*"


def _variant(known: TextFormat, how: str, **changes: Any) -> TextFormat:
    """Return a format with changes, by which its first lines are recognised."""
    return replace(known, evidence=f"the first lines{how}", **changes)


def _variants() -> Iterator[TextFormat]:
    """Yield what others made of the formats: more or fewer columns, another delimiter, dates."""
    for known in WITH_MORE:
        yield _variant(known, "; columns behind the format's are passed over", may_have_more=True)
    for known in (*BY_COMMAS, *BY_BLANKS):
        for delimiter, name in DELIMITERS.items():
            if delimiter != known.delimiter and not (known in BY_BLANKS and delimiter == "\t"):
                yield _variant(known, f", whose columns {name} delimits", delimiter=delimiter)
    yield _variant(IOSNOOP, ", of iosnoop -t: times are those of the ends", first="ENDs")
    columns = dict(list(IOSNOOP.columns.items())[1:])
    untimed = IOSNOOP.pattern[IOSNOOP.pattern.index("(?P<process>") :]
    how = ", of iosnoop without -s and -t"
    yield _variant(IOSNOOP, how, first="COMM", columns=columns, pattern=f"^{untimed}")
    columns = dict(MSR.columns)
    del columns["response"]
    yield _variant(MSR, ", without response times", columns=columns)
    columns = dict(list(BLKREPLAY.columns.items())[:4])
    yield _variant(BLKREPLAY, ", of four columns", columns=columns)
    for known in BY_COMMAS:
        how = ", each with its number before the format's columns"
        columns = {"_number": NUMBERED, **known.columns}
        yield _variant(known, how, columns=columns, required="")
        dates = known.units.overridden(["time=date"])
        yield _variant(known, ", whose times are dates", units=dates)
    for known in (MSR, ALIBABA):
        how = ", whose times have a point: seconds since 1970"
        columns = {**known.columns, "time": "point"}
        yield _variant(known, how, columns=columns, units=replace(known.units, time="s"))


def _blanked() -> Iterator[TextFormat]:
    """Yield the formats with blanks for commas, which tabs are, too."""
    return (_variant(known, ", whose columns blanks delimit", delimiter=" ") for known in BY_COMMAS)


def find_format(head: bytes, whole: bytes, *, name: str, options: ImportOptions) -> Format:
    """Return the format that the options describe or name, else the one of the file's first bytes.

    `whole` are the whole lines of the head. Raise UsageError for columns that cannot be, InputError
    when no format or several match; it also says how formats fit if the user asks for it.
    """
    try:
        found = _found_format(head, whole, name=name, options=options)
        return found.of(head) if isinstance(found, FioLog) else found
    except InputError as error:
        if not options.explains:
            raise
        fit = f"formats in the first 64 KiB: {formats_in_words(head, None, options=options)}"
        raise InputError(*str(error).split("\n"), *listed([fit]), hint=error.hint) from None


def _found_format(head: bytes, whole: bytes, *, name: str, options: ImportOptions) -> Format:
    words = text.user_words(options.operations)
    if options.columns or options.regex:
        own = _user_format(options, whole).with_words(words)
        evidence = f"the format file {options.named}"
        return replace(own, name=options.named, evidence=evidence) if options.named else own
    headed = None
    if described := _described(head, options.form, name=name):
        return described.with_words(words) if isinstance(described, TextFormat) else described
    if options.form is None:
        reject_by_name(head, name, given=words)
        known = (BIOSNOOP.passed, IOSNOOP.passed)
        reject_lone_head(head, name, known=known, names_columns=text.names_columns(head))
    try:
        found = _choose(whole, name, given=options.form, words=words)
    except InputError:
        headed = text.header_format(head, units=options.units, name=name)
        if headed is None:
            return _choose_of_most(head, name, options, words)
        return headed.with_words(words)
    if options.form is None and isinstance(found, TextFormat):
        lines = whole.decode("latin-1").removesuffix("\n").split("\n")
        reject_two(lines, found.first_good(lines), then=found.name, name=name)
    if found.name == SPC.name:
        _reject_commas(whole, name, options)
    if options.form is None and isinstance(found, TextFormat) and text.contradicts(head, found):
        headed = text.header_format(head, units=options.units, name=name)
    if options.form is None and headed is None and isinstance(found, TextFormat):
        _reject_names(head, found, name)
    return found if headed is None else headed.with_words(words)


def _described(head: bytes, form: str | None, *, name: str) -> Format | None:
    """Return the format of this name, or of any, that a header describes or names."""
    has_vscsi = any(header in head[:VSCSI_LINE].lower() for header in VSCSI_HEADERS)
    found = (
        lcs_format(head, name=name),
        dtrace_iosnoop(head),
        replace(VSCSI_TEXT, evidence="its header") if has_vscsi else None,
        headed_within(head),
    )
    return next((one for one in found if one and form in (None, one.name)), None)


def _choose_of_most(
    head: bytes, name: str, options: ImportOptions, words: Mapping[str, str]
) -> Format:
    """Return the format of most lines; the error says what the columns may be."""
    try:
        return _choose(head, name, given=options.form, words=words, is_lenient=True)
    except InputError as error:
        said = listed(likely_columns(head))
        raise InputError(*str(error).split("\n"), *said, hint=error.hint) from None


MOST_SHOWN = 3
LOST_LINES = -6.0
"""For all lines of the head: those that are no requests of a format speak against it."""
OTHER_HEADER = -3.0


def judged_format(head: bytes, form: Format) -> Hypothesis:
    """Return what speaks against a format, by its lines, a header, and its units, in the head."""
    if not isinstance(form, TextFormat):
        return Hypothesis(form.units, is_exchanged=False, findings=[])
    lines = BadLines()
    form.preamble(head, lines)
    columns = form.decode(head, lines)
    share = lines.bad / max(lines.bad + (columns.rows if columns else 0), 1)
    findings = [Finding(LOST_LINES * share, f"{share:.1%} of the lines are no requests")]
    if text.contradicts(head, form) or text.names_others(head, form):
        findings.append(Finding(OTHER_HEADER, "its header names other columns"))
    if columns is not None:
        times, unit_ns = columns.numbers.get("time"), TIME_NS[form.units.time]
        if times is not None and "time" in columns.scaled:
            times = times / unit_ns
        places, lengths = columns.numbers["offset"], columns.numbers["length"]
        seen = seen_of(form.units, places=places, lengths=lengths, times=times)
        findings += scored(seen, form.units).findings
    return Hypothesis(form.units, is_exchanged=False, findings=[f for f in findings if f.points])


def formats_in_words(head: bytes, chosen: Format | None, *, options: ImportOptions) -> str:
    """Return how the formats with good lines in the head fit: scores, why, and the margin.

    The chosen one comes first, and behind it the others, the best first; the columns that a header
    names are one of these.
    """
    words, found = text.user_words(options.operations), dict[str, Hypothesis]()
    forms = _with_words((*TEXTS, *_variants(), *_blanked()), words)
    with contextlib.suppress(UsageError):
        headed = text.header_format(head, units=options.units, name="")
        forms += [replace(headed, name="its header's columns")] if headed else []
    for form in forms:
        if not isinstance(form, TextFormat) or _is_same(form, chosen):
            continue
        if form.good_ratio(head):
            judged = judged_format(head, form)
            if form.name not in found or judged.score > found[form.name].score:
                found[form.name] = judged
    ranked = sorted(found.items(), key=lambda one: -one[1].score)[:MOST_SHOWN]
    others = "; ".join(_scored(name, one) for name, one in ranked) or "no other has a good line"
    if chosen is None:
        return others
    mine = judged_format(head, chosen)
    if ranked:
        others = f"margin {mine.score - ranked[0][1].score:z.1f}; the next: {others}"
    return f"{_scored(chosen.name, mine)}; {others}"


def _is_same(form: TextFormat, chosen: Format | None) -> bool:
    if not isinstance(chosen, TextFormat):
        return False
    return form.name == chosen.name or form.columns == chosen.columns


def _scored(name: str, judged: Hypothesis) -> str:
    against = ", ".join(judged.plain) or "nothing speaks against it"
    return f"{name}, score {judged.score:z.1f}: {against}"


def _best(head: bytes, found: Sequence[Format], name: str) -> Format:
    """Return the best of several formats; raise InputError where the next is as good."""
    judged = [(judged_format(head, form), form) for form in found]
    judged.sort(key=lambda one: -one[0].score)
    first, best = judged[0]
    second, other = next(one for one in judged if one[1].name != best.name)
    against = f"score {first.score:z.1f} against {second.score:z.1f} of {other.name}"
    if isinstance(best, TextFormat) and first.score - second.score >= LEAST_MARGIN:
        return replace(best, evidence=f"{best.evidence}, {against}")
    names = ", ".join(dict.fromkeys(form.name for form in found))
    shown = listed(_scored(form.name, one) for one, form in judged)
    message = f"{name}: its content may be {names} ({against})"
    raise InputError(message, *shown, hint="choose one with --format")


def _reject_names(head: bytes, form: TextFormat, name: str) -> None:
    """Raise InputError for a header that names other columns than the format has."""
    if header := text.names_others(head, form):
        message = f"{name}: its lines look like {form.name}, and its header names other columns"
        hint = "name the columns with --columns or --regex, or the format with --format if it is so"
        raise InputError(f"{message}: {header[:SHOWN_CHARACTERS]}", hint=hint)


COMMAS = re.compile(rb"^(?:[^,\n]*,){4}[0-9]+,[0-9]+(?:,[^\n]*|\r)?$", re.MULTILINE)
POINTS = re.compile(rb"^(?:[^,\n]*,){4}[0-9]+\.[0-9]", re.MULTILINE)


def _reject_commas(head: bytes, name: str, options: ImportOptions) -> None:
    """Raise InputError for SPC with commas for points in its times: their fractions would go."""
    lines = [line[0] for line in COMMAS.finditer(head)]
    good = SPC.are_good([line.decode("latin-1") for line in lines])
    found = list(compress(lines, good))
    is_each = len(found) >= text.NEARLY_ALL * head.count(b"\n")
    if not found or options.forces_units or not (is_each or POINTS.search(head)):
        return
    shown = found[-1].decode().strip()
    raise InputError(
        f"{name}: times look as if they had a comma for a point: {shown}",
        hint="write them with a point; or --force-units if the last column is something else",
    )


def _user_format(options: ImportOptions, head: bytes) -> TextFormat:
    if options.columns and options.regex:
        message = "--columns and --regex both name the columns"
        raise UsageError(message, hint="give one of them")
    if options.regex:
        pattern = text.user_pattern(options.regex, units=options.units)
        is_dated = text.has_dates(head, options.regex)
        return text.dated(pattern, options.units) if is_dated else pattern
    delimiter = "," if options.delimiter is None else options.delimiter
    own = text.user_format(options.columns or "", delimiter, units=options.units)
    other = text.dated(own, options.units)
    return other if not own.matches(head) and other.matches(head) else own


def fitting(head: bytes, *, words: Mapping[str, str] = MappingProxyType({})) -> list[Format]:
    """Return the known formats that nearly all lines are of; variants where there is none."""
    for forms in (FORMATS.values(), _variants(), _blanked()):
        if found := [form for form in _with_words(forms, words) if form.matches(head)]:
            return found
    return []


OR = " or "
OTHERWISE = "too, but with another delimiter or words"
FEWEST_LINES = 3
"""Fewer are of no format for sure."""
EVENTS = {Text.BLKPARSE: "blkparse", Text.TRACER: "blk", **NAMES}


def known_format(lines: Sequence[str]) -> str:
    """Return the format that nearly all of these lines are of, or the formats; "" if of none."""
    if len(lines) < FEWEST_LINES:
        return ""
    head = _head_of(lines)
    kind = detect_text(head)
    if kind == Text.KERNEL:
        return "perf" if b" block:block_" in head else "ftrace" if b"block_" in head else "blk"
    names = (one.name for one in fitting(head))
    return EVENTS.get(kind) or OR.join(dict.fromkeys(names))


def _head_of(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def reject_two(lines: Sequence[str], begin: int, *, then: str, name: str) -> None:
    """Raise InputError where lines of another format stand before those of `then`, which `begin`.

    `lines` are the first of the file.
    """
    other = known_format(lines[:begin])
    # Lines of the same format, that it cannot read in the form of those behind them.
    forms = fitting(_head_of(lines[:begin])) if other == then else []
    has_requests = any(
        True in form.are_good(lines[:begin]) for form in forms if isinstance(form, TextFormat)
    )
    if other and (other != then or has_requests):
        share = f"{begin / len(lines):.1%} of the first {len(lines):,}"
        behind = f"then like {then}" if other != then else OTHERWISE
        message = f"{name}: up to line {begin:,} ({share}) it looks like {other}, {behind}"
        raise InputError(message, hint=hint_of_parts(begin))


def hint_of_parts(begin: int) -> str:
    """Return how to take two parts apart, of which the first has so many lines."""
    if not begin:
        return "name the format of most lines, and take the others out"
    return f"import each part by itself: head -n {begin} FILE, tail -n +{begin + 1} FILE"


def _with_words(forms: Iterable[Format], words: Mapping[str, str]) -> list[Format]:
    return [form.with_words(words) if isinstance(form, TextFormat) else form for form in forms]


def _choose(
    head: bytes, name: str, *, given: str | None, words: Mapping[str, str], is_lenient: bool = False
) -> Format:
    """Return the given format, or the one that the file's first bytes are of.

    `words` are the user's for operations. With `is_lenient` it is that of most lines, so that the
    others can be shown as wrong.
    """
    known, variants, blanked = (
        _with_words(forms, words) for forms in (FORMATS.values(), _variants(), _blanked())
    )
    if given is not None:
        plain = next(form for form in known if form.name == given)
        others = (other for other in (*variants, *blanked) if other.name == given)
        return plain if plain.matches(head) else next((o for o in others if o.matches(head)), plain)
    found = fitting(head, words=words)
    if not found and is_lenient:
        texts_known = [form for form in known if isinstance(form, TextFormat)]
        found = [form for form in texts_known if form.matches(head, least=text.MOST_OF_THEM)]
    if len({form.name for form in found}) == 1:
        return found[0]
    if found:
        return _best(head, found, name)
    _reject_words(head, name, [*known, *variants, *blanked])
    hint = "name the columns of a text with --columns or --regex; blktrace captures: tracekit parse"
    if head.lstrip()[:1] == b"{":
        hint = "of lines of JSON, give a --regex with the groups, as 'offset\":(?P<offset>[0-9]+)'"
    elif not is_text(head):
        hint = "this is no text: check the file, or copy it again if it is damaged"
        if len(head) == HEAD_BYTES:
            hint = (
                "if its beginning is damaged, copy it again; what follows in a text (unpack it"
                f" first) is imported by: tail -c +{len(head) + 1} FILE | tracekit import -"
            )
    raise InputError(f"{name}: the content is of no known format: {head[:40]!r}", hint=hint)


MOST_WORDS = 10
STORES = ("put", "set", "store")


def _reject_words(head: bytes, name: str, forms: Sequence[Format]) -> None:
    """Raise InputError where only the words of operations make a text no known format."""
    lines = [line for line in head.decode("utf-8", "replace").split("\n") if line.strip()]
    for form in (form for form in forms if isinstance(form, TextFormat)):
        words = form.unknown_words(lines)
        if not 0 < len(words) <= MOST_WORDS:
            continue
        read = form.with_words(dict.fromkeys(words, "read"))
        # Many columns of numbers have 0 and 1 alone: then the others must be those of requests.
        is_flag = set(words) <= set(text.FLAGS)
        if read.matches(head) and not (is_flag and judged_format(head, read).score <= CANNOT_BE):
            message = f"{name}: the content is {form.name} but for its words of operations"
            raise InputError(f"{message}: {', '.join(words)}", hint=hint_of_words(words))


def hint_of_words(words: Sequence[str]) -> str:
    """Return how to say what these words mean."""
    if set(words) <= set(text.FLAGS):
        guess = "--op 0=read --op 1=write, or the other way round: --op 0=write --op 1=read"
        return f"if 0 and 1 are its operations, say which: perhaps {guess}"
    says = " ".join(f"--op {word}=OPERATION" for word in words)
    guess = f"{words[0]}={'write' if words[0] in STORES else 'read'}"
    return f"if {', '.join(words)} is an operation, say which: {says}, such as {guess}"
