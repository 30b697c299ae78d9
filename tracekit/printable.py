"""Text of a trace, a layout or a file name, made fit for a terminal or a page."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """Return the text with an escape for each character that acts, hides or reorders.

    Names of processes are bytes that somebody else chose; they must not command a terminal, break
    an SVG, or change what stands beside them.
    """
    return "".join(_escape(ord(c)) if _is_hidden(c) else c for c in text)


def span(least: int, most: int) -> str:
    """Return a count that is known or lies between two, such as `1,200` or `1 to 3`."""
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def _is_hidden(character: str) -> bool:
    kind = unicodedata.category(character)
    return kind[0] == "C" or kind in ("Zl", "Zp")  # controls, directions; line separators


def _escape(point: int) -> str:
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}"
