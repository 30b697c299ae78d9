"""A replay's summary in words, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tracekit.escapes import joined, shell_word
from tracekit.metadata import TraceWarning
from tracekit.replay.limits import format_value
from tracekit.replay.player import describe_submission
from tracekit.replay.summary import (
    FileReplaySummary,
    Measured,
    Observed,
    ReplaySummary,
    TargetReport,
    Verdict,
    content_of,
    fit_warnings,
    lateness_of,
)
from tracekit.units import MIB, format_size

PACE = {
    "trace": "at the trace's times",
    "closed": "in a closed loop, with the trace's think times",
    "fast": "as fast as possible",
}
PLACE = {
    "made file": "temporary file",
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
    ("zone_append", "appends to zones", ""),
    ("zone_reset", "resets of zones", ""),
    ("zone_reset_all", "resets of all zones", ""),
    ("zone_open", "openings of zones", ""),
    ("zone_close", "closings of zones", ""),
    ("zone_finish", "finishings of zones", ""),
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
    plan = summary.plan
    lines = [f"{plan.requests:,} requests as {plan.level}, {duration(plan.duration_ns)} of trace"]
    seen = summary.observed if isinstance(summary.observed, Observed) else None
    if seen and seen.lost_events:
        lines.insert(0, f"the tracer lost {seen.lost_events:,} events: the kernel's side has gaps")
    if summary.outcome == "dry_run":
        lines += [*_planned(summary), "dry run: no request was made"]
        lines += _lines([w for w in fit_warnings(summary) if w.code != "too_small"])
    else:
        lines += [*_run(summary), "", *_timing(summary), *_observed(summary, seen), ""]
        lines += [*_operations(summary), *_lines(summary.warnings)]
        lines += describe_verdict(summary.certificate) if summary.certificate else []
    return joined(lines)


def _lines(warnings: list[TraceWarning]) -> list[str]:
    return [f"warning: {warning.message}; {warning.advice}" for warning in warnings]


def duration(ns: float) -> str:
    """Return a time in the unit that reads best."""
    for limit, unit, digits in ((1e3, "ns", 0), (1e6, "us", 1), (1e9, "ms", 2)):
        if abs(ns) < limit:
            return f"{ns / limit * 1e3:,.{digits}f} {unit}"
    return f"{ns / 1e9:,.3f} s"


def _run(summary: ReplaySummary) -> Iterator[str]:
    counts, engine, speed = summary.counts, summary.engine, summary.speed
    how = PACE[summary.pace]
    if speed.numerator != speed.denominator and summary.pace != "fast":
        how += f", {speed.numerator / speed.denominator:g} times faster"
    yield f"{summary.outcome}: {counts.done:,} done, {counts.failed:,} failed, {how}"
    for error in summary.errors:
        meaning = (error.meaning or "unknown").lower()
        yield f"{error.count:,} requests failed: {meaning} ({error.name})"
    used = ", ".join(name for name, is_used in engine.features.items() if is_used)
    yield (
        f"engine {engine.used}{f' ({used})' if used else ''},"
        f" depth {summary.depth:,}, in flight at most {summary.in_flight_max:,}"
    )
    yield from describe_submission(content_of(engine))
    if summary.devices:
        moved = "no data moved" if engine.backing == "null" else f"data moved by {engine.backing}"
        yield f"emulated devices: {', '.join(summary.devices)}; {moved}"
        for device in summary.emulation.devices if summary.emulation else ():
            yield f"  {lateness_of(device)}"
    for target in summary.targets:
        if target.kind != "none":
            yield from _target(target, is_mapped=engine.used == "dax")


def _target(target: TargetReport, *, is_mapped: bool = False) -> Iterator[str]:
    how = "mapped" if is_mapped else "O_DIRECT" if target.is_direct else "buffered"
    how += "" if target.priority == "none" else f", priority {target.priority}"
    is_new = target.kind == "made file" and target.is_kept
    yield (
        f"{target.label}: {'new file' if is_new else PLACE[target.kind]} {target.path},"
        f" {target.size_bytes / MIB:,.0f} MiB, {how}"
    )
    # What the kernel counted of the device during the run.
    kinds = target.counted or {}
    done = [
        f"{kinds[kind]['done']:,} {name}"
        for kind, name in COUNTED.items()
        if kind in kinds and kinds[kind]["done"]
    ]
    if done:
        merged = sum(kind["merged"] for kind in kinds.values())
        beside = f"; {merged:,} were merged into neighbours" if merged else ""
        yield f"  the device got {', '.join(done)}{beside}"
    if unseen := target.unseen_processes or 0:
        yield f"  {unseen:,} processes of other users may have it open, too: only root can see"
    if target.confirm_with and not target.may_write:
        yield f"  reads only; to write there: --write-to {shell_word(target.confirm_with)}"


def _planned(summary: ReplaySummary) -> Iterator[str]:
    """Yield each target with what a run would do to it."""
    for target in summary.targets:
        is_shown = target.kind != "none"
        yield from _target(target) if is_shown else [f"{target.label}: no target"]
        if zones := content_of(target).get("zones"):
            most = (f"{zones[f'most_{kind}'] or 'all'} {kind}" for kind in ("open", "active"))
            yield (
                f"  {zones['count']:,} zones of {format_size(zones['zone_bytes'])},"
                f" {zones['in_order']:,} of them written in order, at once at most"
                f" {' and '.join(most)}"
            )
        planned = target.planned
        counts = [
            f"{planned[key]:,} {word}"
            + (f" of {format_size(planned[f'{size}_bytes'])}" if size else "")
            for key, word, size in PLANNED
            if planned.get(key)
        ]
        yield f"  planned: {', '.join(counts)}"
        if target.out_of_range:
            fate = BEYOND[summary.out_of_range]
            yield f"  beyond its end: {target.out_of_range:,} requests, {fate}"


def _timing(summary: ReplaySummary) -> Iterator[str]:
    timing, error, fidelity = summary.timing, summary.issue_error, summary.fidelity
    yield (
        f"elapsed {duration(timing.elapsed_ns)},"
        f" {timing.requests_per_second:,.0f} requests/s,"
        f" {timing.bytes_per_second / MIB:,.1f} MiB/s"
    )
    if error is None:
        return
    yield (
        f"intended {duration(timing.intended_duration_ns)},"
        f" real {duration(timing.actual_duration_ns)}:"
        f" error {duration(timing.duration_error_ns)}, drift {duration(timing.drift_ns)}"
    )
    late = ", ".join(
        f"{step.replace('_', '.')} {duration(getattr(error, f'{step}_ns'))}"
        for step in ("p50", "p90", "p99", "p99_9", "max")
    )
    yield f"issued after the intended time: {late}"
    gaps = (
        f"gaps between requests: {duration(fidelity.gap_wasserstein_ns)} off on average,"
        f" Kolmogorov-Smirnov distance {fidelity.gap_ks_ratio:.4f}"
    )
    if machine := fidelity.machine_issue_error:
        gaps += (
            f"; this machine without a target: p50 {duration(machine.p50_ns)},"
            f" p99 {duration(machine.p99_ns)}"
        )
    yield gaps
    yield (
        f"interference: {fidelity.steal_ratio:.1%} of the CPUs' time stolen,"
        f" {fidelity.preemptions:,} preemptions, {fidelity.punt_workers:,} punt workers"
    )


def _observed(summary: ReplaySummary, seen: Observed | None) -> Iterator[str]:
    followed = summary.clock.lead_followed
    if followed and followed.most_ns:
        least, most = duration(followed.least_ns), duration(followed.most_ns)
        yield f"handed over {least} to {most} before their times, as the kernel took before"
    elif lead_ns := summary.clock.lead_ns:
        how = {"given": "as asked", "measured": "as measured right before"}
        why = how.get(summary.lead_from, f"as seen in the replay {summary.lead_from}")
        yield f"handed over {duration(lead_ns)} before their times, {why}"
    if seen is None:
        return
    yield (
        f"the kernel, by {seen.source} on {', '.join(seen.devices)}:"
        f" {seen.joined:,} requests found, {seen.unmatched:,} not"
        + (f", {seen.uncached:,} flushes of no cache" if seen.uncached else "")
    )
    for error, name in ((seen.queue_error_ns, "queued"), (seen.issue_error_ns, "issued")):
        if error:
            steps = (error.p50, error.p90, error.p99, error.p999, error.max)
            late = zip(("p50", "p90", "p99", "p99.9", "max"), steps, strict=True)
            told = ", ".join(f"{step} {duration(time_ns)}" for step, time_ns in late)
            yield f"  {name} after the intended time: {told}"
    order = seen.order_changes
    yield (
        f"  order: {order.queue:,} positions changed as queued, {order.issue:,} as issued;"
        f" {seen.merged:,} merged, {seen.split:,} split; {seen.foreign:,} I/Os of others"
    )
    yield from (f"  {note}" for note in seen.notes)


def _operations(summary: ReplaySummary) -> Iterator[str]:
    head = f"{'service (submit to complete)':<28}{'requests':>12}{'p50':>12}{'p99':>12}{'max':>12}"
    yield head + ("" if summary.issue_error is None else f"{'response p99':>16}")
    for row in summary.operations:
        if service := row.service:
            times = (service.p50_ns, service.p99_ns, service.max_ns)
            line = f"{row.target + ' ' + row.operation:<28}{service.count:>12,}"
            line += "".join(f"{duration(time_ns):>12}" for time_ns in times)
            yield line + (f"{duration(row.response.p99_ns):>16}" if row.response else "")


def _limited(needed: str, left: int | None, form: Callable[[int], str]) -> str:
    """Return such as `12.0 MiB of 3.0 GiB that are free`."""
    return needed + (", without a limit" if left is None else f" of {form(left)} that are free")


def _planned_files(summary: FileReplaySummary) -> Iterator[str]:
    """Yield what a replay of file operations would make and need."""
    plan, place, compiled = summary.plan, summary.directory, summary.compiled
    kinds = ", ".join(f"{name} {count:,}" for name, count in compiled["operations"].items())
    yield f"{sum(compiled['operations'].values()):,} operations in {plan['threads']:,} threads"
    yield f"  {kinds}"
    yield f"{place['path']}: {place['file_system'] or 'unknown file system'}"
    yield (
        f"  made before the run: {plan['present_files']:,} files of"
        f" {format_size(plan['present_bytes'])}, {plan['present_directories']:,} directories"
    )
    if place["replaced"] != "nothing":
        yield f"  what a {place['replaced']} left there is removed before"
    space = _limited(format_size(place["needed_bytes"]), place["free_bytes"], format_size)
    inodes = _limited(f"{place['needed_inodes']:,}", place["free_inodes"], "{:,}".format)
    yield f"  space at most: {space}; inodes {inodes}"
    if place["quota_bytes"] is not None:
        yield f"  the user's quota leaves {format_size(place['quota_bytes'])}"
    longest, limit = place["longest_bytes"], place["longest_limit"]
    most = "" if limit is None else f" (limit {format_size(limit)})"
    yield (
        f"  longest file: {format_size(longest)}{most}; longest name:"
        f" {plan['longest_name_bytes']:,} bytes; open files: {place['needed_files']:,}"
        f" (limit {place['file_limit']:,})"
    )
    if compiled["unknown_sizes"]:
        yield f"  {compiled['unknown_sizes']:,} files of unknown size are made empty"
    yield from _left_out(summary)
    yield "dry run: nothing was made"


def _left_out(summary: FileReplaySummary) -> Iterator[str]:
    skipped = summary.compiled["skipped"]
    if left_out := sum(skipped.values()):
        reasons = ", ".join(f"{why} {count:,}" for why, count in skipped.items())
        yield f"  {left_out:,} left out: {reasons}"


def describe_files(content: dict[str, Any]) -> str:
    """Return a replay of file operations in a few lines."""
    summary = msgspec.convert(content, FileReplaySummary)
    if summary.outcome == "dry_run":
        return joined([*_planned_files(summary), *_lines(summary.warnings)])
    counts = summary.counts
    lines = [
        f"{counts['operations']:,} operations in {summary.timing.elapsed_ns / 1e9:,.3f} s,"
        f" {counts['failed']:,} not as in the trace, {counts['bytes'] / MIB:,.1f} MiB moved"
    ]
    for one in summary.operations:
        mean = f"{one.latency.mean_ns / 1e3:>12,.1f} us mean" if one.latency else ""
        lines.append(f"  {one.name:<16}{one.done:>10,}{mean}")
    lines += _left_out(summary)
    return joined([*lines, *_lines(summary.warnings)])


def describe_verdict(result: Verdict) -> list[str]:
    """Return the verdict in sentences: what it is, why it cannot tell, and each measure."""
    clock = f"the {result.measured_at}'s clock"
    lines = [f"certificate: {result.verdict} (as {result.level}, by {clock})"]
    lines += [f"  cannot tell: {doubt}" for doubt in result.doubts]
    return [*lines, *(f"  {_sentence(one)}" for one in result.measures)]


def _sentence(one: Measured) -> str:
    """Return such as `p99 31.2 us, at most 31.8 us with 95 % confidence: pass, limit 100 us`."""
    value = "not known" if one.observed is None else format_value(one.observed, one.unit)
    if one.high is not None:
        value += f", at most {format_value(one.high, one.unit)} with 95% confidence"
    why = "" if one.why is None else f" ({one.why})"
    return f"{one.measure} {value}: {one.verdict}{why}, limit {format_value(one.limit, one.unit)}"
