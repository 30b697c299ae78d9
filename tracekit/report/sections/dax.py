"""For which workloads of a sweep DAX pays, beside each target without it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.dax import dax_ratios, dax_savings
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Key, Section, figure
from tracekit.report.sections.file_runs import step_colour, varied_settings, varied_words
from tracekit.sweep.summary import paragraphs, stand_ins

TITLE = "Where DAX pays"
MOST_KINDS = 24  # more settings than that are told in words and in the table
COLOURS = {
    "pays": "swap",
    "does not pay": "journal",
    "no difference": "fs",
    "not decided": "unknown",
}


def dax(inputs: Inputs) -> Section | None:
    """Build the section; None unless a sweep has targets with and without DAX."""
    if not inputs.folder.has("files/file_runs"):
        return None
    verdicts = inputs.computed("files/dax_verdicts")
    if verdicts.table.empty:
        return None
    rows = [
        {str(key): None if fmt.is_missing(value) else value for key, value in row.items()}
        for row in verdicts.table.to_dict("records")
    ]
    figures = [_ratios(verdicts), _savings(inputs.computed("files/dax_savings"))]
    parts = {"pairs": paragraphs(rows), "figures": figures, "notes": stand_ins(inputs.folder)}
    return Section("dax", TITLE, parts)


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first MOST_KINDS settings and pairs, each with its `kind` in words."""
    varied = varied_settings(table)
    kinds = [
        ", ".join([f"{row['personality']}, {row['other']}", *varied_words(row, varied)])
        for row in table.to_dict("records")
    ]
    if table["target"].nunique() > 1:
        pairs = zip(kinds, table["target"], strict=True)
        kinds = [f"{kind} ({target})" for kind, target in pairs]
    found = table.assign(kind=kinds)
    return found[found["kind"].isin(list(dict.fromkeys(kinds))[:MOST_KINDS])]


def _left_out(table: pd.DataFrame, shown: pd.DataFrame) -> list[str]:
    keys = ["personality", "other", "target", "threads", "settings"]
    count = len(table.drop_duplicates(keys)) - len(shown.drop_duplicates(keys))
    return [f"{fmt.count(count)} more settings are in the table."] if count else []


def _ratios(verdicts: Evidence) -> Figure:
    shown = named(verdicts.table.dropna(subset=["ratio"]))
    colours = [COLOURS[verdict] for verdict in shown["verdict"]]
    told = [verdict for verdict in COLOURS if verdict in set(shown["verdict"])]
    return figure(
        dax_ratios,
        replace(verdicts, table=shown.assign(role=colours)),
        title="Rates with DAX beside those without",
        says=["Lines are 95 % confidence intervals.", *_left_out(verdicts.table, shown)],
        legend=tuple(Key(COLOURS[verdict], verdict) for verdict in told),
        name="dax-ratios",
    )


def _savings(savings: Evidence) -> Figure:
    table = savings.table.dropna(subset=["saved_ratio"])
    order = table["saved_ratio"].abs().groupby(table["step"]).sum().sort_values(ascending=False)
    ranks = {step: rank for rank, step in enumerate(order.index)}
    shown = named(table)
    shown = shown.assign(
        role=[step_colour(step) for step in shown["step"]], rank=shown["step"].map(ranks)
    )
    says = [
        "To the right what DAX saves, to the left what it costs; the dot is both together.",
        *_left_out(table, shown),
    ]
    return figure(
        dax_savings,
        replace(savings, table=shown),
        title="Time that DAX saves at each step",
        says=says,
        legend=tuple(Key(step_colour(str(step)), str(step).replace("_", " ")) for step in ranks),
        name="dax-savings",
    )
