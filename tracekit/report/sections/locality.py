"""Where the requests go: the hottest blocks, the working set, a map of time and address."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size, Variable
from tracekit.report.formatting import every_window, sentence
from tracekit.report.heat_map import HeatMap
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import (
    Parts,
    analyzed,
    chart,
    charts_by_device,
    role_keys,
    section,
)
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES


def draw_coverage(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `traffic_ratio` over `hotter_bytes`, a curve a role and a dotted one for all roles."""
    roles = sorted(set(table["role"]) - {"all"})
    return charts.curves(
        charts.with_origins(table, "role", hotter_bytes=0.0, traffic_ratio=0.0),
        size,
        by="role",
        styles={role: Key(role, "", "solid") for role in roles} | {"all": ALL_ROLES},
        x=Variable("hotter_bytes", "size of the hottest blocks", charts.capacity_axis),
        y=Variable("traffic_ratio", "Share of the role's block touches", charts.share_axis),
    )


ALL_ROLES = Key("black", "all roles", "dotted")
HALF, MOST = 0.5, 0.9
WHY_UNKNOWN = {
    "none": "in no file that was seen",
    "earlier": "before the file had the place",
    "shared": "in several files",
    "renamed": "in files that were renamed",
    "reused": "in files that came after others",
    "changed": "in files that changed, of which the places before are not known",
    "moved": "where a file was that is elsewhere now",
    "deleted": "of deleted files",
    "unseen": "of files that were not looked for again",
}


@analyzed(
    "Hot blocks",
    "locality/coverage",
    optional=("locality/temperature", "locality/hottest"),
)
def coverage(
    evidence: Evidence, *, temperature: Evidence | None, hottest: Evidence | None
) -> Parts:
    """Show how much of the traffic the hottest blocks of each role take."""
    drawn = chart(
        draw_coverage,
        evidence,
        title="Traffic that the hottest blocks take",
        sentences=describe_coverage(evidence.table),
        legend=(*role_keys(evidence.table), ALL_ROLES),
    )
    return {"figure": drawn, "temperature": temperature, "hottest": hottest}


def describe_coverage(table: pd.DataFrame) -> list[str]:
    """Describe how much NVM takes half and nine tenths of each role's touches."""
    text = (
        "{role:Role}: half of the touches fall on the hottest {half:data}, nine tenths on the"
        " hottest {most:data}, of {touched:data} touched."
    )
    curves = [
        (role, table[table["role"] == role]) for role in (*fmt.in_order(table["role"]), "all")
    ]
    return [
        sentence(
            text,
            role=role,
            half=bytes_for(curve, HALF),
            most=bytes_for(curve, MOST),
            touched=curve["hotter_bytes"].max(),
        )
        for role, curve in curves
        if not curve.empty
    ] or ["No block was touched."]


def bytes_for(curve: pd.DataFrame, traffic_ratio: float) -> int:
    """Return the size of the fewest blocks that take this share of a role's touches.

    Exact, not an estimate: between two rows all blocks have the same number of touches.
    """
    touched = np.concatenate([[0.0], curve["hotter_bytes"].to_numpy(float)])
    taken = np.concatenate([[0.0], curve["traffic_ratio"].to_numpy(float)])
    blocks = np.interp(traffic_ratio, taken, touched) / BLOCK_BYTES
    return int(np.ceil(blocks - 1e-6)) * BLOCK_BYTES


@analyzed("Working set", "locality/footprint")
def footprint(evidence: Evidence) -> Parts:
    """Show how many blocks are in use at a time, and how their number grows."""
    curves = {"touched_bytes": in_use(evidence.table), "seen_bytes": evidence.table}
    drawn = [
        chart(
            charts.over_time(column, "Size of the blocks", scale=charts.data_axis),
            evidence.showing(curves[column]),
            title=title,
            sentences=sentences,
            name=f"footprint-{column.partition('_')[0]}",
        )
        for column, title, sentences in (
            ("touched_bytes", "Touched in each window", describe_windows(evidence.table)),
            ("seen_bytes", "Touched since the start", describe_new_blocks(evidence.table)),
        )
    ]
    return {"figures": drawn}


SOME_WINDOWS = 2


def in_use(table: pd.DataFrame) -> pd.DataFrame:
    """Return what each window touches, nothing where it touched nothing.

    Without the last of several: the trace ends within it, which would look like a collapse.
    """
    starts = sorted(set(table["window_ns"]))
    length_ns = min((after - before for before, after in pairwise(starts)), default=0)
    if len(starts) > SOME_WINDOWS:
        table = table[table["window_ns"] < starts[-1]]
    return every_window(table, float(length_ns), values=["touched_bytes"], missing=0.0)


def describe_windows(table: pd.DataFrame) -> list[str]:
    """Describe how much each role touches within one window."""
    starts = sorted(set(table["window_ns"]))
    lasting = f"{fmt.duration(starts[1] - starts[0])} each" if len(starts) > 1 else "all in one"
    most = table.groupby("role")["touched_bytes"].max()
    fullest = [
        f"{fmt.data(most[role])} {fmt.role_title(str(role))}"
        for role in fmt.in_order(table["role"])
    ]
    rest = ", the last not drawn as the trace ends in it" if len(starts) > SOME_WINDOWS else ""
    return [
        f"{fmt.plural(len(starts), 'window')}, {lasting}{rest}."
        f" At most {fmt.listing(fullest)} in one."
    ]


def describe_new_blocks(table: pd.DataFrame) -> list[str]:
    """Describe how much of what a window touches is new to the trace."""
    text = (
        "{role:Role}: {seen:data} in all; {new:share} of what a window touches was never touched"
        " before."
    )
    sums = table.groupby("role").agg(
        seen=("seen_bytes", "max"), touched=("touched_blocks", "sum"), new=("new_blocks", "sum")
    )
    return [
        sentence(text, role=role, seen=sums["seen"][role], new=sums["new"][role] / touched)
        for role in fmt.in_order(table["role"])
        if (touched := sums["touched"][role])
    ] or ["No block was touched."]


def draw_role_strip(axes: Axes, table: pd.DataFrame) -> None:
    """Show beside the cells which role most of a part's bytes belong to."""
    by_role = table.groupby(["row", "role"])[["bytes"]].sum().reset_index()
    owners = by_role.sort_values("bytes").drop_duplicates("row", keep="last")
    columns = int(table["window_number"].max()) + 1
    width = columns * 0.012
    for role in fmt.in_order(owners["role"]):
        rows = owners.loc[owners["role"] == role, "row"]
        axes.bar(
            [columns + 1.5 * width] * len(rows),
            [1] * len(rows),
            width=width,
            bottom=rows - table["row"].min(),
            color=charts.light(role),
            linewidth=0,
        )
    axes.set_xlim(0, columns + 2.5 * width)


PATH_CHARACTERS = 100
ADDRESSES = HeatMap(
    y_title="Address on the device",
    kind="data",
    values={"request_count": "count", "bytes": "data"},
    beside=draw_role_strip,
)


@analyzed("Where and when", "locality/heat_map", optional=("locality/heat_map_files",))
def heat_map(evidence: Evidence, *, heat_map_files: Evidence | None) -> Parts:
    """Show where and when each device is read and written, and of which files that is."""
    files = None if heat_map_files is None else heat_map_files.table
    drawn = charts_by_device(
        ADDRESSES,
        evidence.showing(cells_of(evidence.table, files)),
        title="Bytes read and written on {}, by time and address",
        describe=describe_heat_map,
        name="heat-map",
    )
    return {**drawn, "files": heat_map_files}


def cells_of(table: pd.DataFrame, files: pd.DataFrame | None) -> pd.DataFrame:
    """Return the finding as cells that are ranges of bytes, with the `files` of their part."""
    cells = table.assign(
        row=table["part_number"],
        low=table["part_sector"] * SECTOR_BYTES,
        high=(table["part_sector"] + table["part_sectors"]) * SECTOR_BYTES,
        request_count=table["read_count"] + table["write_count"],
        bytes=table["read_bytes"] + table["write_bytes"],
    )
    if files is None:
        return cells
    found: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for one in fmt.rows(files):
        name = fmt.shortened(fmt.printable(one.path), PATH_CHARACTERS)
        found.setdefault((one.device, one.part_number), []).append((name, one.request_count))
    keys = zip(cells["device"], cells["part_number"], strict=True)
    of_cells: Any = [found.get(key, []) for key in keys]
    return cells.assign(files=of_cells)


def describe_heat_map(cells: pd.DataFrame) -> list[str]:
    """Describe the busiest part of the device and how much of the touched range is idle."""
    if cells.empty or not cells["bytes"].sum():
        return ["No data was read or written."]
    parts = cells.groupby("part_number")["bytes"].sum()
    busiest = cells[cells["part_number"] == parts.idxmax()].iloc[0]
    length_bytes = busiest["part_sectors"] * SECTOR_BYTES
    all_parts = parts.index.max() + 1
    return [
        f"The busiest part, {fmt.data(length_bytes)} from "
        f"{fmt.data(busiest['part_sector'] * SECTOR_BYTES)}, takes "
        f"{fmt.share(parts.max() / parts.sum())} of the bytes.",
        f"{fmt.count(len(parts))} of {fmt.count(all_parts)} parts are touched at all.",
    ]


@section("Files")
def files_of_blocks(inputs: Inputs) -> Parts | None:
    """Show which files and directories the blocks are of; nothing without a map of files."""
    found = inputs.finding("locality/named_blocks")
    if found is None or found.table.empty:
        return None
    hottest = {
        name: inputs.finding(f"locality/hottest_{name}") for name in ("files", "directories")
    }
    return {"sentences": describe_names(found.table), "named": found, **hottest}


def describe_names(table: pd.DataFrame) -> list[str]:
    """Describe how much of each role's traffic is of known files, and why the rest is not."""
    found = []
    for role, rows in table.groupby("role", sort=False):
        named = rows[rows["is_named"]]["traffic_ratio"].sum()
        rest = rows[~rows["is_named"].astype(bool)]
        why = "; ".join(
            f"{fmt.share(row['traffic_ratio'])} {WHY_UNKNOWN[row['state']]}"
            for row in rest.to_dict("records")
        )
        text = f"{fmt.role_title(str(role))}: {fmt.share(named)} of the touches are of known files"
        found.append(f"{text}; of the rest: {why}." if why else f"{text}.")
    return found
