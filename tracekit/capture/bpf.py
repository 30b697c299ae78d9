"""A BPF program that follows each request in the kernel and passes one record of it on.

`tracekit-bpf` (replayer/capture) loads it and writes the records to a file, in the order in which
requests ended. What is kept are files of blktrace: each record becomes the events that its times
say, in the order of time, so that there is one reader and blkparse reads them as well.
"""

from __future__ import annotations

import errno
import os
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tracekit._native import program_path
from tracekit.capture.cgroups import Marks, with_messages
from tracekit.capture.programs import PROBE_S, Program, ProgramSource, probe_failure
from tracekit.capture.recording import (
    HEADER_7,
    MAGIC,
    NOTIFY,
    NOTIFY_PROCESS,
    NOTIFY_TIMESTAMP,
    OWN_NAME,
    CaptureFiles,
    CaptureFolder,
    NothingRecordedError,
    clock_to_wall_ns,
)
from tracekit.errors import InputError, TracekitError

PROGRAM = "tracekit-bpf"
REMEDY = (
    "install clang, libbpf-dev and libelf-dev and run `make setup` again; run as root, on a kernel"
    " from 5.17 with /sys/kernel/btf/vmlinux"
)
BTF = Path("/sys/kernel/btf/vmlinux")
NOT_BUILT = "built without BPF: clang, libbpf or libelf was missing"
NO_BTF = f"the kernel does not describe its structures: {BTF} is missing"
NOISE = "^libbpf: (load|prog)"
"""Lines of the program's log that give no reason."""
LEAST_RING_BYTES = 1 << 16
MOST_RING_BYTES = 1 << 30

SIGN = b"tracekit-bpf 1 "
HEADER_BYTES = 1024
TYPES = ("u2", "u4", "i4", "u8", "S16")
_STEPS = ("insert", "issue", "complete")
FIELDS = (
    *("queue_ns", "getrq_ns", "merge_ns", *(f"{step}_ns" for step in _STEPS)),
    *("sector", *(f"{step}_sector" for step in _STEPS), "from_sector", "cgroup"),
    *("device", "from_device", "bytes", *(f"{step}_bytes" for step in _STEPS)),
    *("thread", "process", "error", "kind", "category"),
    *(f"{step}_category" for step in _STEPS),
    *("queue_cpu", *(f"{step}_cpu" for step in _STEPS), "comm"),
)
"""What replayer/capture/block_record.h has, whose order a recording begins with."""
TIMES = FIELDS[:6]
MOST_CPUS = 8192
BLOCK_RECORDS = 1 << 16
Table = np.ndarray[Any, Any]
_REQUEST, _FRONT_MERGED, _SPLIT, _REQUEUE, _LOST = range(5)

# include/uapi/linux/blktrace_api.h: actions with the category that belongs to each.
_CATEGORY = 16
_OF_QUEUE, _OF_REQUEUE, _OF_ISSUE, _OF_COMPLETE, _OF_REQUEST = (1 << bit for bit in range(20, 25))
_REMAP = 15 | _OF_QUEUE
_QUEUE = 1 | _OF_QUEUE
_SPLITS = 13
_GETRQ = 4 | _OF_QUEUE
_BACK_MERGE, _FRONT_MERGE = 2 | _OF_QUEUE, 3 | _OF_QUEUE
_INSERT = 12 | _OF_QUEUE | _OF_REQUEST
_REQUEUES = 6 | _OF_REQUEUE | _OF_REQUEST
_ISSUE = 7 | _OF_ISSUE | _OF_REQUEST
_COMPLETE = 8 | _OF_COMPLETE
PAYLOAD_BYTES = 16
_REST_BYTES = 8
_NEVER_NS = 2**64 - 1
_BEFORE_ALL = 1 << 63

EVENT = np.dtype([("header", HEADER_7), ("payload", "V16"), ("cgroup", "u8")])
"""A record of blktrace with all that may follow it, and of a queue event its cgroup."""
_ORIGIN = np.dtype([("device", ">u4"), ("to", ">u4"), ("sector", ">u8")])

_ERRORS = {
    1: errno.EOPNOTSUPP,
    2: errno.ETIMEDOUT,
    3: errno.ENOSPC,
    4: errno.ENOLINK,
    5: errno.EREMOTEIO,
    6: errno.EBADE,
    7: errno.ENODATA,
    8: errno.EILSEQ,
    9: errno.ENOMEM,
    10: errno.EIO,
    11: errno.EREMCHG,
    12: errno.EAGAIN,
    13: errno.EBUSY,
    14: errno.ETOOMANYREFS,
    15: errno.EOVERFLOW,
    16: errno.ENODEV,
    17: errno.ETIME,
    19: errno.EINVAL,
}
"""errno by the kernel's blk_status_t (block/blk-core.c)."""


def is_built() -> bool:
    """Whether the program is here: it is built where clang, libbpf and libelf are."""
    try:
        program_path(PROGRAM)
    except TracekitError:
        return False
    return True


def why_not() -> str | None:
    """Return why a BPF program cannot record block events here, or None when it can."""
    if not is_built():
        return NOT_BUILT
    if not BTF.exists():
        return NO_BTF
    return probe_failure([str(program_path(PROGRAM)), "--probe"], within_s=PROBE_S, noise=NOISE)


class Bpf(ProgramSource):
    """Record disks with a BPF program."""

    name = "bpf"
    copies = 3.0

    def __init__(self, disks: Sequence[Path], spool: Path, *, buffer_kib: int) -> None:
        """Prepare to record `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._numbers = [number_of((disk / "dev").read_text()) for disk in disks]
        size = buffer_kib * 1024 * (os.cpu_count() or 1)
        ring_bytes = min(MOST_RING_BYTES, max(LEAST_RING_BYTES, 1 << size.bit_length() - 1))
        self._ring_bytes = ring_bytes
        program = Program(PROGRAM, spool / "bpf.log", remedy=REMEDY)
        super().__init__(program, spool / "bpf.records")
        self.seen: Callable[[NDArray[np.int64]], None] | None = None
        """Gets the nanoseconds from issue to completion of requests as they come."""
        self._seen_records = self._lost = 0

    def start(self) -> dict[str, Any]:
        """Begin to record; raise TracekitError when the program does not."""
        words = [str(self._data), str(self._ring_bytes), *map(str, self._numbers)]
        self._program.start([str(program_path(PROGRAM)), *words])
        self.facts = {"clock_to_wall_ns": clock_to_wall_ns(), "own": [self._program.check().pid]}
        return self.facts

    def drain(self) -> int:
        """Return the bytes written since the last call; `seen` gets the latencies in them."""
        moved = super().drain()
        if self.seen is not None and self._seen_bytes > HEADER_BYTES:
            found = read_records(self._data)
            new, self._seen_records = found[self._seen_records :], len(found)
            self._lost = lost_in(new) or self._lost
            done = new[(new["issue_ns"] > 0) & (new["complete_ns"] > 0)]
            self.seen((done["complete_ns"] - done["issue_ns"]).astype(np.int64))
        return moved

    def losses(self) -> dict[str, int]:
        """Return how many records were lost since recording began."""
        return {"dropped": self._lost}

    def stop(self) -> Records:
        """Stop recording; the program writes the rest. Raise TracekitError when it fails."""
        self._program.stop()
        return recorded_in(self._data.parent, self.facts)


def lost_in(records: Table) -> int:
    """Return how many records were lost by the end of these; 0 when that is not among them."""
    return int(records["sector"][records["kind"] == _LOST].max(initial=0))


def number_of(text: str) -> int:
    """Return the number of a disk, major << 20 | minor, of a text such as 7:0."""
    major, minor = text.split(":")
    return int(major) << 20 | int(minor)


def recorded_in(folder: Path, facts: Mapping[str, Any], *, is_live: bool = True) -> Records:
    """Return what is recorded in a folder, however that ended."""
    own = frozenset(facts["own"])
    return Records(folder / "bpf.records", facts["clock_to_wall_ns"], own, is_live)


def read_records(file: Path) -> Table:
    """Return the whole records of a file; raise InputError when it is none of this program."""
    with file.open("rb") as opened:
        header = opened.read(HEADER_BYTES)
    words = header.partition(b"\n")[0].removeprefix(SIGN).decode("ascii", "replace").split()
    types, names = words[::2], words[1::2]
    is_ours = header.startswith(SIGN) and len(header) == HEADER_BYTES
    if not is_ours or tuple(names) != FIELDS or not set(types) <= set(TYPES):
        raise InputError(f"{file}: no recording of this {PROGRAM}", hint="capture again")
    layout = np.dtype([(name, types[at]) for at, name in enumerate(names)])
    count = (file.stat().st_size - HEADER_BYTES) // layout.itemsize
    if count == 0:
        return np.empty(0, layout)
    return np.memmap(file, layout, "r", HEADER_BYTES, (count,))


@dataclass(frozen=True)
class Records:
    """What the program wrote."""

    data: Path
    clock_to_wall_ns: int
    """To be added to a record's time to get unix time."""
    own: frozenset[int]
    """Processes of the capture besides its own."""
    is_live: bool = True
    """Whether ids of control groups still are those of the records."""

    def write(self, folder: CaptureFolder) -> CaptureFiles:
        """Write the files of events and layout.json into `folder`.

        They are NAME.blktrace.CPU, of several disks NAME-DISK.blktrace.CPU.
        """
        if not self.data.exists() or self.data.stat().st_size < HEADER_BYTES:
            raise NothingRecordedError("the BPF program had written nothing")
        found = read_records(self.data)
        numbers = {int(disk["major"]) << 20 | int(disk["minor"]): disk["device"]
                   for disk in folder.layout["devices"]}  # fmt: skip
        own = {folder.own_pid, *self.own}
        with ExitStack() as stack:
            writer = Writer(folder, numbers, stack)
            names = Names({folder.own_pid: OWN_NAME})
            for events in in_order(found, names):
                writer.write(events, self.clock_to_wall_ns)
            writer.complete()
        missed = int(found["from_sector"][found["kind"] == _LOST].max(initial=0))
        uncounted = without_completion(found, folder.layout) - lost_in(found)
        missed += max(without_end(found, folder.layout), uncounted)
        queued = found[(found["kind"] < _SPLIT) & (found["queue_ns"] > 0)]
        kept = CaptureFiles(
            files=tuple(writer.names),
            records=writer.records,
            own_requests=int(np.isin(queued["process"], list(own)).sum()),
            dropped=lost_in(found),
            missed_at_most=missed,
            cgroups=frozenset(writer.cgroups),
        )
        return folder.finish(
            kept,
            processes=names.last,
            is_live=self.is_live,
            own_pid=folder.own_pid,
            missed_at_most=missed,
        )


def without_end(records: Table, layout: Mapping[str, Any]) -> int:
    """Return how many requests were issued and not seen to end, and were not in flight at the end.

    The kernel may run no program for some completions and count nothing: it does so while certain
    threads are on the CPU (measurements.md). Of disks whose counters were read.
    """
    count = 0
    is_open = (records["kind"] == _REQUEST) & (records["getrq_ns"] > 0)
    is_open &= (records["merge_ns"] == 0) & (records["complete_ns"] == 0)
    numbers = {one["device"]: one["major"] << 20 | one["minor"] for one in layout["devices"]}
    for entry in layout.get("counters", ()):
        if end := entry.get("end"):
            is_early = (records["issue_ns"] > 0) & (records["issue_ns"] < end["before_ns"])
            is_of_disk = records["device"] == numbers[entry["device"]]
            count += max(0, int((is_open & is_early & is_of_disk).sum()) - end["in_flight"])
    return count


LATE_NS = 1_000_000
"""A completion is counted a moment after its record."""


def without_completion(records: Table, layout: Mapping[str, Any]) -> int:
    """Return how many more requests the disks counted as ended than records say; 0: none for sure.

    Among them are those of which neither issue nor completion was seen. Completions near the two
    readings of the counters are taken as counted, and those of I/Os that never were requests not.
    """
    count = 0
    numbers = {one["device"]: one["major"] << 20 | one["minor"] for one in layout["devices"]}
    steps = (records["getrq_ns"], records["insert_ns"], records["issue_ns"])
    was_tried = (records["error"] == 0) | (np.maximum.reduce(steps) > 0)
    ended_ns = np.where(was_tried & (records["kind"] <= _FRONT_MERGED), records["complete_ns"], 0)
    for entry in layout.get("counters", ()):
        if (begin := entry.get("begin")) and (end := entry.get("end")):
            is_seen = records["device"] == numbers[entry["device"]]
            is_seen &= ended_ns >= max(1, begin["before_ns"] - LATE_NS)
            is_seen &= ended_ns <= end["after_ns"]
            first, last = begin["completed"], end["completed"]
            counted = sum(last[kind] - first[kind] for kind in last if kind != "flush")
            count += max(0, counted - int(is_seen.sum()))
    return count


@dataclass
class Names:
    """The names that threads had, one after the other."""

    last: dict[int, str]

    def changes(self, records: Table) -> list[Table]:
        """Return events that say where a thread queues under another name."""
        named = records[(records["queue_ns"] > 0) & (records["comm"] != b"")]
        named = named[np.argsort(named["queue_ns"], kind="stable")]
        named = named[np.argsort(named["thread"], kind="stable")]
        is_new = np.ones(len(named), bool)
        for part in ("thread", "comm"):
            same = named[part][1:] == named[part][:-1]
            is_new[1:] = ~same if part == "thread" else is_new[1:] | ~same
        found = []
        for one in named[is_new]:
            thread, name = int(one["thread"]), one["comm"].decode(errors="replace")
            if self.last.get(thread) != name:
                self.last[thread] = name
                found.append(_name_event(one))
        return found


def _name_event(record: Any) -> Table:
    place = (record["queue_ns"], record["device"], record["queue_cpu"])
    return _note(
        *place, NOTIFY_PROCESS, np.array(record["comm"], "S16").tobytes(), record["thread"]
    )


def _note(time_ns: int, device: int, cpu: int, action: int, payload: bytes, pid: int = 0) -> Table:
    event = np.zeros(1, EVENT)
    header = event["header"]
    header["time"], header["device"], header["cpu"] = time_ns, device, cpu
    header["action"], header["pid"], header["pdu_len"] = action, pid, len(payload)
    event["payload"] = np.void(payload.ljust(PAYLOAD_BYTES, b"\0"))
    return event


def in_order(records: Table, names: Names) -> Iterator[Table]:
    """Yield the events of records in the order of time, in blocks of bounded size.

    A record is written when its request has ended: an event is in order once no later record
    begins before it.
    """
    blocks = [records[at : at + BLOCK_RECORDS] for at in range(0, len(records), BLOCK_RECORDS)]
    begins = [_begin_ns(block) for block in blocks]
    later = np.minimum.accumulate(np.array([*begins, _NEVER_NS], "u8")[::-1])[::-1][1:]
    waiting = np.empty(0, EVENT)
    for block, until_ns in zip(blocks, later, strict=True):
        events = np.concatenate([waiting, *names.changes(block), *events_of(block)])
        events = events[np.argsort(events["header"]["time"], kind="stable")]
        count = np.searchsorted(events["header"]["time"], until_ns)
        yield events[:count]
        waiting = events[count:]
    yield waiting


def _begin_ns(records: Table) -> int:
    """Return the time of the first event of records."""
    times = [records[name][records[name] > 0] for name in TIMES]
    return min((int(one.min()) for one in times if len(one)), default=_NEVER_NS)


def events_of(records: Table) -> Iterator[Table]:
    """Yield the events that records stand for, sort by sort, in the order they happen in."""
    kind, is_request = records["kind"], records["kind"] <= _FRONT_MERGED
    is_queued = is_request & (records["queue_ns"] > 0)
    yield _remaps(records[is_queued & (records["from_device"] > 0)])
    queued = _queued(records[is_queued], "queue", _QUEUE)
    queued["cgroup"] = records["cgroup"][is_queued]
    yield queued
    splits = _queued(records[kind == _SPLIT], "queue", _SPLITS)
    splits["payload"] = _places(records["from_sector"][kind == _SPLIT].astype(">u8"))
    splits["header"]["pdu_len"] = _REST_BYTES
    yield splits
    yield _queued(records[kind == _REQUEUE], "queue", _REQUEUES)
    yield _queued(records[is_request & (records["getrq_ns"] > 0)], "getrq", _GETRQ)
    is_merged = is_request & (records["merge_ns"] > 0)
    yield _queued(records[is_merged & (kind == _REQUEST)], "merge", _BACK_MERGE)
    yield _queued(records[is_merged & (kind == _FRONT_MERGED)], "merge", _FRONT_MERGE)
    for step, action in zip(_STEPS, (_INSERT, _ISSUE, _COMPLETE), strict=True):
        chosen = records[is_request & (records[f"{step}_ns"] > 0)]
        parts = {part: f"{step}_{part}" for part in ("sector", "bytes", "category", "cpu")}
        yield _events(chosen, f"{step}_ns", action, parts)


def _queued(records: Table, step: str, action: int) -> Table:
    """Return events of the I/O as it was queued."""
    parts = {"sector": "sector", "bytes": "bytes", "category": "category", "cpu": "queue_cpu"}
    return _events(records, f"{step}_ns", action, parts)


def _remaps(records: Table) -> Table:
    events = _queued(records, "queue", _REMAP)
    origin = np.zeros(len(records), _ORIGIN)
    for part, value in (("device", "from_device"), ("to", "device"), ("sector", "from_sector")):
        origin[part] = records[value]
    events["payload"] = origin.view("V16")
    events["header"]["pdu_len"] = PAYLOAD_BYTES
    return events


def _places(sectors: Table) -> Table:
    payload = np.zeros((len(sectors), 2), ">u8")
    payload[:, 0] = sectors
    return payload.view("V16")[:, 0]


def _events(records: Table, time_ns: str, action: int, parts: Mapping[str, str]) -> Table:
    events = np.zeros(len(records), EVENT)
    header = events["header"]
    header["time"], header["device"] = records[time_ns], records["device"]
    header["sector"], header["bytes"] = records[parts["sector"]], records[parts["bytes"]]
    # Device mapper moves a flush, which has no place, as if it had: it may lie before the disk.
    header["sector"][(header["bytes"] == 0) & (header["sector"] >= _BEFORE_ALL)] = 0
    header["cpu"], header["pid"] = records[parts["cpu"]], records["thread"]
    category = records[parts["category"]].astype("u4") << _CATEGORY
    header["action"] = category | np.uint32(action)
    if action == _COMPLETE:
        header["error"] = _errors(records["error"])
    return events


def _errors(found: Table) -> Table:
    """Return errors as blktrace has them: -errno in 16 bits, of what may be the kernel's number."""
    errors = found.astype("i8")
    for status in np.unique(errors[errors > 0]):
        errors[found == status] = -_ERRORS.get(int(status), errno.EIO)
    return errors & 0xFFFF


class Writer:
    """The files of a capture folder, by disk and CPU."""

    def __init__(self, folder: CaptureFolder, disks: Mapping[int, str], stack: ExitStack) -> None:
        """Write into `folder`; `disks` are names by number, whose files `stack` closes."""
        self._folder, self._disks, self._stack = folder, disks, stack
        self._files: dict[tuple[str, int], BinaryIO] = {}
        self._sequences: Counter[tuple[str, int]] = Counter()
        self._marks: defaultdict[tuple[str, int], Marks] = defaultdict(Marks)
        self._has_clock: set[int] = set()
        self.names: list[str] = []
        self.records = 0
        """Of the kernel: the notify records added are not among them."""

    @property
    def cgroups(self) -> set[int]:
        """The control groups that were seen."""
        return {number for marks in self._marks.values() for number in marks.seen}

    def write(self, events: Table, clock_to_wall_ns: int) -> None:
        """Append events, which are in the order of time."""
        self.records += int((events["header"]["action"] & NOTIFY == 0).sum())
        for number, device in self._disks.items():
            ours = events[events["header"]["device"] == number]
            if len(ours) and number not in self._has_clock:
                self._has_clock.add(number)
                first = ours["header"][0]
                wall_s, rest_ns = divmod(int(first["time"]) + clock_to_wall_ns, 1_000_000_000)
                wall = (wall_s & 0xFFFFFFFF, rest_ns)
                place = (first["time"], number, first["cpu"])
                note = _note(*place, NOTIFY_TIMESTAMP, struct.pack("=II", *wall))
                ours = np.concatenate([note, ours])
            for cpu in np.unique(ours["header"]["cpu"]).tolist():
                chosen = ours[ours["header"]["cpu"] == cpu]
                self._append(device, cpu, chosen)

    def complete(self) -> None:
        """Make also the file of a disk of which nothing was recorded."""
        for device in self._disks.values():
            self._file(device, 0)

    def _append(self, device: str, cpu: int, events: Table) -> None:
        header = events["header"]
        # As the kernel does, notes have no number.
        is_numbered = header["action"] & NOTIFY == 0
        numbers = self._sequences[device, cpu] + np.cumsum(is_numbered)
        header["magic"] = MAGIC
        header["sequence"] = np.where(is_numbered, numbers & 0xFFFFFFFF, 0)
        self._sequences[device, cpu] = int(numbers[-1])
        raw = np.ascontiguousarray(events).view(np.uint8).reshape(len(events), -1)
        sizes = HEADER_7.itemsize + header["pdu_len"].astype(np.int64)
        told = raw[np.arange(EVENT.itemsize) < sizes[:, None]]
        queued = np.flatnonzero(is_numbered & (header["action"] & 0xFF == _QUEUE & 0xFF))
        changed = queued[self._marks[device, cpu].changes(events["cgroup"][queued])]
        ids, begins = events["cgroup"][changed], (np.cumsum(sizes) - sizes)[changed]
        told = with_messages(told, begins, headers=header[changed], ids=ids)
        self._file(device, cpu).write(told.tobytes())

    def _file(self, device: str, cpu: int) -> BinaryIO:
        """Return a CPU's file. Those of lower CPUs are there too: blkparse stops at a gap."""
        if cpu >= MOST_CPUS:
            raise InputError(f"a record of CPU {cpu}: damaged", hint="capture again")
        for number in range(cpu + 1):
            if (device, number) not in self._files:
                name = f"{self._folder.stem(device)}.blktrace.{number}"
                self.names.append(self._folder.packed(name))
                opened = self._stack.enter_context(self._folder.writer(name))
                self._files[device, number] = opened
        return self._files[device, cpu]
