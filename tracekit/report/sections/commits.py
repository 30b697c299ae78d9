"""How often the cache of the device is flushed."""

from __future__ import annotations

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.commit_intervals import commit_intervals as draw
from tracekit.report.formatting import rows
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys

TITLE = "Cache flushes"


def commits(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("workload/commit_intervals")
    totals = inputs.finding("workload/commits")
    if evidence is None or totals is None:
        return Missing(TITLE, "analyze")
    drawn = None
    if not evidence.table.empty:
        drawn = figure(
            draw,
            evidence,
            title="Time from one flush of a role to its next",
            says=says(totals.table),
            legend=role_keys(evidence.table),
        )
    return Section("commits", TITLE, {"figure": drawn, "totals": totals})


def says(table: pd.DataFrame) -> list[str]:
    """Say how often each role flushes and how much it writes in between."""
    return [
        f"{fmt.role_title(row.role).capitalize()}: {fmt.count(row.flush_count)} flushes, one "
        f"every {fmt.duration(row.interval_avg_ns)} on average, with "
        f"{fmt.data(row.write_bytes_per_flush)} written between."
        for row in rows(table)
        if row.flush_count > 1
    ]
