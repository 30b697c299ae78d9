"""From the columns of another tool's format to the table of requests: order, places, depth."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native.readers import Depths
from tracekit.arrow import count_names, number_column, texts, word_array
from tracekit.errors import InputError, UnorderedError
from tracekit.formats import FILETIME_OF_1970
from tracekit.readers.checkpoint import Mark, pack, unpack
from tracekit.readers.completeness import Present
from tracekit.readers.hypotheses import Pairs
from tracekit.readers.pieces import Gaps
from tracekit.readers.text import LARGEST_SUM, UNKNOWN
from tracekit.readers.units import TIME_NS, Columns, Units, scaled
from tracekit.store import write_batches
from tracekit.tables import OPERATIONS, REQUESTS
from tracekit.units import SECTOR_BYTES

FEWEST_KEPT = 1 << 18
MOST_KEPT = 32


def request_batch(
    numbers: Mapping[str, NDArray[Any]],
    words: Mapping[str, tuple[NDArray[Any], Sequence[str]]],
    *,
    same: Mapping[str, int | str],
    count: int,
) -> Any:
    """Return a batch of `count` requests; columns not named are null, or 0 and false.

    Of columns that may be null a negative number is null; words are codes and what they stand for;
    `same` has columns of one value throughout, where `numbers` and `words` do not have them.
    """
    columns = []
    for field in REQUESTS:
        if field.name in words:
            codes, names = words[field.name]
            indices = _column(codes, pa.int32(), may_be_null=field.nullable)
            columns.append(pa.DictionaryArray.from_arrays(indices, word_array(names)))
        elif field.name in numbers:
            columns.append(_column(numbers[field.name], field.type, may_be_null=field.nullable))
        else:
            value = same.get(field.name, None if field.nullable else 0)
            columns.append(_constant(field.type, value, count=count))
    return pa.RecordBatch.from_arrays(columns, schema=REQUESTS)


def _constant(kind: Any, value: int | str | None, *, count: int) -> Any:
    """Return a column of one value throughout; such columns share their memory.

    They are most of a row: a format of another tool knows few of the columns.
    """
    kept = max(FEWEST_KEPT, 1 << (count - 1).bit_length())
    return _kept(kind, value, kept).slice(0, count)


@functools.lru_cache(maxsize=MOST_KEPT)
def _kept(kind: Any, value: int | str | None, count: int) -> Any:
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, str):
        zeros = number_column(np.zeros(count, np.int32), pa.int32())
        return pa.DictionaryArray.from_arrays(zeros, word_array([value]))
    return _column(np.full(count, value, np.int64), kind, may_be_null=False)


def _column(values: NDArray[Any], kind: Any, *, may_be_null: bool) -> Any:
    if pa.types.is_boolean(kind):
        bits = np.packbits(values != 0, bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(bits)])
    if not may_be_null or values.min(initial=0) >= 0:
        return number_column(values, kind)
    exact = np.ascontiguousarray(values, kind.to_pandas_dtype())
    bits = np.packbits(values >= 0, bitorder="little")
    return pa.Array.from_buffers(kind, len(exact), [pa.py_buffer(bits), pa.py_buffer(exact)])


Rows = dict[str, NDArray[Any]]
Numbers = NDArray[np.int64]
Codes = NDArray[np.int32]
SECTOR_SHIFT = 9
NONE = -1
FACTS = ("is_preflush", "is_fua", "is_meta", "error", "pid")
"""Columns of requests that a format may know besides; 0, or null, where it does not."""


class Assembler:
    """Makes batches of requests of columns; rows of one batch wait for the next, to be in order."""

    def __init__(
        self,
        units: Units,
        operations: Mapping[str, str],
        device: str,
        *,
        rate: float | None = None,
        operation: str | None = None,
    ) -> None:
        """Take what stands for what the format lacks: requests a second, and an operation."""
        self._rate, self._operation = rate, operation
        self._has_times = True
        self.pairs, self.gaps = Pairs(), Gaps()
        self.operations: Counter[str] = Counter()
        """Requests of each operation."""
        self.devices: list[str] = []
        self.present = Present()
        self.rows = self.rounded = 0
        self.first_ns = self.last_ns = 0
        self._units, self._operations, self._device = units, operations, device
        self._held: Rows = {}
        self._depths = Depths()
        self._processes: list[str] = []
        self._emitted_ns: int | None = None

    def begin_at(self, first_ns: int) -> None:
        """Count times from this one, which no row precedes."""
        self.first_ns = self._emitted_ns = first_ns

    def go_on(self, rows: bytes) -> None:
        """Take what was known of the rows at a mark."""
        vars(self).update(unpack(rows))

    def batches(self, blocks: Iterable[Any], *, sorting: Sorting | None = None) -> Generator[Any]:
        """Yield the batches of the requests of all blocks, with the marks among them.

        Raise UnorderedError for requests that lie further back than a block, unless there is a
        `sorting`, which puts all of them in order before the first batch.
        """
        if sorting is None:
            batches = (self._add(columns) for columns in blocks)
        else:
            rows = sorting.in_order(self._decoded(columns) for columns in blocks)
            batches = (self._batch(found) for found in rows)
        yield from (batch for batch in batches if batch is not None)
        if sorting is None and self._held and (batch := self._batch(self._held)) is not None:
            yield batch

    def _add(self, columns: Columns | Mark) -> Any:
        """Take columns; return the batch of the rows that nothing can precede any more.

        To a mark what is known of the rows is added.
        """
        if isinstance(columns, Mark):
            return columns.with_rows(pack(vars(self)))
        found, held = self._decoded(columns), self._held
        times, before = found["time"], held.get("time", found["time"][:0])[-1:]
        if (before <= times[:1]).all() and (times[1:] >= times[:-1]).all():
            self._held = found
            return self._batch(held) if held else None
        if held:
            found = {name: np.concatenate((held[name], found[name])) for name in found}
        order = np.argsort(found["time"], kind="stable")
        due, kept = np.split(order, [len(order) - columns.rows])
        self._held = {name: values[kept] for name, values in found.items()}
        return self._batch({name: values[due] for name, values in found.items()})

    def _decoded(self, columns: Columns) -> Rows:
        """Return what is known of the rows, the same columns for all batches of a trace."""
        units, numbers = self._units, columns.numbers
        device = self._device_codes(columns)
        place_bytes, length_bytes = units.factor("offset"), units.factor("length")
        _reject_large(numbers["offset"], place_bytes, "place")
        _reject_large(numbers["length"], length_bytes, "length")
        places = scaled(numbers["offset"], place_bytes)
        self.pairs.add(numbers["offset"], numbers["length"], device=device)
        if place_bytes % SECTOR_BYTES:
            self.rounded += int(np.count_nonzero(places & (SECTOR_BYTES - 1)))
        op, readahead = self._operation_codes(columns)
        found: Rows = {
            "time": self.times_of(columns),
            "device": device,
            "sector": places >> SECTOR_SHIFT,
            "length_bytes": scaled(numbers["length"], length_bytes),
            "op": op,
            **{name: numbers[name] for name in FACTS if name in numbers},
        }
        if "is_readahead" in numbers or "readahead" in self._operations.values():
            found["is_readahead"] = numbers.get("is_readahead", readahead)
        if "response" in numbers and units.response is not None:
            given, is_scaled = numbers["response"], "response" in columns.scaled
            spans = _in_ns(given, units.response, is_scaled=is_scaled)
            found["response"] = np.where(given < 0, NONE, spans)
        if "process" in columns.words:
            found["process"] = _codes(columns.words["process"], self._processes)
            if UNKNOWN in self._processes:
                is_unknown = found["process"] == self._processes.index(UNKNOWN)
                found["process"][is_unknown] = NONE
        return found

    def times_of(self, columns: Columns) -> Numbers:
        """Return the times of the rows in ns, from 1970 or from where the format counts."""
        if "time" not in columns.numbers:
            self._has_times = self._rate is not None
            first = self.pairs.requests - columns.rows
            numbers = np.arange(first, first + columns.rows, dtype=np.int64)
            return (numbers * (1e9 / (self._rate or np.inf))).astype(np.int64)
        times = columns.numbers["time"]
        if self._units.time == "filetime" and self._units.is_wall:
            # Of 64-bit ns none is before 1677; an earlier one is wrong, and reported as that.
            times = np.maximum(times - FILETIME_OF_1970, -(LARGEST_SUM // TIME_NS["filetime"]))
        return _in_ns(times, self._units.time, is_scaled="time" in columns.scaled)

    def _operation_codes(self, columns: Columns) -> tuple[Codes, Codes]:
        """Return the code of each row's operation, and whether it is readahead."""
        if "op" not in columns.words:
            code = NONE if self._operation is None else OPERATIONS.index(self._operation)
            return np.full(columns.rows, code, np.int32), np.zeros(columns.rows, np.int32)
        words, indices = texts(columns.words["op"])
        known = (word.strip().lower() for word in words)
        names = [self._operations.get(word, word) for word in known]
        codes = [OPERATIONS.index("read" if name == "readahead" else name) for name in names]
        return _mapped(codes, indices), _mapped([name == "readahead" for name in names], indices)

    def _device_codes(self, columns: Columns) -> Codes:
        words = columns.words
        if "device" not in words:
            return np.full(columns.rows, places_of([self._device], self.devices)[0], np.int32)
        if "volume" not in words:
            return _codes(words["device"], self.devices)
        first, indices = texts(words["device"])
        second, volumes = texts(words["volume"])
        both = indices.astype(np.int64) * len(second) + volumes
        used, places = _different(both, len(first) * len(second))
        pairs = (divmod(int(code), len(second)) for code in used)
        names = [f"{first[one].strip()},{second[other].strip()}" for one, other in pairs]
        return _mapped(places_of(names, self.devices), places)

    def _batch(self, rows: Rows) -> Any:
        count = len(rows["time"])
        if not count:
            return None
        times = self._checked_times(rows["time"])
        self.last_ns = max(self.last_ns, int(times[-1]))
        self.operations += count_names(rows["op"][rows["op"] >= 0], OPERATIONS)
        first, self.rows = self.rows, self.rows + count
        known = ("sector", "length_bytes", "is_readahead", *FACTS)
        numbers = {name: rows[name] for name in known if name in rows}
        numbers |= {"request_id": np.arange(first, self.rows)}
        if self._has_times:
            numbers["queue_ns"] = times
        if "response" in rows and self._has_times:
            ends, depths = self._depths.count(
                rows["device"], times_ns=times, responses_ns=rows["response"]
            )
            self.last_ns = max(self.last_ns, int(ends.max()))
            numbers |= {"complete_ns": ends, "depth": depths}
        words = {"device": (rows["device"], self.devices), "operation": (rows["op"], OPERATIONS)}
        if "process" in rows:
            words["process"] = (rows["process"], self._processes)
        batch = request_batch(numbers, words, same={"role": "unknown", "depth": 1}, count=count)
        self.present.add(batch)
        return batch

    def _checked_times(self, times: Numbers) -> Numbers:
        if self._emitted_ns is None:
            self.first_ns = int(times[0])
        elif times[0] < self._emitted_ns:
            raise UnorderedError(
                f"time runs backwards by {(self._emitted_ns - int(times[0])) / 1e9:,.6f} s, near"
                f" request {self.rows}, over more requests than are put in order as they come"
            )
        self._emitted_ns = int(times[-1])
        if self._has_times:
            self.pairs.add_times(times)
            self.gaps.add(times)
        return times - self.first_ns


def _in_ns(values: Numbers, unit: str, *, is_scaled: bool) -> Numbers:
    if is_scaled:
        return values
    if int(values.max()) > LARGEST_SUM // TIME_NS[unit]:
        message = f"a time in {unit} of {int(values.max())} is too large"
        raise InputError(message, hint="is the unit right? see --unit")
    return values * TIME_NS[unit]


def _reject_large(values: Numbers, factor: int, what: str) -> None:
    """Raise InputError for a number that is negative, or no 64-bit number of the smallest unit."""
    largest = int(values.view(np.uint64).max())
    if largest > LARGEST_SUM // factor:
        message = f"a {what} of {largest} is too large"
        raise InputError(message, hint="is the unit right? see --unit")


def _mapped(codes: Sequence[int], indices: NDArray[Any]) -> Codes:
    return np.asarray(np.array(codes, np.int32)[indices], np.int32)


def _different(codes: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Return the codes below `count` that occur, in order, and the place of each row's in them."""
    if count > max(len(codes), FEWEST_KEPT):
        return np.unique(codes, return_inverse=True)
    used = np.flatnonzero(np.bincount(codes, minlength=count))
    places = np.empty(count, np.int64)
    places[used] = np.arange(len(used))
    return used, places[codes]


def places_of(found: list[str], names: list[str]) -> list[int]:
    """Return the place of each text in `names`, which grows by those that are new."""
    place = {name: number for number, name in enumerate(names)}
    for text in found:
        if text not in place:
            place[text] = len(names)
            names.append(text)
    return [place[text] for text in found]


def _codes(column: Any, names: list[str]) -> Codes:
    words, indices = texts(column)
    return _mapped(places_of([word.strip() for word in words], names), indices)


TIME, PLACE = "arrival_ns", "file_row"
MEMORY_MIB = 128  # of the database; an import has 512 in all


class Sorting:
    """Keeps rows in a file in `folder` until all are there, then gives them in order.

    Memory is bounded: the database that sorts spills beside the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "arrivals.parquet"
        self._rows = 0

    def in_order(self, blocks: Iterable[Rows]) -> Iterator[Rows]:
        """Yield the rows of all blocks, which have `time` and the same columns, by time.

        Those of the same time stay in their order.
        """
        from tracekit import query  # a database, which few imports need

        batches = map(self._placed, blocks)
        if (first := next(batches, None)) is None:
            return
        every = chain([first], (batch.cast(first.schema) for batch in batches))
        write_batches(self._file, every, schema=first.schema)
        connection = query.empty(near=self._file, memory_mib=MEMORY_MIB, threads=1)
        query.add_view(connection, "arrivals", self._file)
        for found in query.stream(connection, "lib/arrivals_in_order"):
            rows = {name: found[name].to_numpy() for name in found.schema.names if name != PLACE}
            yield {"time": rows.pop(TIME), **rows}
        connection.close()

    def _placed(self, rows: Rows) -> Any:
        others = dict(rows)
        times = others.pop("time")
        first, self._rows = self._rows, self._rows + len(times)
        places = np.arange(first, self._rows)
        return pa.RecordBatch.from_pydict({TIME: times, PLACE: places, **others})
