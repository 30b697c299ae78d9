"""How large the working set is over time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.footprint import footprint as draw
from tracekit.report.formatting import every_window
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys

TITLE = "Working set"


def footprint(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `classify` and `analyze` have not run."""
    evidence = inputs.finding("locality/footprint")
    if evidence is None:
        return Missing(TITLE, "analyze")
    curves = {"touched_bytes": in_use(evidence.table), "seen_bytes": evidence.table}
    drawn = [
        figure(
            partial(draw, column=column),
            replace(evidence, table=curves[column]),
            title=title,
            says=sentences,
            legend=role_keys(evidence.table),
            name=f"footprint-{column.partition('_')[0]}",
        )
        for column, title, sentences in (
            ("touched_bytes", "Touched in each window", windows(evidence.table)),
            ("seen_bytes", "Touched since the start", says(evidence.table)),
        )
    ]
    shown = [replace(each, evidence=evidence) for each in drawn]
    return Section("footprint", TITLE, {"figures": shown})


def in_use(table: pd.DataFrame) -> pd.DataFrame:
    """Return what each window touches, nothing where it touched nothing."""
    starts = sorted(set(table["window_ns"]))
    length_ns = min((after - before for before, after in pairwise(starts)), default=0)
    return every_window(table, float(length_ns), values=["touched_bytes"], missing=0.0)


def windows(table: pd.DataFrame) -> list[str]:
    """Say how much each role touches within one window."""
    starts = sorted(set(table["window_ns"]))
    lasting = f"{fmt.duration(starts[1] - starts[0])} each" if len(starts) > 1 else "all in one"
    most = table.groupby("role")["touched_bytes"].max()
    fullest = [
        f"{fmt.data(most[role])} {fmt.role_title(role)}" for role in fmt.in_order(table["role"])
    ]
    return [
        f"{fmt.plural(len(starts), 'window')}, {lasting}. At most {fmt.listing(fullest)} in one."
    ]


def says(table: pd.DataFrame) -> list[str]:
    """Say how much of what a window touches is new to the trace."""
    sentences = []
    for role in fmt.in_order(table["role"]):
        mine = table[table["role"] == role]
        touched, new = mine["touched_blocks"].sum(), mine["new_blocks"].sum()
        if touched:
            sentences.append(
                f"{fmt.role_title(role).capitalize()}: {fmt.data(mine['seen_bytes'].max())} in"
                f" all; {fmt.share(new / touched)} of what a window touches was never touched"
                " before."
            )
    return sentences or ["No block was touched."]
