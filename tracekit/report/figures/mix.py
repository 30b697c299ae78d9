"""The mix of operations: one bar for each operation with its flags, in the colour of its role."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def mix(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `request_count` of each `kind`; the rows come in the order of drawing."""
    return canvas.role_bars(table, size, value="request_count", x_title="requests as queued")
