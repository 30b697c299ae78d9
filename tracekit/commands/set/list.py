"""`tracekit set list`: the volumes of a set."""

from __future__ import annotations

import tracekit as tk
from tracekit.commands import options
from tracekit.units import format_duration


def list(place: options.TraceSet, *, as_json: options.Json = False) -> None:  # noqa: A001 - its word
    """List the volumes of a set with their requests and what was done with them."""
    opened = tk.open_set(place)
    if as_json:
        options.say_json({"set": options.shown_path(place), "volumes": opened.volumes})
    else:
        width = max(len(name) for name in ("volume", *opened))
        options.say(f"{'volume':<{width}} {'requests':>14} {'duration':>16}  format      done")
        for row in opened.volumes:
            options.say(
                f"{row['name']:<{width}} {row['requests']:>14,}"
                f" {format_duration(row['duration_ns']):>16}  {row['format'] or '':<10}"
                f"  {' '.join(row['stages'])}"
            )
    options.say(*opened.notes, err=True)
    opened.check()
