"""`replays/<name>/summary.json`: what the program reports of a run, its options, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from tracekit.errors import UsageError
from tracekit.machine_state import MachineState, doubts
from tracekit.metadata import Record, TraceWarning, read_object, validate
from tracekit.repeats import Turn
from tracekit.replay.compiler import PlanReport
from tracekit.replay.limits import BUDGET, STEPS, Number, parse_limits
from tracekit.units import format_duration

ABSENT: Any = UNSET
"""Not in the file: a dry run, a run without times and an older program have no such key."""
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
    retried: int = 0
    unpolled: int = ABSENT
    sqpoll_wakes: int = ABSENT
    backing: str | None = ABSENT
    overruns: int = 0


class LeadFollowed(Record):
    """Leads by what the kernel took for the last requests, of so many that were seen."""

    requests: int
    least_ns: int
    most_ns: int


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
    start_ns: int = ABSENT
    """Value of the clock at the run's time 0."""
    lead_ns: int = 0
    """How long before their times requests were handed over, at first if that was followed."""
    lead_followed: LeadFollowed | None = None


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
    unknown: int = 0
    """In flight when the end was forced: they may have happened or not."""
    done_before: int = 0
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
    unknown: int = 0


class ErrorCount(Record):
    """Requests that failed with one error."""

    errno: int
    name: str | None
    meaning: str | None
    count: int


class FitNote(Record):
    """What does not fit, known before the first request; numbers that do not count are 0."""

    code: str
    needed: int
    available: int
    requests: int
    message: str
    advice: str


class TargetReport(Record, kw_only=True):
    """A target: what it is, and what the run would do or did to it."""

    label: str
    path: str | None
    kind: str
    is_kept: bool = ABSENT
    confirm_with: str | None = ABSENT
    may_write: bool = ABSENT
    is_probed: bool = ABSENT
    """Whether libblkid was asked what it holds."""
    unseen_processes: int = ABSENT
    """Of other users, which may have it open as well."""
    priority: str = ABSENT
    is_direct: bool
    expands: bool = ABSENT
    direct_note: str | None = ABSENT
    align_bytes: int = ABSENT
    needed_bytes: int = ABSENT
    size_bytes: int = ABSENT
    can_discard: bool = ABSENT
    can_zero: bool = ABSENT
    zones: Counts = ABSENT
    """Of a zoned device."""
    out_of_range: int = ABSENT
    fit: list[FitNote] = msgspec.field(default_factory=list)
    device: Counts = ABSENT
    """The device that was emulated."""
    counted: dict[str, Counts] = ABSENT
    """What the kernel counted: `done`, `merged` and `bytes` by kind."""
    planned: Counts = ABSENT


class EmulatedDevice(Record):
    """How late the completions of a device were seen, after the device was done.

    `modelled` is from submission until the device was done, `released` until that was seen;
    `lateness_ratio` is the sum of the latenesses by that of the modelled times.
    """

    target: str
    requests: int
    released: Distribution | None
    modelled: Distribution | None
    lateness: Distribution | None
    modelled_sum_ns: int
    lateness_sum_ns: int
    lateness_ratio: Number
    is_within_budget: bool


class Emulation(Record):
    """How late completions were on all emulated devices, and what is allowed.

    `budget` is how late they may be on average and at p99, as ratios of the modelled times, or in
    ns where that is more.
    """

    is_within_budget: bool
    lateness_ratio: Number
    budget: dict[str, Number]
    devices: list[EmulatedDevice]

    @property
    def late_share(self) -> float:
        """The share of the measured times that the devices did not take."""
        return self.lateness_ratio / (1 + self.lateness_ratio)

    @property
    def beyond(self) -> list[EmulatedDevice]:
        """The devices that were later than the budget allows."""
        return [one for one in self.devices if not one.is_within_budget]


class BudgetResult(Record):
    """A measure with its limit, what it was, and whether that is within it."""

    measure: str
    limit_ns: int
    found_ns: Number
    is_kept: bool


class Percentiles(Record):
    """Times of requests in ns, by nearest rank; of errors the least is below 0."""

    count: int
    min: int
    p50: int
    p90: int
    p99: int
    p999: int
    max: int


class OrderChanges(Record):
    """Positions that have another request than in the order of the plan."""

    queue: int
    issue: int


class Observed(Record, kw_only=True):
    """What the kernel's block tracer saw of the run: `observed.parquet`, summed up.

    Counts are requests, but for events in `lost_events` and queued I/Os in `foreign` (of other
    processes) and `unexplained` (of the program, for no request). Errors are the kernel's time
    minus the intended one, `queue_lag_ns` is minus that of the submission; None: nothing joined.
    """

    source: str
    devices: list[str]
    lost_events: int
    lead_ns: int
    boot_id: str
    """Of the kernel: while it is the same, other replays can take their lead from this one."""
    joined: int
    unmatched: int
    uncached: int
    """Flushes of a device without a volatile cache, which the kernel ends before its queue."""
    ambiguous: int
    """Joined by the order alone: others in flight had the same place, length and operation."""
    foreign: int
    foreign_processes: Counts
    unexplained: int
    refused: int
    """Times that the device's queue was full, and a thread of the kernel queued it later."""
    queue_error_ns: Percentiles | None
    issue_error_ns: Percentiles | None
    queue_lag_ns: Percentiles | None
    order_changes: OrderChanges
    merged: int
    split: int
    misplaced: int
    """Joined with times outside of the program's own: 0 unless the clocks differ."""
    notes: list[str] = msgspec.field(default_factory=list)


PROGRAM, KERNEL = "program", "kernel"
"""Whose clock readings a certificate rests on."""


class Measured(Record, kw_only=True):
    """A measure with its limit, what it was, and the bounds of a percentile at 95 %."""

    measure: str
    unit: str
    limit: Number
    observed: Number | None = None
    low: Number | None = None
    high: Number | None = None
    verdict: str
    why: str | None = None


class KindCount(Record, kw_only=True):
    """Requests of a kind: in the trace (None: only a part was replayed), planned and done."""

    kind: str
    traced: int | None = None
    planned: int
    planned_bytes: int
    done: int


class Verdict(Record):
    """What a certificate says; `doubts` are why it cannot tell."""

    verdict: str
    level: str
    measured_at: str
    """Whose clock readings the times are: the program's, or the kernel's."""
    doubts: list[str]
    measures: list[Measured]
    requests: dict[str, int]
    kinds: list[KindCount]


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
    submitters: int = ABSENT
    engine: Engine = ABSENT
    emulation: Emulation = ABSENT
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
    fit: list[FitNote] = msgspec.field(default_factory=list)
    """Of the run as a whole: its results, and the limits of the process."""
    targets: list[TargetReport] = ABSENT
    compiled: PlanReport = ABSENT
    devices: list[str] = msgspec.field(default_factory=list)
    asked: list[str] | None = ABSENT
    """The command line."""
    machine: MachineState = ABSENT
    turn: Turn = ABSENT
    """Of a replay that took turns with others."""
    resumed: str | None = ABSENT
    placement: str | None = ABSENT
    lead_from: str = "none"
    """Where `clock.lead_ns` is from: given, measured (right before the run), a replay, or none."""
    observed: Observed = ABSENT
    budget: list[BudgetResult] = ABSENT
    certificate: Verdict = ABSENT
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
    fit: list[FitNote] = msgspec.field(default_factory=list)
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
    machine: MachineState = ABSENT
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


def parse_budget(entries: Sequence[str]) -> dict[str, int]:
    """Return the limits in ns by measure, from entries such as p99=50us and duration=1ms.

    A step is of the issue error; `duration` and `drift` are of the whole run, to either side.
    """
    limits = parse_limits(entries, BUDGET, option="--budget")
    return {name: int(limit.value) for name, limit in limits.items()}


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


LATE_SHARE = 0.001
STOLEN_SHARE = 0.01

ADVICE = {
    "interrupted": "run it again to the end",
    "unknown": "go on with --resume, which does them again; what they write is the same",
    "rescued": "go on behind it with --resume and its name if it was of requests, or remove it",
    "failed": "look at the errors: their latencies are not counted",
    "fallback": "allow io_uring (sysctl kernel.io_uring_disabled=0) or ask for --engine threads",
    "late": "use fewer busy processes, a higher --depth or a faster target",
    "in_flight_full": "raise --depth, or take it as the answer: the target cannot keep up",
    "plan_underrun": "keep the trace folder on another disk than the target",
    "log_stalls": "keep the trace folder on another disk than the target",
    "overrun": "use a faster target: tmpfs, or none",
    "emulation_late": "take no times from this run: close what else runs, run it by `chrt -f 10`,"
    " or replay fewer requests a second (--speed) or on a slower device",
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
    "unobserved": "replay again; what the program measured itself is whole",
    "lost_events": "use fewer busy processes, or a lower --speed: the tracer could not keep up",
    "unmatched": "take their kernel times as unknown; events that were lost are one reason",
    "foreign": "stop what uses the device: its I/O is among that of the replay",
    "refused": "use a --depth of at most queue/nr_requests of the device",
    "misplaced": "do not trust the kernel's times: the clocks of tracer and program differ",
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
SEEN_IN_RUN = ("too_small", "unaligned", "no_discard", "no_map_sync", "read_only")
"""What of the notes about the fit has a warning of the run, with what came of it."""
Warnings = Iterator[tuple[str, float, str]]
"""Code, how much there was (0: no warning), and the message."""


def find_warnings(summary: ReplaySummary) -> list[TraceWarning]:
    """Return the warnings for a finished run."""
    found = (*_of_run(summary), *_of_schedule(summary), *_of_targets(summary), *_of_plan(summary))
    return [
        *(_warning(code, message) for code, amount, message in found if amount),
        *(note for note in fit_warnings(summary) if note.code not in SEEN_IN_RUN),
        *(doubts(summary.machine) if summary.machine else ()),
    ]


def fit_warnings(summary: ReplaySummary) -> list[TraceWarning]:
    """Return what does not fit, of the run and then of each target."""
    named = [("", note) for note in summary.fit]
    named += [
        (f"target {target.label}: ", note) for target in summary.targets for note in target.fit
    ]
    return [
        TraceWarning(code=note.code, message=prefix + note.message, advice=note.advice)
        for prefix, note in named
    ]


def file_fit_warnings(summary: FileReplaySummary) -> list[TraceWarning]:
    """Return what of a replay of file operations does not fit."""
    return [TraceWarning(code=n.code, message=n.message, advice=n.advice) for n in summary.fit]


def _warning(code: str, message: str) -> TraceWarning:
    return TraceWarning(code=code, message=message, advice=ADVICE[code])


def lateness_of(device: EmulatedDevice) -> str:
    """Return how late the completions of an emulated device were."""
    late, modelled = device.lateness, device.modelled
    if late is None or modelled is None:
        return f"{device.target}: no request was done"
    took = format_duration(modelled.mean_ns)
    return (
        f"{device.target}: completions were seen {format_duration(late.mean_ns)} after the device"
        f" was done on average ({device.lateness_ratio:.1%} of its {took}),"
        f" p99 {format_duration(late.p99_ns)}, at most {format_duration(late.max_ns)}"
    )


def find_rescued(places: Sequence[Path]) -> list[TraceWarning]:
    """Return a warning for each folder of completions that a killed replay had left."""
    return [
        _warning("rescued", f"an earlier replay was killed; what it completed is in {place}")
        for place in places
    ]


def find_gaps(seen: Observed) -> list[TraceWarning]:
    """Return the warnings for what the kernel's tracer saw and did not see of a run."""
    names = ", ".join(f"{name} {count:,}" for name, count in seen.foreign_processes.items())
    found = {
        "lost_events": f"the tracer lost {seen.lost_events:,} events",
        "unmatched": f"{seen.unmatched:,} requests were not found among what the kernel queued",
        "refused": f"the device's queue was full {seen.refused:,} times, and threads of the kernel"
        " queued these requests later and in another order",
        "misplaced": f"the kernel ended {seen.misplaced:,} requests later than the program saw it",
        "foreign": f"others queued {seen.foreign:,} I/Os on the devices of the targets: {names}",
    }
    return [_warning(code, text) for code, text in found.items() if getattr(seen, code)]


def unobserved(reason: str) -> TraceWarning:
    """Return the warning for a run whose events could not be read."""
    return _warning("unobserved", f"what the kernel did is not known: {reason}")


def _of_run(summary: ReplaySummary) -> Warnings:
    counts, late, engine = summary.counts, summary.late, summary.engine
    is_interrupted = summary.outcome == "interrupted"
    yield "interrupted", is_interrupted, f"{counts.not_reached:,} requests were not reached"
    lost = f"{counts.unknown:,} requests were in flight at the forced end, and may have happened"
    yield "unknown", counts.unknown, lost
    yield "failed", counts.failed, f"{counts.failed:,} requests failed"
    yield "fallback", bool(engine.fallback), f"io_uring is not available: {engine.fallback}"
    is_late = late.count > LATE_SHARE * max(counts.submitted, 1)
    limit_us = late.threshold_ns / 1e3
    yield "late", is_late, f"{late.count:,} requests were issued over {limit_us:.0f} us late"
    for code in ("in_flight_full", "plan_underrun"):
        count = getattr(late, code)
        yield code, count, f"{count:,} requests were late because of it"
    slow = f"the data of {engine.overruns:,} requests were there later than the device was done"
    yield "overrun", engine.overruns, slow
    for device in summary.emulation.beyond if summary.emulation else ():
        yield (
            "emulation_late",
            device.requests,
            f"the emulation was too late: {lateness_of(device)}",
        )
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
