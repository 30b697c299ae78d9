"""What may be wrong with a replay: a closed list, each with advice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracekit.metadata import TraceWarning
from tracekit.replay.compiler import PlanReport
from tracekit.replay.summary import ReplaySummary

LATE_SHARE = 0.001
STOLEN_SHARE = 0.02

ADVICE = {
    "interrupted": "run it again to the end",
    "rescued": "go on behind it with --resume and its name if it was of requests, or remove it",
    "failed": "look at the errors below: their latencies are not counted",
    "fallback": "allow io_uring (sysctl kernel.io_uring_disabled=0) or ask for --engine threads",
    "late": "use fewer busy processes, a higher --depth or a faster target",
    "in_flight_full": "raise --depth, or take it as the answer: the target cannot keep up",
    "plan_underrun": "keep the trace folder on another disk than the target",
    "log_stalls": "keep the trace folder on another disk than the target",
    "overrun": "use a faster target: tmpfs, or none",
    "buffered": "use a target that takes O_DIRECT: latencies are those of the page cache",
    "not_persistent": "use a file on a DAX file system: these are times of the page cache",
    "read_only": "confirm the target with --write-to to replay the writes as well",
    "out_of_range": "use a larger target",
    "moved": "use a larger target",
    "clipped": "use a larger target",
    "expanded": "nothing: --expand asked for it",
    "dropped_overlap": "take it as the answer, or allow or order overlaps",
    "dropped": "take it as the answer, or choose another --late policy",
    "slipped": "take it as the answer: the target cannot keep up at this speed",
    "idle_cut": "nothing: --max-idle asked for it",
    "stolen": "replay on a machine of its own, or give the virtual machine more",
    "unsupported": "use a target that takes discards",
    "left_out": "nothing: these requests of the trace have no meaning for a target",
    "guessed_times": "capture the queue events as well",
    "merged": "write 2 into queue/nomerges of the device: it then gets what the trace's device got",
    "rounded": "nothing: lengths are whole sectors on every block device",
}


def find_warnings(summary: ReplaySummary) -> list[TraceWarning]:
    """Return the warnings for a finished run."""
    found = [
        *_of_run(summary),
        *_of_schedule(summary),
        *_of_targets(summary),
        *_of_plan(summary.compiled),
    ]
    return [_warning(code, message) for code, message in found]


def _warning(code: str, message: str) -> TraceWarning:
    return TraceWarning(code=code, message=message, advice=ADVICE[code])


def find_rescued(places: Sequence[Path]) -> list[TraceWarning]:
    """Return a warning for each folder of completions that a killed replay had left."""
    return [
        _warning("rescued", f"an earlier replay was killed; what it completed is in {place}")
        for place in places
    ]


def _of_run(summary: ReplaySummary) -> list[tuple[str, str]]:
    counts, late = summary.counts, summary.late
    found = []
    if summary.outcome == "interrupted":
        found.append(("interrupted", f"{counts.not_reached:,} requests were not reached"))
    if counts.failed:
        found.append(("failed", f"{counts.failed:,} requests failed"))
    if summary.engine.fallback:
        found.append(("fallback", f"io_uring is not available: {summary.engine.fallback}"))
    if late.count > LATE_SHARE * max(counts.submitted, 1):
        limit_us = late.threshold_ns / 1e3
        found.append(("late", f"{late.count:,} requests were issued over {limit_us:.0f} us late"))
    for code, count in (
        ("in_flight_full", late.in_flight_full),
        ("plan_underrun", late.plan_underrun),
    ):
        if count:
            found.append((code, f"{count:,} requests were late because of it"))
    if summary.engine.overruns:
        count = summary.engine.overruns
        found.append(("overrun", f"{count:,} requests took longer than on the emulated device"))
    if summary.log_stalls:
        found.append(("log_stalls", f"the run waited {summary.log_stalls:,} times for its log"))
    for code, key in (
        ("read_only", "skipped_read_only"),
        ("out_of_range", "skipped_out_of_range"),
        ("unsupported", "skipped_unsupported"),
        ("dropped", "skipped_late"),
        ("dropped_overlap", "skipped_overlap"),
        ("moved", "moved"),
        ("clipped", "clipped"),
        ("expanded", "expanded"),
    ):
        if getattr(counts, key):
            found.append((code, f"{getattr(counts, key):,} requests were {key.replace('_', ' ')}"))
    return found


def _of_schedule(summary: ReplaySummary) -> list[tuple[str, str]]:
    found = []
    late = summary.late
    if late.slipped_ns:
        found.append(
            ("slipped", f"late requests moved the schedule by {late.slipped_ns / 1e6:,.1f} ms")
        )
    if summary.window.idle_gaps_cut:
        cut = summary.window
        found.append(
            (
                "idle_cut",
                f"{cut.idle_gaps_cut:,} gaps were cut by {cut.idle_cut_ns / 1e9:,.3f} s",
            )
        )
    if summary.fidelity.steal_ratio > STOLEN_SHARE:
        found.append(("stolen", f"{summary.fidelity.steal_ratio:.1%} of the CPUs' time was stolen"))
    return found


def _of_targets(summary: ReplaySummary) -> list[tuple[str, str]]:
    engine = summary.engine
    if engine.used == "dax":
        is_durable = engine.features["map_sync"]
        return [] if is_durable else [("not_persistent", "the kernel granted no MAP_SYNC")]
    found = [
        ("buffered", f"target {target.label} is buffered: {target.direct_note}")
        for target in summary.targets
        if target.direct_note
    ]
    for target in summary.targets:
        merged = sum(kind["merged"] for kind in (target.counted or {}).values())
        # As queued, what is merged is for the target to say.
        if merged and summary.plan.level == "issued":
            message = f"the kernel merged {merged:,} requests of target {target.label}"
            found.append(("merged", f"{message} into their neighbours"))
    return found


def _of_plan(compiled: PlanReport) -> list[tuple[str, str]]:
    found = []
    if compiled.skipped:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in compiled.skipped.items())
        found.append(("left_out", f"requests of the trace that are not in the plan: {reasons}"))
    if compiled.guessed_times:
        count = compiled.guessed_times
        found.append(("guessed_times", f"{count:,} requests without queue event have a later time"))
    if compiled.rounded:
        found.append(("rounded", f"{compiled.rounded:,} lengths were rounded up to sectors"))
    return found
