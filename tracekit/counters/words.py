"""What was counted, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracekit.counters.events import TITLES
from tracekit.counters.statistics import LEAST_INTERVAL, Statistics

MOST_TELLING = 5


def headline(told: Mapping[str, Any], found: Mapping[str, Sequence[Statistics]]) -> list[str]:
    """Return the lines about the workload that was counted, then those about all of them."""
    mine = [one for one in told["workloads"] if one["workload"] == told["workload"]]
    lines = [line for one in mine for line in _workload(one, found[one["workload"]])]
    if len(told["workloads"]) > 1:
        lines.append("in this folder: " + ", ".join(
            f"{one['workload']} ({_many(one['runs'], 'run')})" for one in told["workloads"]
        ))  # fmt: skip
    others = {name: _sure(more) for name, more in found.items() if name != told["workload"]}
    return lines + [
        f"most telling of {name}: {_shown(sure)}" for name, sure in others.items() if sure
    ]


def _workload(told: Mapping[str, Any], found: Sequence[Statistics]) -> Iterator[str]:
    counted = [one for one in found if one.mean > 0]
    yield (
        f"{told['workload']}: {_many(told['runs'], 'run')}, {_many(len(found), 'event')}"
        f" counted, {len(told['not_counted'])} not; throughput: {told['unit']}"
    )
    basics = [one for one in counted if one.event in BASICS]
    if basics:
        yield "a run has on average " + ", ".join(
            f"{one.mean:,.0f} {title(one.event)}" for one in basics
        )
    yield from _telling(told, found)
    if told["took_turns"]:
        least = min(one.least_running_ratio or 1.0 for one in found)
        turns = _many(len(told["took_turns"]), "event")
        yield (
            f"{turns} took turns, the least counted {least:.0%} of the time:"
            " their counts are extrapolated; fewer --events at a time are exact"
        )
    if told["means"]:
        yield (
            f"{told['means']} of the runs are means of several (perf stat -r): their spread is less"
            " than that of runs, and correlations are of means"
        )
    if told["user_only"]:
        yield f"without the kernel's part, for lack of permission: {', '.join(told['user_only'])}"
    for reason, events in _by_reason(told["not_counted"]).items():
        yield f"not counted ({reason}): {', '.join(events)}"


BASICS = ("page-faults", "context-switches", "raw_syscalls:sys_enter")


def _telling(told: Mapping[str, Any], found: Sequence[Statistics]) -> Iterator[str]:
    if told["without_throughput"]:
        yield (
            f"{told['without_throughput']} runs do not tell their throughput and are in no"
            " correlation: --from FILE=THROUGHPUT"
        )
    if told["runs"] - told["without_throughput"] < LEAST_INTERVAL:
        yield f"too few runs for a confidence interval: it needs {LEAST_INTERVAL}, more tell more"
        return
    tried = [one for one in found if one.rank is not None]
    sure = _sure(found)
    if not sure:
        yield (
            f"no correlation with the throughput is told from none with {told['runs']} runs"
            f" ({len(tried)} events tried)"
        )
        return
    yield (
        f"most telling of the throughput: {_shown(sure)}; of {len(tried)} events tried, about"
        f" {len(tried) * 0.05:.1g} would seem so by chance"
    )


def _sure(found: Sequence[Statistics]) -> list[Statistics]:
    return sorted((one for one in found if one.surely), key=lambda one: one.rank or 0)


def _shown(sure: Sequence[Statistics]) -> str:
    return ", ".join(
        f"{title(one.event)} {one.correlation:+.2f}"
        f" ({one.correlation_low:+.2f} to {one.correlation_high:+.2f})"
        for one in sure[:MOST_TELLING]
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def title(event: str) -> str:
    """Return how an event is called in a sentence."""
    return TITLES.get(event, event.replace("-", " ") if event in BASICS else event)


def _by_reason(missing: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event, reason in missing.items():
        found.setdefault(reason, []).append(event)
    return found
