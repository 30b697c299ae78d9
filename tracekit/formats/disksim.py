"""DiskSim's ASCII traces: ms, device, block, blocks, flags in hexadecimal (bit 0 is a read)."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import POINT, TextFormat

HEX_DIGITS = 16
FLAGS = {
    f"{prefix}{flags:x}": "read" if flags & 1 else "write"
    for flags in range(HEX_DIGITS * HEX_DIGITS)
    for prefix in ("", "0x")
}

FORMAT = TextFormat(
    "disksim",
    {
        "time": "decimal",
        "device": "digits",
        "offset": "int",
        "length": "int",
        "op": "op",
    },
    Units("ms", "sectors", "sectors"),
    FLAGS,
    delimiter=" ",
    telling=rf"^{POINT}",  # MQSim's times are whole numbers
)
