"""What a device does: latencies of single requests, IOPS over write share and depth, a profile."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.device_latency import device_latency
from tracekit.report.figures.device_surface import device_surface
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Section, figure

TITLE = "What the device does"
COMMAND = "characterize-device"
WIDEST = 3.0  # times the median


def device(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has measured."""
    result = inputs.answered("device/device.json")
    found = [
        inputs.measured(f"device/device_{name}", command=COMMAND)
        for name in ("steps", "latency", "fit")
    ]
    steps, latency, fit = found
    if result is None or steps is None or latency is None or fit is None:
        return None
    cells = steps.table[(steps.table["kind"] == "surface") & (steps.table["operation"] == "all")]
    name = result["target"] or f"the emulated device {result['device']}"
    parts = {
        "result": result,
        "name": name,
        "histograms": [_histogram(steps.table, latency, kind) for kind in kinds(latency.table)],
        "surface": None if cells.empty else _surface(replace(steps, table=cells)),
        "fit": replace(fit, table=worded(fit.table)),
    }
    return Section("device", TITLE, parts)


def kinds(table: pd.DataFrame) -> list[str]:
    """Return which latencies were measured, reads first as in the study."""
    there = set(table["kind"])
    return [kind for kind in ("random_read", "random_write") if kind in there]


def _histogram(steps: pd.DataFrame, latency: Evidence, kind: str) -> Figure:
    operation = kind.removeprefix("random_")
    buckets = latency.table[latency.table["kind"] == kind].reset_index(drop=True)
    row = steps[(steps["kind"] == kind) & (steps["operation"] == operation)].iloc[0]
    return figure(
        partial(device_latency, operation=operation, shown_ns=usual(row)),
        replace(latency, table=buckets),
        title=f"Latency of a random 4 KiB {operation}, one at a time",
        says=[says(row)],
        name=f"device-{operation}",
    )


def worded(table: pd.DataFrame) -> pd.DataFrame:
    """Return the fit with words for what is in the profile."""
    return table.assign(is_in_profile=["yes" if one else "no" for one in table["is_in_profile"]])


def usual(row: pd.Series[Any]) -> float:
    """Return up to where the figure goes; what lies beyond is seen in its inset."""
    return min(float(row["p99_ns"]), WIDEST * float(row["p50_ns"]))


def says(row: pd.Series[Any]) -> str:
    """Say what the histogram shows."""
    return (
        f"{fmt.plural(row['requests'], str(row['operation']))}:"
        f" mean {fmt.duration(row['mean_ns'])}, standard deviation"
        f" {fmt.duration(row['deviation_ns'])}, 99.9 % within {fmt.duration(row['p99_9_ns'])},"
        f" maximum {fmt.duration(row['max_ns'])}."
        " The inset has the whole range, on a logarithmic scale of shares."
    )


def _surface(cells: Evidence) -> Figure:
    best = cells.table.iloc[int(cells.table["usual_iops"].argmax())]
    return figure(
        device_surface,
        cells,
        title="IOPS over write share and requests in flight",
        says=[
            "Random 4 KiB requests; the rate that a quarter of the parts of each cell exceed."
            f" At most {fmt.count(round(float(best['usual_iops'])))} IOPS, with"
            f" {float(best['write_ratio']) * 100:g} % writes at depth {fmt.count(best['depth'])}."
        ],
        name="device-surface",
    )
