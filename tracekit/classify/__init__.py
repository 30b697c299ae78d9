"""Gives requests their role and blocks their temperature: the stage after `parse`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.classify.columns import OnRows, ignore_rows
from tracekit.classify.hotness import (
    DEFAULT_BUDGET_BYTES,
    BlockCounts,
    Windows,
    choose_windows,
    count_blocks,
)
from tracekit.classify.layout import (
    Override,
    apply_overrides,
    check_entries,
    original_entries,
    read_layout_file,
)
from tracekit.classify.roles import RoleCounts, assign_roles, survey
from tracekit.classify.tables import Temperatures, write_blocks, write_working_set
from tracekit.classify.temperature import RULE, TEMPERATURES, TemperatureRule
from tracekit.schema import ROLES
from tracekit.store import TraceFolder


@dataclass(frozen=True)
class Options:
    """How to classify; the defaults are those of the command."""

    layout_file: Path | None = None
    overrides: tuple[Override, ...] = ()
    rule: TemperatureRule = field(default_factory=TemperatureRule)
    window_ns: int | None = None  # of the working set; None chooses
    budget_bytes: int = DEFAULT_BUDGET_BYTES  # of the tables of blocks


def classify(
    folder: TraceFolder, options: Options, *, on_rows: OnRows = ignore_rows
) -> dict[str, Any]:
    """Write roles, `blocks` and `working_set` into the folder.

    Returns what went into trace.json: the keys `layout`, `classification` and `hotness`.
    Classifying again gives the same result, whatever an earlier run had guessed.
    """
    requests = folder.require("requests", made_by="parse")
    devices, latest_ns = survey(requests, on_rows=on_rows)
    windows = choose_windows(latest_ns, options.window_ns)
    entries = _entries(folder, options, devices)
    roles = assign_roles(requests, entries, devices, on_rows=on_rows)
    counts = count_blocks(
        requests, devices, windows=windows, budget_bytes=options.budget_bytes, on_rows=on_rows
    )
    with counts.spill:
        temperatures = write_blocks(
            folder.table("blocks"), counts, devices=devices, rule=options.rule
        )
    write_working_set(folder.table("working_set"), counts, windows)
    changes = {
        "layout": entries,
        "classification": _classification(roles),
        "hotness": _hotness(options, counts, windows, temperatures),
    }
    folder.save_info(**changes)
    return changes


def _entries(folder: TraceFolder, options: Options, devices: list[str]) -> list[dict[str, Any]]:
    if options.layout_file is None:
        entries = check_entries(original_entries(folder.info), f"{folder.path}/trace.json, layout")
    else:
        entries = read_layout_file(options.layout_file, folder.info.get("devices") or [])
    return apply_overrides(entries, list(options.overrides), devices)


def _classification(roles: RoleCounts) -> dict[str, Any]:
    return {
        "rule": "the smallest layout region that holds the first sector decides; empty flushes"
        " belong to the file system of their device; the rest of a device with a layout is other",
        "requests": {role: roles.requests.get(role, 0) for role in ROLES},
        "evidence": roles.evidence,
        "crossing_requests": roles.crossing,
    }


def _hotness(
    options: Options, counts: BlockCounts, windows: Windows, temperatures: Temperatures
) -> dict[str, Any]:
    by_role = {
        role: {
            "sectors": int(temperatures.sectors[code]),
            "blocks": dict(zip(TEMPERATURES, temperatures.blocks[code].tolist(), strict=True)),
            "touches": dict(zip(TEMPERATURES, temperatures.touches[code].tolist(), strict=True)),
        }
        for code, role in enumerate(ROLES)
        if temperatures.blocks[code].any()
    }
    return {
        "rule": RULE,
        "hot_traffic_ratio": options.rule.hot_traffic_ratio,
        "hot_factor": options.rule.hot_factor,
        "hot_min_touches": temperatures.hot_min_touches,
        "warm_min_touches": 2,
        "blocks": counts.histogram.blocks,
        "touches": counts.histogram.touches,
        "requests": counts.requests,
        "impossible_requests": counts.impossible,
        "mixed_role_blocks": counts.mixed_blocks,
        "window_ns": windows.window_ns,
        "budget_bytes": options.budget_bytes,
        "table_bytes": counts.memory_bytes,
        "scans": counts.scans,
        "roles": by_role,
    }
