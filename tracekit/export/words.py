"""What an export did, in lines for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracekit.printable import printable

CHANGES = {
    "guessed_times": "requests without a queue time, or behind a later one: of the event before",
    "joint_ends": "merged requests that completed in parts: they complete with their carrier",
    "no_completion": "requests that never complete: with a response time of 0",
    "plain_writes": "writes of zeroes, which blkparse calls writes",
    "rounded_lengths": "lengths that are no whole sectors: rounded up",
    "rounded_times": "times cut to the format's unit",
}


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines: what was written, what was left out or changed, what the format lacks."""
    yield f"{result['written']:,} of {result['requests']:,} requests written ({result['format']})"
    for why, count in result["left_out"].items():
        yield f"  {count:>12,} left out: {why.replace('_', ' ')}"
    for what, count in result["changed"].items():
        yield f"  {count:>12,} {CHANGES[what]}"
    for device, name in result.get("names", {}).items():
        if device != name:
            yield f"  device {printable(device)} is called {name}"
    for device, first in result.get("first_objects", {}).items():
        yield f"  objects of device {printable(device)} begin at {first:,}"
    if not result.get("has_wall_clock", True):
        yield "  the trace has no wall clock: its times begin with the year 2000"
    if result["unheld"]:
        told = ", ".join(f"{name} ({count:,})" for name, count in result["unheld"].items())
        yield f"  not in this format, by requests that have it: {told}"
    yield from result["files"]
