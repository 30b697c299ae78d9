"""IOPS for the price of the configurations worth naming, as bars."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size


def tier_key(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `iops_per_price` of each `kind` in its `unit`, in the order of the rows."""
    unit = str(table["unit"].iloc[0])
    return canvas.role_bars(table, size, value="iops_per_price", x_title=unit, write=fmt.count)
