"""How small the hot part of each role is."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.coverage import coverage as draw
from tracekit.report.inputs import Inputs
from tracekit.report.section import Key, Missing, Section, figure, role_keys
from tracekit.units import BLOCK_BYTES

TITLE = "Hot blocks"
HALF, MOST = 0.5, 0.9


def coverage(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `classify` and `analyze` have not run."""
    evidence = inputs.finding("locality/coverage")
    if evidence is None:
        return Missing(TITLE, "analyze")
    drawn = figure(
        draw,
        evidence,
        title="Traffic that the hottest blocks take",
        says=says(evidence.table),
        legend=(*role_keys(evidence.table), Key("optimal", "all roles", "dotted")),
    )
    return Section(
        "coverage",
        TITLE,
        {
            "figure": drawn,
            "temperature": inputs.finding("locality/temperature"),
            "hottest": inputs.finding("locality/hottest"),
        },
    )


def says(table: pd.DataFrame) -> list[str]:
    """Say how much NVM takes half and nine tenths of each role's touches."""
    sentences = []
    for role in (*fmt.in_order(table["role"]), "all"):
        curve = table[table["role"] == role]
        if curve.empty:
            continue
        half, most = (fmt.data(bytes_for(curve, part)) for part in (HALF, MOST))
        name = "All roles together" if role == "all" else fmt.role_title(role).capitalize()
        sentences.append(
            f"{name}: half of the touches fall on the hottest {half}, nine tenths on the hottest "
            f"{most}, of {fmt.data(curve['hotter_bytes'].max())} touched."
        )
    return sentences or ["No block was touched."]


def bytes_for(curve: pd.DataFrame, traffic_ratio: float) -> int:
    """Return the size of the fewest blocks that take this share of a role's touches.

    Exact, not an estimate: between two rows all blocks have the same number of touches.
    """
    touched = np.concatenate([[0.0], curve["hotter_bytes"].to_numpy(float)])
    taken = np.concatenate([[0.0], curve["traffic_ratio"].to_numpy(float)])
    blocks = np.interp(traffic_ratio, taken, touched) / BLOCK_BYTES
    return int(np.ceil(blocks - 1e-6)) * BLOCK_BYTES
