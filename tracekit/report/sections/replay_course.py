"""How a replay went over its time: throughput and service times by operation, and a histogram."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures import replay_course as draw
from tracekit.report.formatting import every_window, largest
from tracekit.report.inputs import Evidence
from tracekit.report.section import Figure, Key, figure, role_keys

COLOURS = {"read": "read", "write": "write", "flush": "flush"}
BARE_WINDOWS = 3  # fewer windows are no course


def course(over_time: Evidence, distribution: Evidence, *, name: str) -> list[Figure]:
    """Return the figures of one replay; none of a run that had no request done."""
    table = over_time.table
    drawn = []
    if table["window_number"].nunique() >= BARE_WINDOWS:
        drawn = [_throughput(over_time, name), _service(over_time, name)]
    service = distribution.table[distribution.table["measure"] == "service"]
    if not service.empty:
        shown = figure(
            draw.replayed_histogram,
            replace(distribution, table=service),
            title="Histogram of service times",
            says=[],
            legend=role_keys(service),
            name=f"replay-{fmt.anchor(name)}-histogram",
        )
        drawn.append(replace(shown, evidence=distribution))
    return drawn


def _coloured(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the colour of its operation as `role`; rare operations share one."""
    return table.assign(role=[COLOURS.get(str(name), "discard") for name in table["operation"]])


def _keys(table: pd.DataFrame) -> list[Key]:
    found = sorted(set(table["operation"]))
    return [Key(COLOURS.get(name, "discard"), fmt.verb_plural(name)) for name in found]


def _throughput(evidence: Evidence, name: str) -> Figure:
    table = evidence.table
    length_ns = float(table["window_length_ns"].max())
    summed = _coloured(table).groupby(["role", "window_ns"], as_index=False, sort=True)
    curves = summed[["bytes_per_second"]].sum()
    every = every_window(curves, length_ns, values=["bytes_per_second"], missing=0)
    busiest = largest(every.groupby("window_ns", as_index=False).sum(), "bytes_per_second")
    shown = figure(
        draw.replayed_throughput,
        replace(evidence, table=every),
        title="Throughput over time",
        says=[
            f"At most {fmt.data(busiest['bytes_per_second'])}/s, in the"
            f" {fmt.duration(length_ns)} from {fmt.duration(busiest['window_ns'])} on."
        ],
        legend=_keys(table),
        name=f"replay-{fmt.anchor(name)}-throughput-over-time",
    )
    return replace(shown, evidence=evidence)


def _service(evidence: Evidence, name: str) -> Figure:
    table = evidence.table
    length_ns = float(table["window_length_ns"].max())
    values = ["service_p50_ns", "service_p99_ns"]
    largest_of = _coloured(table).groupby(["role", "window_ns"], as_index=False, sort=True)
    curves = every_window(largest_of[values].max(), length_ns, values=values, missing=math.nan)
    slowest = largest(table, "service_p99_ns")
    shown = figure(
        draw.replayed_service,
        replace(evidence, table=curves),
        title="Service times over time: half and 99 % of the requests within",
        says=[
            f"The slowest are the {fmt.verb_plural(str(slowest['operation']))} from"
            f" {fmt.duration(float(slowest['window_ns']))} on: 99\N{NO-BREAK SPACE}% within"
            f" {fmt.duration(float(slowest['service_p99_ns']))}."
        ],
        legend=[*_keys(table), Key("base", "half within", "dashed")],
        name=f"replay-{fmt.anchor(name)}-service-over-time",
    )
    return replace(shown, evidence=evidence)
