"""IOPS for the price over the shares of the two fastest tiers: the surface from above."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size


def tier_surface(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `iops_per_price` by `first_ratio` and `second_ratio`, and mark the best."""
    first, second = (str(table[f"{which}_tier"].iloc[0]) for which in ("first", "second"))
    figure, axes = canvas.canvas(
        size,
        x_title=f"share of {first}",
        y_title=f"Share of {second}",
        height_px=300 if size.is_narrow else 380,
    )
    cells = table.pivot_table(index="second_ratio", columns="first_ratio", values="iops_per_price")
    # Transparent to opaque in one hue, so that the picture stands on a light or a dark page.
    hue = to_rgb(svg.light("heat"))
    ramp = LinearSegmentedColormap.from_list("heat", [(*hue, 0.06), (*hue, 1.0)])
    sns.heatmap(cells, cmap=ramp, cbar=False, rasterized=True, ax=axes)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel(f"share of {first}")
    _mark_best(axes, table, cells)
    for axis, count in ((axes.xaxis, len(cells.columns)), (axes.yaxis, len(cells.index))):
        axis.set_ticks(
            [0.5 + (count - 1) * quarter / 4 for quarter in range(5)],
            [f"{quarter * 25} %" for quarter in range(5)],
        )
    axes.tick_params(axis="both", rotation=0)
    canvas.finish(axes)
    return figure


def _mark_best(axes: Axes, table: pd.DataFrame, cells: pd.DataFrame) -> None:
    """Put a ring around the cell with the largest value."""
    best = table.iloc[int(table["iops_per_price"].argmax())]
    place = (
        list(cells.columns).index(best["first_ratio"]) + 0.5,
        list(cells.index).index(best["second_ratio"]) + 0.5,
    )
    axes.plot(*place, marker="o", markersize=9, fillstyle="none", color=svg.light("ink"))
    axes.annotate(
        "best",
        place,
        xytext=(10, 0),
        textcoords="offset points",
        verticalalignment="center",
        color=svg.light("ink"),
    )
