"""How long it is from one request to the next."""

from __future__ import annotations

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.interarrival import interarrival as draw
from tracekit.report.formatting import rows
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys

TITLE = "Gaps between requests"
BURST_RATIO = 10


def interarrival(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("workload/interarrival")
    percentiles = inputs.finding("workload/interarrival_percentiles")
    if evidence is None or percentiles is None:
        return Missing(TITLE, "analyze")
    drawn = figure(
        draw,
        evidence,
        title="Cumulative share of gaps by length",
        says=says(percentiles.table),
        legend=role_keys(evidence.table),
    )
    return Section("interarrival", TITLE, {"figure": drawn, "percentiles": percentiles})


def says(table: pd.DataFrame) -> list[str]:
    """Say the middle and the mean of each role's gaps, and whether it arrives in bursts."""
    sentences = []
    for row in rows(table):
        text = (
            f"{fmt.role_title(row.role).capitalize()}: half of the gaps are at most "
            f"{fmt.duration(row.gap_p50_ns)}, the mean is {fmt.duration(row.gap_avg_ns)}"
        )
        if row.gap_avg_ns >= BURST_RATIO * row.gap_p50_ns:
            times = row.gap_avg_ns / max(row.gap_p50_ns, 1)
            text += f", {fmt.count(times)} times as long: it arrives in bursts"
        sentences.append(f"{text}.")
    return sentences or ["There are fewer than two requests of any role."]
