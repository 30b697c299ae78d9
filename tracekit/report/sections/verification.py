"""Whether the model's prediction held when base and placement were replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.report.figures.verification import verification as draw
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section, figure

TITLE = "Does the prediction hold?"
DEVICES = {"base": "base alone", "placement": "as placed"}


def verification(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has verified the placement."""
    told = inputs.told("verification", command="verify-placement")
    if told is None:
        return None
    result, evidence = told
    shown = figure(
        draw,
        replace(evidence, table=bars(evidence.table)),
        title=f"{_what(result)} time, predicted and replayed",
        says=[],
    )
    return Section(
        "verification",
        TITLE,
        {"headline": result["headline"], "figure": replace(shown, evidence=evidence)},
    )


def _what(result: Mapping[str, Any]) -> str:
    return "Mean response" if result.get("queueing", "serial") == "open" else "Elapsed"


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """Return a bar for the prediction and one for the median replay of each kind."""
    found = table.groupby("devices").median(numeric_only=True)
    cells = [
        {"kind": f"{DEVICES[name]}, {how}", "role": role, "elapsed_ns": found.loc[name, column]}
        for name, role in (("base", "base"), ("placement", "combined"))
        for how, column in (("predicted", "predicted_ns"), ("replayed", "measured_ns"))
    ]
    return pd.DataFrame(cells)
