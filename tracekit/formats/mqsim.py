"""MQSim's ASCII traces: time in ns, device, sector, sectors, 1 for a read or 0 for a write."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import TextFormat

FORMAT = TextFormat(
    "mqsim",
    {"time": "int", "device": "digits", "offset": "int", "length": "int", "op": "op"},
    Units("ns", "sectors", "sectors"),
    {"0": "write", "1": "read"},
    delimiter=" ",
)
