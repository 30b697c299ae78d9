"""`tracekit simulate sensitivity`: does the recommendation hold?"""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.options import option


@options.of(
    tk.Simulate.sensitivity,
    placement=options.PLACEMENT,
    factors="How many times as long each part of a device takes.",
    windows=option(
        "How many windows of equal numbers of requests, or how long one is, such as 10min.",
        metavar="N|DURATION",
        show_default="an hour each in a trace of three or more, else 8",
    ),
)
def sensitivity(
    trace: options.Recommended, *, as_json: options.Json = False, **chosen: Any
) -> None:
    """Say whether the recommendation holds: other devices, each window, other capacities."""
    options.show(tk.open(trace).simulate.sensitivity(**chosen), as_json=as_json)
