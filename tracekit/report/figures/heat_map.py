"""Time x address: how many bytes were read and written where and when, for one device."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgb
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size
from tracekit.units import SECTOR_BYTES

DECADES = 3


def heat_map(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `bytes` of each window and part of the address range; a strip shows the roles."""
    figure, axes = canvas.canvas(
        size,
        x_title="time since the start",
        y_title="Address on the device",
        height_px=300 if size.is_narrow else 380,
    )
    cells = table.pivot_table(
        index="part_number", columns="window_number", values="bytes", aggfunc="sum"
    )
    cells = cells.where(cells > 0)
    cells = cells.reindex(
        index=range(int(table["part_number"].max()) + 1),
        columns=range(int(table["window_number"].max()) + 1),
    )
    low_bytes, high_bytes = scale(table)
    # Transparent to opaque in one hue, so that the picture stands on a light or a dark page.
    ramp = LinearSegmentedColormap.from_list("heat", [(*_heat_rgb(), 0.12), (*_heat_rgb(), 1.0)])
    sns.heatmap(
        cells,
        cmap=ramp,
        norm=LogNorm(vmin=low_bytes, vmax=high_bytes, clip=True),
        cbar=False,
        rasterized=True,
        ax=axes,
    )
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel("time since the start")
    _number_axes(axes, table)
    _draw_role_strip(axes, table, columns=len(cells.columns))
    canvas.finish(axes)
    return figure


def scale(table: pd.DataFrame) -> tuple[float, float]:
    """Return the bytes of the faintest and of the strongest cell colour, at most DECADES apart."""
    high_bytes = max(float(table["bytes"].max()), 2.0)
    smallest = float(table.loc[table["bytes"] > 0, "bytes"].min()) if high_bytes > 2 else 1.0
    return max(min(smallest, high_bytes / 2), high_bytes / 10**DECADES), high_bytes


def _heat_rgb() -> tuple[float, float, float]:
    return to_rgb(svg.light("heat"))


def _number_axes(axes: Axes, table: pd.DataFrame) -> None:
    """Write time and address at a few cells; the cells themselves are only numbered."""
    windows = table["window_number"].max() + 1
    parts = table["part_number"].max() + 1
    window_ns = float(table["window_length_ns"].iloc[0])
    first = table.iloc[int(table["part_number"].argmin())]
    part_sectors = int(first["part_sectors"])
    origin = int(first["part_sector"]) - int(first["part_number"]) * part_sectors
    columns = [windows * quarter / 4 for quarter in range(5)]
    rows = [parts * quarter / 4 for quarter in range(5)]
    axes.set_xticks(
        columns, [fmt.duration(place * window_ns) if place else "0" for place in columns]
    )
    axes.set_yticks(
        rows, [fmt.data((origin + place * part_sectors) * SECTOR_BYTES) for place in rows]
    )
    axes.tick_params(axis="both", rotation=0)


def _draw_role_strip(axes: Axes, table: pd.DataFrame, *, columns: int) -> None:
    """Show beside the cells which role most of a part's bytes belong to."""
    by_role = table.groupby(["part_number", "role"])[["bytes"]].sum().reset_index()
    owners = by_role.sort_values("bytes").drop_duplicates("part_number", keep="last")
    width = columns * 0.012
    for role in fmt.in_order(owners["role"]):
        parts = owners.loc[owners["role"] == role, "part_number"]
        axes.bar(
            [columns + 1.5 * width] * len(parts),
            [1] * len(parts),
            width=width,
            bottom=parts,
            color=svg.light(role),
            linewidth=0,
        )
    axes.set_xlim(0, columns + 2.5 * width)
