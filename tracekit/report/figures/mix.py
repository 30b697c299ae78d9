"""The mix of operations: one bar for each operation with its flags, in the colour of its role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.report import canvas
from tracekit.report.svg import Size

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def mix(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `request_count` of each `kind`; the rows come in the order of drawing."""
    return canvas.role_bars(table, size, value="request_count", x_title="requests as queued")
