"""What may be wrong with a replay: a closed list, each with advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tracekit.metadata import TraceWarning
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
COUNTED = {
    "read_only": "skipped_read_only",
    "out_of_range": "skipped_out_of_range",
    "unsupported": "skipped_unsupported",
    "dropped": "skipped_late",
    "dropped_overlap": "skipped_overlap",
    "moved": "moved",
    "clipped": "clipped",
    "expanded": "expanded",
}
"""The count of requests that each of these warnings reports."""
Warnings = Iterator[tuple[str, float, str]]
"""Code, how much there was (0: no warning), and the message."""


def find_warnings(summary: ReplaySummary) -> list[TraceWarning]:
    """Return the warnings for a finished run."""
    found = (*_of_run(summary), *_of_schedule(summary), *_of_targets(summary), *_of_plan(summary))
    return [_warning(code, message) for code, amount, message in found if amount]


def _warning(code: str, message: str) -> TraceWarning:
    return TraceWarning(code=code, message=message, advice=ADVICE[code])


def find_rescued(places: Sequence[Path]) -> list[TraceWarning]:
    """Return a warning for each folder of completions that a killed replay had left."""
    return [
        _warning("rescued", f"an earlier replay was killed; what it completed is in {place}")
        for place in places
    ]


def _of_run(summary: ReplaySummary) -> Warnings:
    counts, late, engine = summary.counts, summary.late, summary.engine
    is_interrupted = summary.outcome == "interrupted"
    yield "interrupted", is_interrupted, f"{counts.not_reached:,} requests were not reached"
    yield "failed", counts.failed, f"{counts.failed:,} requests failed"
    yield "fallback", bool(engine.fallback), f"io_uring is not available: {engine.fallback}"
    is_late = late.count > LATE_SHARE * max(counts.submitted, 1)
    limit_us = late.threshold_ns / 1e3
    yield "late", is_late, f"{late.count:,} requests were issued over {limit_us:.0f} us late"
    for code in ("in_flight_full", "plan_underrun"):
        count = getattr(late, code)
        yield code, count, f"{count:,} requests were late because of it"
    slow = f"{engine.overruns:,} requests took longer than on the emulated device"
    yield "overrun", engine.overruns, slow
    stalls = summary.log_stalls or 0
    yield "log_stalls", stalls, f"the run waited {stalls:,} times for its log"
    for code, key in COUNTED.items():
        count = getattr(counts, key)
        yield code, count, f"{count:,} requests were {key.replace('_', ' ')}"


def _of_schedule(summary: ReplaySummary) -> Warnings:
    slipped, window = summary.late.slipped_ns, summary.window
    yield "slipped", slipped, f"late requests moved the schedule by {slipped / 1e6:,.1f} ms"
    cut = f"{window.idle_gaps_cut:,} gaps were cut by {window.idle_cut_ns / 1e9:,.3f} s"
    yield "idle_cut", window.idle_gaps_cut, cut
    stolen = summary.fidelity.steal_ratio
    yield "stolen", stolen > STOLEN_SHARE, f"{stolen:.1%} of the CPUs' time was stolen"


def _of_targets(summary: ReplaySummary) -> Warnings:
    engine = summary.engine
    if engine.used == "dax":
        is_volatile = not engine.features["map_sync"]
        yield "not_persistent", is_volatile, "the kernel granted no MAP_SYNC"
        return
    for target in summary.targets:
        note = target.direct_note
        yield "buffered", bool(note), f"target {target.label} is buffered: {note}"
    for target in summary.targets:
        merged = sum(kind["merged"] for kind in (target.counted or {}).values())
        # As queued, what is merged is for the target to say.
        is_odd = merged and summary.plan.level == "issued"
        message = f"the kernel merged {merged:,} requests of target {target.label}"
        yield "merged", is_odd, f"{message} into their neighbours"


def _of_plan(summary: ReplaySummary) -> Warnings:
    plan = summary.compiled
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in plan.skipped.items())
    skipped = f"requests of the trace that are not in the plan: {reasons}"
    yield "left_out", len(plan.skipped), skipped
    guessed = f"{plan.guessed_times:,} requests without queue event have a later time"
    yield "guessed_times", plan.guessed_times, guessed
    yield "rounded", plan.rounded, f"{plan.rounded:,} lengths were rounded up to sectors"
