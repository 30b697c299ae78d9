"""How many requests are under way at a time."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.depth_over_time import depth_over_time as draw
from tracekit.report.formatting import largest
from tracekit.report.inputs import Inputs
from tracekit.report.section import Key, Missing, Section, figure

TITLE = "Queue depth"
KEYS = (
    Key("accent", "mean of the window", "solid"),
    Key("base", "up to the most that a request met"),
)
SHOWN_DEVICES = 4


def depth(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `analyze` has not run."""
    evidence = inputs.finding("latency/depth_over_time")
    if evidence is None:
        return Missing(TITLE, "analyze")
    devices = list(dict.fromkeys(evidence.table["device"]))
    figures = []
    for number, device in enumerate(devices[:SHOWN_DEVICES]):
        mine = evidence.table[evidence.table["device"] == device]
        drawn = figure(
            draw,
            replace(evidence, table=mine),
            title=f"Requests under way on {fmt.printable(device)}",
            says=says(mine),
            legend=KEYS,
            name=f"depth-{number}",
        )
        figures.append(replace(drawn, evidence=evidence))
    return Section(
        "depth",
        TITLE,
        {"figures": figures, "hidden_count": max(0, len(devices) - SHOWN_DEVICES)},
    )


def says(table: pd.DataFrame) -> list[str]:
    """Say the mean, the peak and when the peak was."""
    mean = table["depth_avg"].mean()
    sentences = [f"On average {fmt.number(mean)} requests are under way."]
    if table["depth_max"].notna().any():
        peak = largest(table, "depth_max")
        sentences.append(
            f"The deepest queue that a request met was {fmt.count(peak['depth_max'])}, in the "
            f"window {fmt.duration(peak['window_ns'])} after the start."
        )
    return sentences
