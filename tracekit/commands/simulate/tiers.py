"""`tracekit simulate tiers`: say which mix of storage tiers gives most for its price."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option


@options.of(
    tk.Simulate.tiers,
    tk.SetSimulate.tiers,
    extent="Unit of placement, such as 1GiB or 64MiB.",
    tiers=option(
        "Device profiles from fast to slow; the first is what may be added, the last holds the"
        " rest. Default: those of the what-if, else ssd-pcm,ssd-emlc,hdd-15k.",
        autocompletion=completion.device_profiles,
    ),
    step=option("Step between mixes, in percent of the capacity.", min=1, max=50),
    what_if=options.WHAT_IF,
    dynamic="Also move extents after each window.",
    window="Window of dynamic tiering, at least 1ms.",
    migration=option("Bandwidth of moving extents, in MiB/s.", min=0.0),
    charge_migration="Let moving extents delay the requests.",
    amount="Traffic in bytes (4 KiB at a time) or in requests of any length.",
    rounding="How shares become whole extents; with floor, nearest and ceiling, the study's ways,"
    " the last tier takes the rest, bought or not.",
    capacity="Capacity of all tiers. Default: the extents that were touched.",
    profiles=options.PROFILES,
    vary=option(
        "Also ask what another value would give: a tier and a key of its profile, or extent_bytes,"
        " capacity_bytes, window_s, migration_mib_s or a cost of moving, such as promotion_cost,"
        " and factors. Latencies and price of each tier are halved and doubled anyway.",
        metavar="[TIER.]KEY=FACTOR,...",
    ),
    migration_cost=option("Factor of the time of moving that is charged.", min=0.0),
    promotion_cost=option("Factor of that for moves to a faster tier.", min=0.0),
    demotion_cost=option("Factor of that for moves to a slower tier.", min=0.0),
    move_by="How long moving takes where it is charged: 4 KiB at a time, or as long as the extent"
    " takes at the bandwidth of the tiers.",
    engine=options.SET_ENGINE,
    master=options.MASTER,
)
def tiers(trace: options.TraceOrSet, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Find the mix of storage tiers with most IOPS for its price, with and without the first.

    Of a trace set each volume has a mix of its own, and a table shows them side by side.
    """
    options.show(options.opened(trace, chosen).simulate.tiers(**chosen), as_json=as_json)
