"""What every export format offers, and the rows of a trace as the formats want them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from tracekit.arrow import codes, count_names, flags, ints, open_table, read_batches
from tracekit.metadata import TraceInfo, read_requests
from tracekit.tables import OPERATIONS, REQUESTS
from tracekit.units import SECTOR_BYTES

TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "complete_ns")
USED = (*TIMES, "device", "sector", "length_bytes", "operation")
DEFAULTS = {"role": "unknown", "depth": 1, "operation": "read"}
"""What stands in a column without a value; of other numbers 0, of flags false. Without
operations all are taken for reads."""
UNKNOWN_AS = "read"
"""What an operation that is not known is written as."""
NONE = -1
Numbers = NDArray[np.int64]


@dataclass
class Rows:
    """Some requests in the order of the trace, a value of each array a request.

    Times are ns from the trace's start; `response_ns` is -1 where there is no completion.
    """

    time_ns: Numbers
    response_ns: Numbers
    device: Numbers
    sector: Numbers
    length_bytes: Numbers
    operation: Numbers
    """Index into OPERATIONS."""

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.time_ns)

    def kept(self, which: NDArray[np.bool_]) -> Rows:
        """Return the rows that `which` marks."""
        return Rows(**{name: values[which] for name, values in vars(self).items()})


@dataclass
class Survey:
    """What must be known of a trace before its first line is written."""

    requests: int
    devices: list[str]
    """In the order of their first requests."""
    end_bytes: list[int]
    """Where the last request of each device ends."""
    unheld: dict[str, int]
    """For each column that is missing in the format, how many requests have a value in it."""


class Source:
    """The table of requests of one trace, read as often as a format needs it."""

    def __init__(self, table: Path, info: TraceInfo, *, on_rows: Callable[[int], None]) -> None:
        self.info = info
        """The trace's own `trace.json`."""
        self.table, self._on_rows = table, on_rows
        self._devices: list[str] = []
        self.guessed_times = 0
        """Requests without a queue time; they take the time of their first event."""

    def survey(self, held: Sequence[str]) -> Survey:
        """Read the table once; `held` names the columns that the format has, all or in part."""
        there = open_table(self.table).schema_arrow.names
        found = Survey(0, self._devices, [], {})
        for batch in read_batches(self.table, ("device", "sector", "length_bytes")):
            found.requests += batch.num_rows
            device = codes(batch.column("device"), self._device)
            lengths = ints(batch.column("length_bytes"))
            last = ints(batch.column("sector")) * SECTOR_BYTES + lengths
            ends = np.zeros(len(self._devices), np.int64)
            ends[: len(found.end_bytes)] = found.end_bytes
            np.maximum.at(ends, device, np.where(lengths > 0, last, 0))
            found.end_bytes = ends.tolist()
        # One column after the other: all at once would need twice the memory.
        for name in (name for name in REQUESTS.names if name in there and name not in held):
            parts = read_batches(self.table, (name,))
            if count := sum(_count_values(batch.column(name), name) for batch in parts):
                found.unheld[name] = count
        return found

    def batches(self) -> Iterator[Rows]:
        """Yield the rows; times never run backwards: a row takes the latest time before it."""
        latest = 0
        self.guessed_times = 0
        for batch in read_batches(self.table, USED):
            # When each was queued, or its first event where that was not captured.
            times = ints(pc.coalesce(*(batch.column(name) for name in TIMES)))
            given = ints(batch.column("queue_ns"), if_null=NONE)
            times = np.maximum(np.maximum.accumulate(times), latest)
            self.guessed_times += int((times != given).sum())
            latest = int(times[-1]) if len(times) else latest
            ends = ints(batch.column("complete_ns"), if_null=NONE)
            yield Rows(
                time_ns=times,
                response_ns=np.where(ends >= 0, np.maximum(ends - times, 0), NONE),
                device=codes(batch.column("device"), self._device),
                sector=ints(batch.column("sector")),
                length_bytes=ints(batch.column("length_bytes")),
                operation=codes(
                    batch.column("operation"), lambda name: OPERATIONS.index(name or UNKNOWN_AS)
                ),
            )
            self._on_rows(batch.num_rows)

    def whole_batches(self) -> Iterator[tuple[Any, NDArray[np.int64]]]:
        """Yield all columns of the rows, and each row's device as its place in the survey."""
        for batch in read_requests(self.table):
            yield batch, codes(batch.column("device"), self._device)
            self._on_rows(batch.num_rows)

    def _device(self, name: str | None) -> int:
        if name is not None and name not in self._devices:
            self._devices.append(name)
        return NONE if name is None else self._devices.index(name)


def _count_values(column: Any, name: str) -> int:
    """Return how many values of the column are neither null nor what stands for nothing."""
    nothing = DEFAULTS.get(name, 0)
    if pa.types.is_boolean(column.type):
        return int(np.count_nonzero(flags(column)))
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        return int(codes(column, lambda text: int(text not in (None, nothing))).sum())
    if REQUESTS.field(name).nullable:
        return len(column) - int(column.null_count)
    return int(np.count_nonzero(ints(column.cast(pa.int64())) != nothing))


U32_MOST = (1 << 32) - 1
ODD = re.compile(r"[^A-Za-z0-9_.,+-]")
NAME_CHARACTERS = 100
"""Of a device: tools have limits for lines, too."""


@dataclass
class Outcome:
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
        for rows in source.batches():
            fits = np.isin(rows.operation, [OPERATIONS.index(name) for name in operations])
            is_empty = fits & (rows.length_bytes == 0)
            is_empty &= rows.operation != OPERATIONS.index("flush")
            is_long = fits & (rows.length_bytes > U32_MOST)
            self.left_out += count_names(rows.operation[~fits], OPERATIONS)
            self.leaves("empty", is_empty)
            self.leaves("too_long", is_long)
            kept = rows.kept(fits & ~is_empty & ~is_long)
            self.written += len(kept)
            yield kept

    def leaves(self, why: str, which: NDArray[np.bool_]) -> None:
        """Count the requests that `which` marks as left out."""
        if count := int(np.count_nonzero(which)):
            self.left_out[why] += count

    def rounds(self, rows: Rows, unit_ns: int) -> None:
        """Count the times that are no whole units: their fraction is cut off."""
        self.changes("rounded_times", int((rows.time_ns % unit_ns != 0).sum()))

    def changes(self, what: str, count: int) -> None:
        """Count requests of which something changes."""
        if count:
            self.changed[what] += count


class ExportFormat(ABC):
    """A format of another tool."""

    name: str
    """What the user calls it."""
    holds: Sequence[str]
    """The columns of `requests` that it holds, all of them or in part."""

    def files(self, output: Path) -> list[Path]:
        """Return the files that it makes; raise UsageError for a name that it cannot take."""
        return [output]

    @abstractmethod
    def write(self, source: Source, survey: Survey, *, parts: Mapping[Path, Path]) -> Outcome:
        """Write the trace; `parts` has a temporary name for each of `files`, in their order."""


def plain_names(names: Sequence[str]) -> list[str]:
    """Return names of letters, digits and _.,+- for devices, all different.

    Never a path: a tool that takes them for files must not find a disk of this machine.
    """
    found: list[str] = []
    for name in names:
        plain = ODD.sub("_", name).lstrip(".-+")[:NAME_CHARACTERS] or "device"
        tried = chain([plain], (f"{plain}_{number}" for number in count(2)))
        found.append(next(one for one in tried if one not in found))
    return found


def write_lines(out: IO[bytes], columns: Sequence[Any], *, delimiter: str) -> None:
    """Append a line for each row of the Arrow columns; texts stand as they are."""
    is_word = pa.types.is_dictionary
    plain = [column.cast(pa.string()) if is_word(column.type) else column for column in columns]
    batch = pa.RecordBatch.from_arrays(plain, [str(number) for number in range(len(plain))])
    options = csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    with csv.CSVWriter(out, batch.schema, write_options=options) as writer:
        writer.write_batch(batch)


DEEPEST = 64
"""Merges of merges of merges: no kernel's queue is that long."""


@dataclass
class MergeTargets:
    """The requests that others were merged into, by ascending request_id."""

    request_id: Numbers
    own_begin: Numbers
    begin: Numbers
    """First sector of the request and all that it carries."""
    end: Numbers
    inserted_begin: Numbers
    """The same of what it carried when it was inserted."""
    inserted_end: Numbers
    apart: int = 0
    """Merged requests that completed at another time than their target: in parts."""

    def find(self, request_id: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return the place here of each request, and whether it is here at all."""
        return _find(self.request_id, request_id)

    def extents(
        self, request_id: Numbers, own: tuple[Numbers, Numbers], *, inserted: bool = False
    ) -> tuple[Numbers, Numbers]:
        """Return first sector and end of each request with what it carries, or carried then.

        `own` has those of the requests themselves.
        """
        place, is_here = self.find(request_id)
        if not is_here.any():
            return own
        first = self.inserted_begin if inserted else self.begin
        last = self.inserted_end if inserted else self.end
        return np.where(is_here, first[place], own[0]), np.where(is_here, last[place], own[1])


def _find(ids: Numbers, request_id: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return the place of each request in ascending `ids`, and whether it is one of them."""
    if not len(ids):
        return np.zeros(len(request_id), np.int64), np.zeros(len(request_id), np.bool_)
    place = np.minimum(np.searchsorted(ids, request_id), len(ids) - 1)
    return place, ids[place] == request_id


def find_merge_targets(table: Path) -> MergeTargets:
    """Read the table twice: about 100 bytes of memory for each merged request."""
    merged = _chosen(table, lambda rows: rows["merged_into"] != NONE)
    ids = np.unique(merged["merged_into"])
    own = _chosen(table, lambda rows: _find(ids, rows["request_id"])[1])
    order = np.argsort(own["request_id"])
    ids, begin, end = (own[name][order] for name in ("request_id", "begin", "end"))
    targets = MergeTargets(ids, begin, begin.copy(), end, begin.copy(), end.copy())
    place, is_here = targets.find(merged["merged_into"])
    place, merged = place[is_here], {name: values[is_here] for name, values in merged.items()}
    first, last = merged["begin"], merged["end"]
    # What was merged, and what had been merged into that before, until nothing changes.
    for _ in range(DEEPEST):
        first, last = targets.extents(merged["request_id"], (merged["begin"], merged["end"]))
        before = targets.begin.copy(), targets.end.copy()
        np.minimum.at(targets.begin, place, first)
        np.maximum.at(targets.end, place, last)
        if (before[0] == targets.begin).all() and (before[1] == targets.end).all():
            break
    is_early = merged["merge_ns"] <= own["insert_ns"][order][place]
    np.minimum.at(targets.inserted_begin, place[is_early], first[is_early])
    np.maximum.at(targets.inserted_end, place[is_early], last[is_early])
    apart = merged["transfer_ns"] != own["transfer_ns"][order][place]
    targets.apart = int(np.count_nonzero(apart))
    return targets


def sectors_of(batch: Any) -> Numbers:
    """Return the lengths in whole sectors, rounded up."""
    return (ints(batch.column("length_bytes")) + SECTOR_BYTES - 1) // SECTOR_BYTES


CHOSEN = ("request_id", "merged_into", "insert_ns", "merge_ns", "transfer_ns")


def _chosen(
    table: Path, which: Callable[[dict[str, Numbers]], NDArray[np.bool_]]
) -> dict[str, Numbers]:
    """Return what merging needs of the rows that `which` marks."""
    parts: list[dict[str, Numbers]] = []
    for batch in read_batches(table, (*CHOSEN, "sector", "length_bytes")):
        rows = {name: ints(batch.column(name), if_null=NONE) for name in CHOSEN}
        rows["begin"] = ints(batch.column("sector"))
        rows["end"] = rows["begin"] + sectors_of(batch)
        marked = which(rows)
        parts.append({name: values[marked] for name, values in rows.items()})
    nothing = np.empty(0, np.int64)
    names = (*CHOSEN, "begin", "end")
    return {name: np.concatenate([nothing, *(part[name] for part in parts)]) for name in names}
