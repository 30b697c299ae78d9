"""What a device does: latencies of single requests, IOPS over write share and depth, a profile."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Section, chart

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
    charts.time_axis(axes.xaxis, edges[-1], steps=3 if size.is_narrow else 6)
    charts.few_ticks(axes.yaxis, size)
    charts.write_ticks(axes.yaxis, lambda ratio: f"{ratio * 100:g} %")
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
    charts.time_axis(inset.xaxis, edges[-1], steps=2)
    inset.yaxis.set_major_locator(LogLocator(numticks=4))
    inset.yaxis.set_minor_locator(NullLocator())
    charts.write_ticks(inset.yaxis, lambda ratio: f"{ratio * 100:.3g} %")


def draw_surface(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `usual_iops` by `write_ratio` and `depth`; the stronger the colour, the more."""
    cells = table.pivot_table(index="depth", columns="write_ratio", values="usual_iops")
    figure, axes = charts.canvas(
        size,
        x_title="share of writes",
        y_title="Requests in flight",
        height_px=100 + 30 * len(cells.index),
    )
    # Transparent to half opaque in one hue, so that numbers can be read on it.
    hue = to_rgb(charts.light("intensity"))
    ramp = LinearSegmentedColormap.from_list("heat", [(*hue, 0.04), (*hue, 0.5)])
    sns.heatmap(cells, cmap=ramp, vmin=0, cbar=False, rasterized=True, ax=axes)
    for row, depth in enumerate(cells.index):
        for column, share in enumerate(cells.columns):
            axes.text(
                column + 0.5,
                row + 0.5,
                short(float(cells.loc[depth, share])),
                ha="center",
                va="center",
                color=charts.light("ink"),
                fontsize=10 if size.is_narrow else 12,
            )
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xticklabels([f"{float(share) * 100:g} %" for share in cells.columns], rotation=0)
    axes.set_yticklabels([str(depth) for depth in cells.index], rotation=0)
    charts.finish(axes)
    axes.set_xlabel("share of writes")
    return figure


def short(iops: float) -> str:
    """Write IOPS with three digits: 950, 14.9k, 1.21M."""
    for limit, unit in ((999_500, "M"), (999.5, "k")):
        if iops >= limit:
            return f"{iops / (1e6 if unit == 'M' else 1e3):.3g}{unit}"
    return f"{iops:.3g}"


TITLE = "What the device does"
COMMAND = "characterize-device"
WIDEST = 3.0  # times the median


def device(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has measured."""
    result = inputs.measured_answer("device/device.json")
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


def worded(table: pd.DataFrame) -> pd.DataFrame:
    """Return the fit with words for what is in the profile."""
    return table.assign(is_in_profile=["yes" if one else "no" for one in table["is_in_profile"]])


def usual(row: pd.Series[Any]) -> float:
    """Return up to where the figure goes; what lies beyond is seen in its inset."""
    return min(float(row["p99_ns"]), WIDEST * float(row["p50_ns"]))


def describe_device(row: pd.Series[Any]) -> str:
    """Describe what the histogram shows."""
    return (
        f"{fmt.plural(row['requests'], str(row['operation']))}:"
        f" mean {fmt.duration(row['mean_ns'])}, standard deviation"
        f" {fmt.duration(row['deviation_ns'])}, 99.9 % within {fmt.duration(row['p99_9_ns'])},"
        f" maximum {fmt.duration(row['max_ns'])}."
        " The inset has the whole range, on a logarithmic scale of shares."
    )


def _surface(cells: Evidence) -> Chart:
    best = cells.table.iloc[int(cells.table["usual_iops"].argmax())]
    return chart(
        draw_surface,
        cells,
        title="IOPS over write share and requests in flight",
        sentences=[
            "Random 4 KiB requests; the rate that a quarter of the parts of each cell exceed."
            f" At most {fmt.count(round(float(best['usual_iops'])))} IOPS, with"
            f" {float(best['write_ratio']) * 100:g} % writes at depth {fmt.count(best['depth'])}."
        ],
        name="device-surface",
    )
