"""Texts of events: what blkparse, perf, ftrace and the blk tracer print."""

from __future__ import annotations

from typing import Any

from tracekit._native.decode import DecodeStats, Text
from tracekit.errors import InputError
from tracekit.layout import Layout
from tracekit.metadata import Inference, TraceInfo, inferences_of, warnings_of
from tracekit.readers.metadata import Facts, line_counts, trace_info

BLKPARSE, BLKPARSE_FORMAT, BLK, PERF, FTRACE = "blkparse", "blkparse -f", "blk", "perf", "ftrace"
FEWEST_ORDERED = 100
"""From so many events their order is evidence."""
EVENT_TEXTS = {BLKPARSE: Text.BLKPARSE, BLK: Text.NONE, PERF: Text.KERNEL, FTRACE: Text.KERNEL}
"""Names for --format. The blk tracer prints in two ways, which differ in their content."""
NOT_IN_TEXT = {
    "bytes": "lengths are whole sectors: the last sector of a request counts whole",
    "names": "a process is named as in its events; C, M and A have no name",
    "clock": "times have no date, so the trace has no wall clock",
    "numbers": "events carry no sequence numbers, so lost ones cannot be seen",
    "plugs": "plugs and unplugs are passed over",
    "zeroes": "the kernel's letter N of a bio is taken for a write of zeroes",
    "origins": "where remaps come from and splits end is not told, so partitions are not known",
    "commands": "commands to the device cannot be told from requests",
}
"""What a text cannot express, see docs/event-texts.md."""
OF_ALL = ("bytes", "names", "clock")
OF_FORMAT = {
    BLKPARSE: (),
    BLKPARSE_FORMAT: ("origins", "commands"),
    BLK: ("numbers",),
    PERF: ("numbers", "plugs"),
    FTRACE: ("numbers", "plugs"),
}


def format_name(kind: Text, stats: DecodeStats) -> str:
    """Return what the lines were of, by what the decoder saw."""
    if kind == Text.KERNEL:
        return PERF if stats.is_perf else BLK if stats.has_tracer else FTRACE
    return {Text.BLKPARSE: BLKPARSE, Text.FORM: BLKPARSE_FORMAT, Text.TRACER: BLK}[kind]


def not_in_text(name: str, stats: DecodeStats) -> list[Inference]:
    """Return the inferences that tell what this text does not say."""
    found = [NOT_IN_TEXT[what] for what in (*OF_ALL, *OF_FORMAT[name])]
    if not stats.has_nanoseconds:
        found.append("times are whole microseconds: shorter latencies are 0 or 1 us")
    said = [("not in the text", text, f"format {name}") for text in found]
    return inferences_of(said, stage="import")


def reject_bad_lines(facts: Facts, file: str, *, name: str, most_bad_ratio: float) -> None:
    """Raise InputError when more than this share of the lines is wrong for the format `name`."""
    stats = facts.stats
    lines = stats.records + stats.bad_lines
    if stats.bad_lines > most_bad_ratio * lines:
        shown = "".join(f"\n  line {number}: {text}" for number, text in facts.bad_lines)
        raise InputError(
            f"{file}: {stats.bad_lines:,} of {lines:,} lines are wrong for {name}{shown}",
            hint="choose another --format, or allow more with --max-bad PERCENT",
        )


def reject_disorder(facts: Facts, file: str) -> None:
    """Raise InputError when most events stand behind a later one, as no clock's times do."""
    stats = facts.stats
    if stats.records >= FEWEST_ORDERED and stats.reordered_records > stats.records // 2:
        message = f"{file}: {stats.reordered_records:,} of {stats.records:,} events stand behind a"
        raise InputError(
            f"{message} later one: their times look like differences, not like a clock's",
            hint="print it again without --deltatime; or go on all the same with --force-units",
        )


def text_counts(facts: Facts, rows: dict[str, int]) -> dict[str, Any]:
    """Return what an import counts besides the events; `rows` by operation."""
    counted = {operation: count for operation, count in rows.items() if count}
    stats = facts.stats
    lines = line_counts(stats.passed_lines, stats.bad_lines, examples=facts.bad_lines)
    return {"operations": counted, **lines}


def text_info(facts: Facts, rows: dict[str, int], *, layout: Layout, name: str) -> TraceInfo:
    """Return the content of trace.json of a text of the format `name`; `rows` by operation."""
    stats = facts.stats
    info = trace_info(facts, layout)
    info.source.format = name
    info.counts |= text_counts(facts, rows)
    # The layout of a capture counts the same losses.
    info.loss.dropped = max(info.loss.dropped, stats.told_lost)
    info.inferences += not_in_text(name, stats)
    lost = f"the text itself says that {stats.told_lost:,} events were lost"
    info.warnings += warnings_of(
        [
            ("bad_lines", stats.bad_lines, f"{stats.bad_lines:,} lines were wrong and left out"),
            ("lost_records", stats.told_lost, lost),
        ]
    )
    return info
