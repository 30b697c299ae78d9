"""`tracekit simulate buffer`: what row buffers of an NVRAM would give."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options


@options.of(
    tk.Simulate.buffer,
    sizes="Sizes of a buffer: powers of two from 32 to 64KiB.",
    buffers="Numbers of buffers, 1 to 1024.",
    access="Size of an access: a power of two from 1 to 64KiB.",
    hit_ns="Time of an access to an open row.",
    read_ns="Time to read a row into a buffer.",
    write_ns="Time to write a row back.",
    dram_ns="Time by which DRAM opens a row.",
    what_if=options.WHAT_IF,
)
def buffer(trace: options.Trace, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Say how often row buffers of a byte-addressable memory would hit, at any size and number."""
    options.show(tk.open(trace).simulate.buffer(**chosen), as_json=as_json)
