"""How numbers and text are written in the report; every function takes a value and returns text.

A value that is missing (None, NaN or NA) is written as an en dash, never as `nan` or `0`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracekit.printable import printable as escaped
from tracekit.sizes import format_duration, format_size

MISSING = "–"  # noqa: RUF001 - an en dash is what a table shows for "no value"

SPACE = "\N{NO-BREAK SPACE}"  # a number and its unit stay on one line


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
    return format_size(length_bytes).replace(" ", SPACE)


def duration(time_ns: Any) -> str:
    """Write a time that is given in nanoseconds in the unit that suits it: 130 µs, 3 s."""
    if is_missing(time_ns):
        return MISSING
    return format_duration(time_ns).replace(" us", " µs").replace(" ", SPACE)


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
    """Make text from a trace fit to be shown; see `tracekit.printable`."""
    return MISSING if is_missing(text) else escaped(str(text))


def anchor(text: str) -> str:
    """Make text fit to be part of an id: letters, digits and hyphens only."""
    return "".join(
        character if character.isascii() and character.isalnum() else f"-{ord(character):x}-"
        for character in text
    )
