"""Mean read latency for every size of a PCM cache above a flash cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.report import canvas, palette
from tracekit.report import format as fmt
from tracekit.report.svg import Size

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def cache_plane(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `read_latency_avg_ns` by `pcm_bytes` and `flash_bytes`, darker where it is longer."""
    import seaborn as sns
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    figure, axes = canvas.canvas(
        size,
        x_title="flash cache",
        y_title="PCM cache above it",
        height_px=300 if size.is_narrow else 380,
    )
    cells = table.pivot_table(
        index="pcm_bytes", columns="flash_bytes", values="read_latency_avg_ns"
    )
    hue = to_rgb(palette.light("heat"))
    ramp = LinearSegmentedColormap.from_list("heat", [(*hue, 0.06), (*hue, 0.75)])
    microseconds = cells.map(lambda value: f"{value / 1e3:.0f}")
    sns.heatmap(
        cells,
        cmap=ramp,
        cbar=False,
        rasterized=True,
        annot=False if size.is_narrow else microseconds,
        fmt="",
        annot_kws={"color": palette.light("ink"), "fontsize": 10},
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
