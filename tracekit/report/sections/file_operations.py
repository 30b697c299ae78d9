"""What was done with files: how often, how long it took, by whom, and when it was replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.file_operations import file_operations as draw
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Key, Section, figure

TITLE = "File operations"
COLOURS = ("fs", "journal", "swap", "other")
"""Of the replays, in the order of their names; those beyond are in the table only."""


def file_operations(inputs: Inputs) -> Section | None:
    """Build the section; None for a trace without file operations."""
    if not inputs.folder.has("file_operations"):
        return None
    calls = inputs.computed("files/file_calls")
    replays = inputs.computed("files/replayed_file_calls") if inputs.has_file_replays else None
    bars, names = side_by_side(calls.table, None if replays is None else replays.table)
    keys = [Key("quiet", "traced"), *map(Key, COLOURS, names)]
    drawn = figure(
        draw,
        replace(calls, table=bars),
        title="Time of a call by operation, mean and 99 %",
        says=says(calls.table, inputs.info),
        legend=keys,
        name="file-operations",
    )
    parts = {
        "figure": replace(drawn, evidence=calls),
        "replays": replays,
        "processes": inputs.computed("files/file_processes"),
        "files": _printable(inputs.computed("files/busiest_files")),
        "overhead": overhead(inputs.info),
    }
    return Section("file_operations", TITLE, parts)


def _printable(evidence: Evidence) -> Evidence:
    paths = [fmt.printable(path) for path in evidence.table["path"]]
    return replace(evidence, table=evidence.table.assign(path=paths))


def side_by_side(
    traced: pd.DataFrame, replayed: pd.DataFrame | None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the times of each operation, `place` 0 traced and the replays behind, and their names.

    Operations whose end no call told are left out.
    """
    parts = [traced.assign(place=0)]
    names: list[str] = []
    if replayed is not None:
        names = sorted(set(replayed["replay"]))[: len(COLOURS)]
        parts += [
            replayed[replayed["replay"] == name].assign(place=place)
            for place, name in enumerate(names, 1)
        ]
    columns = ["operation", "place", "latency_avg_ns", "latency_p99_ns"]
    table = pd.concat([part[columns] for part in parts], ignore_index=True)
    order = {name: place for place, name in enumerate(traced["operation"])}
    table = table.dropna(subset=["latency_avg_ns"])
    table = table.assign(rank=table["operation"].map(order).fillna(len(order)))
    return table.sort_values(["rank", "place"], ignore_index=True), names


def says(calls: pd.DataFrame, info: Mapping[str, Any]) -> list[str]:
    """Say how much was done, and what led."""
    if calls.empty:
        return ["The trace holds no file operation."]
    total = int(calls["call_count"].sum())
    first = calls.iloc[0]
    moved = int(calls["moved_bytes"].sum())
    seconds = fmt.duration(info.get("clock", {}).get("duration_ns"))
    return [
        f"{fmt.count(total)} calls in {seconds}, {fmt.share(first['call_count'] / total)} of them"
        f" {first['operation']}; {fmt.data(moved)} were read and written.",
    ]


def overhead(info: Mapping[str, Any]) -> str:
    """Say what tracing cost."""
    cost = info.get("capture", {}).get("overhead")
    if not cost:
        return ""
    if cost.get("ratio"):
        return (
            f"The command took {fmt.duration(cost['traced_ns'])} while it was traced and"
            f" {fmt.duration(cost['untraced_ns'])} without."
        )
    if not cost.get("call_ns"):
        return ""
    return (
        f"Tracing made a call about {fmt.duration(cost['call_ns'])} longer, of which"
        f" {fmt.duration(cost['duration_ns'])} are in the times shown as traced."
    )
