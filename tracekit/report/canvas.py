"""What the figures share: an empty canvas, curves and bars by role, scales with units.

A figure is a function from a table and a size to a matplotlib figure; it opens no file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tracekit.report import formatting as fmt
from tracekit.report import svg
from tracekit.report.svg import Size
from tracekit.units import LONG_NS

# Each unit is used from its third value on.
TIME_UNITS = (
    ("h", 3600e9, 7200e9),
    ("min", 60e9, LONG_NS),
    ("s", 1e9, 2e9),
    ("ms", 1e6, 2e6),
    ("µs", 1e3, 2e3),
    ("ns", 1.0, 0.0),
)
DATA_UNITS = (
    ("TiB", 2.0**40, 2.0**41),
    ("GiB", 2.0**30, 2.0**31),
    ("MiB", 2.0**20, 2.0**21),
    ("KiB", 2.0**10, 2.0**11),
    ("B", 1.0, 0.0),
)
# Of the name of a bar on a phone, before it goes on in a second line.
NAME_CHARACTERS = 22
Units = tuple[tuple[str, float, float], ...]

# A role has its colour everywhere; operations of one role differ by their line.
OPERATION_LINES = {"read": "dashed", "write": "solid", "flush": "dotted", "discard": "dashdot"}


def canvas(size: Size, *, x_title: str, y_title: str, height_px: int = 0) -> tuple[Figure, Axes]:
    """Return an empty figure and its axes; the y title lies flat above the axis, to be readable."""
    figure = Figure(figsize=(size.width_px / 72, (height_px or size.height_px) / 72))
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    axes = figure.subplots()
    axes.set_xlabel(x_title)
    axes.set_title(y_title, loc="left", fontsize=12, color=svg.light("quiet"), pad=10)
    return figure, axes


def finish(axes: Axes) -> None:
    """Undo what seaborn adds on its own: the vertical y title and a legend inside the plot."""
    axes.set_ylabel("")
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()


def role_curves(axes: Axes, table: pd.DataFrame, *, x: str, y: str, steps: bool = False) -> None:
    """Draw one curve for each role, and for each operation where the table tells them apart.

    Where a value is missing the curve has a gap, which seaborn's own lines would bridge. Steps are
    of cumulative shares: they rise from 0 at the first value, so that a single value shows too.
    """
    by_operation = "operation" in table.columns
    keys = ["role", "operation"] if by_operation else ["role"]
    for group, curve in table.groupby(keys, sort=True):
        xs, ys = curve[x].astype(float).tolist(), curve[y].astype(float).tolist()
        if steps:
            xs, ys = [xs[0], *xs], [0.0, *ys]
        axes.plot(
            xs,
            ys,
            color=svg.light(str(group[0])),
            linestyle=OPERATION_LINES.get(str(group[1]), "solid") if by_operation else "solid",
            drawstyle="steps-post" if steps else "default",
        )


def role_bars(
    table: pd.DataFrame,
    size: Size,
    *,
    value: str,
    x_title: str,
    write: Callable[[Any], str] = fmt.count,
) -> Figure:
    """Draw a bar for each row, named by its `kind`, in the colour of its role."""
    figure, axes = canvas(size, x_title=x_title, y_title="", height_px=70 + 30 * len(table))
    places = list(range(len(table)))
    sns.barplot(
        x=table[value].astype(float).tolist(),
        y=places,
        hue=places,
        palette=[svg.light(role) for role in table["role"]],
        orient="h",
        width=0.66,
        saturation=1,
        errorbar=None,
        ax=axes,
    )
    for bars in axes.containers:
        axes.bar_label(cast("BarContainer", bars), fmt=write, padding=4, color=svg.light("quiet"))
    axes.set_yticks(places, list(table["kind"]))
    axes.margins(x=0.25 if size.is_narrow else 0.12)
    axes.yaxis.grid(visible=False)
    few_ticks(axes.xaxis, size)
    write_ticks(axes.xaxis, write)
    finish(axes)
    return figure


def gain_bars(table: pd.DataFrame, size: Size, *, x_title: str) -> Figure:
    """Draw `gain_ratio` of each `kind`, to the left of zero where it is a loss."""
    from textwrap import fill

    if size.is_narrow:
        # A no-break space keeps the sign and its factor in one line.
        kinds = [kind.replace("× ", "×\u00a0") for kind in table["kind"]]  # noqa: RUF001
        table = table.assign(kind=[fill(kind, NAME_CHARACTERS) for kind in kinds])
    figure = role_bars(table, size, value="gain_ratio", x_title=x_title, write=fmt.share)
    axes = figure.axes[0]
    low, high = min(0.0, table["gain_ratio"].min()), max(0.0, table["gain_ratio"].max())
    # Room for the number beside the longest bar of either side.
    room = (high - low or 1.0) * (0.8 if size.is_narrow else 0.16)
    axes.set_xlim(low - (room if low < 0 else 0), high + (room if high > 0 or low == 0 else 0))
    axes.axvline(0, color=svg.light("quiet"), linewidth=1)
    return figure


def unit_for(highest: float, units: Units) -> tuple[str, float]:
    """Return the name and factor of the unit in which an axis up to `highest` reads best."""
    return next((name, factor) for name, factor, least in units if highest >= least)


def write_ticks(axis: Axis, write: Callable[[Any], str]) -> None:
    """Write each tick of an axis with one of the formatters of the report."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def few_ticks(axis: Axis, size: Size) -> None:
    """Leave room between the numbers on a phone."""
    axis.set_major_locator(MaxNLocator(nbins=3 if size.is_narrow else 6))


def count_ticks(axis: Axis, *, steps: int = 5) -> None:
    """Write counts with thousands separators, at whole numbers only."""
    axis.set_major_locator(MaxNLocator(nbins=steps, integer=True))
    write_ticks(axis, fmt.count)


def share_axis(axis: Axis) -> None:
    """Write shares of 0 to 1 in percent, over the whole range."""
    axis.axes.set_ylim(0, 1.02)
    axis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    write_ticks(axis, lambda ratio: f"{ratio * 100:.0f} %")


def time_axis(axis: Axis, highest_ns: float, *, steps: int = 5) -> None:
    """Put ticks at round numbers of the unit that suits the range, and write the unit at each."""
    _unit_axis(axis, unit_for(highest_ns, TIME_UNITS), steps=steps)


def data_axis(axis: Axis, highest_bytes: float, *, steps: int = 5) -> None:
    """Put ticks at round numbers of the binary unit that suits the range."""
    _unit_axis(axis, unit_for(highest_bytes, DATA_UNITS), steps=steps)


def _unit_axis(axis: Axis, unit: tuple[str, float], *, steps: int) -> None:
    name, factor = unit

    class _Locator(MaxNLocator):
        """Round in the unit, not in nanoseconds or bytes."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            ticks: Any = super().tick_values(vmin / factor, vmax / factor)
            return ticks * factor

    axis.set_major_locator(_Locator(nbins=steps, steps=[1, 2, 2.5, 5, 10]))
    write_ticks(axis, lambda value: f"{value / factor:g} {name}" if value else "0")


def cumulative_times(table: pd.DataFrame, size: Size, *, x_title: str, y_title: str) -> Figure:
    """Draw `smaller_ratio` over `high_ns` by role (and operation) on a logarithmic scale of time.

    A bucket that ends at 0 ns is drawn at 1 ns.
    """
    figure, axes = canvas(size, x_title=x_title, y_title=y_title)
    curves = table.assign(high_ns=table["high_ns"].clip(lower=1))
    role_curves(axes, curves, x="high_ns", y="smaller_ratio", steps=True)
    log_axis(axes.xaxis, fmt.duration, size=size)
    share_axis(axes.yaxis)
    finish(axes)
    return figure


def log_axis(axis: Axis, write: Callable[[Any], str], *, size: Size) -> None:
    """Make an axis logarithmic, with as many decades (or parts of one) as there is room for."""
    from math import log10

    scale = axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale
    scale("log")
    low, high = axis.get_view_interval()
    room = 5 if size.is_narrow else 9
    subs = (1.0, 2.0, 5.0) if 3 * log10(high / low) < room else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=subs, numticks=room))
    axis.set_minor_locator(NullLocator())
    write_ticks(axis, write)


def log_data_axis(axis: Axis, *, size: Size) -> None:
    """Make the x axis of bytes logarithmic, with as many powers of two as there is room for."""
    from math import log2

    axis.axes.set_xscale("log", base=2)
    low, high = axis.get_view_interval()
    room = 4 if size.is_narrow else 9
    octaves = max(1, -int(-log2(high / low) // room))
    axis.set_major_locator(LogLocator(base=2.0**octaves, numticks=room + 2))
    axis.set_minor_locator(NullLocator())
    write_ticks(axis, fmt.data)
