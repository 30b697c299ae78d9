"""`tracekit simulate tiers`: say which mix of storage tiers gives most for its price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer


def tiers(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Trace folder.")],
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
    what_if: Annotated[
        Path | None,
        typer.Option(help="TOML file of devices and prices to ask about.", metavar="FILE"),
    ] = None,
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Also move extents after each window.")
    ] = False,
    window: Annotated[
        float, typer.Option(help="Window of dynamic tiering, in seconds.", min=0.001)
    ] = 7200.0,
    migration: Annotated[
        float, typer.Option(help="Bandwidth of moving extents, in MiB/s.", min=0.0)
    ] = 41.0,
    charge_migration: Annotated[
        bool, typer.Option("--charge-migration", help="Let moving extents delay the requests.")
    ] = False,
    amount: Annotated[
        Literal["bytes", "requests"],
        typer.Option(help="Traffic in bytes (4 KiB at a time) or in requests of any length."),
    ] = "bytes",
    rounding: Annotated[
        Literal["floor", "nearest", "ceiling"],
        typer.Option(help="How a share becomes whole extents; the last tier takes the rest."),
    ] = "floor",
    capacity: Annotated[
        str, typer.Option(help="Capacity of all tiers. Default: the extents that were touched.")
    ] = "",
    profiles: Annotated[
        Path | None, typer.Option(help="TOML file of own device profiles.", metavar="FILE")
    ] = None,
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
        Literal["latency", "bandwidth"],
        typer.Option(
            help="How long moving takes where it is charged: 4 KiB at a time, or as long as the"
            " extent takes at the bandwidth of the tiers."
        ),
    ] = "latency",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say which mix of storage tiers gives most IOPS for its price, with the first and without."""
    from tracekit.commands.provenance import keep_asked
    from tracekit.model.tier_study import TierOptions, parse_vary
    from tracekit.model.tiers import simulate_tiers
    from tracekit.progress import step_progress
    from tracekit.store import TraceFolder
    from tracekit.units import parse_size

    options = TierOptions(
        extent_bytes=parse_size(extent, option="--extent"),
        tiers=tuple(name.strip() for name in tiers.split(",") if name.strip()),
        step_percent=step,
        amount=amount,
        rounding=rounding,
        capacity_bytes=parse_size(capacity, option="--capacity") if capacity else None,
        is_dynamic=dynamic,
        window_s=window,
        migration_mib_s=migration,
        charges_migration=charge_migration,
        migration_cost=migration_cost,
        promotion_cost=promotion_cost,
        demotion_cost=demotion_cost,
        moves_by=move_by,
        vary=parse_vary(vary or ()),
        what_if=what_if,
        profiles=profiles,
    )
    with step_progress("simulate tiers") as on_step:
        result = simulate_tiers(TraceFolder(trace), options, on_step=on_step)
    keep_asked(TraceFolder(trace), result, context=context)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(result["headline"]))
