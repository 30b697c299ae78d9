"""blkreplay's .load files: a licence, a header, then seconds, sector, sectors and operation."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import TextFormat

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
    {"r": "read", "w": "write", "ra": "readahead"},
    delimiter=";",
)
