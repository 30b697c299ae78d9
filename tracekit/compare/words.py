"""What a comparison found, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.sizes import format_duration

MANY_TIMES = 2.0
SAME_WORK = 0.01
"""Share of the requests by which runs may differ, such as by some that failed."""


def is_same_work(counts: Sequence[int]) -> bool:
    """Say whether runs of so many requests did the same, so that their lengths can be compared."""
    return not counts or max(counts) - min(counts) <= SAME_WORK * max(counts)


def says(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Return a sentence on the elapsed time of each name, and one on its service times."""
    found = [sentence for name in names[1:] for sentence in _of(rows, name, names[0])]
    has_bands = any(row["ratio_low"] is not None and row["name"] != names[0] for row in rows)
    return [*found, "In brackets: 95 % confidence, over the repeats."] if has_bands else found


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a table for the terminal: mean service times, then elapsed times."""
    lines = [f"{'':<30}{'requests':>12}{'time':>14}{'95 %':>26}{'ratio':>9}"]
    for row in rows:
        if row["measure"] not in ("elapsed", "service_avg"):
            continue
        what = "elapsed" if row["measure"] == "elapsed" else f"{row['role']} {row['operation']}"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        lines.append(
            f"{row['name'] + ' ' + what:<30}{row['request_count']:>12,}"
            f"{format_duration(row['time_ns']):>14}{_band(row):>26}{ratio:>9}"
        )
    return lines


def _band(row: Mapping[str, Any]) -> str:
    if row["time_low_ns"] is None:
        return ""
    return f"{format_duration(row['time_low_ns'])} to {format_duration(row['time_high_ns'])}"


def _of(rows: Sequence[Mapping[str, Any]], name: str, first: str) -> list[str]:
    mine = [row for row in rows if row["name"] == name and row["ratio"] is not None]
    found = _of_lengths(rows, name, first)
    changed = [row for row in mine if row["measure"] == "service_avg" and _is_sure(row)]
    parts = [f"{row['role']} {row['operation']} {_change(row)}" for row in changed]
    if parts:
        found.append(f"Mean service time of {name} against {first}: {', '.join(parts)}.")
    unsure = [row for row in mine if row["measure"] == "service_avg" and not _is_sure(row)]
    if unsure:
        which = ", ".join(f"{row['role']} {row['operation']}" for row in unsure)
        found.append(f"No difference beyond the spread of the repeats: {which}.")
    return found


def _of_lengths(rows: Sequence[Mapping[str, Any]], name: str, first: str) -> list[str]:
    of = {row["name"]: row for row in rows if row["measure"] == "elapsed"}
    if name not in of or first not in of:
        return []
    mine, other = of[name], of[first]
    took = f"{name} took {format_duration(mine['time_ns'])}"
    if mine["ratio"] is not None:
        return [f"{took}: against {first} {_change(mine)}."]
    if is_same_work([mine["request_count"], other["request_count"]]):
        return []
    return [
        f"{took} for {mine['request_count']:,} requests, {first}"
        f" {format_duration(other['time_ns'])} for {other['request_count']:,}: not the same work,"
        " so neither these times nor the service times below say which is faster."
    ]


def _is_sure(row: Mapping[str, Any]) -> bool:
    """Say whether the interval of the ratio leaves out 1; without repeats nobody can tell."""
    return row["ratio_low"] is None or not row["ratio_low"] <= 1 <= row["ratio_high"]


def _change(row: Mapping[str, Any]) -> str:
    """Say by how much it changed, with the interval of that in brackets."""
    low, high, ratio = row["ratio_low"], row["ratio_high"], row["ratio"]
    if ratio >= MANY_TIMES:
        band = "" if low is None else f" ({low:.2f} to {high:.2f})"
        return f"{ratio:.2f} times as long{band}"
    word = "less" if ratio < 1 else "more"
    if low is None:
        return f"{abs(1 - ratio):.1%} {word}"
    ends = sorted((1 - low, 1 - high)) if ratio < 1 else sorted((low - 1, high - 1))
    return f"{abs(1 - ratio):.1%} {word} ({ends[0]:.1%} to {ends[1]:.1%})"
