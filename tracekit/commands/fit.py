"""`tracekit fit`: a trace becomes a work profile that can be shared."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.options import option


@options.of(
    tk.Trace.fit,
    output=option("New profile, a TOML file.", "--output", "-o", metavar="FILE"),
    processes=option("Most processes, by role and device, with a stream of their own.", min=1),
    names="Keep the names of processes; else they are numbered.",
    measured="Keep quantiles of the gaps even where a distribution comes close.",
    compare="Make as many requests of the profile, and tell how they differ.",
    seed="Of the requests that are compared.",
    limit=option(
        "Look at the first so many requests only; a million takes 0.3 GiB.",
        min=2,
        max=100_000_000,
    ),
    force="Replace the profile.",
)
def fit(trace: options.Trace, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Make a work profile of a trace, without its addresses, and tell how well it matches."""
    options.show(tk.open(trace).fit(**chosen), as_json=as_json)
