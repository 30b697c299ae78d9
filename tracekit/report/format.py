"""How numbers and text are written in the report; every function takes a value and returns text.

A value that is missing (None, NaN or NA) is written as an en dash, never as `nan` or `0`.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Any

MISSING = "–"  # noqa: RUF001 - an en dash is what a table shows for "no value"

LONG_NS = 1000e9  # from here on a time is written in minutes or hours
SPACE = "\N{NO-BREAK SPACE}"  # a number and its unit stay on one line

_TIME_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_BYTE_UNITS = (("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20))
_SMALL_BYTE_UNITS = (("KiB", 1 << 10), ("B", 1))


def is_missing(value: Any) -> bool:
    """Say whether a cell holds no value: None, NaN, NaT or NA."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def count(value: Any) -> str:
    """Write a whole number with thousands separators: 4,092,015."""
    return MISSING if is_missing(value) else f"{round(float(value)):,}"


def number(value: Any) -> str:
    """Write a number that need not be whole, with three significant digits: 5,310, 12.4, 0.031."""
    if is_missing(value):
        return MISSING
    value = float(value)
    if value == round(value) or abs(value) >= 100:
        return f"{round(value):,}"
    return f"{value:.3g}"


def data(length_bytes: Any) -> str:
    """Write an amount of data in binary units: 512 B, 4 KiB, 1.5 MiB."""
    if is_missing(length_bytes):
        return MISSING
    units = _BYTE_UNITS + _SMALL_BYTE_UNITS
    return _scaled(float(length_bytes), units)


def duration(time_ns: Any) -> str:
    """Write a time that is given in nanoseconds in the unit that suits it: 129.6 µs, 3 s."""
    if is_missing(time_ns):
        return MISSING
    value = float(time_ns)
    return _scaled(value, _TIME_UNITS) if abs(value) < LONG_NS else _long(value)


def share(ratio: Any) -> str:
    """Write a ratio of 0 to 1 in percent: 0.613 as 61.3 %; a tiny share is never shown as zero.

    Nor is nearly all shown as all: 0.99997 is > 99.9 %.
    """
    if is_missing(ratio):
        return MISSING
    percent = float(ratio) * 100
    sign = "−" if percent < 0 else ""  # noqa: RUF001 - a real minus sign
    if 0 < abs(percent) < 0.05:
        return f"<{SPACE}{sign}0.1{SPACE}%" if percent > 0 else f">{SPACE}{sign}0.1{SPACE}%"
    if 99.95 <= percent < 100:
        return f">{SPACE}99.9{SPACE}%"
    return f"{sign}{abs(percent):.1f}{SPACE}%"


def plural(amount: Any, noun: str) -> str:
    """Write a count with its noun: 1 request, 2 requests."""
    return f"{count(amount)}{SPACE}{noun}" if amount == 1 else f"{count(amount)}{SPACE}{noun}s"


def verb_plural(operation: str) -> str:
    """Write the plural of an operation: reads, flushes."""
    return f"{operation}es" if operation.endswith("sh") else f"{operation}s"


def listing(words: Sequence[str]) -> str:
    """Join words as a sentence does: a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def printable(text: Any) -> str:
    """Make text from a trace fit to be shown: control and direction characters become escapes.

    Names of processes are bytes that somebody else chose; they must not break an SVG, hide or
    reorder what stands beside them.
    """
    if is_missing(text):
        return MISSING
    return "".join(
        character if unicodedata.category(character)[0] != "C" else _escape(character)
        for character in str(text)
    )


def anchor(text: str) -> str:
    """Make text fit to be part of an id: letters, digits and hyphens only."""
    return "".join(
        character if character.isascii() and character.isalnum() else f"-{ord(character):x}-"
        for character in text
    )


def _escape(character: str) -> str:
    point = ord(character)
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}"


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    # A value that rounds up to the next unit is written in it: 999,999 ns is 1 ms, not 1,000 µs.
    fitting = (unit for unit in units if abs(value) >= unit[1] * 0.9995)
    unit, factor = next(fitting, units[-1])
    return f"{_three_digits(value / factor)}{SPACE}{unit}"


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
    return f"{large:,}{SPACE}{units[0]} {small}{SPACE}{units[1]}"
