"""MQSim's ASCII traces: time in ns, device, sector, sectors, 1 for a read or 0 for a write.

Some have letters in place of the last; of zoned devices 2 resets a zone.
"""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import READ_OR_WRITE, TextFormat

FORMAT = TextFormat(
    "mqsim",
    {"time": "int", "device": "digits", "offset": "int", "length": "int", "op": "op"},
    Units("ns", "sectors", "sectors"),
    {"0": "write", "1": "read", "2": "zone", **READ_OR_WRITE},
    delimiter=" ",
)
