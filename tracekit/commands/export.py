"""`tracekit export`: a trace for other tools."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.options import option


@options.of(
    tk.Trace.export,
    format="blkparse: the events of each request as text, which import reads back. fio: an I/O log"
    " of version 3, and beside it FILE.fio, a job that replays it. msr: CSV as of MSR Cambridge,"
    " with response times. oracleGeneral: records for cache simulators; an object is the sector"
    " where a request begins.",
    output=option("New file.", "--output", "-o", metavar="FILE"),
    force="Replace files that exist.",
)
def export(trace: options.Trace, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Write the requests of a trace, as queued, for other tools; report what is lost."""
    options.show(tk.open(trace).export(**chosen), as_json=as_json)
