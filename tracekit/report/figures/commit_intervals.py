"""Time from one cache flush of a role to its next: the share that are this soon or sooner."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def commit_intervals(table: pd.DataFrame, size: Size) -> Figure:
    """Draw one step curve for each role, and for each operation where the table has it."""
    return canvas.cumulative_times(
        table, size, x_title="time to the next flush", y_title="Flushes this soon or sooner"
    )
