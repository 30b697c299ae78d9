"""Mean read latency and I/O time for every size of a PCM cache above a flash cache."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

HOUR_NS, MINUTE_NS = 3600e9, 60e9
UNITS = (("h", HOUR_NS), ("min", MINUTE_NS), ("s", 1e9), ("ms", 1e6), ("µs", 1e3))
LEAST_IN_UNIT = 3.0


def cache_plane(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `read_latency_avg_ns` by `pcm_bytes` and `flash_bytes`, darker where it is longer."""
    return _surface(table, size, column="read_latency_avg_ns", unit_ns=1e3)


def cache_plane_time(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `io_time_ns` in the same way, in the unit that `time_unit` chooses."""
    return _surface(table, size, column="io_time_ns", unit_ns=time_unit(table)[1])


def time_unit(table: pd.DataFrame) -> tuple[str, float]:
    """Return the largest unit, with its ns, of which the longest I/O time has some."""
    longest = float(table["io_time_ns"].max())
    fitting = (unit for unit in UNITS if longest >= LEAST_IN_UNIT * unit[1])
    return next(fitting, UNITS[-1])


def _surface(table: pd.DataFrame, size: Size, *, column: str, unit_ns: float) -> Figure:
    figure, axes = canvas.canvas(
        size,
        x_title="flash cache",
        y_title="PCM cache above it",
        height_px=300 if size.is_narrow else 380,
    )
    cells = table.pivot_table(index="pcm_bytes", columns="flash_bytes", values=column)
    hue = to_rgb(svg.light("heat"))
    ramp = LinearSegmentedColormap.from_list("heat", [(*hue, 0.06), (*hue, 0.75)])
    written = cells.map(lambda value: _three_digits(value / unit_ns))
    sns.heatmap(
        cells,
        cmap=ramp,
        cbar=False,
        rasterized=True,
        annot=False if size.is_narrow else written,
        fmt="",
        annot_kws={"color": svg.light("ink"), "fontsize": 10},
        ax=axes,
    )
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel("flash cache")
    every = 2 if size.is_narrow else 1
    for axis, sizes in ((axes.xaxis, cells.columns), (axes.yaxis, cells.index)):
        chosen = range(0, len(sizes), every)
        axis.set_ticks([at + 0.5 for at in chosen], [fmt.data(sizes[at]) for at in chosen])
    axes.tick_params(axis="x", rotation=45)
    axes.tick_params(axis="y", rotation=0)
    canvas.finish(axes)
    return figure


def _three_digits(value: float) -> str:
    whole = len(str(int(value)))
    return f"{value:.{max(0, 3 - whole)}f}"
