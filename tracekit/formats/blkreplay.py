"""blkreplay's .load files: a licence, a header, then seconds, sector, sectors and operation."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.own import OPERATIONS, RWBS
from tracekit.formats.text import TextFormat

LETTERS = {word: OPERATIONS[word] for word in ("r", "w", "d", "ra", "ff", "n", *RWBS)}
"""The kernel's, which are copied from blktrace."""

FORMAT = TextFormat(
    "blkreplay",
    {
        "time": "decimal",
        "offset": "int",
        "length": "int",
        "op": "op",
        "_delay": r"[^;\n]*",
        "_duration": r"[^;\n]*",
    },
    Units("s", "sectors", "sectors"),
    LETTERS,
    delimiter=";",
)
