"""`tracekit classify`: what each request is for, and how hot each block is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tracekit as tk
from tracekit.commands import options
from tracekit.units import SECTOR_BYTES, format_size


@options.of(
    tk.Trace.classify,
    tk.Set.classify,
    layout="layout.json or an sfdisk dump to use instead of the trace's own layout.",
    role="Set a role: NAME=ROLE of a partition, a device or DEVICE:START+SECTORS; ROLE is fs,"
    " journal, swap, other or unknown. Can be repeated.",
    hot="Share of all block accesses that go to hot blocks, 0 to 1.",
    hot_factor="Hot blocks are accessed this many times as often as the mean.",
    window=options.option("Working set window.", metavar="TIME", show_default="about 200 windows"),
    memory="Memory for the table of blocks; less means more passes.",
    names=options.option(
        "Where files lie, instead of what the capture found: an image or device with ext4 or XFS,"
        " or a table as for recommend --files.",
        metavar="FILE",
    ),
    logs=options.option("TOML file of further rules for database logs.", metavar="FILE"),
    engine=options.SET_ENGINE,
    master=options.MASTER,
)
def classify(
    trace: Annotated[Path, options.trace_folder("Trace folder, as parse made it, or a trace set.")],
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Give each request its role (fs, journal, swap, other) and each block its temperature."""
    opened = options.opened(trace, chosen)
    if isinstance(opened, tk.Set):
        options.show(opened.classify(**chosen), as_json=as_json)
        return
    found = opened.classify(**chosen)
    if as_json:
        options.say_json(found.summary)
        return
    _print_layout(found.summary)
    _print_roles(found.summary)
    for warning in found.warnings:
        options.say(f"warning: {warning}", err=True)


def _print_layout(result: Mapping[str, Any]) -> None:
    from tracekit.layout import FOUND_BY_REMAPS

    given = result["classification"].get("layout_from")
    if given:
        options.say(f"layout of {given}, given by --layout")
    followed: dict[tuple[str, str], list[int]] = {}
    for entry in result["layout"]:
        name = entry["name"] or entry["partition"]
        end = entry["start_sector"] + entry["sectors"]
        role = entry["role"] or "unknown"
        if entry.get("found_by") == FOUND_BY_REMAPS:
            followed.setdefault((name, role), []).append(entry["sectors"])
            continue
        sectors = f"{entry['start_sector']:,} to {end - 1:,}"
        options.say(f"{name:<16} {role:<8} sectors {sectors:<28} {entry['evidence'] or ''}")
    for (name, role), sectors_of in followed.items():
        where = f"{len(sectors_of):,} places, {format_size(sum(sectors_of) * SECTOR_BYTES)}"
        options.say(f"{name:<16} {role:<8} {where:<36} by remaps of requests from above")
    options.say("")


def _print_roles(result: Mapping[str, Any]) -> None:
    hotness = result["hotness"]
    all_touches = max(1, hotness["touches"])
    options.say(
        f"{'role':<8} {'requests':>12} {'blocks':>12} {'accesses':>12}"
        f" {'hot blocks':>12} {'their share':>12} {'warm':>12} {'cold':>12}"
    )
    for role, requests in result["classification"]["requests"].items():
        found = hotness["roles"].get(role)
        if found is None and not requests:
            continue
        blocks = found["blocks"] if found else dict.fromkeys(("hot", "warm", "cold"), 0)
        touches = found["touches"] if found else blocks
        options.say(
            f"{role:<8} {requests:>12,} {sum(blocks.values()):>12,} {sum(touches.values()):>12,}"
            f" {blocks['hot']:>12,} {touches['hot'] / all_touches:>12.1%}"
            f" {blocks['warm']:>12,} {blocks['cold']:>12,}"
        )
    options.say(
        "",
        f"a block is hot after {hotness['hot_min_touches']:,} or more accesses; blocks are 4 KiB,"
        " shares are of all accesses",
    )
