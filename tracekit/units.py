"""Sizes and times with units, as people write and read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from tracekit.errors import UsageError

SECTOR_BYTES = 512
"""Of every sector number in traces, tables and plans, whatever the device's own sectors are."""
BLOCK_BYTES = 4096
"""Blocks that are classified, placed and cached."""
PAGE_BYTES = 4096
"""A page of memory."""
MIB = 1 << 20
GB = 10**9
PS_PER_NS = 1000
PS_PER_US = 1_000_000
NS_PER_US = 1000
NS_PER_MS = 1_000_000
NS_PER_S = 10**9
HOUR_NS = 3600 * NS_PER_S
DAY_NS = 24 * HOUR_NS

_PREFIXES = "kmgtp"
UNITS: dict[str, int] = (
    {"": 1, "b": 1}
    | {prefix: 1024 ** (n + 1) for n, prefix in enumerate(_PREFIXES)}
    | {f"{prefix}ib": 1024 ** (n + 1) for n, prefix in enumerate(_PREFIXES)}
    | {f"{prefix}b": 1000 ** (n + 1) for n, prefix in enumerate(_PREFIXES)}
)
"""Bytes of a unit in small letters: alone and with `i` binary, else decimal."""
_SIZE = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-zA-Z]*)\s*")
_LARGEST = 1 << 62
_BYTE_UNITS = (
    *((f"{prefix.upper()}iB", UNITS[prefix]) for prefix in reversed(_PREFIXES)),
    ("B", 1),
)
_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))
NS_PER_UNIT = {
    "ns": 1,
    "us": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": HOUR_NS,
}
LONG_NS = 1000e9  # from here on a time is written in minutes or hours


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 line, 2 lines."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def parse_size(text: str, *, option: str, needs_unit: bool = True) -> int:
    """Return the bytes that `text` means: 64MiB, 64M (both 2^20), 64MB (10^6), 1.5g, 4096B.

    0 needs no unit. Raise UsageError, naming `option`, when it has none else but `needs_unit`, is
    no size or is above 4 EiB.
    """
    number, unit = _parts(
        text, UNITS, f"{option}: '{text}' is not a size", "64MiB, 1.5GiB or 4096B"
    )
    if needs_unit and number == text.strip() and float(number):
        hint = f"write {number}B, {number}KiB, {number}MiB or {number}GiB"
        raise UsageError(f"{option} {text}: a size needs a unit", hint=hint)
    size = float(number) * unit if "." in number else int(number) * unit
    if size > _LARGEST:
        raise UsageError(f"{option}: '{text}' is above 4 EiB")
    return round(size)


def size_text(size: int | str) -> str:
    """Return a size as text with a unit; a number is bytes."""
    return f"{size}B" if isinstance(size, int) else size


def memory_mib(value: int | str, *, least: int, option: str = "--memory") -> int:
    """Return a memory in whole MiB; raise UsageError below `least`."""
    mib = parse_size(size_text(value), option=option) >> 20
    if mib < least:
        raise UsageError(f"{option} {value}: less than {least}MiB", hint="write for example 512MiB")
    return mib


def _parts(text: str, units: Mapping[str, int], message: str, example: str) -> tuple[str, int]:
    """Return the number and the factor of its unit; UsageError when the text has no such."""
    match = _SIZE.fullmatch(text)
    unit = units.get(match["unit"].lower()) if match else None
    if match is None or unit is None:
        raise UsageError(message, hint=f"write for example {example}")
    return match["number"], unit


def parse_duration(text: str, *, option: str) -> int:
    """Return the nanoseconds that `text` means: 250us, 1.5s, 10min.

    0 needs no unit. Raise UsageError, naming `option`, when it has none else, is no time or is
    above 292 years.
    """
    if text == "0":
        return 0
    message = f"{option}: '{text}' is not a time"
    number, unit = _parts(text, NS_PER_UNIT, message, "250us, 1.5s or 10min")
    # Exact, also where a float would round.
    time_ns = round(Decimal(number) * unit)
    if time_ns >= 1 << 63:
        raise UsageError(f"{option}: '{text}' is above 292 years")
    return time_ns


def format_size(size_bytes: float) -> str:
    """Write bytes with three digits in the largest fitting binary unit: 512 B, 1.5 MiB, 24 MiB."""
    return _scaled(float(size_bytes), _BYTE_UNITS)


def format_duration(time_ns: float) -> str:
    """Write nanoseconds with three digits in the unit that suits them: 130 us, 3 s, 6 h 57 min."""
    value = float(time_ns)
    return _scaled(value, _TIME_UNITS) if abs(value) < LONG_NS else _long(value)


def format_share(ratio: float) -> str:
    """Write a ratio of 0 to 1 in percent: 61.3%; a little is not nothing, nearly all not all."""
    percent = abs(ratio) * 100
    sign = "-" if ratio < 0 else ""
    if 0 < percent < 0.05:
        return f"{'>' if sign else '<'} {sign}0.1%"
    return "> 99.9%" if 99.95 <= ratio * 100 < 100 else f"{sign}{percent:.1f}%"


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    # A value that rounds up to the next unit is written in it: 999,999 ns is 1 ms, not 1,000 us.
    fitting = (unit for unit in units if abs(value) >= unit[1] * 0.9995)
    unit, factor = next(fitting, units[-1])
    return f"{_three_digits(value / factor)} {unit}"


def _three_digits(value: float) -> str:
    """Three significant digits, but never fewer than the whole part; no trailing zero."""
    whole_digits = len(str(int(abs(value))))
    text = f"{value:,.{max(0, 3 - whole_digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _long(time_ns: float) -> str:
    seconds = round(time_ns / 1e9)
    if seconds < 3600:
        large, small, units = *divmod(seconds, 60), ("min", "s")
    else:
        large, small, units = *divmod(round(seconds / 60), 60), ("h", "min")
    return f"{large:,} {units[0]} {small} {units[1]}"
