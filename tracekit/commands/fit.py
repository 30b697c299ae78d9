"""`tracekit fit`: a trace becomes a work profile that can be shared."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.options import option


@options.of(
    tk.Trace.fit,
    output=option("New profile, a TOML file.", "--output", "-o", metavar="FILE"),
    processes=option(
        "Maximum number of processes, per role and device, with their own stream.", min=1
    ),
    names="Keep the names of processes; else they are numbered.",
    measured="Keep quantiles of the gaps even where a distribution fits.",
    compare="Generate as many requests from the profile and report how they differ.",
    seed="Random seed of the requests that are compared.",
    limit=option(
        "Use only the first N requests; a million takes 0.3 GiB.",
        min=2,
        max=100_000_000,
    ),
    force="Replace the profile.",
)
def fit(trace: options.Trace, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Make a work profile of a trace, without its addresses, and report how well it matches."""
    options.show(tk.open(trace).fit(**chosen), as_json=as_json)
