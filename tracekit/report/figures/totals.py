"""Total and distinct sectors by role: Figs. 3 and 4 of the study, on one scale."""

from __future__ import annotations

from typing import cast

import pandas as pd
import seaborn as sns
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

DISTINCT_ALPHA = 0.4


def totals(table: pd.DataFrame, size: Size) -> Figure:
    """Draw two bars a role: every access to a sector, and each sector once."""
    present = fmt.in_order(table["role"])
    figure, axes = canvas.canvas(
        size, x_title="512-byte sectors", y_title="", height_px=70 + 78 * len(present)
    )
    bars = table.melt("role", ["total_sectors", "distinct_sectors"], "kind", "sectors")
    sns.barplot(
        bars.astype({"sectors": float}),
        x="sectors",
        y="role",
        hue="kind",
        order=present,
        palette=[svg.light("other")] * 2,
        width=0.66,
        saturation=1,
        errorbar=None,
        ax=axes,
    )
    for kind, container in enumerate(cast("list[BarContainer]", axes.containers)):
        for role, bar in zip(present, container, strict=True):
            bar.set_facecolor(svg.light(role))
            bar.set_alpha(DISTINCT_ALPHA if kind == 1 else 1)
        axes.bar_label(container, fmt=fmt.count, padding=4, color=svg.light("quiet"))
    axes.set_yticks(range(len(present)), [fmt.role_title(role) for role in present])
    axes.margins(x=0.16 if not size.is_narrow else 0.3)
    axes.yaxis.grid(visible=False)
    canvas.count_ticks(axes.xaxis, steps=3 if size.is_narrow else 5)
    canvas.finish(axes)
    return figure
