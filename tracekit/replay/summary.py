"""`replays/<name>/summary.json`: what the program reports of a run, and the options it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from tracekit.errors import UsageError
from tracekit.metadata import Record, TraceWarning, read_object, validate
from tracekit.replay.compiler import PlanReport
from tracekit.units import format_duration, parse_duration

ABSENT: Any = UNSET
"""Not in the file: a dry run, a run without times and an older program have no such key."""
Number = int | float
Counts = dict[str, int]


class Plan(Record):
    """The plan that the program read."""

    requests: int
    duration_ns: int = ABSENT
    level: str = ABSENT
    trace_sha256: str = ABSENT
    max_transfer_bytes: int = ABSENT


class Window(Record, kw_only=True):
    """The part of the plan that ran; all records before `next` were handled."""

    first: int
    end: int
    next: int = ABSENT
    from_ns: int
    idle_gaps_cut: int
    idle_cut_ns: int


class Speed(Record):
    """By what the times of the plan were divided."""

    numerator: int
    denominator: int


class Engine(Record):
    """How requests were submitted; `fallback` is why `used` is another engine than `asked`."""

    asked: str
    used: str | None
    fallback: str | None = None
    features: dict[str, bool] = msgspec.field(default_factory=dict)
    resubmitted: int = ABSENT
    unpolled: int = ABSENT
    sqpoll_wakes: int = ABSENT
    backing: str | None = ABSENT
    overruns: int = 0


class Clock(Record):
    """Costs and errors of the clock, measured before the run."""

    name: str
    source: str | None
    read_ns: int
    wake_p50_ns: int
    wake_p99_ns: int
    wake_max_ns: int
    spin_lead_ns: int
    wake_up_ns: int = ABSENT


class RequestCounts(Record, kw_only=True):
    """Requests by what became of them; `moved` and the rest are of all that were submitted."""

    planned: int = 0
    submitted: int = 0
    done: int
    failed: int = 0
    skipped_read_only: int = 0
    skipped_out_of_range: int = 0
    skipped_unsupported: int = 0
    skipped_late: int = 0
    skipped_overlap: int = 0
    not_reached: int = 0
    moved: int = 0
    clipped: int = 0
    expanded: int = 0
    overlaps: int = 0


class Timing(Record, kw_only=True):
    """How long the run took; the keys of errors are absent in a run as fast as possible."""

    intended_duration_ns: int = ABSENT
    actual_duration_ns: int = ABSENT
    duration_error_ns: int = ABSENT
    drift_ns: Number = ABSENT
    elapsed_ns: int
    requests_per_second: Number = ABSENT
    bytes_per_second: Number = ABSENT


class Distribution(Record):
    """Times of requests."""

    count: int = ABSENT
    min_ns: int = ABSENT
    p50_ns: int = ABSENT
    p90_ns: int = ABSENT
    p99_ns: int = ABSENT
    p99_9_ns: int = ABSENT
    max_ns: int = ABSENT
    mean_ns: Number = ABSENT


class Late(Record):
    """Requests that were issued over `threshold_ns` late, by the reason."""

    policy: str
    limit_ns: int
    slipped_ns: int
    threshold_ns: int
    count: int
    in_flight_full: int
    plan_underrun: int
    other: int


class Fidelity(Record, kw_only=True):
    """Distances between intended and actual gaps, and what disturbed the run."""

    duration_ratio: Number = ABSENT
    gap_ks_ratio: Number = ABSENT
    gap_wasserstein_ns: Number = ABSENT
    machine_issue_error: Distribution | None = ABSENT
    steal_ratio: Number
    cpu_user_ns: int
    cpu_system_ns: int
    preemptions: int
    punt_workers: int


class OperationTimes(Record):
    """One operation on one target; histograms have `up_to_ns` and `count`."""

    target: str
    operation: str
    done: int
    failed: int
    skipped_read_only: int
    skipped_out_of_range: int
    skipped_unsupported: int
    skipped_late: int
    skipped_overlap: int
    bytes: int
    service: Distribution | None
    response: Distribution | None
    service_histogram: list[Counts] = ABSENT
    response_histogram: list[Counts] = ABSENT


class ErrorCount(Record):
    """Requests that failed with one error."""

    errno: int
    name: str | None
    meaning: str | None
    count: int


class TargetReport(Record, kw_only=True):
    """A target: what it is, and what the run would do or did to it."""

    label: str
    path: str | None
    kind: str
    is_kept: bool = ABSENT
    confirm_with: str | None = ABSENT
    may_write: bool = ABSENT
    priority: str = ABSENT
    is_direct: bool
    expands: bool = ABSENT
    direct_note: str | None = ABSENT
    align_bytes: int = ABSENT
    needed_bytes: int = ABSENT
    size_bytes: int = ABSENT
    can_discard: bool = ABSENT
    can_zero: bool = ABSENT
    out_of_range: int = ABSENT
    device: Counts = ABSENT
    """The device that was emulated."""
    counted: dict[str, Counts] = ABSENT
    """What the kernel counted: `done`, `merged` and `bytes` by kind."""
    planned: Counts = ABSENT


class BudgetResult(Record):
    """A measure with its limit, what it was, and whether that is within it."""

    measure: str
    limit_ns: int
    found_ns: Number
    is_kept: bool


class ReplaySummary(Record):
    """The content of summary.json; the keys from `compiled` are added by tracekit."""

    name: str = ABSENT
    summary_version: int = ABSENT
    outcome: str = ABSENT
    error: str | None = ABSENT
    plan: Plan = ABSENT
    window: Window = ABSENT
    pace: str = ABSENT
    speed: Speed = ABSENT
    out_of_range: str = ABSENT
    overlaps: str = ABSENT
    depth: int = ABSENT
    threads: int = ABSENT
    engine: Engine = ABSENT
    clock: Clock = ABSENT
    counts: RequestCounts = ABSENT
    timing: Timing = ABSENT
    issue_error: Distribution | None = ABSENT
    late: Late = ABSENT
    fidelity: Fidelity = ABSENT
    in_flight_max: int = ABSENT
    plan_underruns: int = ABSENT
    log_stalls: int = ABSENT
    peak_memory_bytes: int = ABSENT
    operations: list[OperationTimes] = ABSENT
    errors: list[ErrorCount] = ABSENT
    targets: list[TargetReport] = ABSENT
    compiled: PlanReport = ABSENT
    devices: list[str] = msgspec.field(default_factory=list)
    asked: list[str] | None = ABSENT
    """The command line."""
    resumed: str | None = ABSENT
    placement: str | None = ABSENT
    budget: list[BudgetResult] = ABSENT
    messages: list[str] = ABSENT
    warnings: list[TraceWarning] = msgspec.field(default_factory=list)


class FileOperationTimes(Record):
    """One operation or step of a file plan; `done` ended as the plan expects."""

    name: str
    done: int
    failed: int = ABSENT
    expected_errors: int = ABSENT
    bytes: int = ABSENT
    short: int = ABSENT
    latency: Distribution | None = None
    histogram: list[Counts] = ABSENT


class FileTiming(Record):
    """How long the measured time was."""

    elapsed_ns: int
    operations_per_second: Number = ABSENT
    steps_per_second: Number = ABSENT
    bytes_per_second: Number = ABSENT
    cpu_user_ns: int = ABSENT
    cpu_system_ns: int = ABSENT


class FileReplaySummary(Record):
    """The content of file_summary.json; the keys from `compiled` are added by tracekit."""

    name: str = ABSENT
    summary_version: int = ABSENT
    outcome: str = ABSENT
    ended_by: str = ABSENT
    error: str | None = ABSENT
    plan: dict[str, int | bool] = ABSENT
    directory: dict[str, Any] = ABSENT
    preparation: dict[str, Any] = ABSENT
    pace: str = ABSENT
    speed: Speed = ABSENT
    repeats: int = ABSENT
    duration_limit_ns: int = ABSENT
    warm_up_ns: int = ABSENT
    counts: Counts = ABSENT
    timing: FileTiming = ABSENT
    issue_error: Distribution | None = ABSENT
    operations: list[FileOperationTimes] = ABSENT
    steps: list[FileOperationTimes] = ABSENT
    errors: list[dict[str, Any]] = ABSENT
    timeline: list[Counts] = ABSENT
    peak_memory_bytes: int = ABSENT
    compiled: dict[str, Any] = ABSENT
    asked: list[str] | None = ABSENT
    """The command line."""
    messages: list[str] = ABSENT
    warnings: list[TraceWarning] = msgspec.field(default_factory=list)


def summary_of(content: dict[str, Any], file: Path) -> ReplaySummary:
    """Return the content of a file as a summary; raise InputError for a value of another type."""
    return validate(content, ReplaySummary, file=file, hint="replay again")


def read_summary(file: Path) -> ReplaySummary:
    """Return a replay's summary; raise InputError for one that is damaged."""
    return summary_of(read_object(file, hint="replay again"), file)


def content_of(record: Record) -> dict[str, Any]:
    """Return a record as it is written: keys that are not set are absent."""
    found: dict[str, Any] = msgspec.to_builtins(record)
    return found


STEPS = ("p50", "p90", "p99", "p99.9", "max", "mean")
MEASURES = (*STEPS, "duration", "drift")


def parse_budget(entries: Sequence[str]) -> dict[str, int]:
    """Return the limits in ns by measure, from entries such as p99=50us and duration=1ms.

    A step is of the issue error; `duration` and `drift` are of the whole run, to either side.
    """
    found: dict[str, int] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        if not equals or name not in MEASURES:
            raise UsageError(
                f"--budget {entry}: not MEASURE=TIME",
                hint=f"a measure is one of {', '.join(MEASURES)}; for example p99=50us",
            )
        found[name] = parse_duration(text, option=f"--budget {name}")
    return found


def check_budget(summary: ReplaySummary, budget: Mapping[str, int]) -> list[BudgetResult]:
    """Return each measure with its limit, what it was, and whether that is within it."""
    if budget and summary.issue_error is None:
        raise UsageError("--budget: there are no times to keep with --pace fast")
    timing, results = summary.timing, []
    for name, limit in budget.items():
        if name in STEPS:
            found = float(getattr(summary.issue_error, f"{name.replace('.', '_')}_ns"))
        else:
            found = abs(float(timing.drift_ns if name == "drift" else timing.duration_error_ns))
        results.append(
            BudgetResult(measure=name, limit_ns=limit, found_ns=found, is_kept=found <= limit)
        )
    return results


def missed(results: Sequence[Mapping[str, Any]]) -> str:
    """Return which limits were not kept; empty when all were."""
    return ", ".join(
        f"{one['measure']} {format_duration(one['found_ns'])},"
        f" over {format_duration(one['limit_ns'])}"
        for one in results
        if not one["is_kept"]
    )
