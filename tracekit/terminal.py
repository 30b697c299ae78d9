"""What may reach a terminal: text of a trace or a file name can hold control characters."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with its control characters written as `\\x1b`."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
