"""A timing budget: what a replay promised about its own punctuality, and whether it kept it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.errors import UsageError
from tracekit.sizes import format_duration, parse_duration

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


def check_budget(summary: Mapping[str, Any], budget: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return each measure with its limit, what it was, and whether that is within it."""
    if budget and summary["issue_error"] is None:
        raise UsageError("--budget: there are no times to keep with --pace fast")
    return [
        {"measure": name, "limit_ns": limit, "found_ns": found, "is_kept": found <= limit}
        for name, limit in budget.items()
        for found in [_measure(summary, name)]
    ]


def missed(kept: Sequence[Mapping[str, Any]]) -> str:
    """Say which limits were not kept; empty when all were."""
    return ", ".join(
        f"{entry['measure']} {format_duration(entry['found_ns'])}, over"
        f" {format_duration(entry['limit_ns'])}"
        for entry in kept
        if not entry["is_kept"]
    )


def _measure(summary: Mapping[str, Any], name: str) -> float:
    if name in STEPS:
        return float(summary["issue_error"][f"{name.replace('.', '_')}_ns"])
    key = {"duration": "duration_error_ns", "drift": "drift_ns"}[name]
    return abs(float(summary["timing"][key]))
