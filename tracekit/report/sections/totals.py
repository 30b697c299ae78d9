"""How much traffic each role gets and how hot it is: the study's Figs. 3 and 4."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.totals import totals as draw
from tracekit.report.formatting import largest, rows
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure

TITLE = "Traffic by role"


def totals(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("traffic/totals")
    if evidence is None:
        return Missing(TITLE, "analyze")
    table = evidence.table.assign(
        accesses_per_sector=evidence.table["total_sectors"]
        / evidence.table["distinct_sectors"].where(evidence.table["distinct_sectors"] > 0)
    )
    touched = table[table["total_sectors"] > 0]
    drawn = figure(
        draw,
        replace(evidence, table=touched),
        title="Sectors read and written, and how many different ones",
        says=says(touched),
    )
    return Section("totals", TITLE, {"figure": replace(drawn, evidence=evidence)})


def says(table: pd.DataFrame) -> list[str]:
    """Say which role has most of the traffic and which is touched again and again."""
    if table.empty:
        return ["No sector was read or written in this trace."]
    all_sectors = table["total_sectors"].sum()
    busiest = largest(table, "total_sectors")
    hottest = largest(table, "accesses_per_sector")
    each = [
        f"{row.accesses_per_sector:.2f} times in the {fmt.role_title(row.role)}"
        for row in rows(table)
    ]
    sentences = [
        f"Most traffic goes to the {fmt.role_title(busiest['role'])}: "
        f"{fmt.share(busiest['total_sectors'] / all_sectors)} of all sectors read and written.",
        f"A sector is touched {fmt.listing(each)} on average.",
    ]
    if len(table) > 1:
        sentences.append(
            f"The larger that number, the shorter the pale bar beside the full one and the more "
            f"a small NVM can catch: here most in the {fmt.role_title(hottest['role'])}."
        )
    return sentences
