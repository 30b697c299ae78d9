"""How the traffic changes over time."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.throughput import throughput as draw
from tracekit.report.formatting import every_window, largest
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, figure, role_keys

TITLE = "Traffic over time"


def throughput(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("traffic/throughput")
    if evidence is None:
        return Missing(TITLE, "analyze")
    rates = by_role(evidence.table)
    drawn = figure(
        draw,
        replace(evidence, table=rates),
        title="Bytes asked for, by role",
        says=says(rates),
        legend=role_keys(rates),
    )
    return Section("throughput", TITLE, {"figure": replace(drawn, evidence=evidence)})


def by_role(table: pd.DataFrame) -> pd.DataFrame:
    """Add up the operations of a role that move data and turn bytes into bytes a second."""
    moving = table[table["operation"].isin(["read", "write"])]
    length_ns = float(table["window_length_ns"].max()) if len(table) else 0.0
    summed = moving.groupby(["role", "window_ns"])[["request_bytes"]].sum().reset_index()
    rates = every_window(summed, length_ns, values=["request_bytes"], missing=0.0)
    return rates.assign(bytes_per_second=rates["request_bytes"] * 1e9 / max(length_ns, 1.0))


def says(rates: pd.DataFrame) -> list[str]:
    """Say the peak of each role and when it was."""
    sentences = []
    for role in fmt.in_order(rates["role"]):
        mine = rates[rates["role"] == role]
        peak = largest(mine, "bytes_per_second")
        sentences.append(
            f"{fmt.role_title(role).capitalize()}: at most {fmt.data(peak['bytes_per_second'])} a "
            f"second, {fmt.duration(peak['window_ns'])} after the start; "
            f"{fmt.data(mine['bytes_per_second'].mean())} a second on average."
        )
    return sentences or ["The trace holds no read and no write."]
