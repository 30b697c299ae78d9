"""What `simulate cache` says of its tables, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit.model.cache_plane import LEAST_GAIN_RATIO, Devices
from tracekit.units import counted, format_size

KNEE_SHARE = 0.9
MEASURES = {"read_latency_avg": "mean read latency", "io_time": "aggregate I/O time"}
ENOUGH_PAGES = 1000
"""Pages of a sample below which its headline opens with a doubt."""
LEAST_GAP = 5e-4


def headline(
    tables: Mapping[str, pa.Table],
    devices: Devices,
    *,
    of_reads: bool,
    sampled_pages: int | None,
) -> list[str]:
    """Return one sentence each on the LRU curve, the policies and the plane.

    `of_reads`: policies are compared by reads alone, as writes bring no page in.
    """
    return [
        *_sample_words(sampled_pages),
        _curve_words(tables["cache_curve"].to_pylist()),
        *_policy_words(tables["cache_policies"].to_pylist(), of_reads=of_reads),
        *_plane_words(tables["cache_plane"].to_pylist(), devices),
        *_sensitivity_words(tables["cache_sensitivity"].to_pylist()),
    ]


def _curve_words(rows: list[dict[str, Any]]) -> str:
    curve = [row for row in rows if (row["cache"], row["role"]) == ("shared", "all")]
    curve = [row for row in curve if (row["operation"], row["scope"]) == ("all", "all")]
    least = curve[-1]["miss_ratio"]
    if least == 1:
        return f"none of the {curve[0]['references']:,} page references can hit: no cache helps"
    wanted = 1 - KNEE_SHARE * (1 - least)
    knee = next(row for row in curve if row["miss_ratio"] <= wanted + 1e-12)
    low, high = knee["miss_ratio_low"], knee["miss_ratio_high"]
    band = "" if low == high else f" ({low:.1%} to {high:.1%})"
    return (
        f"an LRU cache of {format_size(knee['capacity_bytes'])} misses"
        f" {knee['miss_ratio']:.1%}{band} of the {knee['references']:,} page references:"
        f" nine tenths of all possible hits; no size misses less than {least:.1%}"
    )


def _sample_words(pages: int | None) -> Iterator[str]:
    if pages is not None and pages < ENOUGH_PAGES:
        yield (
            f"the sample has only {counted(pages, 'page')}: what follows is no"
            f" more than a guess, as long as it has fewer than {ENOUGH_PAGES:,}; take a larger"
            " --sample-rate"
        )


def _policy_words(rows: list[dict[str, Any]], *, of_reads: bool) -> list[str]:
    """Compare the policies at the size where they differ most, or say what the only one misses."""
    key = "read_miss_ratio" if of_reads else "miss_ratio"
    rows = [row for row in rows if row["capacity_bytes"] and row[key] is not None]
    by_size: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["capacity_bytes"], row[key], row["policy"])):
        by_size.setdefault(row["capacity_bytes"], []).append(row)
    whole = [some for some in by_size.values() if {row["policy"] for row in some} - {"optimum"}]
    if not whole:
        return []
    most = max(len(some) for some in whole)
    whole = [some for some in whole if len(some) == most]  # of a sample not all sizes have all
    if len({row["policy"] for row in whole[0]} - {"optimum"}) == 1:
        group, opening = _knee(whole, key), "nine tenths of the hits that the largest size has"
    else:
        group = max(whole, key=lambda some: np.ptp([row[key] for row in some]))
        opening = "policies differ most"
    size = format_size(group[0]["capacity_bytes"])
    missed = "missed of the reads" if of_reads else "missed"
    if most > 1 and np.ptp([row[key] for row in group]) < LEAST_GAP:
        return [f"policies do not differ at any size: {group[0][key]:.1%} {missed} at {size}"]
    listed = ", ".join(f"{row['policy']} {row[key]:.1%}" for row in group)
    error = max((row["miss_ratio_high"] - row["miss_ratio_low"]) / 2 for row in group)
    band = f", each within {error * 100:.1f} points, by sample" if error else ""
    return [f"{opening} at {size}: {listed} {missed}{band}"]


def _knee(by_size: list[list[dict[str, Any]]], key: str) -> list[dict[str, Any]]:
    """Return the policies of the least size with most of the hits that the largest one has."""
    misses = [next(row[key] for row in some if row["policy"] != "optimum") for some in by_size]
    wanted = 1 - KNEE_SHARE * (1 - misses[-1])
    return next(some for some, ratio in zip(by_size, misses, strict=True) if ratio <= wanted)


def _plane_words(rows: list[dict[str, Any]], devices: Devices) -> list[str]:
    """Say for the largest budget that the trace can use what is best for its price."""
    lines: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if row["even_flash_bytes"] and row["read_latency_avg_ns"] is not None:
            lines.setdefault(row["even_flash_bytes"], []).append(row)
    found = []
    for budget, line in list(lines.items())[-3:]:
        best = min(line, key=lambda row: (row["read_latency_avg_ns"], row["pcm_bytes"]))
        alone = next(row for row in line if row["pcm_bytes"] == 0)
        gain = 1 - best["read_latency_avg_ns"] / alone["read_latency_avg_ns"]
        what = (
            "all flash is best"
            if best is alone or gain < LEAST_GAIN_RATIO
            else f"{format_size(best['pcm_bytes'])} {devices.pcm.name} and"
            f" {format_size(best['flash_bytes'])} flash read {gain:.1%} faster"
        )
        found.append(
            f"for the price of {format_size(budget)} {devices.flash.name}"
            f" ({alone['read_latency_avg_ns'] / 1e3:.1f} us a read): {what}"
        )
    return found


def _sensitivity_words(rows: list[dict[str, Any]]) -> list[str]:
    """Say for each measure how far the gain of PCM goes, at the budget where it can be largest."""
    found = []
    for measure, name in MEASURES.items():
        mine = [row for row in rows if row["measure"] == measure]
        if not mine:
            continue
        high = max(mine, key=lambda row: row["gain_ratio"])
        if high["gain_ratio"] < LEAST_GAIN_RATIO:
            found.append(
                "for no budget and under no change of a device does PCM save"
                f" {LEAST_GAIN_RATIO:.2%} of the {name}"
            )
            continue
        line = [row for row in mine if row["even_flash_bytes"] == high["even_flash_bytes"]]
        low = min(line, key=lambda row: row["gain_ratio"])
        plain = next(row for row in line if row["parameter"] is None)
        found.append(
            f"for the price of {format_size(high['even_flash_bytes'])} of flash, PCM saves"
            f" {plain['gain_ratio']:.1%} of the {name}; with one parameter changed, from"
            f" {low['gain_ratio']:.1%} ({_change(low)}) to {high['gain_ratio']:.1%}"
            f" ({_change(high)})"
        )
    return found


def _change(row: dict[str, Any]) -> str:
    parameter = row["parameter"]
    return "as said" if parameter is None else f"{parameter} x {row['factor']:g}"
