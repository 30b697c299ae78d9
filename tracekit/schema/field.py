"""One column of a table, with its meaning: what the documentation and `sql --describe` print."""

from __future__ import annotations

import pyarrow as pa

TEXT = pa.dictionary(pa.int32(), pa.string())


def field(name: str, kind: pa.DataType, *, meaning: str, nullable: bool = False) -> pa.Field:
    """Return a column; its unit is the end of its name."""
    return pa.field(name, kind, nullable=nullable, metadata={"meaning": meaning})
