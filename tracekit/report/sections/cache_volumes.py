"""The miss ratio curves of the volumes, where a trace has more than one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.cache_curve import VOLUME_STYLES, cache_volumes
from tracekit.report.formatting import rows
from tracekit.report.inputs import Evidence
from tracekit.report.section import Figure, Key, figure

TITLES = {
    "shared": "One LRU cache for all volumes",
    "own": "An LRU cache for each volume alone",
}


def volumes(evidence: Evidence, answer: Mapping[str, Any]) -> list[Figure]:
    """Return a figure for each kind of cache, none for a trace of one volume."""
    table = evidence.table
    mine = named(table[table["operation"] == "all"], int(answer["volumes"]["others"]))
    shown = list(dict.fromkeys(mine["volume"]))[: len(VOLUME_STYLES)]
    if not shown:
        return []
    hidden = mine["volume"].nunique() - len(shown)
    mine = mine[mine["volume"].isin(shown)]
    return [_figure(evidence, mine[mine["cache"] == kind], kind, hidden=hidden) for kind in TITLES]


def named(table: pd.DataFrame, others: int) -> pd.DataFrame:
    """Return the rows by volume with `volume`, what each is called on the page."""
    mine = table[table["scope"] != "all"]
    unnamed = "1 other volume" if others == 1 else f"{others} other volumes"
    names = [unnamed if row.scope == "others" else fmt.printable(row.device) for row in rows(mine)]
    return mine.assign(volume=names)


def _figure(evidence: Evidence, table: pd.DataFrame, kind: str, *, hidden: int) -> Figure:
    legend = [
        Key(colour, volume, line)
        for volume, (colour, line) in zip(
            dict.fromkeys(table["volume"]), VOLUME_STYLES, strict=False
        )
    ]
    says = volumes_say(table)
    if hidden:
        says.append(f"{fmt.count(hidden)} more curves are in the table.")
    drawn = figure(
        cache_volumes,
        replace(evidence, table=table),
        title=TITLES[kind],
        says=says,
        legend=legend,
        name=f"cache-volumes-{kind}",
    )
    return replace(drawn, evidence=evidence)


def volumes_say(table: pd.DataFrame) -> list[str]:
    """Say for each volume what half of its hits take, and what no cache can help."""
    sentences = []
    for volume, curve in table.groupby("volume", sort=False):
        least = float(curve["miss_ratio"].min())
        half = 1 - (1 - least) / 2
        row = next(row for row in rows(curve) if row.miss_ratio <= half + 1e-12)
        sentences.append(
            f"{volume}, {fmt.count(row.references)} references:"
            f" {fmt.data(row.capacity_bytes)} give half of all possible hits;"
            f" {fmt.share(least)} miss in a cache of any size."
        )
    return sentences
