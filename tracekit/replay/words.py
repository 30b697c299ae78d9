"""A replay's summary in words, for a terminal."""

from __future__ import annotations

from typing import Any

import msgspec

from tracekit.replay.player import describe_submission
from tracekit.replay.summary import Fidelity, ReplaySummary, TargetReport, content_of
from tracekit.units import MIB, format_size

PACE = {
    "trace": "at the trace's times",
    "closed": "in a closed loop, with the trace's think times",
    "fast": "as fast as possible",
}
PLACE = {
    "made file": "file made for the run",
    "file": "existing file",
    "block device": "block device",
    "dax device": "persistent memory, mapped",
    "none": "no target",
}
PLANNED = (
    ("read", "reads", "read"),
    ("write", "writes", "write"),
    ("flush", "flushes", ""),
    ("discard", "discards", "discard"),
    ("write_zeroes", "write zeroes", ""),
)
COUNTED = {"reads": "reads", "writes": "writes and flushes", "discards": "discards"}
"""By the kernel, for which a request that only flushes is a write."""
BEYOND = {
    "wrap": "wrapped",
    "fold": "folded back",
    "scale": "brought back as all addresses are scaled",
    "clip": "clipped, or left out when nothing is left",
    "skip": "skipped",
}


def describe(content: dict[str, Any]) -> str:
    """Return the lines that `tracekit replay` prints of a summary."""
    summary = msgspec.convert(content, ReplaySummary)
    if summary.outcome == "dry_run":
        return "\n".join([*_plan(summary), *_planned(summary), "dry run: no request was made"])
    return "\n".join(
        [
            *_run(summary),
            *_targets(summary),
            "",
            *_timing(summary),
            "",
            *_operations(summary),
            *_errors(summary),
            *_warnings(summary),
        ]
    )


def duration(ns: float) -> str:
    """Return a time in the unit that reads best."""
    size = abs(ns)
    for limit, unit, digits in ((1e3, "ns", 0), (1e6, "us", 1), (1e9, "ms", 2)):
        if size < limit:
            return f"{ns / limit * 1e3:,.{digits}f} {unit}"
    return f"{ns / 1e9:,.3f} s"


def _plan(summary: ReplaySummary) -> list[str]:
    plan = summary.plan
    return [f"{plan.requests:,} requests as {plan.level}, {duration(plan.duration_ns)} of trace"]


def _run(summary: ReplaySummary) -> list[str]:
    counts, engine, speed = summary.counts, summary.engine, summary.speed
    how = PACE[summary.pace]
    if speed.numerator != speed.denominator and summary.pace != "fast":
        how += f", {speed.numerator / speed.denominator:g} times faster"
    used = ", ".join(name for name, is_used in engine.features.items() if is_used)
    return [
        *_plan(summary),
        f"{summary.outcome}: {counts.done:,} done, {counts.failed:,} failed, {how}",
        f"engine {engine.used}{f' ({used})' if used else ''},"
        f" depth {summary.depth:,}, in flight at most {summary.in_flight_max:,}",
        *describe_submission(content_of(engine)),
        *_devices(summary),
    ]


def _devices(summary: ReplaySummary) -> list[str]:
    if not summary.devices:
        return []
    backing = summary.engine.backing
    moved = "no data moved" if backing == "null" else f"data moved by {backing}"
    return [f"emulated devices: {', '.join(summary.devices)}; {moved}"]


def _targets(summary: ReplaySummary) -> list[str]:
    is_mapped = bool(summary.engine) and summary.engine.used == "dax"
    return [
        line
        for target in summary.targets
        if target.kind != "none"
        for line in _target(target, is_mapped=is_mapped)
    ]


def _target(target: TargetReport, *, is_mapped: bool = False) -> list[str]:
    how = "mapped" if is_mapped else "O_DIRECT" if target.is_direct else "buffered"
    how += "" if target.priority == "none" else f", priority {target.priority}"
    fate = "" if target.is_kept else " and removed"
    line = (
        f"{target.label}: {PLACE[target.kind]}{fate} {target.path},"
        f" {target.size_bytes / MIB:,.0f} MiB, {how}"
    )
    lines = [line, *_counted(target)]
    if not target.confirm_with or target.may_write:
        return lines
    return [*lines, f"  reads only; to write there: --write-to {target.confirm_with}"]


def _counted(target: TargetReport) -> list[str]:
    """What the kernel counted of the device during the run."""
    kinds = target.counted or {}
    done = [
        f"{kinds[kind]['done']:,} {name}"
        for kind, name in COUNTED.items()
        if kind in kinds and kinds[kind]["done"]
    ]
    merged = sum(kind["merged"] for kind in kinds.values())
    if not done:
        return []
    beside = f"; {merged:,} were merged into neighbours" if merged else ""
    return [f"  the device got {', '.join(done)}{beside}"]


def _planned(summary: ReplaySummary) -> list[str]:
    """Return each target with what a run would do to it."""
    lines = []
    for target in summary.targets:
        is_shown = target.kind != "none"
        lines += _target(target) if is_shown else [f"{target.label}: no target"]
        planned = target.planned
        counts = [
            f"{planned[key]:,} {word}"
            + (f" of {format_size(planned[f'{size}_bytes'])}" if size else "")
            for key, word, size in PLANNED
            if planned[key]
        ]
        lines.append(f"  planned: {', '.join(counts)}")
        if target.out_of_range:
            fate = BEYOND[summary.out_of_range]
            lines.append(f"  beyond its end: {target.out_of_range:,} requests, {fate}")
    return lines


def _timing(summary: ReplaySummary) -> list[str]:
    timing, error = summary.timing, summary.issue_error
    lines = [
        f"elapsed {duration(timing.elapsed_ns)},"
        f" {timing.requests_per_second:,.0f} requests/s,"
        f" {timing.bytes_per_second / MIB:,.1f} MiB/s"
    ]
    if error is None:
        return lines
    steps = ("p50", "p90", "p99", "p99_9", "max")
    late = ", ".join(
        f"{step.replace('_', '.')} {duration(getattr(error, f'{step}_ns'))}" for step in steps
    )
    lines.append(
        f"intended {duration(timing.intended_duration_ns)},"
        f" real {duration(timing.actual_duration_ns)}:"
        f" error {duration(timing.duration_error_ns)}, drift {duration(timing.drift_ns)}"
    )
    lines.append(f"issued after the intended time: {late}")
    return [*lines, *_fidelity(summary.fidelity)]


def _fidelity(fidelity: Fidelity) -> list[str]:
    machine = fidelity.machine_issue_error
    alone = (
        ""
        if machine is None
        else (
            f"; this machine without a target: p50 {duration(machine.p50_ns)},"
            f" p99 {duration(machine.p99_ns)}"
        )
    )
    return [
        f"gaps between requests: {duration(fidelity.gap_wasserstein_ns)} off on average,"
        f" Kolmogorov-Smirnov distance {fidelity.gap_ks_ratio:.4f}{alone}",
        f"taken from it: {fidelity.steal_ratio:.1%} of the CPUs' time stolen,"
        f" {fidelity.preemptions:,} preemptions, {fidelity.punt_workers:,} punt workers",
    ]


def _operations(summary: ReplaySummary) -> list[str]:
    head = f"{'service (submit to complete)':<28}{'requests':>12}{'p50':>12}{'p99':>12}{'max':>12}"
    is_timed = summary.issue_error is not None
    lines = [head + (f"{'response p99':>16}" if is_timed else "")]
    for row in summary.operations:
        service, response = row.service, row.response
        if service is None:
            continue
        line = f"{row.target + ' ' + row.operation:<28}{service.count:>12,}"
        line += "".join(
            f"{duration(getattr(service, f'{step}_ns')):>12}" for step in ("p50", "p99", "max")
        )
        lines.append(line + (f"{duration(response.p99_ns):>16}" if response else ""))
    return lines


def _errors(summary: ReplaySummary) -> list[str]:
    return [
        f"error {error.name} ({error.meaning}): {error.count:,} requests"
        for error in summary.errors
    ]


def _warnings(summary: ReplaySummary) -> list[str]:
    return [f"warning: {warning.message}; {warning.advice}" for warning in summary.warnings]
