"""Elapsed time against NVM capacity, and the best placement at each: the study's Fig. 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tracekit.report import format as fmt
from tracekit.report import roles
from tracekit.report.figures.capacity import STYLES
from tracekit.report.figures.capacity import capacity as draw
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Key, Missing, Section, figure
from tracekit.report.sections.answer import placement_title, shares

if TYPE_CHECKING:
    import pandas as pd

TITLE = "Elapsed time against NVM capacity"
COVERAGES = {"hottest": "hottest blocks first", "start": "from the start of the role"}


def capacity(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `recommend` has not run."""
    evidence, advice = inputs.placement, inputs.recommendation
    if evidence is None or advice is None:
        return Missing(TITLE, "recommend")
    table = evidence.table
    is_pair = table["base_profile"] == advice["base_profile"]
    is_pair &= table["nvm_profile"] == advice["nvm_profile"]
    mine = replace(evidence, table=table[is_pair])
    present = set(mine.table["coverage"])
    ordered = sorted(COVERAGES, key=lambda name: name != advice["coverage"])
    return Section(
        "capacity",
        TITLE,
        {
            "advice": advice,
            "milestones": milestones(advice),
            "ranges": ranges(advice["flips"]),
            "single_role_ranges": ranges(advice["single_role_flips"]),
            "title_of": placement_title,
            "shares_of": shares,
            "panels": [
                {
                    "name": name,
                    "title": COVERAGES[name],
                    "figure": _panel(mine, name, answer_bytes=advice["answer"]["capacity_bytes"]),
                }
                for name in ordered
                if name in present
            ],
        },
    )


def milestones(advice: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the answers worth reading: the headline's, and those with most and all of the gain."""
    chosen = (
        (advice["answer"], "the headline"),
        (advice["knee"], "90\N{NO-BREAK SPACE}% of the largest gain"),
        (advice["best"], "the largest gain"),
    )
    ordered = sorted(chosen, key=lambda pair: int(pair[0]["capacity_bytes"]))
    return [{**answer, "why": why} for answer, why in ordered]


def ranges(flips: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return which placement is the answer from which capacity to which; the last has no end."""
    if not flips:
        return []
    starts = [0, *(flip["capacity_bytes"] for flip in flips)]
    placements = [flips[0]["from"], *(flip["to"] for flip in flips)]
    return [
        {"start": start, "end": end, "placement": placement_title(placement)}
        for start, end, placement in zip(starts, [*starts[1:], None], placements, strict=True)
    ]


def _panel(evidence: Evidence, coverage: str, *, answer_bytes: int) -> Figure:
    """Draw one coverage; base and optimum are the same in each."""
    table = evidence.table
    shared = table["placement"].isin(["base", "optimal"])
    curves = table[shared | (table["coverage"] == coverage)]
    drawn = figure(
        partial(draw, answer_bytes=answer_bytes),
        replace(evidence, table=curves),
        title=f"Elapsed time, {COVERAGES[coverage]}",
        says=says(curves),
        legend=keys(curves),
        name=f"capacity-{coverage}",
    )
    return replace(drawn, evidence=evidence)


def keys(table: pd.DataFrame) -> tuple[Key, ...]:
    """Return the legend of the placements that occur."""
    present = set(table["placement"])
    return tuple(
        Key(colour, text, line) for name, (colour, line, text) in STYLES.items() if name in present
    )


def says(curves: pd.DataFrame) -> list[str]:
    """Say how far the NVM can help at all, and how much of that each single role reaches."""
    base_ns = curves.loc[curves["placement"] == "base", "elapsed_ns"].max()
    lowest = curves.groupby("placement")["elapsed_ns"].min()
    if fmt.is_missing(base_ns) or not base_ns:
        return ["The requests of this trace cost the model no time."]
    sentences = [f"Without NVM the requests take {fmt.duration(base_ns)} on the base device."]
    saved = 1 - lowest / base_ns
    parts = [
        f"{STYLES[name][2]} {fmt.duration(lowest[name])} ({fmt.share(saved[name])} less)"
        for name in ("fs", "journal", "swap", "combined", "optimal")
        if name in lowest.index and lowest[name] < base_ns
    ]
    if parts:
        sentences.append(f"The lowest point of each curve: {fmt.listing(parts)}.")
    still = [name for name in ("fs", "journal", "swap") if _is_flat(lowest, name, base_ns)]
    if still:
        names = fmt.listing([roles.title(name) for name in still])
        sentences.append(f"NVM as {names} saves nothing at any capacity.")
    return sentences


def _is_flat(lowest: pd.Series[Any], name: str, base_ns: float) -> bool:
    return name in lowest.index and bool(lowest[name] >= base_ns)
