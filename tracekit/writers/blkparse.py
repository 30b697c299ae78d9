"""Text as blkparse prints it: the events of each request, in order of time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tracekit.arrow import codes, count_names, flags, ints, number_column
from tracekit.metadata import TraceInfo
from tracekit.tables import OPERATIONS
from tracekit.units import SECTOR_BYTES
from tracekit.writers import rows as writing
from tracekit.writers.rows import ExportFormat, MergeTargets, Outcome, Source, Survey
from tracekit.writers.same_place import SamePlace

NONE = -1
MOMENTS = ("queue", "getrq", "insert", "merge", "issue", "transfer", "complete")
LETTERS = {"read": "R", "write": "W", "write_zeroes": "W", "discard": "D", "flush": "W"}
FLAGS = {"is_preflush": "F", "is_fua": "F", "is_readahead": "A", "is_sync": "S", "is_meta": "M"}
ORDER = ("A", "Q", "G", "M", "F", "I", "D", "C", "end")
"""Of events at the same time."""
UNNAMED = "(null)"


EVENTS = pa.schema(
    {name: pa.int64() for name in ("time_ns", "rank", "device", "cpu")} | {"rest": pa.string()}
)
"""Events: when, of which device and CPU, and of their lines pid, action, RWBS and what follows."""


@dataclass
class Requests:
    """A batch of requests, as its events need them."""

    batch: Any
    device: NDArray[np.int64]
    targets: MergeTargets

    def __post_init__(self) -> None:
        """Work out extents, letters and names once."""
        batch = self.batch
        self.times = {name: ints(batch.column(f"{name}_ns"), if_null=NONE) for name in MOMENTS}
        self.begin = ints(batch.column("sector"))
        self.sectors = writing.sectors_of(batch)
        request_id, own = ints(batch.column("request_id")), (self.begin, self.begin + self.sectors)
        self.all_begin, end = self.targets.extents(request_id, own)
        self.all_sectors = end - self.all_begin
        begin, end = self.targets.extents(request_id, own, inserted=True)
        self.inserted = _place(begin, end - begin)
        operations = batch.column("operation")
        self.is_flush = codes(operations, lambda text: int(text == "flush")).astype(np.bool_)
        self.merged_into = ints(batch.column("merged_into"), if_null=NONE)
        self.is_merged = self.merged_into != NONE
        self.drains = (
            ~self.is_flush
            & (self.times["transfer"] != NONE)
            & (self.times["complete"] > self.times["transfer"])
        )
        self.letters = _letters(batch, operations, np.ones(len(batch), np.bool_))
        self.issued_letters = _letters(batch, operations, ~self.drains & ~self.is_flush)
        self.pid, self.cpu = (
            _texts(_wide(batch.column("pid").fill_null(0))),
            _wide(batch.column("cpu")),
        )
        self.name = _names(batch.column("process"))

    def of_places(self) -> dict[str, NDArray[np.int64]]:
        """Return the requests that have completions of their own, as SamePlace takes them."""
        moments, batch = self.times, self.batch
        end = np.where(moments["transfer"] != NONE, moments["transfer"], moments["complete"])
        is_one = ~self.is_merged & ~self.is_flush & (_first_ns(batch) != NONE)
        operation = codes(batch.column("operation"), lambda text: ord(LETTERS.get(text or "", "N")))
        found = {
            "device": self.device,
            "letter": operation.astype(np.int64),
            "begin": self.all_begin,
            "sectors": self.all_sectors,
            "queue": _first_ns(batch),
            "issue": moments["issue"],
            "end": end,
            "pid": _wide(batch.column("pid").fill_null(0)),
        }
        return {name: values[is_one] for name, values in found.items()}

    def events(self) -> Iterator[Any]:
        """Yield batches of EVENTS, action by action."""
        times, has_data = self.times, ~self.is_flush
        own = _place(self.begin, self.sectors), _place(self.all_begin, self.all_sectors)
        yield self._remaps(own[0])
        for action, moment in (("Q", "queue"), ("G", "getrq")):
            yield self._make(action, times[moment], has_data, place=own[0])
            yield self._make(action, times[moment], self.is_flush, place=None)
        yield from self._merges(own[1])
        yield self._make("I", times["insert"], has_data, place=self.inserted)
        is_issued = has_data & ~self.is_merged
        yield self._make("D", times["issue"], is_issued, place=own[1])
        yield self._device_flushes()
        yield from self._ends(is_issued, own[1])

    def _make(
        self, action: str, time_ns: NDArray[np.int64], which: NDArray[np.bool_], *, place: Any
    ) -> Any:
        """Return one event for each marked request that has this time."""
        letters = self.issued_letters if action == "D" else self.letters
        tail = [place, self.name] if place is not None else [self.name]
        rest = pc.binary_join_element_wise(self.pid, action, letters, *tail, " ")
        return self._events(action, time_ns, which, rest)

    def _events(self, rank: str, time_ns: Any, which: NDArray[np.bool_], rest: Any) -> Any:
        which = which & (time_ns != NONE)
        ranks = np.full(len(which), ORDER.index(rank), np.int64)
        numbers = (pa.array(values[which]) for values in (time_ns, ranks, self.device, self.cpu))
        return pa.record_batch([*numbers, rest.filter(pa.array(which))], schema=EVENTS)

    def _remaps(self, place: Any) -> Any:
        """A: from a partition, whose own sector is not in the trace: 0 is written."""
        partition = self.batch.column("partition").cast("string")
        is_known = flags(pc.fill_null(pc.match_substring_regex(partition, r"^\d+,\d+$"), False))
        origin = pc.binary_join_element_wise("<- (", partition, ") 0", "")
        rest = pc.binary_join_element_wise(
            self.pid, "A", self.letters, place, pc.fill_null(origin, ""), " "
        )
        return self._events("A", self.times["queue"], is_known, rest)

    def _merges(self, place: Any) -> Iterator[Any]:
        """M behind the end of the target, F before its beginning."""
        where, is_here = self.targets.find(self.merged_into)
        is_front = np.zeros(len(is_here), np.bool_)
        if is_here.any():
            is_front = is_here & (self.all_begin < self.targets.own_begin[where])
        for action, which in (("M", is_here & ~is_front), ("F", is_front)):
            yield self._make(action, self.times["merge"], which, place=place)

    def _device_flushes(self) -> Any:
        """D of the device's own flush, once for all requests that it served."""
        issue_ns = self.times["issue"]
        rows = np.flatnonzero(self.is_flush & (issue_ns != NONE))
        served = np.stack((self.device[rows], issue_ns[rows]))
        once = np.zeros(len(issue_ns), np.bool_)
        once[rows[np.unique(served, axis=1, return_index=True)[1]]] = True
        rest = pc.binary_join_element_wise(self.pid, "D", "FN", self.name, " ")
        return self._events("D", issue_ns, once, rest)

    def _ends(self, is_issued: NDArray[np.bool_], place: Any) -> Iterator[Any]:
        """C with the bytes, and C without for a closing flush or an empty one."""
        complete_ns, transfer_ns = self.times["complete"], self.times["transfer"]
        error = _texts(_wide(self.batch.column("error")) & 0xFFFF)
        bracket = pc.binary_join_element_wise("[", error, "]", "")
        end_ns = np.where(transfer_ns != NONE, transfer_ns, complete_ns)
        rest = pc.binary_join_element_wise("0", "C", self.issued_letters, place, bracket, " ")
        yield self._events("C", end_ns, is_issued, rest)
        sector = _texts(self.all_begin)
        rest = pc.binary_join_element_wise("0", "C", self.issued_letters, sector, bracket, " ")
        yield self._events("end", complete_ns, self.drains | self.is_flush, rest)


def _wide(column: Any) -> NDArray[np.int64]:
    return ints(column.cast(pa.int64()))


def _texts(numbers: NDArray[np.int64]) -> Any:
    return number_column(numbers, pa.int64()).cast(pa.string())


def _place(begin: NDArray[np.int64], sectors: NDArray[np.int64]) -> Any:
    return pc.binary_join_element_wise(_texts(begin), "+", _texts(sectors), " ")


def _names(column: Any) -> Any:
    """Return "[name]"; what would break a line, act or reorder is a question mark."""
    plain = pc.replace_substring_regex(column.cast(pa.string()), r"[\p{C}\p{Zl}\p{Zp}]", "?")
    return pc.binary_join_element_wise("[", pc.fill_null(plain, UNNAMED), "]", "")


def _letters(batch: Any, operations: Any, keeps_flushes: NDArray[np.bool_]) -> Any:
    """Return the RWBS letters; without F's where the device's own flushes serve them."""
    kind = codes(operations, lambda text: OPERATIONS.index(text or "other"))
    letter = pa.array([LETTERS.get(name, "N") for name in OPERATIONS]).take(pa.array(kind))
    flush, *marks = (
        pc.if_else(pa.array(flags(batch.column(name)) & (keeps_flushes | (mark != "F"))), mark, "")
        for name, mark in FLAGS.items()
    )
    return pc.binary_join_element_wise(flush, letter, *marks, "")


KNOWN = ("read", "write", "write_zeroes", "discard", "flush")
FIRST_MAJOR, MINORS = 8, 16
"""Devices without numbers are called as SCSI disks are: 8,0, 8,16 and so on."""
NUMBERS = re.compile(r"[0-9]{1,4},[0-9]{1,7}")


class BlkparseExport(ExportFormat):
    """One line an event: device, CPU, number, seconds, pid, action, letters, place, process."""

    name = "blkparse"
    holds = (
        "request_id", "queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "transfer_ns",
        "complete_ns", "device", "sector", "length_bytes", "operation", "is_sync", "is_meta",
        "is_fua", "is_preflush", "is_readahead", "process", "pid", "cpu", "error", "merged_into",
        "depth", "partition",
    )  # fmt: skip

    def write(self, source: Source, survey: Survey, *, parts: Mapping[Path, Path]) -> Outcome:
        """Write the lines; an event waits until no later request can begin before it."""
        names = device_numbers(survey.devices, source.info)
        outcome = Outcome(facts={"names": dict(zip(survey.devices, names, strict=True))})
        targets = writing.find_merge_targets(source.table)
        outcome.changes("joint_ends", targets.apart)
        (part,) = parts.values()
        with part.open("wb") as out:
            lines, places = _Lines(out, names), SamePlace()
            for batch, device in source.whole_batches():
                kept = _fitting(batch, outcome)
                if kept.any():
                    rows = Requests(batch.filter(pa.array(kept)), device[kept], targets)
                    begin_ns = int(_first_ns(rows.batch).min())
                    lines.add(rows.events(), begin_ns=begin_ns)
                    places.add(rows.of_places(), begin_ns=begin_ns)
                    lengths = ints(rows.batch.column("length_bytes"))
                    rounded = int(np.count_nonzero(lengths % SECTOR_BYTES))
                    outcome.changes("rounded_lengths", rounded)
            lines.finish()
            outcome.changes("exchanged_ends", places.finish())
        return outcome


class _Lines:
    """Events on their way into the file."""

    def __init__(self, out: IO[bytes], devices: Sequence[str]) -> None:
        self._out, self._devices = out, devices
        self._waiting = pa.record_batch([[]] * len(EVENTS), schema=EVENTS)
        self._numbers = Counter[tuple[int, int]]()
        self._is_started = False

    def add(self, found: Iterator[Any], *, begin_ns: int) -> None:
        """Take events; write those before `begin_ns`, at which this batch begins."""
        is_due = ints(self._waiting.column("time_ns")) < begin_ns
        self._write(self._waiting.filter(pa.array(is_due)))
        waiting = self._waiting.filter(pa.array(~is_due))
        joined = pa.concat_batches([waiting, *found])
        keys = (ints(joined.column("rank")), ints(joined.column("time_ns")))
        self._waiting = joined.take(pa.array(np.lexsort(keys)))

    def finish(self) -> None:
        """Write what waits."""
        self._write(self._waiting)

    def _write(self, events: Any) -> None:
        if not len(events):
            return
        time_ns, _, device, cpu = (ints(column) for column in events.columns[:-1])
        self._start(int(time_ns[0]), int(device[0]), int(cpu[0]))
        names = pc.utf8_lpad(pa.array(self._devices), 7).take(pa.array(device))
        seconds = pc.utf8_lpad(_texts(time_ns // 10**9), 5)
        fraction = pc.utf8_lpad(_texts(time_ns % 10**9), 9, "0")
        time = pc.binary_join_element_wise(seconds, fraction, ".")
        number = pc.utf8_lpad(_texts(self._numbered(device, cpu)), 8)
        ended = pc.binary_join_element_wise(events.column("rest"), "\n", "")
        cpus = pc.utf8_lpad(_texts(cpu), 3)
        lines = pc.binary_join_element_wise(names, cpus, number, time, ended, " ")
        # The strings of a new array stand one after the other in its last buffer.
        self._out.write(lines.buffers()[2])

    def _start(self, time_ns: int, device: int, cpu: int) -> None:
        """Times count from the trace's start: a plug stands there, which is of no request."""
        if not self._is_started and time_ns > 0:
            number = self._next(device, cpu, 1)
            head = f"{self._devices[device]:>7} {cpu:3} {number:8} {0:5}.{0:09}"
            self._out.write(f"{head} 0 P N [tracekit]\n".encode())
        self._is_started = True

    def _next(self, device: int, cpu: int, count: int) -> int:
        """Return the next of the device's and CPU's numbers, and take `count` of them."""
        first = self._numbers[device, cpu] + 1
        self._numbers[device, cpu] += count
        return first

    def _numbered(self, device: NDArray[np.int64], cpu: NDArray[np.int64]) -> NDArray[np.int64]:
        key = device << 32 | cpu
        order = np.argsort(key, kind="stable")
        numbers = np.empty(len(key), np.int64)
        for part in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
            first = self._next(int(device[part[0]]), int(cpu[part[0]]), len(part))
            numbers[part] = np.arange(first, first + len(part))
        return numbers


def device_numbers(devices: Sequence[str], info: TraceInfo) -> list[str]:
    """Return "major,minor" of each device: its own where the trace has it, else another's."""
    known = {
        entry.device: f"{entry.major},{entry.minor}"
        for entry in info.devices
        if entry.major is not None and entry.minor is not None
    }
    known |= {device: device for device in devices if NUMBERS.fullmatch(device)}
    found: list[str] = []
    free = (f"{FIRST_MAJOR},{MINORS * place}" for place in range(1 << 16))
    taken = set(known.values())
    for device in devices:
        number = known.get(device) or next(one for one in free if one not in taken)
        taken.add(number)
        found.append(number)
    return found


def _fitting(batch: Any, outcome: Outcome) -> NDArray[np.bool_]:
    """Mark the requests that can be printed, and count the others by why."""
    operation = codes(batch.column("operation"), lambda text: OPERATIONS.index(text or "other"))
    lengths = ints(batch.column("length_bytes"))
    is_known = np.isin(operation, [OPERATIONS.index(name) for name in KNOWN])
    is_empty = is_known & (operation != OPERATIONS.index("flush")) & (lengths == 0)
    is_long = is_known & (lengths > writing.U32_MOST - SECTOR_BYTES)
    fits = is_known & ~is_empty & ~is_long
    kept = fits & (_first_ns(batch) >= 0)
    outcome.left_out += count_names(operation[~is_known], OPERATIONS)
    outcome.leaves("empty", is_empty)
    outcome.leaves("too_long", is_long)
    outcome.leaves("without_a_time", fits & ~kept)
    outcome.written += int(kept.sum())
    zeroes = kept & (operation == OPERATIONS.index("write_zeroes"))
    outcome.changes("plain_writes", int(zeroes.sum()))
    return np.asarray(kept)


def _first_ns(batch: Any) -> NDArray[np.int64]:
    columns = (batch.column(f"{name}_ns") for name in MOMENTS)
    return ints(pc.coalesce(*columns), if_null=NONE)
