"""Which part of a trace is replayed, and how its times are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracekit.choices import LatePolicy, Pace, check_choice
from tracekit.errors import UsageError
from tracekit.replay.compiler import PlanReport
from tracekit.replay.summary import ABSENT, BudgetResult, ReplaySummary
from tracekit.units import format_duration, parse_duration


@dataclass(frozen=True)
class Schedule:
    """Pace, late policy and part of the trace; times are as people write them, such as 250us."""

    pace: str = "trace"
    late: str = "catch-up"
    late_limit: str | None = None
    max_idle: str | None = None
    start: str | None = None
    end: str | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the trace."""
        check_choice(self.pace, Pace, option="--pace")
        check_choice(self.late, LatePolicy, option="--late")
        if self.late != "catch-up" and self.pace != "trace":
            raise UsageError(f"--late {self.late} needs --pace trace: the others are never late")
        if self.end is not None and parse_duration(self.end, option="--end") <= self.start_ns:
            raise UsageError(
                f"--end {self.end}: not later than --start {self.start or 0}: nothing is between"
            )
        self.arguments(0)

    @property
    def is_timed(self) -> bool:
        """Whether each request has a time at which it is due."""
        return self.pace != "fast"

    @property
    def start_ns(self) -> int:
        """From which time of the trace on it is replayed."""
        return 0 if self.start is None else parse_duration(self.start, option="--start")

    def arguments(self, first: int) -> list[str]:
        """Return the options of the replay program; `first` requests of the plan are left out."""
        times = {
            "--late-limit-ns": ("--late-limit", self.late_limit),
            "--max-idle-ns": ("--max-idle", self.max_idle),
            "--from-ns": ("--start", self.start),
            "--until-ns": ("--end", self.end),
        }
        found = ["--pace", self.pace, "--late", self.late]
        for argument, (option, text) in times.items():
            if text is not None:
                found += [argument, str(parse_duration(text, option=option))]
        return [*found, *(["--first", str(first)] if first else [])]

    def check(self, compiled: PlanReport) -> None:
        """Raise UsageError for what the trace does not have.

        That is a part behind its end, or a closed loop when it does not say when requests ended.
        """
        if self.start_ns > compiled.duration_ns:
            raise UsageError(
                f"--start {self.start}: the last request is"
                f" {format_duration(compiled.duration_ns)} after the first"
            )
        if self.pace == "closed" and compiled.without_completion == compiled.requests:
            raise UsageError(
                "--pace closed: the trace has no completions, so nothing tells what a request"
                " waited for",
                hint="replay it with --pace trace, or with --pace fast and a --depth",
            )


def requests_handled(summary: ReplaySummary) -> int:
    """Return how many requests of the plan an earlier run left behind it, its own start included.

    In a closed loop requests go out in another order than the plan's: what stands behind the first
    one that is left is done again. Raises UsageError when it was not interrupted.
    """
    counts = summary.counts
    if summary.outcome != "interrupted" or not counts.not_reached:
        raise UsageError(
            f"--resume {summary.name}: that replay reached its end, nothing is left to do",
            hint="replay again without --resume",
        )
    window = summary.window
    # Summaries before the look-ahead of closed loops have no "next".
    if window.next is ABSENT:
        return window.first + counts.planned - counts.not_reached
    return window.next


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
    return [
        BudgetResult(measure=name, limit_ns=limit, found_ns=found, is_kept=found <= limit)
        for name, limit in budget.items()
        for found in [_measure(summary, name)]
    ]


def missed(results: Sequence[Mapping[str, Any]]) -> str:
    """Return which limits were not kept; empty when all were."""
    return ", ".join(
        f"{one['measure']} {format_duration(one['found_ns'])},"
        f" over {format_duration(one['limit_ns'])}"
        for one in results
        if not one["is_kept"]
    )


def _measure(summary: ReplaySummary, name: str) -> float:
    if name in STEPS:
        return float(getattr(summary.issue_error, f"{name.replace('.', '_')}_ns"))
    key = {"duration": "duration_error_ns", "drift": "drift_ns"}[name]
    return abs(float(getattr(summary.timing, key)))
