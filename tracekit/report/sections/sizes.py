"""How large the requests are."""

from __future__ import annotations

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.sizes import sizes as draw
from tracekit.report.formatting import largest
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys

TITLE = "Request sizes"


def sizes(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("traffic/sizes")
    if evidence is None:
        return Missing(TITLE, "analyze")
    drawn = figure(
        draw,
        evidence,
        title="Cumulative share of requests by length",
        says=says(evidence.table),
        legend=role_keys(evidence.table),
    )
    return Section("sizes", TITLE, {"figure": drawn, "merges": inputs.finding("traffic/merges")})


def says(table: pd.DataFrame) -> list[str]:
    """Say the commonest length of each role and operation."""
    sentences = []
    for (role, operation), group in table.groupby(["role", "operation"], sort=True):
        commonest = largest(group, "request_count")
        part = commonest["request_count"] / group["request_count"].sum()
        subject = f"{fmt.role_title(str(role)).capitalize()} {fmt.verb_plural(str(operation))}"
        length = fmt.data(commonest["length_bytes"])
        longest = fmt.data(group["length_bytes"].max())
        sentences.append(
            f"{subject}: all are {length} long."
            if len(group) == 1
            else f"{subject}: {fmt.share(part)} are {length} long, the longest {longest}."
        )
    return sentences or ["No request of this trace carries data."]
