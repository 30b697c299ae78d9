"""What trace.json says of an import: how it was judged, what was taken, what is doubtful."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import UNSET

from tracekit import metadata
from tracekit.metadata import TraceInfo
from tracekit.readers.assemble import Assembler
from tracekit.readers.binary import OracleFormat
from tracekit.readers.blocks import Blocks
from tracekit.readers.damage import damages_in_words
from tracekit.readers.formats import LOST_LINES, MOST_WORDS, FioLog, same_waits
from tracekit.readers.hypotheses import (
    FEWEST_REQUESTS,
    MOSTLY,
    Clock,
    Column,
    Finding,
    Judgement,
    Seen,
    judged,
)
from tracekit.readers.metadata import line_counts, long_preamble
from tracekit.readers.pieces import Piece, by_name, gaps_in_words, missing_numbers
from tracekit.readers.reading import Reading
from tracekit.readers.sniffer import likely_columns
from tracekit.readers.stream import Feed
from tracekit.readers.text import KEPT_EXAMPLES, RESPONSES, THOUSANDS, TextFormat
from tracekit.readers.units import SIZE_BYTES, TIME_NS, ImportOptions, wrong_lines
from tracekit.readers.unknown import TIMES
from tracekit.units import counted

UNTOLD = "not given, that of a text of one's own"


def judgement_of(read: Reading, options: ImportOptions) -> Judgement:
    """Score the units of a trace that was read, and those that may be meant in their place."""
    if read.judgement is not None:
        return read.judgement
    made, seen = read.assembler, read.outliers
    places, lengths = (
        Column(seen.samples[name].values, seen.extremes[name][1], made.pairs.odd[name])
        for name in ("offset", "length")
    )
    given = frozenset(unit.partition("=")[0] for unit in options.units)
    first, span = None, 0.0
    if TIMES not in read.lacks and made.pairs.latest_ns is not None:
        tick_ns = TIME_NS[read.units.time]
        first = seen.extremes["time"][0] / (tick_ns if read.is_scaled else 1)
        span = (made.pairs.latest_ns - made.first_ns) / tick_ns
    # Numbers of objects need lie no lengths apart.
    has_objects = isinstance(read.format, OracleFormat)
    pairs = replace(made.pairs, blocks=Blocks()) if has_objects else made.pairs
    has_places, is_untold = not read.format.assumes, _source(read, options, "time") == UNTOLD
    read.judgement = judged(
        Seen(read.units, given, places, lengths, pairs, first, span, has_places, is_untold),
        common=_common(read),
        clocks=_clocks(read, options),
    )
    return read.judgement


def _common(read: Reading) -> list[Finding]:
    """Return what speaks against the format and its columns, in whatever units."""
    rows, wrong = max(read.assembler.rows, 1), read.lines.bad
    found = [
        Finding(LOST_LINES * wrong / (rows + wrong), f"{wrong:,} lines are wrong"),
        Finding(
            LOST_LINES * read.preamble / (rows + read.preamble),
            f"{read.preamble:,} lines stand before the first request",
        ),
    ]
    return [one for one in found if one.points]


DATED, UNDATED = -2.5, -0.5
"""Against what dates, or times that count from anywhere, do not say."""


TWINS = "two parts begin at one time with as many requests: the same trace twice?"


def _has_twins(read: Reading) -> bool:
    """Say whether two parts of a clock that starts again may be the same trace."""
    if read.shifts is not None:
        return read.shifts.has_twins
    return bool(read.restarts.doubted()) and read.restarts.has_twins()


def _clocks(read: Reading, options: ImportOptions) -> list[Clock]:
    """Return how times that start again can be taken, first as they were, and what says not."""
    rows, behind = max(read.assembler.rows, 1), read.disorder.count
    order = Finding(LOST_LINES * behind / rows, f"{behind:,} requests stand behind a later one")
    parts, is_dated = read.restarts.parts(), read.units.is_wall
    later = len(parts) - 1 if read.shifts is None else len(read.shifts.rows) - 1
    if read.shifts is None and not read.restarts.doubted():
        return [Clock("--join overlay", "parts of one time") if later else Clock("", "", [order])]
    again = Finding(LOST_LINES, f"its clock starts again {times_in_words(later)}")
    same = [Finding(UNDATED, TWINS)] if _has_twins(read) else []
    moved = "times are dates, which would be moved" if is_dated else "the pauses are not known"
    zero = "the parts have the same devices" if is_dated else "each clock begins anywhere"
    found = {
        "refuse": Clock("--join refuse", "one clock", [order, again]),
        "sequence": Clock(
            "--join sequence",
            "parts one after the other",
            [Finding(DATED if is_dated else UNDATED, moved), *same],
        ),
        "overlay": Clock(
            "--join overlay",
            "parts of one time",
            [Finding(UNDATED if is_dated else DATED, zero), *same],
        ),
    }
    return [found.pop(options.join), *found.values()]


def contradictions(read: Reading, options: ImportOptions) -> list[str]:
    """Return what cannot be under the units of a trace that was read, in words.

    Where no other units can be, either, it says what the columns of a text may be.
    """
    others, judgement = _many_devices(read.assembler), judgement_of(read, options)
    found = others or judgement.contradictions()
    if found and not options.columns and (others or not judgement.has_rival):
        found = [*found, *likely_columns(read.head)]
    return found + same_waits(read.lines) + _changed_units(read)


def _changed_units(read: Reading) -> list[str]:
    """Return in words that the unit of a part is another one."""
    if read.format.assumes:  # its places lie nowhere
        return read.unit_changes.found
    return read.unit_changes.found or read.unit_parts.found()


def _many_devices(made: Assembler) -> list[str]:
    """Return in words that most requests have a device of their own, if they do."""
    if made.rows < FEWEST_REQUESTS or len(made.devices) <= MOSTLY * made.rows:
        return []
    return [
        f"{made.rows:,} requests are of {len(made.devices):,} devices: its column is another one;"
        " name them with --columns"
    ]


def inferences(read: Reading, options: ImportOptions) -> list[metadata.Inference]:
    """Return what was taken of the format and its units, and who said so."""
    units, pairs = read.units, read.assembler.pairs
    counts = [f"{pairs.of(units.offset, unit):,} as {unit}" for unit in ("bytes", "sectors")]
    evidence = f"sequential pairs: {', '.join(counts)}"
    lengths = f"{_source(read, options, 'length')}; {evidence}"
    found = [
        ("format", read.format.name, read.format.evidence),
        *(
            [("formats", read.fits, "lines, header and units of the first 64 KiB")]
            if read.fits
            else []
        ),
        ("unit of lengths", units.length, lengths),
        ("unit of places", units.offset, _source(read, options, "offset")),
        ("unit of times", units.time, _time_evidence(read, options)),
        *_order(read.pieces),
        *_commas(read),
    ]
    if read.assembler.rows:
        judgement = judgement_of(read, options)
        found.append(("judgement", f"score {judgement.score:z.1f}", judgement.in_words()))
    if read.shifts is not None:
        starts = f"starts again {times_in_words(len(read.shifts.rows) - 1)}"
        found.append(("clock", starts, "--join sequence: no pause between the parts"))
    elif later := read.restarts.parts()[1:]:
        found.append(
            ("clock", f"starts again {times_in_words(len(later))}", "--join overlay: of one time")
        )
    found += [("outliers", *note) for note in read.outliers.notes()]
    if read.bounds:
        beyond = f"beyond {read.bounds.in_words()}, where nearly all lie"
        found.append(("strays", f"{read.beyond:,} wrong lines", beyond))
    return metadata.inferences_of(found)


def _comma_of(read: Reading) -> str:
    """Return a number with a comma that is read as a decimal point, or nothing."""
    return read.format.with_comma(read.head) if isinstance(read.format, TextFormat) else ""


def _commas(read: Reading) -> Iterator[tuple[str, str, str]]:
    """Yield that commas are read as decimal points, where there are some."""
    if number := _comma_of(read):
        yield "commas in numbers", "decimal points", f"{number} in the first 64 KiB"


def import_info(read: Reading, feeds: Sequence[Feed], *, options: ImportOptions) -> TraceInfo:
    """Return the content of trace.json."""
    made, bad = read.assembler, read.lines.bad
    base_ns = made.first_ns
    wall_ns = base_ns if read.units.is_wall and base_ns >= 0 else None
    return TraceInfo(
        source=metadata.Source(format=read.format.name, files=[feed.describe() for feed in feeds]),
        clock=metadata.Clock(base_ns=base_ns, wall_ns=wall_ns, duration_ns=made.last_ns),
        devices=[metadata.Device(device=name) for name in made.devices],
        counts={
            "records": made.rows + bad,
            "requests": made.rows,
            "operations": dict(made.operations),
            "preamble_lines": read.preamble,
            **line_counts(read.lines.passed, bad, examples=read.lines.examples),
            "rounded_places": made.rounded,
        },
        loss=metadata.Loss(has_sequence_numbers=False, unmatched={}),
        completeness=metadata.Completeness(columns=dict(made.present.values)),
        unknown=read.unknown or UNSET,
        inferences=inferences(read, options),
        warnings=_warnings(read, options),
    )


def _source(read: Reading, options: ImportOptions, name: str) -> str:
    """Return who says the unit of this: the user, a header, or else the format."""
    if any(unit.startswith(f"{name}=") for unit in options.units):
        return "given by the user"
    if options.columns or options.regex:
        return UNTOLD
    is_user_format = read.format.name == "own"
    return read.format.evidence if is_user_format else f"format {read.format.name}"


def _time_evidence(read: Reading, options: ImportOptions) -> str:
    form, given = read.format, _source(read, options, "time")
    if read.units.time == "date":
        return f"{read.format.evidence}; dates without a zone are taken as UTC"
    if isinstance(form, FioLog) and form.version == 2:
        return f"{given}; waits count from fio's start, requests between two share the time"
    if TIMES in read.lacks:
        return "the format has no times; requests are in its order"
    return given


def _warnings(read: Reading, options: ImportOptions) -> list[metadata.TraceWarning]:
    made, bad, lone = read.assembler, read.lines.bad, read.outliers.doubts()
    far = read.outliers.far_places()
    doubts = [*contradictions(read, options), *judgement_of(read, options).doubts()]
    doubts += [] if read.format.assumes else read.unit_parts.doubts()
    doubts = list(dict.fromkeys(doubts))
    rounded = f"{made.rounded:,} requests begin within a sector: its start is taken"
    is_coarse = read.units.time == "s" and not read.is_scaled and made.rows > made.pairs.ticks
    coarse = f"times are whole seconds: {made.rows:,} requests share {made.pairs.ticks:,}"
    where = damages_in_words(read.damages)
    if other := read.other_part():
        where += f"; {other.in_words(read.format.name)}"
    absent = missing_numbers([feed.path for feed in read.feeds])
    missing = f"missing between the others: {', '.join(absent[:KEPT_EXAMPLES])}"
    passed_over = _passed_over(read)
    tick_ns = 1 if read.is_scaled else TIME_NS[read.units.time]
    unused, comma = unused_options(read, options), _comma_of(read)
    grouped = comma if THOUSANDS.fullmatch(comma) else ""
    gaps = gaps_in_words(made.gaps, read.pieces, first_ns=made.first_ns, tick_ns=tick_ns)
    found = [
        ("absent_files", absent, missing),
        ("long_gaps", gaps, "; ".join(gaps[:KEPT_EXAMPLES])),
        ("coarse_times", is_coarse, coarse),
        *_unknown(read),
        ("salvaged", passed_over, "; ".join(passed_over)),
        *made.present.doubts(),
        long_preamble(read.preamble, made.rows, what="stand before the first request"),
        ("bad_lines", bad, wrong_lines(bad) + (f": {where}" if where else "")),
        ("open_end", read.last_line, read.last_line),
        ("doubtful_units", doubts, "; ".join(doubts)),
        ("lone_times", lone, "; ".join(lone)),
        ("lone_places", far, "; ".join(far)),
        ("reordered_records", read.disorder.count, read.disorder.in_words()),
        ("repeated_parts", _has_twins(read), TWINS),
        ("rounded_places", made.rounded, rounded),
        ("doubtful_commas", grouped, f"a comma is taken for a decimal point: {grouped}"),
        ("unused_options", unused, "; ".join(unused)),
    ]
    return metadata.warnings_of(found)


def _passed_over(read: Reading) -> list[str]:
    """Return in words what --salvage passed over, and how many requests may be wrong by it."""
    found = [text for feed in read.feeds for text in feed.passed_over()]
    doubtful = read.of_damaged()[1]
    return found + [f"doubtful: up to {counted(doubtful, 'request')}"] * bool(doubtful)


def unused_options(read: Reading, options: ImportOptions) -> list[str]:
    """Return in words which --op and --unit of the user say nothing of this trace."""
    words = read.words or Counter()
    found = [
        f"--op {item}: the word does not occur"
        for item in options.operations[options.described :]
        if not words[item.partition("=")[0].strip().lower()]
    ]
    if found:
        shown = (f"{word} ({count:,})" for word, count in words.most_common(MOST_WORDS))
        found.append(f"those that do are {', '.join(shown)}")
    columns = read.format.columns if isinstance(read.format, TextFormat) else ()
    has = {"response": any(one in columns for one in RESPONSES), "time": TIMES not in read.lacks}
    names = dict.fromkeys(unit.partition("=")[0] for unit in options.units)
    lacking = [name for name in names if not has.get(name, True)]
    return found + [f"--unit {name}: the format has no {name}" for name in lacking]


def _unknown(read: Reading) -> list[tuple[str, object, str]]:
    """Return what the format does not say, and what is assumed in its place."""
    unknown = f"the format, {read.format.name}, does not say {', '.join(read.unknown)}"
    if "page size" in read.unknown:
        unknown += f"; tables have a block of {SIZE_BYTES['pages']:,} bytes for a page"
    assumed = [text for name, text in read.given.items() if name in read.lacks]
    assumed += [read.format.assumes] if read.format.assumes else []
    said = f"assumed, as the format does not say it: {', '.join(assumed)}"
    return [("unknown_values", read.unknown, unknown), ("assumed_values", assumed, said)]


def _order(pieces: Sequence[Piece]) -> list[tuple[str, str, str]]:
    """Return the order of several files, and where it is from."""
    names = [Path(one.name) for one in pieces]
    how = "numbers in their names" if by_name(names) == names else "times in them"
    return [("files", ", ".join(map(str, names)), f"order of the {how}")] if names else []


def times_in_words(count: int) -> str:
    """Return how often in words."""
    return "once" if count == 1 else f"{count:,} times"
