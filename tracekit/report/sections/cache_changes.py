"""What the best split of a budget between PCM and flash gains under changed parameters."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.model.cache_plane import LEAST_GAIN_RATIO
from tracekit.report import formatting as fmt
from tracekit.report.figures.cache_sensitivity import cache_sensitivity
from tracekit.report.formatting import rows
from tracekit.report.inputs import Evidence
from tracekit.report.section import Figure, figure

MEASURES = {
    "read_latency_avg": ("mean read latency", "combined"),
    "io_time": ("aggregate I/O time", "journal"),
}
KEYS = {
    "read_latency_us": "read latency",
    "write_latency_us": "write latency",
    "price_per_gb": "price",
}
LEVELS = {"pcm": "PCM", "flash": "flash", "base": "device behind"}


def changed(evidence: Evidence) -> list[Figure]:
    """Return a figure for each measure, where PCM can gain anything in it."""
    table = evidence.table
    return [
        _figure(evidence, table[table["measure"] == measure], measure)
        for measure in MEASURES
        if (table["gain_ratio"][table["measure"] == measure] >= LEAST_GAIN_RATIO).any()
    ]


def _figure(evidence: Evidence, table: pd.DataFrame, measure: str) -> Figure:
    name, colour = MEASURES[measure]
    mine = at_best_budget(table)
    drawn = figure(
        cache_sensitivity,
        replace(evidence, table=mine.assign(kind=kinds(mine), role=colour)),
        title=f"What PCM saves of the {name} when a device is another",
        says=changes_say(mine, name),
        name=f"cache-sensitivity-{measure.replace('_', '-')}",
    )
    return replace(drawn, evidence=evidence)


def at_best_budget(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the budget at which PCM can gain most, under any change."""
    best = max(rows(table), key=lambda row: row.gain_ratio)
    mine: pd.DataFrame = table[table["even_flash_bytes"] == best.even_flash_bytes]
    return mine


def kinds(table: pd.DataFrame) -> list[str]:
    """Return the name of each change."""
    return [
        "as the profiles say"
        if fmt.is_missing(row.parameter)
        else _name(row.parameter, float(row.factor))
        for row in rows(table)
    ]


def _name(parameter: str, factor: float) -> str:
    level, _, key = parameter.partition(".")
    return f"{LEVELS[level]} {KEYS[key]} × {factor:g}"  # noqa: RUF001


def changes_say(table: pd.DataFrame, name: str) -> list[str]:
    """Say how far the gain goes in both directions, and the splits that give it."""
    named = sorted(zip(table["gain_ratio"], kinds(table), rows(table), strict=True), key=_gain)
    budget = fmt.data(int(table["even_flash_bytes"].iloc[0]))
    sentences = [
        f"{kind[:1].upper()}{kind[1:]}: {fmt.share(float(gain))} of the {name} saved, with"
        f" {fmt.data(int(row.pcm_bytes))} of PCM and {fmt.data(int(row.flash_bytes))} of flash."
        for gain, kind, row in (named[0], named[-1])
    ]
    return [f"All for the cost of {budget} of flash; the least and the most:", *sentences]


def _gain(item: tuple[float, str, object]) -> tuple[float, str]:
    return float(item[0]), item[1]
