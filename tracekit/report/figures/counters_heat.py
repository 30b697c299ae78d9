"""Correlations of events with the throughput: a row an event, a column a workload."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size

NAME_CHARACTERS = 12


def counters_heat(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `correlation` by `event` and `workload`; brackets where `is_sure` is false."""
    events = list(dict.fromkeys(table["event"]))
    workloads = sorted(set(table["workload"]))
    cells = table.pivot_table(index="event", columns="workload", values="correlation")
    cells = cells.reindex(index=events, columns=workloads)
    figure, axes = canvas.canvas(
        size, x_title="", y_title="Pearson's r", height_px=80 + 26 * len(events)
    )
    # Transparent in the middle, so that the picture stands on a light or a dark page.
    less, more = (to_rgb(svg.light(name)) for name in ("write", "read"))
    ramp = LinearSegmentedColormap.from_list(
        "sides", [(*less, 0.75), (*less, 0.0), (*more, 0.0), (*more, 0.75)]
    )
    sns.heatmap(cells, cmap=ramp, vmin=-1, vmax=1, cbar=False, rasterized=True, ax=axes)
    for row in table.to_dict("records"):
        text = f"{row['correlation']:+.2f}".replace("-", "\N{MINUS SIGN}")
        axes.text(
            workloads.index(row["workload"]) + 0.5,
            events.index(row["event"]) + 0.5,
            text if row["is_sure"] else f"({text})",
            ha="center",
            va="center",
            color=svg.light("ink"),
            fontsize=10 if size.is_narrow else 12,
        )
    axes.grid(visible=False)
    axes.set_yticks([n + 0.5 for n in range(len(events))], events, rotation=0)
    axes.set_xticks([n + 0.5 for n in range(len(workloads))], map(_short, workloads), rotation=0)
    canvas.finish(axes)
    axes.set_xlabel("")
    return figure


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}…"
