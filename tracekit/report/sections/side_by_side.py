"""Several traces, or several replays of one, side by side: what differs, and curves overlaid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tracekit import query
from tracekit.compare import choose
from tracekit.errors import UsageError
from tracekit.escapes import operand, shell_line
from tracekit.gate import (
    GAIN_MARGIN,
    KEY,
    MARGIN,
    MEASURES,
    Changes,
    Gate,
    GateRow,
    cells_of,
    changes,
    folders_of,
    repeats_of,
    replay_changes,
    value_of,
    what_of,
)
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Variable
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.overlay import (
    NAME,
    Overlay,
    distribution,
    gathered,
    overlays,
    parts_of,
    rates,
)
from tracekit.report.section import Chart, Section, chart
from tracekit.report.sections.locality import HALF, bytes_for
from tracekit.report.sections.replay import REPLAY_FIGURES, overlaid_runs
from tracekit.report.sections.traffic import rate_by_role
from tracekit.store import TraceFolder
from tracekit.units import BLOCK_BYTES

WRITERS: Mapping[str, Callable[[Any], str]] = {
    "ns": fmt.duration,
    "bytes": fmt.data,
    "share": fmt.share,
}
TIME = Variable("window_ns", "time since the start", charts.time_axis)
RESPONSES = tuple(
    distribution(
        "latency/distribution",
        f"responses-{operation}",
        title=f"Response times of {fmt.verb_plural(operation)}, from queued to completed",
        x=Variable("high_ns", "response time", charts.log_time_axis),
        y_title="Requests that took this long or less",
        step="q2c",
        operation=operation,
    )
    for operation in ("read", "write", "flush")
)
TOTALS = "traffic/totals"
NAMED = 4
"""Of more names the head of the page has numbers."""
LABEL_CHARACTERS = 20


def _rates(rows: pd.DataFrame) -> pd.DataFrame:
    by_role = rate_by_role(rows)
    return by_role.groupby("window_ns")[["bytes_per_second"]].sum().reset_index()


def _covered(rows: pd.DataFrame) -> pd.DataFrame:
    curve = rows[rows["role"] == "all"]
    return charts.with_origins(curve, "role", hotter_bytes=0, traffic_ratio=0.0)


def _grown(rows: pd.DataFrame) -> pd.DataFrame:
    new = rows.groupby("window_ns")["new_blocks"].sum()
    return (new.cumsum() * BLOCK_BYTES).rename("seen_bytes").reset_index()


TRACE_FIGURES = (
    rates(
        "traffic/throughput", "throughput", title="Bytes read and written a second", points=_rates
    ),
    *RESPONSES,
    distribution(
        "traffic/sizes",
        "sizes",
        title="Cumulative share of requests by length",
        x=Variable("length_bytes", "length of a request", charts.log_data_axis),
        y_title="Requests of this length or shorter",
    ),
    Overlay(
        finding="locality/coverage",
        name="coverage",
        title="Traffic that the hottest blocks take",
        x=Variable("hotter_bytes", "size of the hottest blocks", charts.capacity_axis),
        y=Variable("traffic_ratio", "Share of the block touches", charts.share_axis),
        points=_covered,
        says="Half of the touches fall on the hottest",
        number=partial(bytes_for, traffic_ratio=HALF),
        write=fmt.data,
    ),
    Overlay(
        finding="locality/footprint",
        name="footprint",
        title="Size of the blocks touched since the start",
        x=TIME,
        y=Variable("seen_bytes", "Size of the blocks", charts.from_zero(charts.data_axis)),
        points=_grown,
        says="In all",
        number=lambda points: float(points["seen_bytes"].max()),
        write=fmt.data,
    ),
)
FINDINGS = tuple(dict.fromkeys([*(one.finding for one in TRACE_FIGURES), TOTALS]))


def side_by_side(places: Sequence[Path]) -> list[Section]:
    """Build the page of traces, or of replays of the trace that comes first.

    UsageError for a place that is neither, one that is there twice, and a mix of both; InputError
    for a trace without findings.
    """
    first, *others = places
    are_traces = [bool(repeats_of(place)) for place in others]
    replays = [first / "replays" / place for place in others]
    if len(others) > 1 and repeats_of(first) == [first] and not any(are_traces):
        return _of_replays(TraceFolder(first), [str(one) for one in others])
    for place, replay, is_trace in zip(others, replays, are_traces, strict=True):
        if not is_trace and replay.is_dir() and any(are_traces):
            raise UsageError(
                f"{place} is a replay of {first}, and {others[are_traces.index(True)]} a trace",
                hint="name traces only, or one trace and replays of it",
            )
    return _of_traces(places)


def _of_traces(places: Sequence[Path]) -> list[Section]:
    sides = folders_of(places)
    for folder in (one for side in sides.values() for one in side):
        for name in FINDINGS:
            folder.require(f"findings/{query.read(name).table}", made_by="analyze")
    runs = [(name, Inputs(one)) for name, side in sides.items() for one in side]
    tables = {finding: _found(runs, finding) for finding in FINDINGS}
    figures = [*overlays(TRACE_FIGURES, tables, names=sides), _shares(tables[TOTALS])]
    first, *others = places
    section = _differences(
        changes(sides, wanted=dict.fromkeys(MEASURES)),
        [["compare", *map(_typed, (first, other))] for other in others],
    )
    used = {f"findings/{query.read(name).table}.parquet" for name in FINDINGS}
    outdated = {
        old.command: old
        for _, inputs in runs
        for place, old in inputs.outdated.items()
        if place in used | {"recommendation.json"}
    }
    return [
        replace(section, outdated=[*outdated.values()]),
        Section("overlaid", "Overlaid", parts_of(figures, sides)),
    ]


def _found(runs: Sequence[tuple[str, Inputs]], finding: str) -> Evidence:
    """Return what the analysis found in each run."""
    found = ((name, inputs, inputs.finding(finding)) for name, inputs in runs)
    return gathered(
        [(name, inputs.folder.path.name, one) for name, inputs, one in found if one is not None]
    )


def _of_replays(folder: TraceFolder, names: Sequence[str]) -> list[Section]:
    found, inputs = replay_changes(folder, names), Inputs(folder)
    chosen = choose(folder, names)
    runs = [(one.name, run) for one in chosen for run in one.replays or ("",)]
    findings = {one.finding: inputs.computed(one.finding) for one in REPLAY_FIGURES}
    command = ["compare", _typed(folder.path), *map(operand, names)]
    overlaid = Section("overlaid", "Overlaid", overlaid_runs(runs, findings, names=names))
    return [_differences(found, [command]), overlaid]


def _typed(place: Path) -> str:
    return operand(str(place))


def _differences(found: Changes, commands: Sequence[Sequence[str]]) -> Section:
    """Say what differs, and show each measure of each name."""
    means = {(str(row["name"]), *(row[part] for part in KEY)): row for row in found.rows}
    judged = {
        (gate.after, row.measure, row.role, row.operation): row
        for gate in found.gates
        for row in gate.rows
    }
    keys = sorted(
        dict.fromkeys(key[1:] for key in means if key[1] in MEASURES),
        key=lambda key: [*MEASURES].index(key[0]),
    )
    rows = [
        {
            "what": what_of(key),
            "cells": [
                _cell(means.get((name, *key)), judged.get((name, *key))) for name in found.names
            ],
        }
        for key in keys
    ]
    repeats = {
        name: max((row["repeats"] for row in found.rows if row["name"] == name), default=0)
        for name in found.names
    }
    return Section(
        "side_by_side",
        _verdict(found),
        {
            "names": found.names,
            "repeats": repeats,
            "headline": [*_headline(found.gates)],
            "rows": rows,
            "margins": {"margin": MARGIN, "gain": GAIN_MARGIN},
            "warnings": found.warnings,
            "commands": [shell_line(["tracekit", *words]) for words in commands],
        },
    )


def _headline(gates: Sequence[Gate]) -> Iterator[str]:
    """Yield what each gate says; of several, whose it is."""
    for gate in gates:
        for line in gate.headline:
            is_named = len(gates) == 1 or line.startswith(f"{gate.after} against ")
            yield line if is_named else f"{gate.after}: {line}"


def title(section: Section) -> str:
    """Return the first names that a page begins with, and how many there are beside."""
    names = [*map(fmt.printable, section.parts["names"])]
    more = len(names) - NAMED
    return f"{', '.join(names[:NAMED])} and {more} more" if more > 1 else fmt.listing(names)


def _verdict(found: Changes) -> str:
    """Say of each of the others what it is against the first; of many, how many are what."""
    first, gates = fmt.printable(found.names[0]), found.gates
    if len(gates) == 1:
        return f"{fmt.printable(gates[0].after)} against {first}: {gates[0].verdict}"
    told = [f"{fmt.printable(gate.after)} {gate.verdict}" for gate in gates]
    if len(gates) > NAMED:
        counts = Counter(gate.verdict for gate in gates)
        told = [f"{count} {verdict}" for verdict, count in counts.most_common()]
    return f"Against {first}: {fmt.listing(told)}"


def _cell(mean: Mapping[str, Any] | None, change: GateRow | None) -> dict[str, str]:
    """Write the mean over the repeats, and the change against the first with its verdict.

    That of the first has the confidence interval of the mean, which shows how far repeats spread.
    """
    if mean is None:
        return {"value": fmt.MISSING, "small": ""}
    write = WRITERS.get(MEASURES[mean["measure"]].unit, fmt.count)
    ends = [] if mean["time_low_ns"] is None else ["time_low_ns", "time_high_ns"]
    small = " to ".join(map(write, sorted(value_of(mean, end) for end in ends)))
    if change is not None:
        by, interval = (text.replace("-", fmt.MINUS) for text in cells_of(change)[3:5])
        told = f"{by} ({interval})" if interval else by
        small = ", ".join(filter(None, [told, change.verdict]))
    return {"value": write(value_of(mean)), "small": small}


def _shares(totals: Evidence) -> Chart:
    """Show the part of each role in the bytes of each name, over its repeats."""
    moved = totals.table.assign(
        bytes=totals.table[["read_bytes", "write_bytes", "unknown_bytes"]].sum(axis="columns")
    )
    summed = moved.groupby([NAME, "role"], sort=False)["bytes"].sum().reset_index()
    whole = summed.groupby(NAME)["bytes"].transform("sum")
    names = {name: fmt.shortened(fmt.printable(name), LABEL_CHARACTERS) for name in summed[NAME]}
    is_clear = len({*names.values()}) == len(names)
    bars = summed.assign(
        share=summed["bytes"] / whole.where(whole > 0),
        kind=summed[NAME].map(names if is_clear else fmt.printable),
        colour=summed["role"],
    )
    return chart(
        partial(charts.stacked_bars, value="share", x_title="share of the bytes"),
        totals.showing(bars[whole > 0]),
        title="Bytes read and written, by role",
        name="shares",
    )
