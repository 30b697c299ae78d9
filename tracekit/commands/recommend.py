"""`tracekit recommend`: say where a small NVM should go."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import completion, options


@options.of(
    tk.Trace.recommend,
    tk.Set.recommend,
    base=options.BASE,
    nvm=options.NVM,
    capacity=options.CAPACITY,
    max_capacity="Largest capacity of the curves. Default: all that was touched.",
    coverage="Which blocks of a role that does not fit go to NVM first.",
    level="Charge requests after merging, as the device got them, or before, as queued.",
    queueing="Serve requests one after the other, or let them come at their traced times and queue"
    " for each device: then mean response times are compared.",
    profiles=options.PROFILES,
    unit=options.option(
        "Place only whole units: extent alone is extent=4MiB, or smaller for a small capacity."
        " Default: extents where most requests have no role, else blocks.",
        metavar="role|file|directory|log|extent=SIZE|block",
        autocompletion=completion.of("role", "file", "directory", "log", "extent=", "block"),
    ),
    files=options.option(
        "Table of where files lie (CSV or JSON: path, device, first_sector, sectors), for --unit"
        " file and directory.",
        metavar="FILE",
    ),
    script=options.option(
        "Write a shell script that carries the answer out, and takes it back; it only prints"
        " commands until TRACEKIT_APPLY=yes is set.",
        metavar="FILE",
    ),
    force="Replace the script.",
    engine=options.SET_ENGINE,
    master=options.MASTER,
)
def recommend(trace: options.Classified, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Say what to place on NVM: file system, journal, swap or parts of them, at each capacity.

    Of a trace set: how much of one NVM goes to which volume and to which of its roles, by what it
    saves, beside a bound that no division exceeds, and what twice as much would change.
    """
    options.show(options.opened(trace, chosen).recommend(**chosen), as_json=as_json)
