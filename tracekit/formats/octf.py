"""Traces of the Open CAS telemetry framework (OCTF): what they are called, hold and cannot hold.

A trace is a folder of files `octf.trace.CPU` of protobuf messages, each behind its length.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracekit.errors import InputError, TracekitError
from tracekit.formats.foreign import Columns, Units
from tracekit.native.octf import Device, OctfStats, Place, Problem
from tracekit.warnings import warning

NAME = "octf"
SUMMARY_NAME = "octf.summary"
UNITS = Units("ns", "sectors", "sectors", response="ns")
OPERATIONS = ("other", "read", "write", "discard", "flush")
"""By the number that the reader gives them."""
EIO = 5
FLAGS = ("is_preflush", "is_fua", "is_meta", "is_readahead")
LARGEST_SIZE_SECTORS = (1 << 63) - 1
TOLD = {
    Problem.LENGTH: "a message of {value:,} bytes cannot be: 1 to 65,536 can",
    Problem.MESSAGE: "these {value:,} bytes are no Event message",
    Problem.HEADER: "an Event message of {value:,} bytes without a header",
    Problem.TIME: "time {value} ns is beyond 63 bits",
    Problem.PLACE: "sector {value} is beyond 2^53",
    Problem.DEVICES: "more than 65,536 devices",
    Problem.READ: "reading failed with errno {value}",
    Problem.CUT: "the file ends {value:,} bytes into a message",
}


def refusal(name: str, place: Place) -> TracekitError:
    """Return the error for a place that cannot be read on, in the file of this name."""
    if place.kind == Problem.MEMORY:
        message = "the reader of OCTF traces has no memory"
        return TracekitError(message, hint="close other programs and try again")
    text = TOLD[place.kind].format(value=place.value)
    hint = "copy the file again: it is damaged, or no file of an OCTF trace"
    return InputError(f"{name}: byte {place.offset:,}: {text}", hint=hint)


def device_name(device: Device) -> str:
    """Return the name that the trace gives the device, or one of its number."""
    return device.name.strip() or f"device-{device.id}"


def columns_of(found: dict[str, Any], devices: Sequence[Device]) -> Columns:
    """Return a block of the reader for the assembler."""
    from tracekit.columns import text_column

    numbers = {name: found[name] for name in ("time", "offset", "length", "response", *FLAGS)}
    numbers["error"] = -EIO * found["error"]
    words = {
        "op": text_column(found["operation"], list(OPERATIONS)),
        "device": text_column(found["device"], [device_name(device) for device in devices]),
    }
    return Columns(numbers=numbers, words=words, rows=len(found["time"]))


def dropped_events(folder: Path) -> int:
    """Return how many events the tracer says it dropped, in its summary beside the files.

    0 where there is no such summary, or none that can be read.
    """
    try:
        summary = json.loads((folder / SUMMARY_NAME).read_bytes())
        return max(int(summary.get("droppedEvents", 0)), 0)
    except (OSError, ValueError, AttributeError, TypeError):
        return 0


def loss(stats: OctfStats, *, dropped: int) -> dict[str, Any]:
    """Return what the numbers of the events say is missing between the first and the last.

    Of the events that the tracer dropped, those are counted that the numbers do not show.
    """
    missing = max(stats.last_sid - stats.first_sid + 1 - stats.numbered, 0)
    has_numbers = 0 < stats.numbered == stats.messages
    lost = missing if has_numbers else 0
    unmatched = {"queue": stats.unmatched_requests, "complete": stats.unmatched_completions}
    return {
        "has_sequence_numbers": has_numbers,
        "sequence_gaps": int(lost > 0),
        "lost_records": lost,
        "dropped": max(dropped - lost, 0),
        "unmatched": unmatched,
    }


def inferences(stats: OctfStats, operations: dict[str, int]) -> list[dict[str, Any]]:
    """Return what was concluded or passed over, each with its evidence."""
    passed = f"{stats.passed:,} events of files, {stats.unknown:,} of an unknown kind"
    found = [
        ("format", NAME, "messages behind their lengths, each an Event with a header"),
        ("units", "ns and sectors of 512 bytes", f"format {NAME}"),
        ("passed over", passed, "they are no requests"),
    ]
    if operations.get("other"):
        text = f"{operations['other']:,} requests of no known operation"
        found.append(("operations", text, "traces of before March 2020 number them from 0"))
    return [{"what": what, "value": value, "evidence": why} for what, value, why in found]


def doubts(stats: OctfStats, *, responses: int, bad: int, dropped: int) -> list[dict[str, Any]]:
    """Return the warnings of trace.json."""
    told = loss(stats, dropped=dropped)
    missing = told["lost_records"] + told["dropped"]
    found = [
        ("lost_records", missing, f"{missing:,} events are missing"),
        ("no_sequence_numbers", not told["has_sequence_numbers"], "events without numbers"),
        ("no_completions", not responses, "no request completes in this trace"),
        (
            "unmatched_events",
            sum(told["unmatched"].values()),
            f"{stats.unmatched_requests:,} requests without a completion,"
            f" {stats.unmatched_completions:,} completions without a request",
        ),
        (
            "window_full",
            stats.evicted,
            f"{stats.evicted:,} requests were given up as never completing",
        ),
        ("unknown_actions", stats.unknown, f"{stats.unknown:,} events of an unknown kind"),
        ("bad_lines", bad, f"{bad:,} files end within a message, which was left out"),
    ]
    return [warning(code, message) for code, applies, message in found if applies]
