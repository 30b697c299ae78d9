"""Which mix of storage tiers gives most for its price: section 4 of study B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.tier_key import tier_key
from tracekit.report.figures.tier_sensitivity import tier_sensitivity
from tracekit.report.figures.tier_skew import tier_skew
from tracekit.report.figures.tier_surface import tier_surface
from tracekit.report.formatting import rows
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Key, Missing, Section, figure

TITLE = "Tiers of storage"
PARAMETERS = {
    "read_latency_us": "read latency",
    "write_latency_us": "write latency",
    "price_per_gb": "price",
    "extent_bytes": "size of an extent",
    "capacity_bytes": "capacity",
    "window_s": "window",
    "migration_mib_s": "migration bandwidth",
    "migration_cost": "cost of migration",
    "promotion_cost": "cost of promotion",
    "demotion_cost": "cost of demotion",
    "read_mib_s": "read bandwidth",
    "write_mib_s": "write bandwidth",
}


def tiers(inputs: Inputs) -> Section | Missing | None:
    """Build the section; None when nobody asked for it, Missing if an older version answered."""
    answer = inputs.simulated("tiers")
    names = ("tiers", "tiers_key", "tiers_skew", "tiers_sensitivity")
    if answer is None:
        return None
    found = inputs.simulations("tiers", *names)
    if found is None:
        return Missing(TITLE, "simulate tiers")
    evidence = dict(zip(names, found, strict=True))
    return Section(
        "tiers",
        TITLE,
        {
            "answer": answer,
            "methods": list(answer["configurations"]),
            "surfaces": [
                _surface(evidence["tiers"], answer, method)
                for method in answer["configurations"]
                if len(answer["tiers"]) > 2
            ],
            "key": _key(evidence["tiers_key"], answer),
            "skew": _skew(evidence["tiers_skew"]),
            "sensitivity": _sensitivity(evidence["tiers_sensitivity"], answer),
            "windows": inputs.simulation("tiers_windows", command="tiers --dynamic"),
        },
    )


def _surface(evidence: Evidence, answer: Mapping[str, Any], method: str) -> Figure:
    points = surface(evidence.table, answer, method=method)
    drawn = figure(
        tier_surface,
        replace(evidence, table=points),
        title=f"{price_unit(answer)} of every mix, {method}",
        says=surface_says(answer, method),
        name=f"tiers-surface-{method}",
    )
    # What is drawn, and not every column of every mix, which would be a megabyte of the page.
    return replace(drawn, evidence=replace(evidence, name=f"tiers_{method}", table=points))


def surface(table: pd.DataFrame, answer: Mapping[str, Any], *, method: str) -> pd.DataFrame:
    """Return the best IOPS for the price at each pair of shares of the two fastest tiers."""
    value = "iops_per_price" if method == "static" else "dynamic_iops_per_price"
    first, second = (str(tier["name"]) for tier in answer["tiers"][:2])
    points = table.assign(
        first_ratio=[float(shares[0]) for shares in table["share_ratio"]],
        second_ratio=[float(shares[1]) for shares in table["share_ratio"]],
        iops_per_price=table[value].astype(float),
    )
    best = points.groupby(["first_ratio", "second_ratio"])[["iops_per_price"]].max().reset_index()
    return best.assign(first_tier=first, second_tier=second)


def price_unit(answer: Mapping[str, Any]) -> str:
    """Return what IOPS are compared by: the currency of a what-if, else the relative price."""
    if answer["price_unit"] == "relative":
        return "IOPS for the price"
    currency = str(answer["price_unit"]).removesuffix(" per GB")
    return f"IOPS per {fmt.printable(currency)}/GB"


def surface_says(answer: Mapping[str, Any], method: str) -> list[str]:
    """Say the best mix, and what it is compared with."""
    named = answer["configurations"][method]
    first = answer["tiers"][0]["name"]
    best, without = named["best"], named[f"best without {first}"]
    return [
        f"The stronger the colour, the more {price_unit(answer)}: at best"
        f" {fmt.count(best['iops_per_price'])} with {fmt.printable(best['mix'])}.",
        f"Without {fmt.printable(first)} it is {fmt.count(without['iops_per_price'])} with"
        f" {fmt.printable(without['mix'])}.",
    ]


def _key(evidence: Evidence, answer: Mapping[str, Any]) -> Figure:
    has_dynamic = len(answer["configurations"]) > 1
    keys = (Key("base", "static"), Key("combined", "dynamic"))
    drawn = figure(
        tier_key,
        replace(evidence, table=bars(evidence.table).assign(unit=price_unit(answer))),
        title="The configurations worth naming",
        says=[gain_says(answer, method) for method in answer["configurations"]],
        legend=keys if has_dynamic else (),
    )
    return replace(drawn, evidence=evidence)


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """Return a bar for each configuration and method, in the colour of its method."""
    return table.assign(
        kind=[fmt.printable(name) for name in table["configuration"]],
        role=table["method"].map({"static": "base", "dynamic": "combined"}),
    ).sort_values("configuration", kind="stable")


def gain_says(answer: Mapping[str, Any], method: str) -> str:
    """Say what some of the first tier gains over none of it."""
    named = answer["configurations"][method]
    first = answer["tiers"][0]["name"]
    some, none = named[f"best with {first}"], named[f"best without {first}"]
    gain_ratio = some["iops_per_price"] / none["iops_per_price"] - 1
    word = "more" if gain_ratio >= 0 else "less"
    return (
        f"{method.capitalize()}: {fmt.printable(some['mix'])} gives"
        f" {fmt.share(abs(gain_ratio))} {word} {price_unit(answer)} than the best mix without"
        f" {fmt.printable(first)}."
    )


def _skew(evidence: Evidence) -> Figure:
    return figure(
        tier_skew,
        evidence,
        title="Traffic that the busiest extents take",
        says=skew_says(evidence.table),
        legend=(Key("read", "reads", "dashed"), Key("write", "writes", "solid")),
    )


def skew_says(table: pd.DataFrame) -> list[str]:
    """Say what the busiest fifth of the extents takes."""
    sentences = []
    for operation in ("read", "write"):
        curve = table[(table["role"] == "all") & (table["operation"] == operation)]
        fifth = curve[curve["capacity_ratio"] <= 0.2 + 1e-9]
        if not fifth.empty:
            point = fifth.iloc[-1]
            sentences.append(
                f"The busiest {fmt.share(point['capacity_ratio'])} of the extents take"
                f" {fmt.share(point['traffic_ratio'])} of what is"
                f" {'read' if operation == 'read' else 'written'}."
            )
    return sentences


def _sensitivity(evidence: Evidence, answer: Mapping[str, Any]) -> Figure:
    drawn = figure(
        tier_sensitivity,
        replace(evidence, table=changes(evidence.table)),
        title="What the first tier gains when a parameter is another",
        says=sensitivity_says(evidence.table, answer),
    )
    return replace(drawn, evidence=evidence)


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return a bar for each change, in the colour of a gain or a loss."""
    kinds = [
        f"{_changed(row)} × {row.factor:g}"  # noqa: RUF001
        + (", dynamic" if row.method == "dynamic" else "")
        for row in rows(table)
    ]
    colours = ["base" if gain < 0 else "combined" for gain in table["gain_ratio"]]
    return table.assign(kind=kinds, role=colours)


def _changed(row: Any) -> str:
    parameter = PARAMETERS[row.parameter]
    return f"{fmt.printable(row.tier)} {parameter}" if isinstance(row.tier, str) else parameter


def sensitivity_says(table: pd.DataFrame, answer: Mapping[str, Any]) -> Sequence[str]:
    """Say how far the gain goes in both directions."""
    if table.empty:
        return ["No parameter was changed."]
    drawn = changes(table)
    low, high = (
        drawn.iloc[int(drawn["gain_ratio"].argmin())],
        drawn.iloc[int(drawn["gain_ratio"].argmax())],
    )
    first = fmt.printable(answer["tiers"][0]["name"])
    return [
        f"The gain by {first} lies between {fmt.share(low['gain_ratio'])} ({low['kind']}) and"
        f" {fmt.share(high['gain_ratio'])} ({high['kind']}),"
        " static placement unless it says dynamic."
    ]
