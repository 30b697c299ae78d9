"""How much of each role's traffic goes on where the request before it ended."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size


def sequentiality(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `sequential_ratio` of each `kind`."""
    return canvas.role_bars(
        table, size, value="sequential_ratio", x_title="share of requests", write=fmt.share
    )
