"""trace.json of a capture or a text of events: counts, losses, completions that are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import asdict, replace

from tracekit import metadata
from tracekit._native import decode
from tracekit._native.decode import Completed, DecodeStats, Text
from tracekit.errors import InputError, span
from tracekit.layout import DiskCounters, Layout
from tracekit.metadata import (
    Device,
    MissingCompletions,
    MissingOfDisk,
    Region,
    TraceInfo,
    TraceWarning,
)
from tracekit.readers import completeness, drivers
from tracekit.readers.completeness import Present
from tracekit.readers.files import absent_cpus
from tracekit.readers.parts import other_part
from tracekit.readers.units import Example, listed, show_example, wrong_lines

LAG_NS = 1_000_000
"""The kernel counts a request a moment after its completion is recorded. One that was recorded so
shortly before a reading may be in it or not."""
WHY_CLOCK = "the times of the records are not those of the capture's clock"
WHY_MORE = "the record has {recorded:,} and the kernel counted {counted:,}: it does not count all"


def readings_ns(counters: list[DiskCounters]) -> tuple[int, int, int, int] | None:
    """Return first and last possible time of both readings, of all disks together.

    None when no disk was read twice.
    """
    both = [(entry.begin, entry.end) for entry in counters if entry.begin and entry.end]
    if not both:
        return None
    first, last = zip(*both, strict=True)
    return (
        max(0, min(one.before_ns for one in first) - LAG_NS),
        max(one.after_ns for one in first),
        max(0, min(one.before_ns for one in last) - LAG_NS),
        max(one.after_ns for one in last),
    )


def missing_completions(facts: Facts, layout: Layout) -> MissingCompletions | None:
    """Return `loss.unseen` of trace.json; None when the capture read no counters."""
    if not layout.counters:
        return None
    names = {(entry.major, entry.minor): entry.device for entry in layout.devices}
    pairs = zip(facts.devices, facts.completed, strict=True)
    completed = {names.get(number): found for number, found in pairs}
    window, stats = readings_ns(layout.counters), facts.stats
    # The records must be of the time between the readings, as far as they have any.
    has_clock = window is not None and stats.base_ns <= window[3] and stats.last_ns >= window[0]
    disks: list[MissingOfDisk] = []
    not_measured = []
    for entry in layout.counters:
        if entry.why_not is not None or not has_clock:
            why = WHY_CLOCK if entry.why_not is None else entry.why_not
            not_measured.append({"device": entry.device, "why": why})
            continue
        for row in _rows(entry, completed.get(entry.device, Completed())):
            if row.recorded > row.counted:
                message = WHY_MORE.format(recorded=row.recorded, counted=row.counted)
                not_measured.append({"device": entry.device, "why": f"{row.kind}: {message}"})
            else:
                disks.append(row)
    at_least, at_most = sum(row.at_least for row in disks), sum(row.at_most for row in disks)
    return MissingCompletions(
        at_least=at_least, at_most=at_most, disks=disks, not_measured=not_measured
    )


def _rows(entry: DiskCounters, completed: Completed) -> list[MissingOfDisk]:
    """Return what is known of each kind that occurs; `recorded` is at least so many."""
    rows: list[MissingOfDisk] = []
    if entry.begin is None or entry.end is None:
        return rows
    begin, end = entry.begin.completed, entry.end.completed
    for kind in (kind for kind in decode.COUNTED if kind in begin):
        counted = end[kind] - begin[kind]
        certain, perhaps = completed.certain[kind], completed.perhaps[kind]
        if counted or certain or perhaps:
            row = MissingOfDisk(
                device=entry.device,
                kind=kind,
                counted=counted,
                recorded=certain,
                at_least=max(0, counted - certain - perhaps),
                at_most=max(0, counted - certain),
            )
            rows.append(row)
    return rows


Doubt = tuple[str, Any, str]
"""Code, whether it applies, and message of a warning of trace.json."""


def doubts(found: MissingCompletions | None) -> list[Doubt]:
    """Return what is doubtful about the completions."""
    if found is None:
        return []
    parts = [
        f"{row.device} {row.kind} {span(row.at_least, row.at_most)} of {row.counted:,}"
        for row in found.disks
        if row.at_least
    ]
    reasons = "; ".join(f"{one['device']}: {one['why']}" for one in found.not_measured)
    missing = "the kernel completed requests whose completion the record lacks"
    unknown = f"whether completions are lacking is not known of {reasons}"
    return [
        ("unseen_completions", parts, f"{missing}: {', '.join(parts)}"),
        ("unseen_not_measured", reasons, unknown),
    ]


@dataclass(frozen=True)
class Facts:
    """What decoding a capture brought to light besides its rows."""

    stats: DecodeStats
    devices: list[tuple[int, int]]
    """Major and minor number, in order of appearance."""
    device_names: list[str | None]
    """What drivers call them, where they name them."""
    completed: list[Completed]
    """Of each device, between the readings of the kernel's counters."""
    files: list[metadata.SourceFile]
    cuts: list[str]
    """What --salvage left away, in words."""
    present: Present
    cpus: list[int]
    """That have an event."""
    refused: int = 0
    """I/Os that came back with EAGAIN before they had a request, which are no rows."""
    bad_lines: list[Example] = field(default_factory=list)
    """Of a text: number and beginning of the first wrong lines."""


SHOWN_FILES = 3
COUNTS = ("device_flushes", "passthrough", "unknown", "requeued_remainders")


def trace_info(facts: Facts, layout: Layout) -> TraceInfo:
    """Return the content of trace.json."""
    stats = facts.stats
    devices, names = _devices(facts, layout)
    missing = missing_completions(facts, layout)
    loss = _loss(stats, layout, missing)
    partitions, inferences = _partitions(layout, names)
    if stats.is_wall_of_start:
        evidence = "times are relative, as blkparse -d writes them: the capture's start is taken"
        guess = ("wall clock of the first event", stats.wall_ns, evidence)
        inferences += metadata.inferences_of([guess])
    return TraceInfo(
        source=_source(facts, layout),
        clock=metadata.Clock(
            base_ns=stats.base_ns,
            wall_ns=stats.wall_ns if stats.has_wall else None,
            duration_ns=stats.last_ns - stats.base_ns,
        ),
        devices=devices,
        layout=partitions,
        counts={
            "records": stats.records,
            "requests": stats.rows - facts.refused,
            "refused": facts.refused,
            "actions": _named(decode.ACTIONS, stats.actions),
            "notifies": _named(decode.NOTIFIES, stats.notifies),
            **{name: getattr(stats, name) for name in COUNTS},
        },
        loss=loss,
        completeness=_completeness(facts),
        inferences=inferences,
        warnings=metadata.warnings_of(
            [
                *_file_doubts(facts, layout, loss),
                *_loss_doubts(stats, layout, loss),
                *doubts(missing),
                *_content_doubts(facts),
            ]
        ),
    )


def _source(facts: Facts, layout: Layout) -> metadata.Source:
    swapped = ", byte-swapped" if facts.stats.swapped_files else ""
    kind = f"blktrace v{facts.stats.version}{swapped}"
    return metadata.Source(format=kind, kernel=layout.kernel, files=facts.files)


def _completeness(facts: Facts) -> metadata.Completeness:
    return metadata.Completeness(
        columns=dict(facts.present.values),
        absent_actions=_absent_steps(facts.stats),
        absent_cpus=_absent_cpus(facts),
    )


def _devices(facts: Facts, layout: Layout) -> tuple[list[Device], dict[str, str]]:
    """Return the devices of the trace, and the trace's name for each name of the layout."""
    known = {(device.major, device.minor): device for device in layout.devices}
    called = {device.device: device for device in layout.devices}
    devices = [
        known.get(
            number, Device(device=f"{number[0]},{number[1]}", major=number[0], minor=number[1])
        )
        if name is None
        else called.get(name, Device(device=name))
        for number, name in zip(facts.devices, facts.device_names, strict=True)
    ]
    names = {device.device: device.device for device in layout.devices}
    if len(devices) == len(layout.devices) == 1 and layout.devices[0].major is None:
        theirs, ours = layout.devices[0], devices[0]
        names[theirs.device] = ours.device
        told = {key: value for key, value in asdict(theirs).items() if value is not None}
        devices[0] = replace(ours, **{**told, "device": ours.device})
    return devices, names


def _partitions(
    layout: Layout, names: dict[str, str]
) -> tuple[list[Region], list[metadata.Inference]]:
    """Return the layout under the trace's device names, and the guesses made for that."""
    evidence = "the layout has no device numbers, and both have one device"
    inferences = metadata.inferences_of(
        (f"device {theirs} of the layout", ours, evidence)
        for theirs, ours in names.items()
        if theirs != ours
    )
    entries = [
        replace(entry, device=names.get(entry.device, entry.device)) for entry in layout.partitions
    ]
    return entries, inferences


MOST_PREAMBLE = 0.1
"""Of the records; a header, a licence or a summary has fewer lines."""
FEWEST_PREAMBLE = 100


def long_preamble(count: int, records: int, *, what: str) -> tuple[str, bool, str]:
    """Return whether so many lines that were passed over may be a trace of another format."""
    is_long = count > max(FEWEST_PREAMBLE, MOST_PREAMBLE * records)
    said = f"{count:,} lines {what} and were passed over, beside {records:,} records"
    return "long_preamble", is_long, said


def line_counts(passed: int, bad: int, *, examples: Sequence[Example]) -> dict[str, Any]:
    """Return what trace.json says of a text's lines; examples are a line's number and text."""
    shown = [{"line": number, "text": text} for number, text in examples]
    return {"passed_lines": passed, "bad_lines": bad, "bad_examples": shown}


def _named(names: Sequence[str], counts: Sequence[int]) -> dict[str, int]:
    """Return the counts that are not 0 by their names."""
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def _loss(stats: DecodeStats, layout: Layout, missing: MissingCompletions | None) -> metadata.Loss:
    unmatched = dict(zip(decode.UNMATCHED, stats.unmatched, strict=True))
    if stats.commands:
        unmatched["issue"] = 0
    return metadata.Loss(
        has_sequence_numbers=stats.numbered_records > 0,
        sequence_gaps=stats.sequence_gaps,
        lost_records=stats.lost_records,
        repeated_records=stats.repeated_records,
        reordered_records=stats.reordered_records,
        dropped=layout.dropped,
        window_full=stats.evicted,
        unmatched=unmatched,
        unseen=missing,
    )


def absent_files(names: Iterable[str]) -> list[Doubt]:
    """Return which files are missing among those of the CPUs."""
    found = absent_cpus(names).items()
    absent = [f"{stem}.{cpu}" for stem, cpus in found for cpu in cpus]
    shown = ", ".join(absent[:SHOWN_FILES]) + (", ..." if absent[SHOWN_FILES:] else "")
    lies = "is not among the files" if len(absent) == 1 else "are not among the files"
    return [("absent_files", absent, f"{shown} {lies}, and files of later CPUs are")]


def _file_doubts(facts: Facts, layout: Layout, loss: metadata.Loss) -> list[Doubt]:
    """Return which CPUs or files of CPUs are missing, and what the layout lacks."""
    return [
        *absent_files(file.name for file in facts.files),
        *_cpu_doubts(facts, loss),
        ("open_layout", layout.doubts, f"the layout leaves open: {'; '.join(layout.doubts)}"),
    ]


def unread_files(others: Sequence[str]) -> list[TraceWarning]:
    """Return the warning of files of other CPUs beside those of the trace, if there are any."""
    shown = ", ".join(others[:SHOWN_FILES]) + (", ..." if others[SHOWN_FILES:] else "")
    lie = "lies" if len(others) == 1 else "lie"
    found = [("unread_files", others, f"{shown} {lie} beside what was given")]
    return metadata.warnings_of(found)


STEPS = {"Q": "queued", "D": "issued", "C": "completed"}
"""Actions that every whole trace of a disk has, by their letters."""


def _absent_steps(stats: DecodeStats) -> list[str]:
    """Return of which of the steps there is no event at all.

    A volume issues nothing: there it is only told where records are missing, too.
    """
    counts = _named(decode.ACTIONS, stats.actions)
    # No driver knows when a request was queued.
    absent = [letter for letter in STEPS if not counts.get(letter)]
    absent = [letter for letter in absent if letter != "Q" or not stats.commands]
    if absent == ["D"] and not stats.sequence_gaps:
        return []
    return [f"{letter} ({STEPS[letter]})" for letter in absent] if stats.records else []


def _absent_cpus(facts: Facts) -> list[int]:
    """Return the CPUs without an event; of files of CPUs those whose file is missing."""
    if of_files := absent_cpus(file.name for file in facts.files):
        return sorted({cpu for cpus in of_files.values() for cpu in cpus})
    return completeness.absent_cpus(facts.cpus, told=facts.stats.told_cpus)


def _loss_doubts(stats: DecodeStats, layout: Layout, loss: metadata.Loss) -> list[Doubt]:
    """Return what may be missing."""
    absent = ", ".join(_absent_steps(stats))
    dropped, repeated = layout.dropped, stats.repeated_records
    unmatched = {name: count for name, count in (loss.unmatched or {}).items() if count}
    counts = dict(zip(decode.ACTIONS, stats.actions, strict=True))
    completed = f"{counts['C']:,} events of completion, {counts['D']:,} of issue"
    pairs = ", ".join(f"{name} {count:,}" for name, count in unmatched.items())
    lost = (
        f"{stats.lost_records:,} records are missing at {stats.sequence_gaps:,} places by their"
        f" numbers, and the tracer dropped {dropped:,}"
    )
    if isinstance(layout.loss.whole_ns, int):
        lost += f", behind the first {layout.loss.whole_ns / 1e9:,.3f} s, of some CPUs"
    why = "those of the actions" if absent else "those of lines"
    why += " that are left out" + ("" if stats.told_skips == 0 else ", and lost ones, if any")
    left_out = (
        f"{stats.lost_records:,} records are missing at {stats.sequence_gaps:,} places by their"
        f" numbers: {why}"
    )
    is_part = absent or (stats.lines and stats.told_skips <= 0)
    is_filtered = bool(is_part) and not dropped
    unnumbered = "the records carry no numbers: lost ones cannot be seen in them"
    given_up = f"{stats.evicted:,} requests were given up as never completing"
    return [
        ("absent_actions", absent, f"no event is of the action {absent}"),
        ("left_out_records", is_filtered and stats.lost_records, left_out),
        ("lost_records", not is_filtered and stats.lost_records + dropped, lost),
        ("no_sequence_numbers", stats.numbered_records == 0, unnumbered),
        (
            "unmatched_events",
            unmatched and not absent,
            f"{completed}; without their partner: {pairs}",
        ),
        ("window_full", stats.evicted, given_up),
        ("repeated_records", repeated, f"{repeated:,} records have a number that was there before"),
    ]


def _cpu_doubts(facts: Facts, loss: metadata.Loss) -> list[Doubt]:
    """Return which CPUs of a text have no event; files of CPUs are told by their names."""
    if absent_cpus(file.name for file in facts.files):
        return []
    alone = sum((loss.unmatched or {}).get(name, 0) for name in ("queue", "complete"))
    events = facts.stats.records
    return completeness.cpu_doubts(_absent_cpus(facts), facts.cpus, events=events, alone=alone)


def _content_doubts(facts: Facts) -> list[Doubt]:
    """Return what is there, but odd."""
    stats, reordered = facts.stats, facts.stats.reordered_records
    refused = f"{facts.refused:,} attempts came back with EAGAIN before they had a request"
    return [
        ("refused_attempts", facts.refused, f"{refused}: they are not counted as requests"),
        ("reordered_records", reordered, f"{reordered:,} records stood behind a later one"),
        ("salvaged", facts.cuts, "; ".join(facts.cuts)),
        ("unknown_actions", stats.unknown, f"{stats.unknown:,} events of an unknown action"),
        ("passthrough", stats.passthrough, f"{stats.passthrough:,} events of device commands"),
        *facts.present.doubts(told=stats.unmatched[decode.UNMATCHED.index("queue")]),
        ("no_process_names", facts.present.values["process"] == 0, "no request has a process name"),
    ]


BLKPARSE, BLKPARSE_FORMAT, BLK, PERF, FTRACE = "blkparse", "blkparse -f", "blk", "perf", "ftrace"
FEWEST_ORDERED = 100
"""From so many events their order is evidence."""
EVENT_TEXTS = {
    BLKPARSE: Text.BLKPARSE,
    BLK: Text.NONE,
    PERF: Text.KERNEL,
    FTRACE: Text.KERNEL,
    **{name: kind for kind, name in drivers.NAMES.items()},
}
"""Names for --format. The blk tracer prints in two ways, which differ in their content."""
NOT_IN_TEXT = {
    "bytes": "lengths are whole sectors: the last sector of a request counts whole",
    "names": "a process is named as in its events; C, M and A have no name",
    "clock": "times have no date, so the trace has no wall clock",
    "numbers": "events carry no sequence numbers, so lost ones cannot be seen",
    "plugs": "plugs and unplugs are passed over",
    "zeroes": "the kernel's letter N of a bio is taken for a write of zeroes",
    "origins": "origins of remaps and ends of splits are missing, so partitions are not known",
    "commands": "commands to the device cannot be distinguished from requests",
    "queue": "when a request was queued, its merges and its partition: it begins when it is issued",
}
"""What a text cannot express, see docs/event-texts.md."""
OF_ALL = ("bytes", "names", "clock")
OF_FORMAT = {
    BLKPARSE: (),
    BLKPARSE_FORMAT: ("origins", "commands"),
    BLK: ("numbers",),
    PERF: ("numbers", "plugs"),
    FTRACE: ("numbers", "plugs"),
    **dict.fromkeys(drivers.NAMES.values(), ("numbers", "queue")),
}


def format_name(kind: Text, stats: DecodeStats) -> str:
    """Return what the lines were of, by what the decoder saw."""
    if kind == Text.KERNEL:
        return PERF if stats.is_perf else BLK if stats.has_tracer else FTRACE
    others = {Text.BLKPARSE: BLKPARSE, Text.FORM: BLKPARSE_FORMAT, Text.TRACER: BLK}
    return others.get(kind) or drivers.NAMES[kind]


def not_in_text(name: str, stats: DecodeStats) -> list[metadata.Inference]:
    """Return the inferences that tell what this text does not say."""
    found = [NOT_IN_TEXT[what] for what in (*OF_ALL, *OF_FORMAT[name])]
    if not stats.has_nanoseconds:
        found.append("times are whole microseconds: shorter latencies are 0 or 1 us")
    said = [("not in the text", text, f"format {name}") for text in found]
    return metadata.inferences_of(said, stage="import")


def reject_bad_lines(facts: Facts, file: str, *, name: str, most_bad_ratio: float) -> None:
    """Raise InputError when more than this share of the lines is wrong for the format `name`."""
    stats = facts.stats
    lines = stats.records + stats.bad_lines
    if stats.bad_lines > most_bad_ratio * lines:
        shown = [*map(show_example, facts.bad_lines)]
        hint = "choose another --format, or allow more with --max-bad PERCENT"
        if other := other_part(facts.bad_lines, bad=stats.bad_lines, records=stats.records):
            shown.append(other.in_words(name))
            hint = other.hint
        message = f"{file}: {stats.bad_lines:,} of {lines:,} lines are wrong for {name}"
        raise InputError(message, *listed(shown), hint=hint)


def reject_disorder(facts: Facts, file: str) -> None:
    """Raise InputError when most events stand behind a later one, as no clock's times do."""
    stats = facts.stats
    if stats.records >= FEWEST_ORDERED and stats.reordered_records > stats.records // 2:
        raise InputError(
            f"{file}: {stats.reordered_records:,} of {stats.records:,} events stand behind a later"
            " one: their times look like differences, not like a clock's",
            hint="print it again without --deltatime; or go on all the same with --force-units",
        )


def text_counts(facts: Facts, rows: Mapping[str, int]) -> dict[str, Any]:
    """Return what an import counts besides the events; `rows` by operation."""
    stats = facts.stats
    lines = line_counts(stats.passed_lines, stats.bad_lines, examples=facts.bad_lines)
    return {"operations": dict(+Counter(rows)), **lines}


def text_info(
    facts: Facts, rows: Mapping[str, int], *, layout: Layout, kind: Text, block: drivers.Block
) -> TraceInfo:
    """Return the content of trace.json of a text; `rows` by operation."""
    name = format_name(kind, facts.stats)
    stats, bad = facts.stats, facts.stats.bad_lines
    info = trace_info(facts, layout)
    info.source.format = name
    info.counts = {**info.counts, **text_counts(facts, rows)}
    # The layout of a capture counts the same losses.
    info.loss.dropped = max(info.loss.dropped, stats.told_lost)
    info.inferences += drivers.inferences(stats, block, kind=kind) + not_in_text(name, stats)
    lost = f"it says itself that {stats.told_lost:,} events were lost"
    others = stats.passed_lines if name == "blkparse" else 0
    other = other_part(facts.bad_lines, bad=bad, records=stats.records)
    what = f"; {other.in_words(name)}" if other else ""
    found = [
        long_preamble(others, stats.records, what="are no events"),
        ("bad_lines", bad, wrong_lines(bad) + what),
        ("lost_records", stats.told_lost, lost),
        *drivers.doubts(stats, block, kind=kind),
    ]
    info.warnings += metadata.warnings_of(found)
    return info
