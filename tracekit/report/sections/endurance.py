"""How often pages are written, how long NVM lasts with each placement, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.endurance import endurance as draw
from tracekit.report.inputs import Inputs
from tracekit.report.section import Key, Section, figure

TITLE = "Writes, wear and price"
MIXED = {"combined": "roles split", "optimal": "hottest blocks"}
KEYS = (
    Key("quiet", "mean: the write invalidation factor"),
    Key("fs", "99 % of the pages have at most this"),
    Key("combined", "the page written most"),
)


def endurance(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has asked."""
    evidence = inputs.simulation("endurance", command="endurance")
    result = inputs.simulated("endurance")
    if evidence is None or result is None:
        return None
    shown = figure(
        draw,
        replace(evidence, table=written(evidence.table)),
        title="Writes of a page, by role and on the NVM of each placement",
        says=[],
        legend=KEYS,
    )
    parts = {"result": result, "figure": replace(shown, evidence=evidence)}
    return Section("endurance", TITLE, parts)


def written(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a written page and what they are called."""
    chosen = table[table["written_pages"] > 0]
    return chosen.assign(
        label=[
            name if kind == "role" else f"on NVM: {name}"
            for kind, name in zip(chosen["kind"], chosen["name"].map(_title), strict=True)
        ]
    )


def _title(name: str) -> str:
    return MIXED.get(name) or fmt.role_title(name)
