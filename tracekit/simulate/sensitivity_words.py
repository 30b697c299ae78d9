"""What `simulate sensitivity` found, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.sizes import format_duration, format_size

NAMES = {"fs": "the file system", "journal": "the journal", "swap": "swap",
         "combined": "a split between roles", "base": "the base device alone"}  # fmt: skip
DEVICES = {"base": "the base device", "nvm": "the NVM"}


def headline(answer: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on devices, one on windows, and one on capacities."""
    changed = [row for row in rows if row["kind"] == "parameter" and row["requests"]]
    parts = [row for row in rows if row["kind"] == "window" and row["requests"]]
    given = f"With {format_size(answer['capacity_bytes'])}, {NAMES[answer['placement']]}"
    found = [f"{given} saves {answer['gain_ratio']:.1%} of the base device's time."]
    if changed:
        least, most = min(changed, key=gain_of), max(changed, key=gain_of)
        found.append(
            f"{_held(changed)} of {len(changed)} changed devices it is still the best answer; the"
            f" gain is {gain_of(least):.1%} ({parameter_name(least)}) to {gain_of(most):.1%}"
            f" ({parameter_name(most)})."
        )
    if parts:
        least, most = min(parts, key=gain_of), max(parts, key=gain_of)
        found.append(
            f"{_held(parts)} of {len(parts)} windows it is the best answer; it"
            f" {_saving(gain_of(least))} in the worst of them ({window_name(least)}) and"
            f" {_saving(gain_of(most))} in the best ({window_name(most)})."
        )
    others = sorted({row["placement"] for row in [*changed, *parts] if not row["holds"]})
    if others:
        found.append(f"Otherwise better: {', '.join(NAMES[name] for name in others)}.")
    return [*found, *_capacities(rows)]


def gain_of(row: Mapping[str, Any]) -> float:
    """Return the gain of the recommended shares, or of the best where these were not timed."""
    kept = row["kept_gain_ratio"]
    return float(row["gain_ratio"] if kept is None else kept)


def parameter_name(row: Mapping[str, Any]) -> str:
    """Name a change: `read setup of the NVM x 2`."""
    words = str(row["parameter"]).replace("_", " ")
    return f"{words} of {DEVICES[row['device']]} x {row['factor']:g}"


def window_name(row: Mapping[str, Any]) -> str:
    """Name a window: `window 3, from 12 s`."""
    if row["window"] == 1:
        return "window 1, from the start"
    began = f", from {format_duration(row['start_ns'])}" if row["start_ns"] else ""
    return f"window {row['window']}{began}"


def _saving(gain_ratio: float) -> str:
    """Say what a window gains, or that it takes longer than on the base device alone."""
    if gain_ratio < 0:
        return f"takes {-gain_ratio:.1%} more time than the base device alone"
    return f"saves {gain_ratio:.1%} of the time"


def _held(rows: Sequence[Mapping[str, Any]]) -> str:
    return (
        f"On {sum(row['holds'] for row in rows)}"
        if rows[0]["kind"] == "parameter"
        else (f"In {sum(row['holds'] for row in rows)}")
    )


def _capacities(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    sizes = [row for row in rows if row["kind"] == "capacity"]
    same = [row["capacity_bytes"] for row in sizes if row["holds"]]
    if not same:
        return []
    if len(same) == len(sizes):
        return ["It is the answer at every capacity."]
    return [f"It is the answer from {format_size(min(same))} to {format_size(max(same))}, at"
            f" {len(same)} of {len(sizes)} capacities."]  # fmt: skip
