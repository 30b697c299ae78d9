"""A first, quick look at a trace: which devices, how far they and the time reach, who is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.classify.columns import (
    OnRows,
    batches,
    first_event_ns,
    ignore_rows,
    time_columns,
)
from tracekit.classify.evidence import JBD2, process_kind
from tracekit.columns import codes, ints, open_table
from tracekit.errors import InputError
from tracekit.schema import SECTOR_BYTES

COLUMNS = ("device", "sector", "length_bytes", "process", "partition")


@dataclass
class Survey:
    """What later steps have to know of the whole trace before they begin."""

    end_sectors: dict[str, int] = field(default_factory=dict)  # by device, in order of name
    partitions: set[tuple[str, str]] = field(default_factory=set)  # device and major,minor
    has_jbd2: bool = False
    latest_ns: int = 0
    rows: int = 0


def survey(requests: Path, *, on_rows: OnRows = ignore_rows) -> Survey:
    """Read the trace once; raise InputError for a request without a device."""
    file = open_table(requests, (*COLUMNS, "queue_ns"))
    result = Survey()
    for batch in batches(requests, (*COLUMNS, *time_columns(file)), on_rows=on_rows):
        if batch.column("device").null_count:
            raise InputError(f"{requests}: a request has no device", hint="parse the capture again")
        if batch.num_rows:
            _look(result, batch)
    result.end_sectors = dict(sorted(result.end_sectors.items()))
    return result


def _look(result: Survey, batch: Any) -> None:
    import numpy as np

    result.rows += batch.num_rows
    result.latest_ns = max(result.latest_ns, int(first_event_ns(batch).max()))
    result.has_jbd2 |= any(
        process_kind(name) == JBD2 for name in batch.column("process").unique().to_pylist()
    )
    names: list[str] = batch.column("device").unique().to_pylist()
    number = {name: place for place, name in enumerate(names)}
    device = codes(batch.column("device"), lambda name: number.get(name or "", 0))
    length = ints(batch.column("length_bytes"))
    end = ints(batch.column("sector")) + (length + SECTOR_BYTES - 1) // SECTOR_BYTES
    ends = np.zeros(len(names), np.int64)
    np.maximum.at(ends, device, end)
    for name, reached in zip(names, ends.tolist(), strict=True):
        result.end_sectors[name] = max(result.end_sectors.get(name, 0), reached)
    _pair(result, batch, names, device)


def _pair(result: Survey, batch: Any, names: list[str], device: Any) -> None:
    """Note which partitions occur on which device."""
    import numpy as np

    found: list[str | None] = batch.column("partition").unique().to_pylist()
    number = {name: place for place, name in enumerate(found)}
    partition = codes(batch.column("partition"), lambda name: number.get(name, 0))
    for pair in np.unique(device * len(found) + partition).tolist():
        name = found[pair % len(found)]
        if name is not None:
            result.partitions.add((names[pair // len(found)], name))
