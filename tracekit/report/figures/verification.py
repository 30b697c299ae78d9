"""Elapsed time as the model predicts it and as the replay took it, as bars."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size


def verification(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `elapsed_ns` of each `kind`, in the order of the rows."""
    return canvas.role_bars(
        table, size, value="elapsed_ns", x_title="elapsed time", write=fmt.duration
    )
