"""How much of a role's traffic its hottest blocks take."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size


def coverage(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `traffic_ratio` over `hotter_bytes`, a curve a role and a dotted one for all roles."""
    figure, axes = canvas.canvas(
        size, x_title="size of the hottest blocks", y_title="Share of the role's block touches"
    )
    curves = _from_origin(table)
    canvas.role_curves(axes, curves[curves["role"] != "all"], x="hotter_bytes", y="traffic_ratio")
    together = curves[curves["role"] == "all"]
    sns.lineplot(
        x=together["hotter_bytes"],
        y=together["traffic_ratio"],
        color=svg.light("optimal"),
        linestyle="dotted",
        estimator=None,
        ax=axes,
    )
    axes.set_xlabel("size of the hottest blocks")
    axes.margins(x=0.02)
    canvas.data_axis(axes.xaxis, table["hotter_bytes"].max(), steps=4 if size.is_narrow else 8)
    canvas.share_axis(axes.yaxis)
    canvas.finish(axes)
    return figure


def _from_origin(table: pd.DataFrame) -> pd.DataFrame:
    """Add the point of no blocks and no traffic to each curve."""
    columns = ["role", "hotter_bytes", "traffic_ratio"]
    origins = pd.DataFrame({"role": sorted(set(table["role"])), columns[1]: 0.0, columns[2]: 0.0})
    curves = table[columns].astype({columns[1]: float, columns[2]: float})
    return pd.concat([origins, curves], ignore_index=True)
