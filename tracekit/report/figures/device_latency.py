"""How long single requests take: a histogram, with the whole range in a logarithmic inset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from tracekit.report import canvas, svg
from tracekit.report.svg import Size

BINS = 70
NOTHING = 1e-12


def device_latency(table: pd.DataFrame, size: Size, *, operation: str, shown_ns: float) -> Figure:
    """Draw the buckets up to `shown_ns` in bins of equal width, and all of them in the inset."""
    figure, axes = canvas.canvas(size, x_title="latency", y_title="Share of the requests")
    low, high = float(table["low_ns"].min()), float(table["high_ns"].max())
    colour = svg.light(operation)
    edges, shares = binned(table, low_ns=low, high_ns=min(high, shown_ns * 1.02))
    axes.stairs(shares, edges, fill=True, color=colour)
    axes.set_xlim(edges[0], edges[-1])
    canvas.time_axis(axes.xaxis, edges[-1], steps=3 if size.is_narrow else 6)
    canvas.few_ticks(axes.yaxis, size)
    canvas.write_ticks(axes.yaxis, lambda ratio: f"{ratio * 100:g} %")
    axes.set_ylim(0, max(shares) * 1.05)
    _inset(axes, binned(table, low_ns=low, high_ns=high), colour, size=size)
    canvas.finish(axes)
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
    canvas.time_axis(inset.xaxis, edges[-1], steps=2)
    inset.yaxis.set_major_locator(LogLocator(numticks=4))
    inset.yaxis.set_minor_locator(NullLocator())
    canvas.write_ticks(inset.yaxis, lambda ratio: f"{ratio * 100:.3g} %")
