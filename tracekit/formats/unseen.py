"""Completions that the kernel counted and a capture lacks: its counters beside the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.native.decode import COUNTED, Completed, DecodeStats
from tracekit.printable import span

LAG_NS = 1_000_000
"""The kernel counts a request a moment after its completion is recorded. One that was recorded so
shortly before a reading may be in it or not."""
WHY_CLOCK = "the times of the records are not those of the capture's clock"
WHY_MORE = "the record has {recorded:,} and the kernel counted {counted:,}: it does not count all"

Counters = Mapping[str, Any]


def readings_ns(counters: list[dict[str, Any]]) -> tuple[int, int, int, int] | None:
    """Return first and last possible time of both readings, of all disks together.

    None when no disk was read twice.
    """
    read = [entry for entry in counters if "why_not" not in entry]
    if not read:
        return None
    first, last = ([entry[end] for entry in read] for end in ("begin", "end"))
    return (
        max(0, min(one["before_ns"] for one in first) - LAG_NS),
        max(one["after_ns"] for one in first),
        max(0, min(one["before_ns"] for one in last) - LAG_NS),
        max(one["after_ns"] for one in last),
    )


def unseen(
    counters: list[dict[str, Any]], stats: DecodeStats, *, completed: Mapping[str, Completed]
) -> dict[str, Any] | None:
    """Return `loss.unseen` of trace.json; None when the capture read no counters.

    `completed` is by the name that the device has in the layout.
    """
    if not counters:
        return None
    window = readings_ns(counters)
    has_clock = window is not None and _has_clock(window, stats)
    disks: list[dict[str, Any]] = []
    not_measured = []
    for entry in counters:
        device = entry["device"]
        if "why_not" in entry or not has_clock:
            not_measured.append({"device": device, "why": entry.get("why_not", WHY_CLOCK)})
            continue
        for row in _rows(entry, completed.get(device, Completed())):
            if row["recorded"] > row["counted"]:
                why = f"{row['kind']}: {WHY_MORE.format(**row)}"
                not_measured.append({"device": device, "why": why})
            else:
                disks.append(row)
    return {
        "at_least": sum(row["at_least"] for row in disks),
        "at_most": sum(row["at_most"] for row in disks),
        "disks": disks,
        "not_measured": not_measured,
    }


def _has_clock(window: tuple[int, int, int, int], stats: DecodeStats) -> bool:
    """Say whether the records are of the time between the readings, as far as they have any."""
    return bool(stats.base_ns <= window[3] and stats.last_ns >= window[0])


def _rows(entry: Counters, completed: Completed) -> list[dict[str, Any]]:
    """Return what is known of each kind that occurs; `recorded` is at least so many."""
    begin, end = (entry[name]["completed"] for name in ("begin", "end"))
    rows = []
    for kind in COUNTED:
        if kind not in begin:
            continue
        counted = end[kind] - begin[kind]
        certain, perhaps = completed.certain[kind], completed.perhaps[kind]
        if counted or certain or perhaps:
            least, most = max(0, counted - certain - perhaps), max(0, counted - certain)
            row = {"device": entry["device"], "kind": kind, "counted": counted}
            rows.append(row | {"recorded": certain, "at_least": least, "at_most": most})
    return rows


def doubts(found: Mapping[str, Any] | None) -> list[tuple[str, Any, str]]:
    """Return code, whether it applies, and message of the warnings of trace.json."""
    if found is None:
        return []
    lacking = [row for row in found["disks"] if row["at_least"]]
    parts = [
        f"{row['device']} {row['kind']} {lacks} of {row['counted']:,}"
        for row in lacking
        for lacks in [span(row["at_least"], row["at_most"])]
    ]
    reasons = [f"{one['device']}: {one['why']}" for one in found["not_measured"]]
    return [
        (
            "unseen_completions",
            lacking,
            f"the kernel completed requests whose completion the record lacks: {', '.join(parts)}",
        ),
        (
            "unseen_not_measured",
            reasons,
            f"whether completions are lacking is not known of {'; '.join(reasons)}",
        ),
    ]
