"""How late the requests of a replay were, or how long their responses took."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def replayed_distribution(table: pd.DataFrame, size: Size, *, x_title: str) -> Figure:
    """Draw one step curve a role, for one replay and one measure."""
    return canvas.cumulative_times(
        table, size, x_title=x_title, y_title="Requests that took this long or less"
    )
