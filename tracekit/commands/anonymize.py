"""`tracekit anonymize`: a trace that can be given away."""

from __future__ import annotations

import json
from typing import Any

import typer

import tracekit as tk
from tracekit.commands import options

SAME = (
    "recommend answers by role as before, where times tell requests apart; single blocks, caches,"
    " extents, --coverage start and disks whose head moves depend on places, which are others."
)


@options.of(tk.Trace.anonymize, output="New trace folder.", force=options.FORCE_TRACE)
def anonymize(trace: options.Trace, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Replace places and names in a trace; sequences and roles stay the same.

    recommend gives the same answer by role; docs/profiles.md says how far others differ.
    """
    made = tk.open(trace).anonymize(**chosen)
    requests = made.requests.count("*").fetchall()[0][0]
    summary = {"output": str(made.path), "requests": requests}
    text = f"{made.path}: {requests:,} requests; classify it anew. {SAME}"
    typer.echo(json.dumps(summary, indent=2)) if as_json else options.say(text)
