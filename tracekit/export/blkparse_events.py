"""The events of some requests, each with the columns that blkparse prints of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit.columns import flags, ints
from tracekit.export.carriers import Carriers, sectors_of
from tracekit.schema import OPERATIONS, SECTOR_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NONE = -1
LETTERS = {"read": "R", "write": "W", "write_zeroes": "W", "discard": "D", "flush": "W"}
FLAGS = ("is_preflush", "is_fua", "is_readahead", "is_sync", "is_meta")
ORDER = ("A", "Q", "G", "M", "F", "I", "D", "C", "end")
"""Of events at the same time."""
UNNAMED = "(null)"


@dataclass
class Events:
    """Some events: when, of which device and CPU, and the rest of their lines."""

    time_ns: NDArray[np.int64]
    rank: NDArray[np.int64]
    device: NDArray[np.int64]
    cpu: NDArray[np.int64]
    rest: Any
    """Arrow strings: pid, action, RWBS and what follows."""


@dataclass
class Requests:
    """A batch of requests, as its events need them."""

    batch: Any
    device: NDArray[np.int64]
    carriers: Carriers

    def __post_init__(self) -> None:
        """Work out extents, letters and names once."""
        import numpy as np

        batch = self.batch
        self.times = {
            name: ints(batch.column(f"{name}_ns"), if_null=NONE)
            for name in ("queue", "getrq", "insert", "merge", "issue", "transfer", "complete")
        }
        self.begin = ints(batch.column("sector"))
        self.sectors = sectors_of(batch)
        request_id, own = ints(batch.column("request_id")), (self.begin, self.begin + self.sectors)
        self.all_begin, end = self.carriers.extents(request_id, own)
        self.all_sectors = end - self.all_begin
        begin, end = self.carriers.extents(request_id, own, inserted=True)
        self.inserted = _place(begin, end - begin)
        operations = batch.column("operation")
        self.is_flush = _is(operations, "flush")
        self.is_merged = ints(batch.column("merged_into"), if_null=NONE) != NONE
        self.drains = (
            ~self.is_flush
            & (self.times["transfer"] != NONE)
            & (self.times["complete"] > self.times["transfer"])
        )
        self.letters = _letters(batch, operations, np.ones(len(batch), np.bool_))
        self.issued_letters = _letters(batch, operations, ~self.drains & ~self.is_flush)
        self.pid = _texts(_wide(batch.column("pid")))
        self.name = _names(batch.column("process"))

    def events(self) -> Iterator[Events]:
        """Yield the events, action by action."""
        times, has_data = self.times, ~self.is_flush
        own = _place(self.begin, self.sectors), _place(self.all_begin, self.all_sectors)
        yield from self._remaps(own[0])
        yield self._make("Q", times["queue"], has_data, place=own[0])
        yield self._make("Q", times["queue"], self.is_flush, place=None)
        yield self._make("G", times["getrq"], has_data, place=own[0])
        yield self._make("G", times["getrq"], self.is_flush, place=None)
        yield from self._merges(own[1])
        yield self._make("I", times["insert"], has_data, place=self.inserted)
        is_issued = has_data & ~self.is_merged
        yield self._make("D", times["issue"], is_issued, place=own[1])
        yield self._device_flushes()
        yield from self._ends(is_issued, own[1])

    def _make(
        self, action: str, time_ns: NDArray[np.int64], which: NDArray[np.bool_], *, place: Any
    ) -> Events:
        """Return one event for each marked request that has this time."""
        import pyarrow.compute as pc

        which = which & (time_ns != NONE)
        letters = self.issued_letters if action in ("D", "C") else self.letters
        tail = [place, self.name] if place is not None else [self.name]
        rest = pc.binary_join_element_wise(self.pid, action, letters, *tail, " ")
        return self._events(action, time_ns, which, rest)

    def _events(self, rank: str, time_ns: Any, which: NDArray[np.bool_], rest: Any) -> Events:
        import numpy as np
        import pyarrow as pa

        found = time_ns[which]
        return Events(
            time_ns=found,
            rank=np.full(len(found), ORDER.index(rank), np.int64),
            device=self.device[which],
            cpu=_wide(self.batch.column("cpu"))[which],
            rest=rest.filter(pa.array(which)),
        )

    def _remaps(self, place: Any) -> Iterator[Events]:
        """A: from a partition, whose own sector the trace does not tell: 0 is written."""
        import pyarrow.compute as pc

        partition = self.batch.column("partition").cast("string")
        is_told = flags(pc.fill_null(pc.match_substring_regex(partition, r"^\d+,\d+$"), False))
        origin = pc.binary_join_element_wise("<- (", partition, ") 0", "")
        rest = pc.binary_join_element_wise(
            self.pid, "A", self.letters, place, pc.fill_null(origin, ""), " "
        )
        yield self._events("A", self.times["queue"], is_told & (self.times["queue"] != NONE), rest)

    def _merges(self, place: Any) -> Iterator[Events]:
        """M behind the end of the carrier, F before its beginning."""
        import numpy as np

        carrier = ints(self.batch.column("merged_into"), if_null=NONE)
        where, is_here = self.carriers.find(carrier)
        is_front = np.zeros(len(carrier), np.bool_)
        if is_here.any():
            is_front = is_here & (self.all_begin < self.carriers.own_begin[where])
        for action, which in (("M", is_here & ~is_front), ("F", is_front)):
            made = self._make(action, self.times["merge"], which, place=place)
            yield made

    def _device_flushes(self) -> Events:
        """D of the device's own flush, once for all requests that it served."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        which = self.is_flush & (self.times["issue"] != NONE)
        _, first = np.unique(
            np.stack((self.device[which], self.times["issue"][which])), axis=1, return_index=True
        )
        once = np.zeros(len(which), np.bool_)
        once[np.flatnonzero(which)[first]] = True
        rest = pc.binary_join_element_wise(self.pid, "D", "FN", self.name, " ")
        return self._events("D", self.times["issue"], once, pa.array(rest))

    def _ends(self, is_issued: NDArray[np.bool_], place: Any) -> Iterator[Events]:
        """C with the bytes, and C without for a closing flush or an empty one."""
        import numpy as np
        import pyarrow.compute as pc

        times = self.times
        error = _texts(_wide(self.batch.column("error")) & 0xFFFF)
        bracket = pc.binary_join_element_wise("[", error, "]", "")
        end_ns = np.where(times["transfer"] != NONE, times["transfer"], times["complete"])
        rest = pc.binary_join_element_wise("0", "C", self.issued_letters, place, bracket, " ")
        yield self._events("C", end_ns, is_issued & (end_ns != NONE), rest)
        sector = _texts(self.all_begin)
        rest = pc.binary_join_element_wise("0", "C", self.issued_letters, sector, bracket, " ")
        is_empty = (self.drains | self.is_flush) & (times["complete"] != NONE)
        yield self._events("end", times["complete"], is_empty, rest)


def _is(column: Any, name: str) -> NDArray[np.bool_]:
    import numpy as np

    from tracekit.columns import codes

    found = codes(column, lambda text: int(text == name))
    return found.astype(np.bool_)


def _wide(column: Any) -> NDArray[np.int64]:
    import pyarrow as pa

    return ints(column.cast(pa.int64()))


def _texts(numbers: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    from tracekit.columns import number_column

    return number_column(numbers, pa.int64()).cast(pa.string())


def _place(begin: NDArray[np.int64], sectors: NDArray[np.int64]) -> Any:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(_texts(begin), "+", _texts(sectors), " ")


def _names(column: Any) -> Any:
    """Return "[name]"; what would break a line is a question mark."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.replace_substring_regex(column.cast(pa.string()), r"[\x00-\x1f]", "?")
    return pc.binary_join_element_wise("[", pc.fill_null(plain, UNNAMED), "]", "")


def _letters(batch: Any, operations: Any, keeps_flushes: NDArray[np.bool_]) -> Any:
    """Return the RWBS letters; without F's where the device's own flushes serve them."""
    import numpy as np
    import pyarrow as pa

    from tracekit.columns import codes, number_column

    operation = codes(operations, lambda text: OPERATIONS.index(text or "other"))
    code = operation * (1 << len(FLAGS))
    for bit, name in enumerate(FLAGS):
        is_set = flags(batch.column(name))
        is_set = is_set & keeps_flushes if name in ("is_preflush", "is_fua") else is_set
        code = code + is_set.astype(np.int64) * (1 << bit)
    words = [
        _word(LETTERS.get(name, "N"), bits)
        for name in OPERATIONS
        for bits in range(1 << len(FLAGS))
    ]
    return pa.array(words).take(number_column(code, pa.int64()))


def _word(letter: str, bits: int) -> str:
    marks = ["F", "F", "A", "S", "M"]
    said = [mark if bits >> bit & 1 else "" for bit, mark in enumerate(marks)]
    return said[0] + letter + "".join(said[1:])


def whole_sectors(batch: Any) -> int:
    """Return how many lengths are no whole sectors."""
    return int((ints(batch.column("length_bytes")) % SECTOR_BYTES != 0).sum())
