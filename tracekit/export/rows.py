"""The rows of a trace in batches, as the formats of other tools want them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.columns import codes, flags, ints, open_table, read_batches
from tracekit.schema import OPERATIONS, REQUESTS, SECTOR_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "complete_ns")
USED = (*TIMES, "device", "sector", "length_bytes", "operation")
UNSAID = {"role": "unknown", "depth": 1, "operation": "read"}
"""What a column says when it says nothing; of other numbers 0, of flags false. Without operations
all are taken for reads."""
NONE = -1


@dataclass
class Rows:
    """Some requests in the order of the trace, a value of each array a request.

    Times are ns from the trace's start; `response_ns` is -1 where there is no completion.
    """

    time_ns: NDArray[np.int64]
    response_ns: NDArray[np.int64]
    device: NDArray[np.int64]
    sector: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    operation: NDArray[np.int64]
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
    """For each column that the format lacks, how many requests say something in it."""


class Source:
    """The table of requests of one trace, read as often as a format needs it."""

    def __init__(
        self, table: Path, info: Mapping[str, Any], *, on_rows: Callable[[int], None]
    ) -> None:
        self.info = info
        """The trace's own `trace.json`."""
        self._table, self._on_rows = table, on_rows
        self._devices: list[str] = []
        self.guessed_times = 0
        """Requests without a queue time; they take the time of their first event."""

    def survey(self, held: Sequence[str]) -> Survey:
        """Read the table once; `held` names the columns that the format has, all or in part."""
        there = open_table(self._table).schema_arrow.names
        names = [name for name in REQUESTS.names if name in there and name not in held]
        found = Survey(0, self._devices, [], {})
        for batch in read_batches(self._table, ("device", "sector", "length_bytes")):
            found.requests += batch.num_rows
            self._add_ends(batch, found.end_bytes)
        # One column after the other: all at once would need twice the memory.
        for name in names:
            said = sum(
                _says(batch.column(name), name) for batch in read_batches(self._table, (name,))
            )
            if said:
                found.unheld[name] = said
        return found

    def batches(self) -> Iterator[Rows]:
        """Yield the rows; times never run backwards: a row takes the latest time before it."""
        import numpy as np

        latest = 0
        self.guessed_times = 0
        for batch in read_batches(self._table, USED):
            times = _times(batch)
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
                operation=codes(batch.column("operation"), _operation),
            )
            self._on_rows(batch.num_rows)

    @property
    def table(self) -> Path:
        """Return the file of the table."""
        return self._table

    def whole_batches(self) -> Iterator[tuple[Any, NDArray[np.int64]]]:
        """Yield all columns of the rows, and each row's device as its place in the survey."""
        for batch in read_batches(self._table, REQUESTS.names):
            yield batch, codes(batch.column("device"), self._device)
            self._on_rows(batch.num_rows)

    def _add_ends(self, batch: Any, ends: list[int]) -> None:
        import numpy as np

        device = codes(batch.column("device"), self._device)
        ends += [0] * (len(self._devices) - len(ends))
        lengths = ints(batch.column("length_bytes"))
        last = ints(batch.column("sector")) * SECTOR_BYTES + lengths
        for code in np.unique(device):
            ends[code] = max(ends[code], int(last[(device == code) & (lengths > 0)].max(initial=0)))

    def _device(self, name: str | None) -> int:
        if name is None:
            return NONE
        if name not in self._devices:
            self._devices.append(name)
        return self._devices.index(name)


def _operation(name: str | None) -> int:
    return OPERATIONS.index(name or "other")


def _times(batch: Any) -> Any:
    """Return when each request was queued, or its first event where that was not captured."""
    import pyarrow.compute as pc

    return ints(pc.coalesce(*(batch.column(name) for name in TIMES)))


def _says(column: Any, name: str) -> int:
    """Return how many values of the column are neither null nor what stands for nothing."""
    import numpy as np
    import pyarrow as pa

    nothing = UNSAID.get(name, 0)
    if pa.types.is_boolean(column.type):
        return int(flags(column).sum())
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
        found = codes(column, lambda text: int(text is not None and text != nothing))
        return int(found.sum())
    if REQUESTS.field(name).nullable:
        return len(column) - int(column.null_count)
    return int(np.count_nonzero(ints(column.cast(pa.int64())) != nothing))
