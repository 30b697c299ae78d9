"""Gaps between the requests of a role: the share of gaps that are this long or shorter."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def interarrival(table: pd.DataFrame, size: Size) -> Figure:
    """Draw one step curve for each role, and for each operation where the table has it."""
    return canvas.cumulative_times(
        table, size, x_title="gap to the next request", y_title="Gaps of this length or shorter"
    )
