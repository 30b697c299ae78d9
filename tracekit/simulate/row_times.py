"""Times of a memory with row buffers, as options or a what-if file give them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

AS_ASKED = "as asked"  # the name of the memory whose times are the options


@dataclass(frozen=True)
class Times:
    """Nanoseconds of an access to an open row, and of what a miss adds."""

    hit_ns: float = 12.5
    read_ns: float = 55.0
    write_ns: float = 150.0
    dram_ns: float = 25.0

    def nvram(self, reads: int, writes: int, *, read_misses: float, write_misses: float) -> float:
        """Return the time in ns of accesses through buffers."""
        misses = read_misses + write_misses
        return (reads + writes) * self.hit_ns + misses * self.read_ns + write_misses * self.write_ns

    def unbuffered(self, reads: int, writes: int) -> float:
        """Return the time in ns of accesses without buffers."""
        return (reads + writes) * self.hit_ns + reads * self.read_ns + writes * self.write_ns


TIME_KEYS = tuple(one.name for one in fields(Times))


def fault(key: str, value: float) -> str | None:
    """Return what is wrong with a time, or None; an access to an open row takes some time."""
    least = "above 0" if key == "hit_ns" else "from 0"
    if math.isfinite(value) and value >= 0 and (key != "hit_ns" or value > 0):
        return None
    return f"{value} is not a time {least}"
