"""DiskSim's ASCII traces: ms, device, block, blocks, flags in hexadecimal (bit 0 is a read)."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import POINT, READ_OR_WRITE, TextFormat

HEX_DIGITS = 16
FLAGS = {
    word: "read" if flags & 1 else "write"
    for flags in range(HEX_DIGITS * HEX_DIGITS)
    for word in (f"{flags:x}", f"0x{flags:x}", f"{flags:08x}"[: 8 if flags < HEX_DIGITS else 2])
} | {f"0x{flags:08x}": "read" if flags & 1 else "write" for flags in range(HEX_DIGITS)}
"""Also with leading zeros, as %08x writes them."""

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
    {**FLAGS, **READ_OR_WRITE},
    delimiter=" ",
    telling=rf"^{POINT}",  # MQSim's times are whole numbers
)
