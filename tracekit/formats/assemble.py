"""From a foreign format's columns to the table of requests: order, places, devices and depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import InputError
from tracekit.formats.foreign import FILETIME_OF_1970, SIZE_BYTES, TIME_NS, Columns, Units
from tracekit.formats.plausible import Evidence
from tracekit.schema import OPERATIONS, REQUESTS, SECTOR_BYTES

Numbers = NDArray[np.int64]
LARGEST = (1 << 63) - 1
NONE = -1
FACTS = ("is_preflush", "is_fua", "is_meta", "error")
"""Columns of requests that a format may know besides; 0 where it does not."""


class Assembler:
    """Makes batches of requests of columns; rows of one batch wait for the next, to be in order."""

    def __init__(self, units: Units, operations: Mapping[str, str], device: str) -> None:
        self.evidence = Evidence(units)
        self.devices: list[str] = []
        self.rows = self.reordered = self.responses = self.rounded = 0
        self.first_ns = self.last_ns = 0
        self._units, self._operations, self._device = units, operations, device
        self._held: dict[str, Numbers] = {}
        self._pending: dict[int, Numbers] = {}
        self._processes: list[str] = []
        self._emitted_ns: int | None = None

    def add(self, columns: Columns) -> Any:
        """Take columns; return the batch of the rows that nothing can precede any more."""
        found = self._decoded(columns)
        held = self._held
        if _is_ordered(found["time"], after=held.get("time")):
            self._held = found
            return self._batch(held) if held else None
        if held:
            found = {name: np.concatenate((held[name], found[name])) for name in found}
        self.reordered += int((np.diff(found["time"][len(held.get("time", ())) :]) < 0).sum())
        order = np.argsort(found["time"], kind="stable")
        found = {name: values[order] for name, values in found.items()}
        keep = min(columns.rows, len(order))
        self._held = {name: values[len(order) - keep :] for name, values in found.items()}
        return self._batch({name: values[: len(order) - keep] for name, values in found.items()})

    def finish(self) -> Any:
        """Return the batch of the rows that waited."""
        held, self._held = self._held, {}
        return self._batch(held) if held else None

    def _decoded(self, columns: Columns) -> dict[str, Numbers]:
        units, numbers = self._units, columns.numbers
        device = self._device_codes(columns)
        self.evidence.add(numbers["offset"], numbers["length"], device=device)
        places = _scaled(numbers["offset"], SIZE_BYTES[units.offset], "place")
        self.rounded += int((places % SECTOR_BYTES != 0).sum())
        op, readahead = self._operation_codes(columns)
        facts = {name: numbers[name] for name in FACTS if name in numbers}
        nothing = np.full(columns.rows, NONE, np.int64)
        return {
            "time": self._times(columns),
            "response": self._responses(columns),
            "device": device,
            "sector": places // SECTOR_BYTES,
            "length": _scaled(numbers["length"], SIZE_BYTES[units.length], "length"),
            "op": op,
            "readahead": numbers.get("is_readahead", readahead),
            **facts,
            "pid": numbers.get("pid", np.zeros(columns.rows, np.int64)),
            "process": _codes(columns.words["process"], self._processes)
            if "process" in columns.words
            else nothing,
        }

    def _times(self, columns: Columns) -> Numbers:
        if "time" not in columns.numbers:
            first = self.evidence.requests - columns.rows
            return np.arange(first, first + columns.rows, dtype=np.int64) * 1_000
        times = columns.numbers["time"]
        if self._units.time == "filetime" and self._units.is_wall:
            times = times - FILETIME_OF_1970
        return _in_ns(times, self._units.time, is_scaled="time" in columns.scaled)

    def _responses(self, columns: Columns) -> Numbers:
        if "response" not in columns.numbers or self._units.response is None:
            return np.full(columns.rows, NONE, np.int64)
        given = columns.numbers["response"]
        spans = _in_ns(given, self._units.response, is_scaled="response" in columns.scaled)
        return np.where(given < 0, NONE, spans)

    def _operation_codes(self, columns: Columns) -> tuple[Numbers, Numbers]:
        if "op" not in columns.words:
            return np.zeros(columns.rows, np.int64), np.zeros(columns.rows, np.int64)
        column = columns.words["op"]
        texts = [text.strip().lower() for text in column.dictionary.to_pylist()]
        names = [self._operations.get(text, text) for text in texts]
        codes = [OPERATIONS.index("read" if name == "readahead" else name) for name in names]
        indices = _indices(column)
        ahead = np.array([name == "readahead" for name in names], np.int64)
        return np.array(codes, np.int64)[indices], ahead[indices]

    def _device_codes(self, columns: Columns) -> Numbers:
        words = columns.words
        if "device" not in words:
            return _known([self._device], self.devices)[np.zeros(columns.rows, np.int64)]
        first = [text.strip() for text in words["device"].dictionary.to_pylist()]
        indices = _indices(words["device"])
        if "volume" not in words:
            return _known(first, self.devices)[indices]
        second = [text.strip() for text in words["volume"].dictionary.to_pylist()]
        both = indices * len(second) + _indices(words["volume"])
        used, inverse = np.unique(both, return_inverse=True)
        texts = [f"{first[code // len(second)]},{second[code % len(second)]}" for code in used]
        return _known(texts, self.devices)[inverse]

    def _batch(self, rows: dict[str, Numbers]) -> Any:
        import pyarrow as pa

        from tracekit.columns import text_column, word_array

        if not len(rows["time"]):
            return None
        times = self._checked_times(rows["time"])
        count = len(times)
        has_end = rows["response"] >= 0
        ends = np.where(has_end, times + rows["response"], NONE)
        self.responses += int(has_end.sum())
        self.last_ns = max(self.last_ns, int(times[-1]), int(ends.max()))
        sets: dict[str, Any] = {
            "request_id": np.arange(self.rows, self.rows + count),
            "queue_ns": times,
            "sector": rows["sector"],
            "length_bytes": rows["length"],
            "pid": rows["pid"],
            "is_readahead": rows["readahead"],
            **{name: rows[name] for name in FACTS if name in rows},
            "depth": self._depths(rows["device"], times, ends),
        }
        texts = {
            "device": text_column(rows["device"], self.devices),
            "operation": text_column(rows["op"], OPERATIONS),
            "role": text_column(np.zeros(count, np.int64), ["unknown"]),
            "process": _with_nulls(rows["process"], pa.int32()),
            "complete_ns": _with_nulls(ends, pa.int64()),
        }
        texts["process"] = pa.DictionaryArray.from_arrays(
            texts["process"], word_array(self._processes)
        )
        self.rows += count
        return _request_batch(count, sets, texts)

    def _checked_times(self, times: Numbers) -> Numbers:
        if self._emitted_ns is None:
            self.first_ns = int(times[0])
        elif times[0] < self._emitted_ns:
            raise InputError(
                f"time runs backwards by {(self._emitted_ns - int(times[0])) / 1e9:,.6f} s, near"
                f" request {self.rows}, over more requests than are put in order here",
                hint="sort the trace by time first",
            )
        self._emitted_ns = int(times[-1])
        self.evidence.add_times(times)
        return times - self.first_ns

    def _depths(self, device: Numbers, times: Numbers, ends: Numbers) -> Numbers:
        """Return how many requests of the device were under way at each time, this included."""
        depths = np.ones(len(times), np.int64)
        if (ends < 0).all() and not self._pending:
            return depths
        order = np.argsort(device, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(device[order])) + 1):
            code = int(device[part[0]])
            before = self._pending.get(code, np.empty(0, np.int64))
            known = ends[part] >= 0
            all_ends = np.sort(np.concatenate((before, ends[part][known])))
            begun = len(before) + np.cumsum(known) + ~known
            over = np.searchsorted(all_ends, times[part], side="right")
            depths[part] = np.maximum(begun - over, 1)
            self._pending[code] = all_ends[over[-1] :]
        return depths


def _request_batch(count: int, numbers: Mapping[str, Numbers], ready: Mapping[str, Any]) -> Any:
    """Return a batch of the columns that are known; of the others null, or 0 and false."""
    import pyarrow as pa

    from tracekit.columns import number_column

    # Columns that say nothing are most of a row: those of a type share their memory.
    silent: dict[Any, Any] = {}
    columns = []
    for field in REQUESTS:
        if field.name in ready:
            columns.append(ready[field.name])
        elif field.name in numbers:
            columns.append(_plain(numbers[field.name], field.type, number_column))
        else:
            key = (field.type, field.nullable)
            if key not in silent:
                silent[key] = (
                    pa.nulls(count, field.type)
                    if field.nullable
                    else _plain(np.zeros(count, np.int64), field.type, number_column)
                )
            columns.append(silent[key])
    return pa.RecordBatch.from_arrays(columns, schema=REQUESTS)


def _is_ordered(times: Numbers, *, after: Numbers | None) -> bool:
    """Say whether the times never run backwards, and begin where those before end or later."""
    if after is not None and len(after) and times[0] < after[-1]:
        return False
    return bool((times[1:] >= times[:-1]).all())


def _in_ns(values: Numbers, unit: str, *, is_scaled: bool) -> Numbers:
    if is_scaled:
        return values
    return _scaled(values, TIME_NS[unit], f"time in {unit}")


def _scaled(values: Numbers, factor: int, what: str) -> Numbers:
    largest = int(values.max())
    if largest > LARGEST // factor:
        message = f"a {what} of {largest} is too large"
        raise InputError(message, hint="is the unit right? see --unit")
    return values * factor


def _indices(column: Any) -> Numbers:
    return np.frombuffer(column.indices.buffers()[1], np.int32, len(column)).astype(np.int64)


def _known(texts: list[str], names: list[str]) -> Numbers:
    """Return the place of each text in `names`, which grows by those that are new."""
    place = {name: number for number, name in enumerate(names)}
    for text in texts:
        if text not in place:
            place[text] = len(names)
            names.append(text)
    return np.array([place[text] for text in texts], np.int64)


def _codes(column: Any, names: list[str]) -> Numbers:
    texts = [text.strip() for text in column.dictionary.to_pylist()]
    return _known(texts, names)[_indices(column)]


def _with_nulls(values: Numbers, kind: Any) -> Any:
    import pyarrow as pa

    exact = np.ascontiguousarray(values, kind.to_pandas_dtype())
    is_there = values >= 0
    if is_there.all():
        return pa.Array.from_buffers(kind, len(exact), [None, pa.py_buffer(exact)])
    bits = np.packbits(is_there, bitorder="little")
    return pa.Array.from_buffers(kind, len(exact), [pa.py_buffer(bits), pa.py_buffer(exact)])


def _plain(values: Numbers, kind: Any, number_column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        bits = np.packbits(values != 0, bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(bits)])
    return number_column(values, kind)
