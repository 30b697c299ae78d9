"""Who caused the traffic."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.processes import processes as draw
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys

TITLE = "Processes"
SHOWN_PROCESSES = 12
NOT_KNOWN = "(name not known)"


def processes(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("traffic/processes")
    if evidence is None:
        return Missing(TITLE, "analyze")
    bars = by_process(evidence.table)
    drawn = figure(
        draw,
        replace(evidence, table=bars.head(SHOWN_PROCESSES)),
        title="Requests of the busiest processes, by role",
        says=says(bars),
        legend=role_keys(evidence.table[["role"]]),
    )
    return Section("processes", TITLE, {"figure": replace(drawn, evidence=evidence)})


def by_process(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row a process, the busiest first, and one column of requests a role."""
    names = [
        NOT_KNOWN if fmt.is_missing(name) else fmt.printable(name) for name in table["process"]
    ]
    return (
        table.assign(name=names)
        .pivot_table(
            index=["process_rank", "name"],
            columns="role",
            values="request_count",
            aggfunc="sum",
            fill_value=0,
        )
        .sort_index()
        .droplevel("process_rank")
    )


def says(bars: pd.DataFrame) -> list[str]:
    """Say which process leads, and what the name of a process does and does not mean."""
    if bars.empty:
        return ["The trace holds no request."]
    totals = bars.sum(axis="columns")
    return [
        f"{totals.index[0]} queued {fmt.count(totals.iloc[0])} requests, "
        f"{fmt.share(totals.iloc[0] / totals.sum())} of those of the processes shown.",
        "Delayed writes are queued by kernel threads, so a name says who queued a request, "
        "not always who wrote the data.",
    ]
