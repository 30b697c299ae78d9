"""The busiest processes, their requests split by role."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

NAME_LIMIT = 16


def processes(table: pd.DataFrame, size: Size) -> Figure:
    """Draw one stacked bar a process: a column a role, the busiest process first."""
    figure, axes = canvas.canvas(
        size, x_title="requests as queued", y_title="", height_px=70 + 26 * len(table)
    )
    left = table[table.columns[0]] * 0
    for role in fmt.in_order(table.columns):
        axes.barh(range(len(table)), table[role], left=left, color=svg.light(role), height=0.66)
        left = left + table[role]
    axes.set_yticks(range(len(table)), [shortened(name) for name in table.index])
    axes.invert_yaxis()
    axes.yaxis.grid(visible=False)
    canvas.count_ticks(axes.xaxis, steps=3 if size.is_narrow else 5)
    canvas.finish(axes)
    return figure


def shortened(name: str) -> str:
    """Return a name that leaves room for its bar."""
    return name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 1]}…"
