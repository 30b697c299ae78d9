"""Miss ratio against cache size, a curve a role: what locality each has."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size

# One a volume, from the one with the most references.
VOLUME_STYLES = (
    ("fs", "solid"),
    ("journal", "dashed"),
    ("swap", "dashdot"),
    ("combined", "solid"),
    ("base", "dotted"),
)


def cache_curve(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `capacity_bytes` by role, all roles dotted, and the error band."""
    styles = {
        str(role): ("optimal", "dotted") if role == "all" else (str(role), "solid")
        for role in sorted(set(table["role"]))
    }
    return _curves(table, size, by="role", styles=styles)


def cache_volumes(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `capacity_bytes` by volume, in the order of the table."""
    styles = dict(zip(dict.fromkeys(table["volume"]), VOLUME_STYLES, strict=False))
    return _curves(table, size, by="volume", styles=styles)


def _curves(
    table: pd.DataFrame, size: Size, *, by: str, styles: dict[str, tuple[str, str]]
) -> Figure:
    figure, axes = canvas.canvas(size, x_title="cache size", y_title="References that miss")
    for name, (colour_name, line) in styles.items():
        curve = table[(table[by] == name) & (table["capacity_bytes"] > 0)]
        colour = svg.light(colour_name)
        sizes = curve["capacity_bytes"].astype(float)
        axes.plot(
            sizes,
            curve["miss_ratio"],
            color=colour,
            linestyle=line,
            drawstyle="steps-post",
        )
        axes.fill_between(
            sizes,
            curve["miss_ratio_low"].astype(float),
            curve["miss_ratio_high"].astype(float),
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
    canvas.log_data_axis(axes.xaxis, size=size)
    canvas.share_axis(axes.yaxis)
    canvas.finish(axes)
    return figure
