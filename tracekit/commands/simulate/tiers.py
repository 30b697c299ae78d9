"""`tracekit simulate tiers`: say which mix of storage tiers gives most for its price."""

from __future__ import annotations

from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import (
    Amount,
    MoveBy,
    Rounding,
)
from tracekit.commands import options


def tiers(
    context: typer.Context,
    trace: options.Trace,
    *,
    extent: Annotated[str, typer.Option(help="Unit of placement, such as 1GiB or 64MiB.")] = "1GiB",
    tiers: Annotated[
        str,
        typer.Option(
            help="Device profiles from fast to slow; the first is what may be added, the last holds"
            " the rest. Default: those of the what-if, else ssd-pcm,ssd-emlc,hdd-15k."
        ),
    ] = "",
    step: Annotated[
        int, typer.Option(help="Step between mixes, in percent of the capacity.", min=1, max=50)
    ] = 1,
    what_if: options.WhatIf = None,
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Also move extents after each window.")
    ] = False,
    window: Annotated[str, typer.Option(help="Window of dynamic tiering, at least 1ms.")] = "2h",
    migration: Annotated[
        float, typer.Option(help="Bandwidth of moving extents, in MiB/s.", min=0.0)
    ] = 41.0,
    charge_migration: Annotated[
        bool, typer.Option("--charge-migration", help="Let moving extents delay the requests.")
    ] = False,
    amount: Annotated[
        Amount,
        typer.Option(help="Traffic in bytes (4 KiB at a time) or in requests of any length."),
    ] = "bytes",
    rounding: Annotated[
        Rounding,
        typer.Option(help="How a share becomes whole extents; the last tier takes the rest."),
    ] = "floor",
    capacity: Annotated[
        str, typer.Option(help="Capacity of all tiers. Default: the extents that were touched.")
    ] = "",
    profiles: options.Profiles = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="Also ask what another value would give: a tier and a key of its profile, or"
            " extent_bytes, capacity_bytes, window_s, migration_mib_s or a cost of moving, such as"
            " promotion_cost, and factors. Latencies and price of each tier are halved and doubled"
            " anyway.",
            metavar="[TIER.]KEY=FACTOR,...",
        ),
    ] = None,
    migration_cost: Annotated[
        float, typer.Option(help="Factor of the time of moving that is charged.", min=0.0)
    ] = 1.0,
    promotion_cost: Annotated[
        float, typer.Option(help="Factor of that for moves to a faster tier.", min=0.0)
    ] = 1.0,
    demotion_cost: Annotated[
        float, typer.Option(help="Factor of that for moves to a slower tier.", min=0.0)
    ] = 1.0,
    move_by: Annotated[
        MoveBy,
        typer.Option(
            help="How long moving takes where it is charged: 4 KiB at a time, or as long as the"
            " extent takes at the bandwidth of the tiers."
        ),
    ] = "latency",
    as_json: options.Json = False,
) -> None:
    """Say which mix of storage tiers gives most IOPS for its price, with the first and without."""
    options.show(tk.open(trace).simulate.tiers(**options.given(context)), as_json=as_json)
