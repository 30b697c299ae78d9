"""Elapsed time against NVM capacity, and the best placement at each: the study's Fig. 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.capacity import STYLES
from tracekit.report.figures.capacity import capacity as draw
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Key, Missing, Section, figure
from tracekit.report.sections.answer import placement_title, shares

TITLE = "Elapsed time against NVM capacity"
OPEN_TITLE = "Response time against NVM capacity"
OPEN = "open"
PROFILE_KEYS = (
    ("read_latency_us", "\N{MICRO SIGN}s, 4 KiB read"),
    ("write_latency_us", "\N{MICRO SIGN}s, 4 KiB write"),
    ("read_mib_s", "MiB/s read"),
    ("write_mib_s", "MiB/s written"),
    ("sequential_setup_us", "\N{MICRO SIGN}s before what continues"),
    ("flush_us", "\N{MICRO SIGN}s a flush"),
    ("fua_us", "\N{MICRO SIGN}s more with FUA"),
    ("parallelism", "requests at once"),
    ("rpm", "turns a minute"),
    ("seek_track_us", "\N{MICRO SIGN}s from track to track"),
    ("seek_average_us", "\N{MICRO SIGN}s an average seek"),
    ("seek_full_us", "\N{MICRO SIGN}s a full stroke"),
    ("write_settle_us", "\N{MICRO SIGN}s more to seek for a write"),
    ("capacity_gb", "GB under the stroke"),
    ("price_per_gb", "relative price of a gigabyte"),
)
COVERAGES = {"hottest": "hottest blocks first", "start": "from the start of the role"}


def capacity(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `recommend` has not run."""
    evidence, advice = inputs.placement, inputs.recommendation
    if evidence is None or advice is None:
        return Missing(TITLE, "recommend")
    table = evidence.table
    is_pair = table["base_profile"] == advice["base_profile"]
    is_pair &= table["nvm_profile"] == advice["nvm_profile"]
    is_open = advice.get("queueing") == OPEN
    mine = replace(evidence, table=_counted(table[is_pair], is_open=is_open))
    present = set(mine.table["coverage"])
    ordered = sorted(COVERAGES, key=lambda name: name != advice["coverage"])
    return Section(
        "capacity",
        OPEN_TITLE if is_open else TITLE,
        {
            "advice": advice,
            "milestones": milestones(advice),
            "role_sets": advice.get("role_sets", ()),
            "ranges": ranges(advice["flips"]),
            "single_role_ranges": ranges(advice["single_role_flips"]),
            "title_of": placement_title,
            "shares_of": shares,
            "is_open": is_open,
            "times": advice.get("times"),
            "profile_keys": profile_keys(advice["profiles"]),
            "panels": [
                {
                    "name": name,
                    "title": COVERAGES[name],
                    "figure": _panel(mine, name, advice=advice),
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


def _counted(table: pd.DataFrame, *, is_open: bool) -> pd.DataFrame:
    """Return the table with the time that placements were compared by as `elapsed_ns`."""
    return table.assign(elapsed_ns=table["response_avg_ns"]) if is_open else table


def profile_keys(profiles: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return key and unit of what any of the profiles says."""
    return [
        (key, unit)
        for key, unit in PROFILE_KEYS
        if any(profile.get(key) is not None for profile in profiles)
    ]


def _panel(evidence: Evidence, coverage: str, *, advice: Mapping[str, Any]) -> Figure:
    """Draw one coverage; base and optimum are the same in each."""
    measure = "Mean response time" if advice.get("queueing") == OPEN else "Elapsed time"
    table = evidence.table
    shared = table["placement"].isin(["base", "optimal"])
    curves = table[shared | (table["coverage"] == coverage)]
    drawn = figure(
        partial(draw, answer_bytes=advice["answer"]["capacity_bytes"], measure=measure),
        replace(evidence, table=curves),
        title=f"{measure}, {COVERAGES[coverage]}",
        says=says(curves, measure=measure),
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


def says(curves: pd.DataFrame, *, measure: str = "Elapsed time") -> list[str]:
    """Say how far the NVM can help at all, and how much of that each single role reaches."""
    base_ns = curves.loc[curves["placement"] == "base", "elapsed_ns"].max()
    lowest = curves.groupby("placement")["elapsed_ns"].min()
    if fmt.is_missing(base_ns) or not base_ns:
        return ["The requests of this trace cost the model no time."]
    took = "a request takes on average" if measure.startswith("Mean") else "the requests take"
    sentences = [f"Without NVM {took} {fmt.duration(base_ns)} on the base device."]
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
        names = fmt.listing([fmt.role_title(name) for name in still])
        sentences.append(f"NVM as {names} saves nothing at any capacity.")
    return sentences


def _is_flat(lowest: pd.Series[Any], name: str, base_ns: float) -> bool:
    return name in lowest.index and bool(lowest[name] >= base_ns)
