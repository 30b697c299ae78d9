"""How much of the traffic is sequential."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.sequentiality import sequentiality as draw
from tracekit.report.formatting import rows
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys

TITLE = "Sequentiality"
SHOWN_STREAMS = 12


def sequentiality(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("workload/sequentiality")
    if evidence is None:
        return Missing(TITLE, "analyze")
    busiest = evidence.table.sort_values("request_count", ascending=False, kind="stable")
    several = evidence.table["device"].nunique() > 1
    bars = busiest.head(SHOWN_STREAMS).assign(
        kind=[
            f"{row.operation} on {fmt.printable(row.device)}" if several else row.operation
            for row in rows(busiest.head(SHOWN_STREAMS))
        ]
    )
    drawn = figure(
        draw,
        replace(evidence, table=bars),
        title="Requests that begin where the one before them ended",
        says=says(busiest),
        legend=role_keys(bars[["role"]]),
    )
    return Section(
        "sequentiality",
        TITLE,
        {
            "figure": replace(drawn, evidence=evidence),
            "run_lengths": inputs.finding("workload/run_lengths"),
            "jumps": inputs.finding("workload/jumps"),
        },
    )


def says(table: pd.DataFrame) -> list[str]:
    """Say the share of each busy stream and how long its runs are."""
    sentences = []
    for row in rows(table.head(4)):
        sentences.append(
            f"{fmt.role_title(row.role).capitalize()} {fmt.verb_plural(row.operation)}: "
            f"{fmt.share(row.sequential_ratio)} sequential, in runs of "
            f"{fmt.number(row.run_avg_requests)} requests on average."
        )
    return sentences or ["The trace holds no read and no write."]
