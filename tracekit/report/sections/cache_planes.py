"""Read latency and I/O time of every pair of sizes of PCM above flash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.model.cache import LRU_LEVELS, level_words
from tracekit.report import formatting as fmt
from tracekit.report.figures.cache_plane import cache_plane, cache_plane_time, time_unit
from tracekit.report.formatting import rows
from tracekit.report.inputs import Evidence
from tracekit.report.section import Figure, figure


def planes(evidence: Evidence, answer: Mapping[str, Any], *, has_reads: bool) -> list[Figure]:
    """Return the surface of each measure; without reads that of the I/O time."""
    table = evidence.table
    mine = replace(evidence, table=table[table["even_flash_bytes"].isna()])
    how = _arranged(answer)
    drawn = [
        figure(
            cache_plane_time,
            mine,
            title=f"I/O time of all devices in {time_unit(mine.table)[0]}, {how}",
            says=time_plane_says(mine.table),
            name="cache-plane-time",
        )
    ]
    if has_reads:
        latency = figure(
            cache_plane,
            mine,
            title=f"Mean read latency in µs, {how}",
            says=plane_says(mine.table),
            name="cache-plane",
        )
        drawn.insert(0, latency)
    return [replace(each, evidence=evidence) for each in drawn]


def _arranged(answer: Mapping[str, Any]) -> str:
    first, second = answer.get("level_policies", LRU_LEVELS)
    return level_words(answer["levels"], (first, second), writes=answer["level_writes"])


def plane_says(table: pd.DataFrame) -> list[str]:
    """Say what no cache and the largest ones give."""
    latency = table.set_index(["pcm_bytes", "flash_bytes"])["read_latency_avg_ns"].astype(float)
    largest = max(int(table["pcm_bytes"].max()), 0)
    parts = [
        f"{fmt.duration(latency.loc[place])} {text}"
        for place, text in (
            ((0, 0), "without a cache"),
            ((0, largest), f"with {fmt.data(largest)} of flash"),
            ((largest, 0), "with as much PCM"),
        )
        if place in latency.index
    ]
    return [f"A page is read in {fmt.listing(parts)}."]


def time_plane_says(table: pd.DataFrame) -> list[str]:
    """Say how long the devices are busy without a cache, and with the pair that is best."""
    best = min(rows(table), key=lambda row: (row.io_time_ns, row.pcm_bytes, row.flash_bytes))
    none = table[(table["pcm_bytes"] == 0) & (table["flash_bytes"] == 0)]["io_time_ns"]
    without = f"{fmt.duration(float(none.iloc[0]))} without a cache; " if len(none) else ""
    return [
        f"All reads and writes of PCM, flash and what is behind take {without}the least is"
        f" {fmt.duration(best.io_time_ns)}, with {fmt.data(best.pcm_bytes)} of PCM and"
        f" {fmt.data(best.flash_bytes)} of flash."
    ]
