"""What every format of an export has: what it holds, and a function that writes it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from tracekit.export.rows import Rows, Source, Survey
from tracekit.schema import OPERATIONS

U32_MOST = (1 << 32) - 1
ODD = re.compile(r"[^A-Za-z0-9_.,+-]")


@dataclass
class Told:
    """What became of the requests, counted while they are written."""

    written: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """By reason: the operation, empty, or too_long."""
    changed: Counter[str] = field(default_factory=Counter)
    """Requests of which the format holds something else than the trace, by what it is."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What a reader of the export must know, such as other names of the devices."""

    def fitting(self, source: Source, operations: Sequence[str]) -> Iterator[Rows]:
        """Yield the rows that a format with these operations can hold, and count the others.

        A request that moves data has a length of 1 to 2^32 - 1 bytes; only flushes have none.
        """
        import numpy as np

        for rows in source.batches():
            fits = np.isin(rows.operation, [OPERATIONS.index(name) for name in operations])
            other = np.bincount(rows.operation[~fits], minlength=len(OPERATIONS))
            is_empty = fits & (rows.length_bytes == 0)
            is_empty &= rows.operation != OPERATIONS.index("flush")
            is_long = fits & (rows.length_bytes > U32_MOST)
            counts = dict(zip(OPERATIONS, other.tolist(), strict=True))
            counts |= {"empty": int(is_empty.sum()), "too_long": int(is_long.sum())}
            self.left_out.update({reason: count for reason, count in counts.items() if count})
            kept = rows.kept(fits & ~is_empty & ~is_long)
            self.written += len(kept)
            yield kept

    def rounds(self, rows: Rows, unit_ns: int) -> None:
        """Count the times that are no whole units: their fraction is cut off."""
        self.changes("rounded_times", int((rows.time_ns % unit_ns != 0).sum()))

    def changes(self, what: str, count: int) -> None:
        """Count requests of which something changes."""
        if count:
            self.changed[what] += count


class Form(Protocol):
    """A format of another tool."""

    @property
    def name(self) -> str:
        """Return what the user calls it."""

    @property
    def holds(self) -> Sequence[str]:
        """Return the columns of `requests` that it holds, all of them or in part."""

    def files(self, output: Path) -> list[Path]:
        """Return the files that it makes; raise UsageError for a name that it cannot take."""

    def write(self, source: Source, survey: Survey, *, parts: Mapping[Path, Path]) -> Told:
        """Write the trace; `parts` has a temporary name for each of `files`, in their order."""


def plain_names(names: Sequence[str]) -> list[str]:
    """Return names of letters, digits and _.,+- for devices, all different.

    Never a path: a tool that takes them for files must not find a disk of this machine.
    """
    found: list[str] = []
    for name in names:
        plain = ODD.sub("_", name).lstrip(".-+") or "device"
        number = 2
        unique = plain
        while unique in found:
            unique, number = f"{plain}_{number}", number + 1
        found.append(unique)
    return found


def write_lines(out: IO[bytes], columns: Sequence[Any], *, delimiter: str) -> None:
    """Append a line for each row of the Arrow columns; texts stand as they are."""
    import pyarrow as pa
    from pyarrow import csv

    plain = [
        column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for column in columns
    ]
    batch = pa.RecordBatch.from_arrays(plain, [str(number) for number in range(len(plain))])
    options = csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    with csv.CSVWriter(out, batch.schema, write_options=options) as writer:
        writer.write_batch(batch)
