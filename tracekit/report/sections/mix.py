"""Which operations each role queues, with their flags."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.mix import mix as draw
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys

TITLE = "Mix of operations"
SHOWN_KINDS = 12
FLAGS = {"is_preflush": "flush first", "is_fua": "FUA", "is_meta": "meta"}


def mix(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("traffic/mix")
    if evidence is None:
        return Missing(TITLE, "analyze")
    bars = kinds(evidence.table)
    drawn = figure(
        draw,
        replace(evidence, table=bars.head(SHOWN_KINDS)),
        title="Requests by operation and flags",
        says=says(evidence.table),
        legend=role_keys(bars[["role"]]),
    )
    return Section("mix", TITLE, {"figure": replace(drawn, evidence=evidence)})


def kinds(table: pd.DataFrame) -> pd.DataFrame:
    """Name each combination of operation and flags, the most frequent first."""
    names = []
    for _, row in table.iterrows():
        # An empty flush carries its preflush flag by nature.
        flags = [text for flag, text in FLAGS.items() if row[flag] and row["operation"] != "flush"]
        names.append(", ".join([str(row["operation"]), *flags]))
    named = table.assign(kind=names)[["role", "kind", "request_count"]]
    counted = named.groupby(["role", "kind"]).sum().reset_index()
    return counted.sort_values(
        ["request_count", "role", "kind"], ascending=[False, True, True], ignore_index=True
    )


def says(table: pd.DataFrame) -> list[str]:
    """Say the share of writes, and how often the cache of the device must be flushed."""
    total = table["request_count"].sum()
    if total == 0:
        return ["The trace holds no request."]
    writes = table.loc[table["operation"] == "write", "request_count"].sum()
    reads = table.loc[table["operation"] == "read", "request_count"].sum()
    sentences = [
        f"Of {fmt.plural(total, 'request')}, {fmt.share(writes / total)} are writes and "
        f"{fmt.share(reads / total)} reads."
    ]
    flushing = table[table["is_preflush"] | table["is_fua"] | (table["operation"] == "flush")]
    flushes = flushing["request_count"].sum()
    if flushes:
        owners = flushing.groupby("role")["request_count"].sum()
        each = [
            f"{fmt.count(owners[role])} {fmt.role_title(role)}"
            for role in fmt.in_order(owners.index)
        ]
        sentences.append(
            f"{fmt.count(flushes)} of them ({fmt.listing(each)}) wait for the medium: they flush "
            "the cache or force unit access. A device without a volatile cache serves them quickly."
        )
    return sentences
