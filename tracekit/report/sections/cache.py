"""What a cache of any size would give: section 5 of study B."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.cache_curve import cache_curve
from tracekit.report.figures.cache_even import EVEN_STYLES, cache_even, cache_even_time
from tracekit.report.figures.cache_policies import POLICY_STYLES, cache_policies
from tracekit.report.formatting import rows
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Key, Missing, Section, figure
from tracekit.report.sections.cache_changes import changed
from tracekit.report.sections.cache_planes import planes
from tracekit.report.sections.cache_volumes import volumes

TITLE = "Caches"
BUDGETS = len(EVEN_STYLES)


def cache(inputs: Inputs) -> Section | Missing | None:
    """Build the section; None when nobody asked for it, Missing if an older version answered."""
    answer = inputs.simulated("cache")
    names = ("cache_curve", "cache_policies", "cache_plane", "cache_sensitivity")
    if answer is None:
        return None
    found = inputs.simulations("cache", *names)
    if found is None:
        return Missing(TITLE, "simulate cache")
    curve, policies, plane, sensitivity = found
    has_reads = bool(answer["reads"])
    return Section(
        "cache",
        TITLE,
        {
            "answer": answer,
            "curves": [_curve(curve, kind) for kind in ("shared", "own") if _has(curve, kind)],
            "volumes": volumes(curve, answer),
            "policies": _policies(policies) if len(policies.table) else None,
            "planes": planes(plane, answer, has_reads=has_reads),
            "even": _even(plane, answer, has_reads=has_reads),
            "changed": changed(sensitivity),
        },
    )


def _has(curve: Evidence, kind: str) -> bool:
    table = curve.table
    return bool(((table["cache"] == kind) & (table["scope"] == "all")).any())


def _curve(evidence: Evidence, kind: str) -> Figure:
    table = evidence.table
    mine = table[(table["cache"] == kind) & (table["operation"] == "all")]
    mine = mine[mine["scope"] == "all"]
    names = [*fmt.in_order(mine["role"]), *(["all"] if (mine["role"] == "all").any() else [])]
    titles = {"shared": "One LRU cache for all roles", "own": "An LRU cache for each role alone"}
    drawn = figure(
        cache_curve,
        replace(evidence, table=mine),
        title=titles[kind],
        says=curve_says(mine),
        legend=[
            Key("optimal", "all roles", "dotted")
            if name == "all"
            else Key(name, fmt.role_title(name))
            for name in names
        ],
        name=f"cache-curve-{kind}",
    )
    return replace(drawn, evidence=evidence)


def curve_says(table: pd.DataFrame) -> list[str]:
    """Say for each role where its curve falls most, and what no cache can help."""
    sentences = []
    for role in (*fmt.in_order(table["role"]), "all"):
        curve = table[table["role"] == role].sort_values("capacity_bytes")
        if curve.empty:
            continue
        name = "All roles together" if role == "all" else fmt.role_title(role).capitalize()
        ratio = curve["miss_ratio"].astype(float)
        half = 1 - (1 - ratio.min()) / 2
        size = curve.loc[ratio <= half + 1e-12, "capacity_bytes"].min()
        sentences.append(
            f"{name}: {fmt.data(size)} give half of all possible hits;"
            f" {fmt.share(float(ratio.min()))} miss in a cache of any size."
        )
    return sentences


def _policies(evidence: Evidence) -> Figure:
    present = set(evidence.table["policy"])
    return figure(
        cache_policies,
        evidence,
        title="Policies against the optimum",
        says=policies_says(evidence.table),
        legend=[
            Key(colour, text, line)
            for name, (colour, line, text) in POLICY_STYLES.items()
            if name in present
        ],
    )


def policies_says(table: pd.DataFrame) -> list[str]:
    """Say where the optimum leaves LRU most room, and which policy takes most of it."""
    cells = table.pivot_table(index="capacity_bytes", columns="policy", values="miss_ratio")
    if "lru" not in cells or "optimum" not in cells:
        return []
    size = cells.index[int((cells["lru"] - cells["optimum"]).argmax())]
    at = {str(policy): float(cells[policy][size]) for policy in cells.columns}
    if at["lru"] <= at["optimum"]:
        return ["LRU is as good as the optimum at every size that was compared."]
    best = min((policy for policy in at if policy != "optimum"), key=lambda policy: at[policy])
    return [
        f"At {fmt.data(size)} LRU misses {fmt.share(at['lru'])} where the optimum, which knows the"
        f" future, misses {fmt.share(at['optimum'])}.",
        f"Of the policies that can be built, {POLICY_STYLES[best][2]} is the best there:"
        f" {fmt.share(at[best])}.",
    ]


def _even(evidence: Evidence, answer: Mapping[str, Any], *, has_reads: bool) -> list[Figure]:
    """Return the lines of equal cost in both measures; without reads there is one."""
    table = evidence.table[evidence.table["even_flash_bytes"].notna()]
    budgets = sorted(set(table["even_flash_bytes"]))[-BUDGETS:]
    mine = table[table["even_flash_bytes"].isin(budgets)]
    flash = answer["profiles"][1]["name"]
    if mine.empty:
        return []
    legend = [
        Key(colour, f"cost of {fmt.data(budget)} {flash}", line)
        for budget, (colour, line) in zip(budgets, EVEN_STYLES, strict=False)
    ]
    figures = [
        figure(
            cache_even_time,
            replace(evidence, table=mine),
            title="I/O time of caches of equal cost",
            says=time_says(mine),
            legend=legend,
            name="cache-even-time",
        )
    ]
    if has_reads:
        latency = figure(
            cache_even,
            replace(evidence, table=mine),
            title="Read latency of caches of equal cost",
            says=even_says(mine),
            legend=legend,
            name="cache-even",
        )
        figures.insert(0, latency)
    return [replace(drawn, evidence=evidence) for drawn in figures]


def time_says(table: pd.DataFrame) -> list[str]:
    """Say for each budget which pair keeps the devices busy for the shortest time."""
    sentences = []
    for budget, line in table.groupby("even_flash_bytes", sort=True):
        best = min(rows(line), key=lambda row: (row.io_time_ns, row.pcm_bytes))
        sentences.append(
            f"For the cost of {fmt.data(budget)} of flash, {fmt.data(best.pcm_bytes)} of PCM and"
            f" {fmt.data(best.flash_bytes)} of flash take least I/O time:"
            f" {fmt.duration(best.io_time_ns)}."
        )
    return [
        *sentences,
        "It adds all writes to the three devices: what brings pages in, changes them or goes down.",
    ]


def even_says(table: pd.DataFrame) -> list[str]:
    """Say for each budget which pair reads fastest."""
    sentences = []
    for budget, line in table.groupby("even_flash_bytes", sort=True):
        best = min(rows(line), key=lambda row: (row.read_latency_avg_ns, row.pcm_bytes))
        sentences.append(
            f"For the cost of {fmt.data(budget)} of flash, {fmt.data(best.pcm_bytes)} of PCM and"
            f" {fmt.data(best.flash_bytes)} of flash read fastest:"
            f" {fmt.duration(best.read_latency_avg_ns)}."
        )
    return sentences
