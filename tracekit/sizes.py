"""Amounts of data with units, as people write and read them."""

from __future__ import annotations

import re

from tracekit.errors import UsageError

UNITS = {
    "b": 1,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
    "p": 1 << 50,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "pb": 10**15,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "pib": 1 << 50,
    "": 1,
}
_SIZE = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-zA-Z]*)\s*")
_LARGEST = 1 << 62


def parse_size(text: str, *, option: str) -> int:
    """Return the bytes that `text` means: 64MiB, 64M (both 2^20), 64MB (10^6), 1.5g, 4096.

    Raise UsageError, naming `option`, when it is no size or above 4 EiB.
    """
    match = _SIZE.fullmatch(text)
    unit = UNITS.get(match["unit"].lower()) if match else None
    if match is None or unit is None:
        raise UsageError(
            f"{option}: '{text}' is not a size", hint="write for example 64MiB, 1.5GiB or 4096"
        )
    size = float(match["number"]) * unit if "." in match["number"] else int(match["number"]) * unit
    if size > _LARGEST:
        raise UsageError(f"{option}: '{text}' is above 4 EiB")
    return round(size)


def format_size(size_bytes: int) -> str:
    """Write bytes with three digits in the largest fitting binary unit: 512 B, 1.5 MiB, 24 MiB."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale:
            value = size_bytes / scale
            return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"
    return f"{size_bytes} B"
