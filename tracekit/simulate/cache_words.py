"""What a cache simulation found, in sentences, and what it assumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tracekit.simulate.cache_plane import Devices
from tracekit.simulate.cache_sensitivity import LEAST_GAIN_RATIO
from tracekit.sizes import format_size

if TYPE_CHECKING:
    import pyarrow as pa

KNEE_SHARE = 0.9
MEASURES = {"read_latency_avg": "mean read latency", "io_time": "aggregate I/O time"}

LEVEL_WRITES = {
    "through": "writes go through both",
    "back": "a write goes to the fastest level that has its page, and further down when the page"
    " leaves; what is still newer at the end is not written behind",
    "around": "writes go around both, where copies leave",
}


class Choices(Protocol):
    """The options that the words depend on."""

    @property
    def page_bytes(self) -> int: ...  # noqa: D102 - named in simulate/cache.py
    @property
    def writes(self) -> str: ...  # noqa: D102
    @property
    def levels(self) -> str: ...  # noqa: D102
    @property
    def level_policies(self) -> tuple[str, str]: ...  # noqa: D102
    @property
    def level_writes(self) -> str: ...  # noqa: D102
    @property
    def is_allocating(self) -> bool: ...  # noqa: D102


def headline(tables: dict[str, pa.Table], devices: Devices) -> list[str]:
    """Return one sentence each on the LRU curve, the policies and the plane."""
    return [
        _curve_words(tables["cache_curve"].to_pylist()),
        *_policy_words(tables["cache_policies"].to_pylist()),
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
    return (
        f"an LRU cache of {format_size(knee['capacity_bytes'])} misses"
        f" {knee['miss_ratio']:.1%}{_band(knee)} of the {knee['references']:,} page references:"
        f" nine tenths of all possible hits; no size misses less than {least:.1%}"
    )


def _band(row: dict[str, Any]) -> str:
    low, high = row["miss_ratio_low"], row["miss_ratio_high"]
    return "" if low == high else f" ({low:.1%} to {high:.1%})"


def _policy_words(rows: list[dict[str, Any]]) -> list[str]:
    """Compare the policies at the size where they differ most."""
    sizes = sorted({row["capacity_bytes"] for row in rows} - {0})
    by_size = [[row for row in rows if row["capacity_bytes"] == size] for size in sizes]
    by_size = [
        group for group in by_size if len({row["policy"] for row in group} - {"optimum"}) > 1
    ]
    if not by_size:
        return []
    group = max(by_size, key=lambda rows: _spread([row["miss_ratio"] for row in rows]))
    ordered = sorted(group, key=lambda row: (row["miss_ratio"], row["policy"]))
    listed = ", ".join(f"{row['policy']} {row['miss_ratio']:.1%}" for row in ordered)
    return [f"policies differ most at {format_size(group[0]['capacity_bytes'])}: {listed} missed"]


def _spread(values: list[float]) -> float:
    return max(values) - min(values)


def _plane_words(rows: list[dict[str, Any]], devices: Devices) -> list[str]:
    """Say for the largest budget that the trace can use what is best for its price."""
    lines: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if row["even_flash_bytes"] and row["read_latency_avg_ns"] is not None:
            lines.setdefault(row["even_flash_bytes"], []).append(row)
    said = []
    for budget, line in list(lines.items())[-3:]:
        best = min(line, key=lambda row: (row["read_latency_avg_ns"], row["pcm_bytes"]))
        alone = next(row for row in line if row["pcm_bytes"] == 0)
        gain = 1 - best["read_latency_avg_ns"] / alone["read_latency_avg_ns"]
        what = (
            "all flash is best"
            if best is alone
            else f"{format_size(best['pcm_bytes'])} {devices.pcm.name} and"
            f" {format_size(best['flash_bytes'])} flash read {gain:.1%} faster"
        )
        said.append(
            f"for the price of {format_size(budget)} {devices.flash.name}"
            f" ({alone['read_latency_avg_ns'] / 1e3:.1f} us a read): {what}"
        )
    return said


def _sensitivity_words(rows: list[dict[str, Any]]) -> list[str]:
    """Say for each measure how far the gain of PCM goes, at the budget where it can be largest."""
    said = []
    for measure, name in MEASURES.items():
        mine = [row for row in rows if row["measure"] == measure]
        if not mine:
            continue
        high = max(mine, key=lambda row: row["gain_ratio"])
        if high["gain_ratio"] < LEAST_GAIN_RATIO:
            said.append(
                "for no budget and under no change of a device does PCM save"
                f" {LEAST_GAIN_RATIO:.2%} of the {name}"
            )
            continue
        line = [row for row in mine if row["even_flash_bytes"] == high["even_flash_bytes"]]
        low = min(line, key=lambda row: row["gain_ratio"])
        plain = next(row for row in line if row["parameter"] is None)
        said.append(
            f"for the price of {format_size(high['even_flash_bytes'])} of flash, PCM saves"
            f" {plain['gain_ratio']:.1%} of the {name}; with one parameter changed, from"
            f" {low['gain_ratio']:.1%} ({_change(low)}) to {high['gain_ratio']:.1%}"
            f" ({_change(high)})"
        )
    return said


def _change(row: dict[str, Any]) -> str:
    parameter = row["parameter"]
    return "as said" if parameter is None else f"{parameter} x {row['factor']:g}"


def assumptions(options: Choices, devices: Devices) -> list[str]:
    """Return what the numbers rest on, one sentence each."""
    allocation = (
        "a missed write brings its page into the cache"
        if options.is_allocating
        else "a write neither brings its page into the cache nor makes it younger"
    )
    return [
        f"pages of {format_size(options.page_bytes)}; a request refers to each page it touches, as"
        " queued, in queue order; flushes and discards to none",
        f"policies write {options.writes}; {allocation}",
        f"two levels are {options.levels}, PCM is {options.level_policies[0]} and flash"
        f" {options.level_policies[1]}, and {LEVEL_WRITES[options.level_writes]}; a page that"
        " leaves an exclusive PCM level is written to flash; reading what goes down is not counted",
        "the mean read latency is of the device that had the page; bringing pages in is not in it,"
        " but in the I/O time, which adds all reads and writes of the three devices",
        f"a page is read in {devices.read_us(devices.pcm):.1f},"
        f" {devices.read_us(devices.flash):.1f} and {devices.read_us(devices.base):.1f} us and"
        f" written in {devices.write_us(devices.pcm):.1f}, {devices.write_us(devices.flash):.1f}"
        f" and {devices.write_us(devices.base):.1f} us by {devices.pcm.name},"
        f" {devices.flash.name} and {devices.base.name}",
        f"a gigabyte of {devices.pcm.name} costs as much as {devices.price_ratio:g} of"
        f" {devices.flash.name}",
    ]
