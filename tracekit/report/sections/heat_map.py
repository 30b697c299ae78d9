"""Where and when the device is read and written."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.heat_map import heat_map as draw
from tracekit.report.figures.heat_map import scale
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys
from tracekit.units import SECTOR_BYTES

TITLE = "Where and when"
SHOWN_DEVICES = 4


def heat_map(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("locality/heat_map")
    if evidence is None:
        return Missing(TITLE, "analyze")
    cells = evidence.table.assign(
        bytes=evidence.table["read_bytes"] + evidence.table["write_bytes"]
    )
    devices = list(dict.fromkeys(cells["device"]))
    figures = []
    for number, device in enumerate(devices[:SHOWN_DEVICES]):
        mine = cells[cells["device"] == device]
        drawn = figure(
            draw,
            replace(evidence, table=mine),
            title=f"Bytes read and written on {fmt.printable(device)}, by time and address",
            says=says(mine),
            legend=role_keys(mine[["role"]]),
            name=f"heat-map-{number}",
        )
        figures.append(replace(drawn, evidence=evidence))
    return Section(
        "heat_map",
        TITLE,
        {
            "figures": figures,
            "hidden_count": max(0, len(devices) - SHOWN_DEVICES),
        },
    )


def says(cells: pd.DataFrame) -> list[str]:
    """Say the busiest part of the device and how much of the touched range is idle."""
    if cells.empty or not cells["bytes"].sum():
        return ["No data was read or written."]
    parts = cells.groupby("part_number")["bytes"].sum()
    busiest = cells[cells["part_number"] == parts.idxmax()].iloc[0]
    length_bytes = busiest["part_sectors"] * SECTOR_BYTES
    low_bytes, high_bytes = scale(cells)
    all_parts = parts.index.max() + 1
    return [
        f"The busiest part, {fmt.data(length_bytes)} from "
        f"{fmt.data(busiest['part_sector'] * SECTOR_BYTES)} on, takes "
        f"{fmt.share(parts.max() / parts.sum())} of the bytes.",
        f"{fmt.count(len(parts))} of {fmt.count(all_parts)} parts are touched at all.",
        f"The faintest cells hold {fmt.data(low_bytes)} or less, the strongest "
        f"{fmt.data(high_bytes)}; the scale between is logarithmic.",
    ]
