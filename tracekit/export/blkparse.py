"""Text as blkparse prints it: the events of each request, in order of time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tracekit.export.blkparse_events import Events, Requests, whole_sectors
from tracekit.export.carriers import find_carriers
from tracekit.export.form import U32_MOST, Told
from tracekit.export.rows import Source, Survey
from tracekit.schema import OPERATIONS, SECTOR_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KNOWN = ("read", "write", "write_zeroes", "discard", "flush")
FIRST_MAJOR, MINORS = 8, 16
"""Devices without numbers are called as SCSI disks are: 8,0, 8,16 and so on."""
NUMBERS = re.compile(r"\d{1,4},\d{1,7}")


class BlkparseForm:
    """One line an event: device, CPU, number, seconds, pid, action, letters, place, process."""

    name = "blkparse"
    holds = (
        "request_id", "queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "transfer_ns",
        "complete_ns", "device", "sector", "length_bytes", "operation", "is_sync", "is_meta",
        "is_fua", "is_preflush", "is_readahead", "process", "pid", "cpu", "error", "merged_into",
        "depth", "partition",
    )  # fmt: skip

    def files(self, output: Path) -> list[Path]:
        """Return the one file."""
        return [output]

    def write(self, source: Source, survey: Survey, *, parts: Mapping[Path, Path]) -> Told:
        """Write the lines; an event waits until no later request can begin before it."""
        names = device_numbers(survey.devices, source.info)
        told = Told(facts={"names": dict(zip(survey.devices, names, strict=True))})
        carriers = find_carriers(source.table)
        told.changes("joint_ends", carriers.apart)
        (part,) = parts.values()
        with part.open("wb") as out:
            lines = _Lines(out, names)
            for batch, device in source.whole_batches():
                kept = _fitting(batch, told)
                if kept.any():
                    import pyarrow as pa

                    rows = Requests(batch.filter(pa.array(kept)), device[kept], carriers)
                    lines.add(rows.events(), begin_ns=_begin_ns(rows))
                    told.changes("rounded_lengths", whole_sectors(rows.batch))
            lines.finish()
        return told


class _Lines:
    """Events on their way into the file."""

    def __init__(self, out: IO[bytes], devices: Sequence[str]) -> None:
        self._out, self._devices = out, devices
        self._waiting: Events | None = None
        self._numbers: dict[int, int] = {}
        self._is_started = False

    def add(self, found: Iterator[Events], *, begin_ns: int) -> None:
        """Take events; write those before `begin_ns`, at which this batch begins."""
        import numpy as np

        waiting = self._waiting
        if waiting is not None:
            is_due = waiting.time_ns < begin_ns
            self._write(_taken(waiting, np.flatnonzero(is_due)))
            waiting = _taken(waiting, np.flatnonzero(~is_due))
        joined = _joined([*([waiting] if waiting is not None else []), *found])
        self._waiting = _taken(joined, np.lexsort((joined.rank, joined.time_ns)))

    def finish(self) -> None:
        """Write what waits."""
        if self._waiting is not None:
            self._write(self._waiting)

    def _write(self, events: Events) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if not len(events.time_ns):
            return
        self._start(events)
        device = pc.utf8_lpad(pa.array(self._devices), 7).take(pa.array(events.device))
        seconds = pc.utf8_lpad(pa.array(events.time_ns // 10**9).cast(pa.string()), 5)
        fraction = pc.utf8_lpad(pa.array(events.time_ns % 10**9).cast(pa.string()), 9, "0")
        time = pc.binary_join_element_wise(seconds, fraction, ".")
        cpu = pc.utf8_lpad(pa.array(events.cpu).cast(pa.string()), 3)
        number = pc.utf8_lpad(pa.array(self._numbered(events)).cast(pa.string()), 8)
        ended = pc.binary_join_element_wise(events.rest, "\n", "")
        lines = pc.binary_join_element_wise(device, cpu, number, time, ended, " ")
        # The strings of a new array stand one after the other in its last buffer.
        self._out.write(lines.buffers()[2])

    def _start(self, events: Events) -> None:
        """Times count from the trace's start: a plug stands there, which is of no request."""
        if not self._is_started and events.time_ns[0] > 0:
            device, cpu = int(events.device[0]), int(events.cpu[0])
            number = self._next(device, cpu, 1)
            head = f"{self._devices[device]:>7} {cpu:3} {number:8} {0:5}.{0:09}"
            self._out.write(f"{head} 0 P N [tracekit]\n".encode())
        self._is_started = True

    def _next(self, device: int, cpu: int, count: int) -> int:
        """Return the next of the device's and CPU's numbers, and take `count` of them."""
        key = device << 32 | cpu
        first = self._numbers.get(key, 0) + 1
        self._numbers[key] = first + count - 1
        return first

    def _numbered(self, events: Events) -> NDArray[np.int64]:
        import numpy as np

        key = events.device << 32 | events.cpu
        order = np.argsort(key, kind="stable")
        numbers = np.empty(len(key), np.int64)
        for part in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
            first = self._next(int(events.device[part[0]]), int(events.cpu[part[0]]), len(part))
            numbers[part] = np.arange(first, first + len(part))
        return numbers


def device_numbers(devices: Sequence[str], info: Mapping[str, Any]) -> list[str]:
    """Return "major,minor" of each device: its own where the trace tells it, else another's."""
    told = {
        entry["device"]: f"{entry['major']},{entry['minor']}"
        for entry in info.get("devices", [])
        if entry.get("major") is not None and entry.get("minor") is not None
    }
    told |= {device: device for device in devices if NUMBERS.fullmatch(device)}
    found: list[str] = []
    free = (f"{FIRST_MAJOR},{MINORS * place}" for place in range(1 << 16))
    taken = set(told.values())
    for device in devices:
        number = told.get(device) or next(one for one in free if one not in taken)
        taken.add(number)
        found.append(number)
    return found


def _fitting(batch: Any, told: Told) -> NDArray[np.bool_]:
    """Mark the requests that can be printed, and count the others by why."""
    import numpy as np

    from tracekit.columns import codes, ints

    operation = codes(batch.column("operation"), lambda text: OPERATIONS.index(text or "other"))
    lengths = ints(batch.column("length_bytes"))
    is_known = np.isin(operation, [OPERATIONS.index(name) for name in KNOWN])
    is_flush = operation == OPERATIONS.index("flush")
    is_empty = is_known & ~is_flush & (lengths == 0)
    is_long = is_known & (lengths > U32_MOST - SECTOR_BYTES)
    is_silent = is_known & (_first_ns(batch) < 0)
    for name in (name for name in OPERATIONS if name not in KNOWN):
        _leave(told, name, operation == OPERATIONS.index(name))
    _leave(told, "empty", is_empty)
    _leave(told, "too_long", is_long)
    _leave(told, "without_a_time", is_silent & ~is_empty & ~is_long)
    kept = is_known & ~is_empty & ~is_long & ~is_silent
    told.written += int(kept.sum())
    zeroes = kept & (operation == OPERATIONS.index("write_zeroes"))
    told.changes("plain_writes", int(zeroes.sum()))
    return np.asarray(kept)


def _leave(told: Told, why: str, which: NDArray[np.bool_]) -> None:
    if which.any():
        told.left_out[why] += int(which.sum())


def _first_ns(batch: Any) -> NDArray[np.int64]:
    import pyarrow.compute as pc

    from tracekit.columns import ints

    names = ("queue", "getrq", "insert", "merge", "issue", "transfer", "complete")
    return ints(pc.coalesce(*(batch.column(f"{name}_ns") for name in names)), if_null=-1)


def _begin_ns(rows: Requests) -> int:
    return int(_first_ns(rows.batch).min())


def _taken(events: Events, places: NDArray[np.int64]) -> Events:
    import pyarrow as pa

    return Events(
        time_ns=events.time_ns[places],
        rank=events.rank[places],
        device=events.device[places],
        cpu=events.cpu[places],
        rest=events.rest.take(pa.array(places)),
    )


def _joined(parts: Sequence[Events]) -> Events:
    import numpy as np
    import pyarrow as pa

    rest = [chunk for part in parts for chunk in _chunks(part.rest)]
    return Events(
        time_ns=np.concatenate([part.time_ns for part in parts]),
        rank=np.concatenate([part.rank for part in parts]),
        device=np.concatenate([part.device for part in parts]),
        cpu=np.concatenate([part.cpu for part in parts]),
        rest=pa.concat_arrays(rest),
    )


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if hasattr(column, "chunks") else [column]
