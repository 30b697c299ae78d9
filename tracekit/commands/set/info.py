"""`tracekit set info`: what is in a set."""

from __future__ import annotations

import tracekit as tk
from tracekit.commands import options


def info(place: options.TraceSet, *, as_json: options.Json = False) -> None:
    """Say how many volumes and requests there are, and how they are divided."""
    options.show(tk.open_set(place), as_json=as_json)
