"""Latencies of one step of a request's way: the share of requests that took this long or less."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def distribution(table: pd.DataFrame, size: Size) -> Figure:
    """Draw one step curve for each role, and for each operation where the table has it."""
    return canvas.cumulative_times(
        table, size, x_title="latency", y_title="Requests that took this long or less"
    )
