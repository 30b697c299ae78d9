"""Traces of the ARC paper (.lis): first page, pages, a number, line number; reads without times."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import TextFormat

FORMAT = TextFormat(
    "arc",
    {"offset": "int", "length": "int", "_zero": "[0-9]+", "_number": r"[0-9]+\s*"},
    Units("us", "pages", "pages"),
    {},
    delimiter=" ",
)
