"""What PCM above flash gains for the same money when one parameter changes, one bar a change."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def cache_sensitivity(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `gain_ratio` of each `kind`, in the order of the rows."""
    return canvas.gain_bars(table, size, x_title="saved by the best split against all flash")
