"""What a device does: latencies of single requests, IOPS over write share and depth, a profile."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size
from tracekit.report.formatting import largest, sentence
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Parts, chart, section

BINS = 70
NOTHING = 1e-12


def draw_latency(table: pd.DataFrame, size: Size, *, operation: str, shown_ns: float) -> Figure:
    """Draw the buckets up to `shown_ns` in bins of equal width, and all of them in the inset."""
    figure, axes = charts.canvas(size, x_title="latency", y_title="Share of the requests")
    low, high = float(table["low_ns"].min()), float(table["high_ns"].max())
    colour = charts.light(operation)
    edges, shares = binned(table, low_ns=low, high_ns=min(high, shown_ns * 1.02))
    axes.stairs(shares, edges, fill=True, color=colour)
    axes.set_xlim(edges[0], edges[-1])
    charts.time_axis(axes.xaxis, highest=edges[-1], steps=3 if size.is_narrow else 6)
    charts.few_ticks(axes.yaxis, size)
    charts.percent_ticks(axes.yaxis)
    axes.set_ylim(0, max(shares) * 1.05)
    _inset(axes, binned(table, low_ns=low, high_ns=high), colour, size=size)
    charts.finish(axes)
    return figure


def binned(table: pd.DataFrame, *, low_ns: float, high_ns: float) -> tuple[Any, Any]:
    """Return edges and shares of bins of equal width, each at least as wide as a bucket there.

    A bucket that lies in two bins gives each its part.
    """
    inside = table[table["low_ns"] < high_ns]
    widest = float((inside["high_ns"] - inside["low_ns"]).max())
    count = max(1, min(BINS, int((high_ns - low_ns) / widest)))
    edges = np.linspace(low_ns, high_ns, count + 1)
    lows, highs = (table[name].to_numpy(float) for name in ("low_ns", "high_ns"))
    ratios = table["requests_ratio"].to_numpy(float)
    part = np.clip((edges[:, None] - lows) / (highs - lows), 0, 1)
    shares = np.diff(part @ ratios)
    # What is left of a rounded sum is no request.
    return edges, np.where(shares < NOTHING, 0.0, shares)


def _inset(axes: Axes, bins: tuple[Any, Any], colour: str, *, size: Size) -> None:
    edges, shares = bins
    place = (0.5, 0.42, 0.48, 0.5) if size.is_narrow else (0.56, 0.36, 0.42, 0.58)
    inset = axes.inset_axes(place)
    seen = shares[shares > 0]
    inset.stairs(shares, edges, fill=True, color=colour, baseline=float(seen.min()) / 3)
    inset.set_yscale("log")
    inset.set_ylim(float(seen.min()) / 3, 1.5)
    inset.set_xlim(edges[0], edges[-1])
    inset.tick_params(labelsize=10)
    inset.xaxis.set_major_locator(FixedLocator([edges[0], edges[-1]]))
    charts.time_axis(inset.xaxis, highest=edges[-1], steps=2)
    inset.yaxis.set_major_locator(LogLocator(numticks=4))
    inset.yaxis.set_minor_locator(NullLocator())
    charts.write_ticks(inset.yaxis, lambda ratio: f"{ratio * 100:.3g}%")


def draw_surface(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `usual_iops` by `write_ratio` and `depth`; the stronger the colour, the more."""
    cells = table.pivot_table(index="depth", columns="write_ratio", values="usual_iops")
    # At most half opaque, so that numbers can be read on it.
    figure, axes = charts.heat_map(
        cells,
        size,
        x_title="share of writes",
        y_title="Requests in flight",
        height_px=100 + 30 * len(cells.index),
        colours=(("intensity", 0.04), ("intensity", 0.5)),
        vmin=0,
    )
    charts.write_cells(
        axes,
        (
            (column, row, short(float(iops)))
            for (row, column), iops in np.ndenumerate(cells.to_numpy())
        ),
        size=size,
    )
    axes.set_xticklabels([f"{float(share) * 100:g}%" for share in cells.columns])
    axes.set_yticklabels([str(depth) for depth in cells.index])
    return figure


def short(iops: float) -> str:
    """Write IOPS with three digits: 950, 14.9k, 1.21M."""
    for limit, unit in ((999_500, "M"), (999.5, "k")):
        if iops >= limit:
            return f"{iops / (1e6 if unit == 'M' else 1e3):.3g}{unit}"
    return f"{iops:.3g}"


WIDEST = 3.0  # times the median


@section("What the device does")
def device(inputs: Inputs) -> Parts | None:
    """Show what a device does; nothing when nobody has measured."""
    result = inputs.answer("device/device.json", "headline")
    steps, latency, fit = (
        inputs.table(f"device/device_{name}", command="characterize-device")
        for name in ("steps", "latency", "fit")
    )
    if result is None or steps is None or latency is None or fit is None:
        return None
    cells = steps.table[(steps.table["kind"] == "surface") & (steps.table["operation"] == "all")]
    in_words = ["yes" if one else "no" for one in fit.table["is_in_profile"]]
    return {
        "result": result,
        "name": result["target"] or f"the emulated device {result['device']}",
        "histograms": [_histogram(steps.table, latency, kind) for kind in kinds(latency.table)],
        "surface": None if cells.empty else _surface(replace(steps, table=cells)),
        "fit": replace(fit, table=fit.table.assign(is_in_profile=in_words)),
    }


def kinds(table: pd.DataFrame) -> list[str]:
    """Return which latencies were measured, reads first as in the study."""
    there = set(table["kind"])
    return [kind for kind in ("random_read", "random_write") if kind in there]


def _histogram(steps: pd.DataFrame, latency: Evidence, kind: str) -> Chart:
    operation = kind.removeprefix("random_")
    buckets = latency.table[latency.table["kind"] == kind].reset_index(drop=True)
    row = steps[(steps["kind"] == kind) & (steps["operation"] == operation)].iloc[0]
    return chart(
        partial(draw_latency, operation=operation, shown_ns=usual(row)),
        replace(latency, table=buckets),
        title=f"Latency of a random 4 KiB {operation}, one at a time",
        sentences=[describe_device(row)],
        name=f"device-{operation}",
    )


def usual(row: pd.Series[Any]) -> float:
    """Return up to where the figure goes; what lies beyond is seen in its inset."""
    return min(float(row["p99_ns"]), WIDEST * float(row["p50_ns"]))


def describe_device(row: pd.Series[Any]) -> str:
    """Describe what the histogram shows."""
    return fmt.plural(row["requests"], str(row["operation"])) + sentence(
        ": mean {mean_ns:duration}, standard deviation {deviation_ns:duration}, 99.9% within"
        " {p99_9_ns:duration}, maximum {max_ns:duration}."
        " The inset has the whole range, on a logarithmic scale of shares.",
        row,
    )


def _surface(cells: Evidence) -> Chart:
    best = largest(cells.table, "usual_iops")
    text = (
        "Random 4 KiB requests; the rate that a quarter of the parts of each cell exceed. At most"
        " {usual_iops:count} IOPS, with {percent:g}% writes at depth {depth:count}."
    )
    return chart(
        draw_surface,
        cells,
        title="IOPS over write share and requests in flight",
        sentences=[sentence(text, best, percent=float(best["write_ratio"]) * 100)],
        name="device-surface",
    )
