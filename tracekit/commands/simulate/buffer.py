"""`tracekit simulate buffer`: what row buffers of an NVRAM would give."""

from __future__ import annotations

from typing import Any

import tracekit as tk
from tracekit.commands import options


@options.of(
    tk.Simulate.buffer,
    sizes="Sizes of a buffer: powers of two from 32B to 64KiB.",
    buffers="Numbers of buffers, 1 to 1024.",
    caches="Caches before the memory, SIZE/WAYS of each level or none. [default: the study's,"
    " 32KiB/8,256KiB/8,15MiB/20; none for samples and accesses that come from behind caches]",
    access="Size of a cache line: a power of two from 16B to 64KiB.",
    instruction_ns="Time of an instruction without its memory; the default is a cycle of 2.4 GHz.",
    hit_ns="Time of an access to an open row.",
    read_ns="Time to read a row into a buffer.",
    write_ns="Time to write a row back.",
    dram_ns="Time by which DRAM opens a row.",
    what_if=options.WHAT_IF,
)
def buffer(trace: options.Trace, *, as_json: options.Json = False, **chosen: Any) -> None:
    """Say how often a memory's row buffers would hit, for imported memory accesses."""
    options.show(tk.open(trace).simulate.buffer(**chosen), as_json=as_json)
