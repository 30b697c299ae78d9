"""trace.json of a capture: counts, losses, completions that the record lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import asdict, replace

from tracekit._native.decode import ACTIONS, COUNTED, NOTIFIES, UNMATCHED, Completed, DecodeStats
from tracekit.errors import span
from tracekit.layout import DiskCounters, Layout
from tracekit.metadata import (
    Clock,
    Device,
    Inference,
    Loss,
    MissingCompletions,
    MissingOfDisk,
    Region,
    Source,
    SourceFile,
    TraceInfo,
    TraceWarning,
    warnings_of,
)

LAG_NS = 1_000_000
"""The kernel counts a request a moment after its completion is recorded. One that was recorded so
shortly before a reading may be in it or not."""
WHY_CLOCK = "the times of the records are not those of the capture's clock"
WHY_MORE = "the record has {recorded:,} and the kernel counted {counted:,}: it does not count all"


def readings_ns(counters: list[DiskCounters]) -> tuple[int, int, int, int] | None:
    """Return first and last possible time of both readings, of all disks together.

    None when no disk was read twice.
    """
    read = [(entry.begin, entry.end) for entry in counters]
    both = [(first, last) for first, last in read if first is not None and last is not None]
    if not both:
        return None
    return (
        max(0, min(first.before_ns for first, _ in both) - LAG_NS),
        max(first.after_ns for first, _ in both),
        max(0, min(last.before_ns for _, last in both) - LAG_NS),
        max(last.after_ns for _, last in both),
    )


def missing_completions(
    counters: list[DiskCounters], stats: DecodeStats, *, completed: Mapping[str, Completed]
) -> MissingCompletions | None:
    """Return `loss.unseen` of trace.json; None when the capture read no counters.

    `completed` is by the name that the device has in the layout.
    """
    if not counters:
        return None
    window = readings_ns(counters)
    has_clock = window is not None and _has_clock(window, stats)
    disks: list[MissingOfDisk] = []
    not_measured = []
    for entry in counters:
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
    return MissingCompletions(
        at_least=sum(row.at_least for row in disks),
        at_most=sum(row.at_most for row in disks),
        disks=disks,
        not_measured=not_measured,
    )


def _has_clock(window: tuple[int, int, int, int], stats: DecodeStats) -> bool:
    """Say whether the records are of the time between the readings, as far as they have any."""
    return bool(stats.base_ns <= window[3] and stats.last_ns >= window[0])


def _rows(entry: DiskCounters, completed: Completed) -> list[MissingOfDisk]:
    """Return what is known of each kind that occurs; `recorded` is at least so many."""
    rows: list[MissingOfDisk] = []
    if entry.begin is None or entry.end is None:
        return rows
    begin, end = entry.begin.completed, entry.end.completed
    for kind in COUNTED:
        if kind not in begin:
            continue
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


def doubts(found: MissingCompletions | None) -> list[tuple[str, Any, str]]:
    """Return code, whether it applies, and message of the warnings of trace.json."""
    if found is None:
        return []
    lacking = [row for row in found.disks if row.at_least]
    parts = [
        f"{row.device} {row.kind} {lacks} of {row.counted:,}"
        for row in lacking
        for lacks in [span(row.at_least, row.at_most)]
    ]
    reasons = [f"{one['device']}: {one['why']}" for one in found.not_measured]
    return [
        (
            "unseen_completions",
            lacking,
            f"the kernel completed requests whose completion the record lacks: {', '.join(parts)}",
        ),
        (
            "unseen_not_measured",
            reasons,
            f"whether completions are lacking is not known of {'; '.join(reasons)}",
        ),
    ]


@dataclass(frozen=True)
class Facts:
    """What decoding a capture brought to light besides its rows."""

    stats: DecodeStats
    devices: list[tuple[int, int]]
    """Major and minor number, in order of appearance."""
    completed: list[Completed]
    """Of each device, between the readings of the kernel's counters."""
    files: list[SourceFile]
    cuts: list[str]
    """What --salvage left away, in words."""
    named_rows: int
    """Rows whose process is known."""
    bad_lines: list[tuple[int, str]] = field(default_factory=list)
    """Of a text: number and beginning of the first wrong lines."""


def trace_info(facts: Facts, layout: Layout) -> TraceInfo:
    """Return the content of trace.json."""
    stats = facts.stats
    devices, names = _devices(facts.devices, layout)
    missing = _missing(facts, layout)
    partitions, inferences = _partitions(layout, names)
    swapped = ", byte-swapped" if stats.swapped_files else ""
    return TraceInfo(
        source=Source(
            format=f"blktrace v{stats.version}" + swapped, kernel=layout.kernel, files=facts.files
        ),
        clock=Clock(
            base_ns=stats.base_ns,
            wall_ns=stats.wall_ns if stats.has_wall else None,
            duration_ns=stats.last_ns - stats.base_ns,
        ),
        devices=devices,
        layout=partitions,
        counts=_counts(stats),
        loss=_loss(stats, layout, missing),
        inferences=inferences + _wall_guess(stats),
        warnings=_warnings(facts, layout, missing),
    )


def _devices(numbers: list[tuple[int, int]], layout: Layout) -> tuple[list[Device], dict[str, str]]:
    """Return the devices of the trace, and the trace's name for each name of the layout."""
    known = {(device.major, device.minor): device for device in layout.devices}
    devices = [
        known.get(number, Device(device=f"{major},{minor}", major=major, minor=minor))
        for number in numbers
        for major, minor in [number]
    ]
    names = {device.device: device.device for device in layout.devices}
    unnumbered = [device for device in layout.devices if device.major is None]
    if len(devices) == 1 and len(layout.devices) == 1 and unnumbered:
        theirs, ours = asdict(unnumbered[0]), devices[0]
        names[unnumbered[0].device] = ours.device
        facts = {key: value for key, value in theirs.items() if value is not None}
        devices[0] = replace(ours, **{**facts, "device": ours.device})
    return devices, names


def _partitions(layout: Layout, names: dict[str, str]) -> tuple[list[Region], list[Inference]]:
    """Return the layout under the trace's device names, and the guesses made for that."""
    inferences = [
        Inference(
            what=f"device {theirs} of the layout",
            value=ours,
            evidence="the layout has no device numbers, and both have one device",
        )
        for theirs, ours in names.items()
        if theirs != ours
    ]
    entries = [
        replace(entry, device=names.get(entry.device, entry.device)) for entry in layout.partitions
    ]
    return entries, inferences


def line_counts(passed: int, bad: int, *, examples: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """Return what trace.json says of a text's lines; examples are a line's number and text."""
    shown = [{"line": number, "text": text} for number, text in examples]
    return {"passed_lines": passed, "bad_lines": bad, "bad_examples": shown}


def _wall_guess(stats: DecodeStats) -> list[Inference]:
    if not stats.is_wall_of_start:
        return []
    evidence = "times are relative, as blkparse -d writes them: the capture's start is taken"
    what = "wall clock of the first event"
    return [Inference(what=what, value=stats.wall_ns, evidence=evidence)]


def _named(names: Sequence[str], counts: Sequence[int]) -> dict[str, int]:
    """Return the counts that are not 0 by their names."""
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def _counts(stats: DecodeStats) -> dict[str, Any]:
    return {
        "records": stats.records,
        "requests": stats.rows,
        "actions": _named(ACTIONS, stats.actions),
        "notifies": _named(NOTIFIES, stats.notifies),
        "device_flushes": stats.device_flushes,
        "passthrough": stats.passthrough,
        "unknown": stats.unknown,
        "requeued_remainders": stats.requeued_remainders,
    }


def _loss(stats: DecodeStats, layout: Layout, missing: MissingCompletions | None) -> Loss:
    return Loss(
        has_sequence_numbers=stats.numbered_records > 0,
        sequence_gaps=stats.sequence_gaps,
        lost_records=stats.lost_records,
        repeated_records=stats.repeated_records,
        reordered_records=stats.reordered_records,
        dropped=layout.overrun + layout.dropped,
        window_full=stats.evicted,
        unmatched=dict(zip(UNMATCHED, stats.unmatched, strict=True)),
        unseen=missing,
    )


def _missing(facts: Facts, layout: Layout) -> MissingCompletions | None:
    names = {(entry.major, entry.minor): entry.device for entry in layout.devices}
    by_name = {
        names[number]: completed
        for number, completed in zip(facts.devices, facts.completed, strict=True)
        if number in names
    }
    return missing_completions(layout.counters, facts.stats, completed=by_name)


def _warnings(
    facts: Facts, layout: Layout, missing: MissingCompletions | None
) -> list[TraceWarning]:
    return warnings_of(
        [*_loss_doubts(facts.stats, layout), *doubts(missing), *_content_doubts(facts)]
    )


def _loss_doubts(stats: DecodeStats, layout: Layout) -> list[tuple[str, Any, str]]:
    """Return code, whether it applies, and message of what may be missing."""
    dropped = layout.overrun + layout.dropped
    unmatched = _named(UNMATCHED, stats.unmatched)
    listed = ", ".join(f"{name} {count:,}" for name, count in unmatched.items())
    return [
        (
            "lost_records",
            stats.lost_records + dropped,
            f"{stats.lost_records:,} records are missing at {stats.sequence_gaps:,} places"
            f" by their numbers, and the tracer dropped {dropped:,}",
        ),
        (
            "no_sequence_numbers",
            stats.numbered_records == 0,
            "the records carry no numbers: lost ones cannot be seen in them",
        ),
        ("unmatched_events", unmatched, f"events without their partner: {listed}"),
        (
            "window_full",
            stats.evicted,
            f"{stats.evicted:,} requests were given up as never completing",
        ),
        (
            "repeated_records",
            stats.repeated_records,
            f"{stats.repeated_records:,} records have a number that was there before",
        ),
    ]


def _content_doubts(facts: Facts) -> list[tuple[str, Any, str]]:
    """Return the same of what is there, but odd."""
    stats = facts.stats
    completions = stats.actions[ACTIONS.index("C")]
    return [
        (
            "reordered_records",
            stats.reordered_records,
            f"{stats.reordered_records:,} records stood behind a later one",
        ),
        ("salvaged", facts.cuts, "; ".join(facts.cuts)),
        ("unknown_actions", stats.unknown, f"{stats.unknown:,} events of an unknown action"),
        ("passthrough", stats.passthrough, f"{stats.passthrough:,} events of device commands"),
        ("no_completions", completions == 0, "no request completes in this trace"),
        ("no_process_names", facts.named_rows == 0, "no request has a process name"),
    ]
