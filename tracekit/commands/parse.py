"""`tracekit parse`: a capture becomes a trace folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import options
from tracekit.errors import span
from tracekit.units import MIB


@options.of(
    tk.parse,
    output=options.NEW_TRACE,
    layout=options.LAYOUT,
    force=options.FORCE_TRACE,
    salvage="Keep the records before a damaged or cut place.",
)
def parse(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="blktrace files of one trace, compressed or not; a folder of them; - for a pipe.",
        ),
    ],
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Decode a block trace into a trace folder of one row a request."""
    made = tk.parse(inputs, **{"output": options.default_output(inputs), **chosen})
    if as_json:
        options.say_json(made.summary)
    else:
        _print(made.summary)
    options.warn(made)


def _lacking(unseen: dict[str, Any] | None) -> str:
    """Return what the kernel's counters report, as far as they were read."""
    if unseen is None:
        return "unknown (no kernel counters in this capture)"
    if not unseen["disks"] and unseen["not_measured"]:
        return "unknown"
    counted = sum(row["counted"] for row in unseen["disks"])
    return f"{span(unseen['at_least'], unseen['at_most'])} of {counted:,} that the kernel counted"


def _print(info: Mapping[str, Any]) -> None:
    counts, loss = info["counts"], info["loss"]
    devices = ", ".join(device["device"] for device in info["devices"])
    seconds = info["clock"]["duration_ns"] / 1e9
    options.say(
        f"{counts['requests']:,} requests of {devices} in {seconds:,.3f} s"
        f", from {counts['records']:,} records ({info['source']['format']})"
    )
    for name, done in info["operations"].items():
        if done["requests"]:
            options.say(f"  {name:<13}{done['requests']:>12,}{done['bytes'] / MIB:>14,.1f} MiB")
    unmatched = sum(loss["unmatched"].values())
    missing = (
        f"{loss['lost_records']:,} records lost"
        if loss["has_sequence_numbers"]
        else "losses not known"
    )
    options.say(f"  {missing}, {loss['dropped']:,} dropped, {unmatched:,} events unmatched")
    options.say(f"  missing completions: {_lacking(loss.get('unseen'))}")
    options.say(info["trace"])
