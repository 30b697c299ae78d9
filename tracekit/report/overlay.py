"""Curves of several runs in one figure: a colour and a line for each name, a curve for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Variable
from tracekit.report.inputs import Evidence
from tracekit.report.section import Chart, Parts, chart

LINES = ("solid", "dashed", "dotted", "dashdot")
"""Curves that lie on each other are still seen."""
NAME, RUN, CURVE = "name", "run", "curve"
"""Columns before those of a finding: the name in the legend, and which of its repeats a row is of;
and that of a curve's points."""


@dataclass(frozen=True)
class Overlay:
    """A figure of several runs, each a curve of what `points` makes of its rows of a finding."""

    finding: str
    name: str
    title: str
    x: Variable
    y: Variable
    points: Callable[[pd.DataFrame], pd.DataFrame]
    says: str
    """How the caption begins, which gives one number of each name."""
    number: Callable[[pd.DataFrame], float]
    """That number of a run, from its points."""
    write: Callable[[Any], str]
    look: Mapping[str, Any] = field(default_factory=dict)


def distribution(
    finding: str, name: str, *, title: str, x: Variable, y_title: str, **where: str
) -> Overlay:
    """Return the figure of cumulative shares of the requests whose columns have these values."""
    return Overlay(
        finding=finding,
        name=name,
        title=title,
        x=x,
        y=Variable("smaller_ratio", y_title, charts.share_axis),
        points=partial(_cumulated, value=x.column, where=where),
        says="Half within",
        number=partial(_half, value=x.column),
        write=fmt.data if x.column.endswith("_bytes") else fmt.duration,
        look={"drawstyle": "steps-post"},
    )


def rates(
    finding: str, name: str, *, title: str, points: Callable[[pd.DataFrame], pd.DataFrame]
) -> Overlay:
    """Return the figure of `bytes_per_second` over time, which `points` sums up by window."""
    return Overlay(
        finding=finding,
        name=name,
        title=title,
        x=Variable("window_ns", "time since the start", charts.time_axis),
        y=Variable("bytes_per_second", "Bytes a second", charts.from_zero(charts.data_axis)),
        points=points,
        says="On average a second",
        number=lambda found: float(found["bytes_per_second"].mean()),
        write=fmt.data,
    )


def _cumulated(rows: pd.DataFrame, *, value: str, where: Mapping[str, str]) -> pd.DataFrame:
    """Return the share of requests up to each value, of all roles; from 0 at the first."""
    for column, wanted in where.items():
        rows = rows[rows[column] == wanted]
    # A logarithmic axis has no 0.
    counts = rows.assign(**{value: rows[value].clip(lower=1)}).groupby(value)["request_count"].sum()
    table = (counts.cumsum() / counts.sum()).rename("smaller_ratio").reset_index()
    return pd.concat([table.head(1).assign(smaller_ratio=0.0), table], ignore_index=True)


def _half(points: pd.DataFrame, *, value: str) -> float:
    return float(points.loc[points["smaller_ratio"] >= 0.5, value].iloc[0])


def keys_of(names: Iterable[str]) -> dict[str, Key]:
    """Return how each name is drawn; there are colours for the first ten only."""
    colours = charts.series()
    return {
        name: Key(colour, fmt.printable(name), LINES[place % len(LINES)])
        for place, (name, colour) in enumerate(zip(names, colours, strict=False))
    }


def gathered(runs: Sequence[tuple[str, str, Evidence]]) -> Evidence:
    """Return one evidence of what a query found for each name and run.

    Of queries that ran with different values none is shown.
    """
    first = runs[0][2]
    tables = [one.table.assign(**{NAME: name, RUN: run}) for name, run, one in runs]
    table = pd.concat(tables, ignore_index=True)
    table = table[[NAME, RUN, *(one for one in table.columns if one not in (NAME, RUN))]]
    if any(one.parameters != first.parameters for _, _, one in runs):
        first = replace(first, sql="", parameters=None)
    return replace(first, table=table)


def overlaid(overlay: Overlay, evidence: Evidence, *, keys: Mapping[str, Key]) -> Chart | None:
    """Return the figure of the names that have a key; None where no run has such requests."""
    curves, styles, found = [], {}, dict[str, list[float]]()
    for group, rows in evidence.table.groupby([NAME, RUN], sort=False):
        name, run = map(str, group)
        points = overlay.points(rows)
        if name not in keys or points.empty:
            continue
        curve = f"{name} {run}"
        styles[curve] = keys[name]
        found.setdefault(name, []).append(overlay.number(points))
        curves.append(points.assign(**{CURVE: curve}))
    if not curves:
        return None
    told = [
        f"{keys[name].text} {_span(found[name], overlay.write)}" for name in keys if name in found
    ]
    return chart(
        partial(charts.curves, x=overlay.x, y=overlay.y, by=CURVE, styles=styles, **overlay.look),
        evidence.showing(pd.concat(curves, ignore_index=True)),
        title=overlay.title,
        sentences=[f"{overlay.says}: {', '.join(told)}."],
        legend=[key for name, key in keys.items() if name in found],
        name=overlay.name,
    )


def overlays(
    chosen: Sequence[Overlay], evidence: Mapping[str, Evidence], *, names: Iterable[str]
) -> list[Chart]:
    """Return the figures that have a curve, of the evidence of each finding."""
    keys = keys_of(names)
    drawn = [overlaid(one, evidence[one.finding], keys=keys) for one in chosen]
    return [one for one in drawn if one is not None]


def parts_of(figures: Sequence[Chart], names: Iterable[str]) -> Parts:
    """Return figures for the template, and the names of which none has a curve."""
    found = {key.text for one in figures for key in one.legend}
    hidden = [one for one in map(fmt.printable, names) if one not in found]
    return {"figures": figures, "hidden": hidden}


def _span(numbers: Sequence[float], write: Callable[[Any], str]) -> str:
    """Write the number of a name, or the least and the most of its repeats."""
    return " to ".join(dict.fromkeys(map(write, (min(numbers), max(numbers)))))
