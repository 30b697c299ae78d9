"""From a tracer's output to the files of a capture folder: records, names, losses."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import stat
import struct
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as copied
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
from msgspec import UNSET, to_builtins
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.capture.cgroups import (
    ID_BYTES,
    MARK,
    Marks,
    paths_of_cgroups,
    with_messages,
)
from tracekit.capture.remaps import MOST_REMAPS, REMAP, Remaps, followed, number_of
from tracekit.errors import InputError
from tracekit.layout import CaptureSummary, Losses
from tracekit.store import write_json


@contextmanager
def closed_to_others(folder: Path) -> Iterator[None]:
    """Let nobody else into a folder while it is being written: it may hold what others do."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(stat.S_IRWXU)
    yield
    folder.chmod(mode)


class NothingRecordedError(InputError):
    """A recording that was cut holds nothing."""


MAGIC = 0x65617407
CHUNK_BYTES = 1 << 20
_PLACE = [("magic", "u4"), ("sequence", "u4"), ("time", "u8"), ("sector", "u8"), ("bytes", "u4")]
_ORIGIN = [("device", "u4"), ("cpu", "u4"), ("error", "u2"), ("pdu_len", "u2")]
HEADER_7 = np.dtype([*_PLACE, ("action", "u4"), ("pid", "u4"), *_ORIGIN])
HEADER_8 = np.dtype([*_PLACE, ("pid", "u4"), ("action", "u8"), *_ORIGIN, ("padding", "V12")])
"""Of Linux 6.19 and newer, where blktrace(8) asks for it."""
MAGIC_BYTES = 4
PDU_LENGTH = struct.Struct("=H")
PDU_LENGTH_AT = {HEADER_7: 46, HEADER_8: 50}
LOST = re.compile(rb"CPU:\d+ \[LOST (?:(\d+) )?EVENTS\]\n")
_RELAYED = re.compile(r"(?P<device>.+)\.blktrace\.(?P<cpu>\d+)")
_ACTION_MASK = 0xFF
_QUEUED = 1
_COMPLETED = 8
_REMAPPED = 15
_REMAP_FIELDS = np.dtype([("source", ">u4"), ("target", ">u4"), ("source_sector", ">u8")])
NOTIFY = 0x400 << 16
NOTIFY_PROCESS = NOTIFY
NOTIFY_TIMESTAMP = NOTIFY | 1


MAGICS = {HEADER_7: struct.pack("=I", MAGIC), HEADER_8: struct.pack("=I", MAGIC + 1)}
"""The first bytes of a record, by its header."""


@dataclass(frozen=True)
class Block:
    """Whole records of one CPU in a row, and what stood before them."""

    data: bytearray
    starts: list[int]
    """Offset of each record in `data`."""
    lost_before: int
    """Records that the kernel lost between the last block and this one."""
    foreign_bytes: int
    """Bytes that are no record, passed over before this block."""
    header: np.dtype[np.void]


@dataclass
class Survey:
    """What the spools hold, added up."""

    records: int = 0
    others: int = 0
    """Records of devices that are left out of all else."""
    lost: int = 0
    foreign_bytes: int = 0
    first_ns: int | None = None
    last_ns: int = 0
    devices: set[int] = field(default_factory=set)
    """Numbers as the kernel has them, major << 20 | minor."""
    pids: set[int] = field(default_factory=set)
    """Of all records but completions, which run in whatever process they interrupt."""
    queued_by_pid: dict[int, int] = field(default_factory=dict)
    """Queue records of each process."""


def read_blocks(*spools: Path) -> Iterator[Block]:
    """Yield the whole records of spools, one behind the other, in blocks of bounded size."""
    for spool in spools:
        yield from _blocks_of(spool)


def _blocks_of(spool: Path) -> Iterator[Block]:
    with spool.open("rb") as file:
        header = HEADER_8 if file.read(MAGIC_BYTES) == MAGICS[HEADER_8] else HEADER_7
        file.seek(0)
        data = bytearray()
        lost = foreign = 0
        while chunk := file.read(CHUNK_BYTES):
            data += chunk
            while True:
                starts, end = _walk(data, header)
                if starts:
                    yield Block(data[:end], starts, lost, foreign, header)
                    lost = foreign = 0
                del data[:end]
                passed, newly_lost = _pass_over(data, header)
                lost += newly_lost
                foreign += 0 if newly_lost else passed
                del data[:passed]
                if not passed:
                    break
        if data or lost or foreign:
            yield Block(bytearray(), [], lost, foreign + len(data), header)


def _walk(data: bytearray, header: np.dtype[np.void]) -> tuple[list[int], int]:
    """Return where whole records start, from offset 0, and where the last of them ends."""
    starts = []
    at, size = 0, len(data)
    magic, length_at = MAGICS[header], PDU_LENGTH_AT[header]
    while at + header.itemsize <= size and data[at : at + MAGIC_BYTES] == magic:
        end = at + header.itemsize + PDU_LENGTH.unpack_from(data, at + length_at)[0]
        if end > size:
            break
        starts.append(at)
        at = end
    return starts, at


def _pass_over(data: bytearray, header: np.dtype[np.void]) -> tuple[int, int]:
    """Return how many leading bytes are no record, and how many records they say were lost."""
    magic = MAGICS[header]
    if len(data) < header.itemsize or data.startswith(magic):
        return 0, 0
    line = LOST.match(data)
    if line is not None:
        return line.end(), int(line.group(1) or 1)
    found = data.find(magic)
    return (found if found > 0 else len(data)), 0


def _headers(block: Block) -> tuple[Any, Any, Any]:
    """Return the block's bytes, the places of its header bytes, and the headers as columns."""
    raw = np.frombuffer(block.data, dtype=np.uint8)
    places = np.asarray(block.starts, dtype=np.int64)[:, None] + np.arange(block.header.itemsize)
    return raw, places, raw[places].view(block.header)[:, 0]


def remaps_in(spools: Iterable[Path]) -> Remaps:
    """Return the remaps of all devices in spools; no more than show that there are too many."""
    found, count = [np.empty(0, REMAP)], 0
    for block in (one for one in read_blocks(*spools) if one.starts):
        raw, places, headers = _headers(block)
        action, skipped = headers["action"], ID_BYTES * (headers["action"] & MARK != 0)
        is_remap = (action & _ACTION_MASK == _REMAPPED) & (action & NOTIFY != NOTIFY)
        is_remap &= headers["pdu_len"] >= _REMAP_FIELDS.itemsize + skipped
        begins = places[is_remap, -1] + 1 + skipped[is_remap]
        fields = raw[begins[:, None] + np.arange(_REMAP_FIELDS.itemsize)].view(_REMAP_FIELDS)[:, 0]
        some = np.empty(len(begins), REMAP)
        for name in ("time", "device", "bytes", "sector"):
            some[name] = headers[name][is_remap]
        for name in ("source", "target", "source_sector"):
            some[name] = fields[name]
        found.append(some)
        count += len(some)
        if count > MOST_REMAPS:
            break
    return np.concatenate(found)


def survey(spools: Iterable[Path], *, without: Collection[int] = ()) -> Survey:
    """Read the spools once and say what they hold, but for devices of these numbers."""
    total, queued = Survey(), Counter[int]()
    for block in read_blocks(*spools):
        total.lost += block.lost_before
        total.foreign_bytes += block.foreign_bytes
        if not block.starts:
            continue
        _, _, headers = _headers(block)
        if without:
            headers = headers[~np.isin(headers["device"], [*without])]
            total.others += len(block.starts) - len(headers)
            if not len(headers):
                continue
        first_ns, last_ns = headers["time"][[0, -1]].tolist()
        total.first_ns = first_ns if total.first_ns is None else min(total.first_ns, first_ns)
        total.last_ns = max(total.last_ns, last_ns)
        total.records += len(headers)
        total.devices.update(headers["device"].tolist())
        action = headers["action"] & _ACTION_MASK
        total.pids.update(headers["pid"][action != _COMPLETED].tolist())
        queued.update(headers["pid"][action == _QUEUED].tolist())
    total.queued_by_pid = dict(queued)
    return total


def notify_records(
    found: Survey, device: int, *, processes: dict[int, str], wall_ns: int
) -> list[bytes]:
    """Return the records that say the wall clock at the trace's start, and each process's name.

    They are those of CPU 0 for the disk of that number.
    """
    seconds, nanoseconds = divmod(wall_ns, 1_000_000_000)
    notes = [(NOTIFY_TIMESTAMP, 0, struct.pack("=II", seconds, nanoseconds))]
    notes += [
        # As the kernel does, the name is sent in its whole 16-byte field.
        (NOTIFY_PROCESS, pid, name.encode(errors="replace")[:15].ljust(16, b"\0"))
        for pid, name in sorted(processes.items())
    ]
    return [
        np.array(
            (MAGIC, 0, found.first_ns, 0, 0, action, pid, device, 0, 0, len(payload)), HEADER_7
        ).tobytes()
        + payload
        for action, pid, payload in notes
    ]


def write_cpu_file(
    target: BinaryIO,
    spools: Sequence[Path],
    *,
    cpu: int,
    notes: list[bytes],
    is_ours: Callable[[Any], Any] | None = None,
    marks: Marks | None = None,
) -> int:
    """Write one CPU's file, the notes first; return the last sequence number.

    Ids of cgroups in the records become messages, of which `marks` keeps what they say.

    `is_ours` says of a column of device numbers which records belong into the file (None: all). A
    loss leaves its gap in the file of the record behind it. The tracer notes the CPU just before it
    reserves room in that CPU's buffer; a task that moved in between has the older number. The
    buffer's number is written, as readers require.
    """
    sequence, marks = len(notes), marks or Marks()
    for number, note in enumerate(notes, start=1):
        target.write(note[:4] + struct.pack("=I", number) + note[8:])
    for block in read_blocks(*spools):
        if not block.starts:
            continue
        raw, places, headers = _headers(block)
        ours = is_ours(headers["device"]) if is_ours else np.ones(len(headers), dtype=bool)
        sequence += block.lost_before if ours[0] else 0
        headers["sequence"] = (sequence + np.cumsum(ours, dtype=np.uint64)) & 0xFFFFFFFF
        headers["cpu"] = cpu
        target.write(_bytes_of(block, raw, places, headers=headers, ours=ours, marks=marks).data)
        sequence += int(np.count_nonzero(ours))
    return sequence


def _bytes_of(
    block: Block, raw: Any, places: Any, *, headers: Any, ours: Any, marks: Marks
) -> NDArray[np.uint8]:
    """Return the bytes of the records that are `ours`, with these headers.

    Messages say the cgroups of queue events.
    """
    lengths = np.diff(block.starts, append=len(block.data))
    kept = np.repeat(ours, lengths)
    ids, lengths = _take_cgroups(raw, places, headers, lengths=lengths, kept=kept)
    raw[places] = headers.view(np.uint8).reshape(places.shape)
    found: NDArray[np.uint8] = raw if kept.all() else raw[kept]
    if ids is None:
        return found
    begins = np.cumsum(np.where(ours, lengths, 0)) - lengths
    is_note = headers["action"] & NOTIFY == NOTIFY
    queued = np.flatnonzero(ours & ~is_note & (headers["action"] & _ACTION_MASK == _QUEUED))
    changed = queued[marks.changes(ids[queued])]
    return with_messages(found, begins[changed], headers=headers[changed], ids=ids[changed])


def _take_cgroups(
    raw: Any, places: Any, headers: Any, *, lengths: Any, kept: Any
) -> tuple[Any, Any]:
    """Take the ids of cgroups out of headers and of what is `kept` of the records' bytes.

    Return the id of each record, 0 without one, or None where none has one; and the new lengths.
    """
    marked = (headers["action"] & MARK != 0) & (headers["pdu_len"] >= ID_BYTES)
    if not marked.any():
        return None, lengths
    at = (places[marked, -1] + 1)[:, None] + np.arange(ID_BYTES)
    ids = np.zeros(len(headers), np.uint64)
    ids[marked] = np.ascontiguousarray(raw[at]).view(np.uint64)[:, 0]
    kept[at] = False
    headers["action"][marked] &= ~np.array(MARK, headers["action"].dtype)
    headers["pdu_len"][marked] -= ID_BYTES
    return ids, lengths - ID_BYTES * marked


SUFFIXES = {"none": "", "xz": ".xz", "zstd": ".zst"}
OWN_NAME = "tracekit"


@dataclass(frozen=True)
class CaptureFiles:
    """What a capture's folder holds."""

    files: tuple[str, ...]
    records: int
    """Records of the kernel; the notify records added are not among them."""
    own_requests: int
    """Requests that the capturing process itself queued."""
    dropped: int
    overrun: int = 0
    foreign_bytes: int = 0
    """Bytes in the tracer's stream that were no record."""
    missed_at_most: int = 0
    """Events that the kernel did not show the source, of other disks too where it counted them."""
    cgroups: frozenset[int] = frozenset()
    """Ids of the control groups in the records."""
    whole_ns: int | None = None
    """From when on, after the first record, records of some CPUs found no space; None: never."""
    lost_in_pieces: int = 0
    """Records lost in pieces that were written before, one behind the other."""
    disks_dropped: tuple[tuple[str, int], ...] = ()
    """What `dropped` is made of, disk and count, where the source has a buffer for each disk."""


@dataclass(frozen=True)
class CaptureFolder:
    """The folder that a capture is written to, and what is known of it besides the records."""

    path: Path
    name: str
    """How its files begin."""
    layout: Mapping[str, Any]
    """The parts of layout.json that describe the disks."""
    summary: CaptureSummary
    compress: str = "none"
    """none, xz or zstd, as SUFFIXES has them."""
    own_pid: int = field(default_factory=os.getpid)
    """The process that captured."""
    cgroups_before: Mapping[str, str] = field(default_factory=dict)
    """Paths of the control groups that were there when it began, by id."""

    def stem(self, device: str) -> str:
        """Return how a disk's files begin: NAME, or NAME-DISK where several disks were captured."""
        return self.name if len(self.layout["devices"]) == 1 else f"{self.name}-{device}"

    def packed(self, name: str) -> str:
        """Return the name that a file has when it is packed."""
        return f"{name}{SUFFIXES[self.compress]}"

    def writer(self, name: str) -> BinaryIO:
        """Return the new file `name` without the suffix, which packs what is written."""
        path = self.path / self.packed(name)
        if self.compress == "xz":
            return cast(BinaryIO, lzma.open(path, "wb", preset=6))
        if self.compress == "zstd":
            return cast(BinaryIO, pa.CompressedOutputStream(str(path), "zstd"))
        return path.open("wb")

    def _paths(self, seen: Collection[int], *, is_live: bool) -> dict[str, str]:
        """Return the paths of control groups by ids, as layout.json has them.

        Those that are there no more, or not on this machine, have the path of the beginning.
        """
        now = paths_of_cgroups() if is_live and seen else {}
        known = {number: now.get(number) or self.cgroups_before.get(str(number)) for number in seen}
        return {str(number): path for number, path in sorted(known.items()) if path}

    def finish(
        self,
        found: CaptureFiles,
        *,
        processes: Mapping[int, str] | None = None,
        is_live: bool = True,
        **more: Any,
    ) -> CaptureFiles:
        """Write layout.json; `more` are fields of its summary that some sources know.

        With `is_live` the kernel still is the one that recorded.
        """
        whole_ns = UNSET if found.whole_ns is None else found.whole_ns
        losses = Losses(found.overrun, found.dropped, whole_ns)
        counts = {key: getattr(found, key) for key in ("records", "own_requests", "foreign_bytes")}
        content = {
            **self.layout,
            "processes": {str(pid): text for pid, text in sorted((processes or {}).items())},
            "cgroups": self._paths(found.cgroups, is_live=is_live),
            "loss": to_builtins(losses),
            "capture": to_builtins(replace(self.summary, **counts, **more)),
        }
        write_json(self.path / "layout.json", content)
        return found


def write_relayed(
    relay: Path,
    folder: CaptureFolder,
    *,
    own: Collection[int],
    dropped: Sequence[int],
    has_cgroups: bool = False,
) -> CaptureFiles:
    """Pack the files of blktrace(8) in the folder `relay`, DEVICE.blktrace.CPU; return what it is.

    `own` are the threads of blktrace itself, `dropped` the records that each disk lost. Where the
    records may name cgroups messages say them.
    """
    matches = ((_RELAYED.fullmatch(path.name), path) for path in relay.iterdir())
    spools = {(match["device"], int(match["cpu"])): path for match, path in matches if match}
    files, cgroups = [], set[int]()
    for (device, cpu), path in sorted(spools.items()):
        file = f"{folder.stem(device)}.blktrace.{cpu}"
        files.append(folder.packed(file))
        with folder.writer(file) as target:
            if has_cgroups:
                cgroups |= _write_without_cgroups(target, path)
            else:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, target)
    found = survey(list(spools.values()))
    return CaptureFiles(
        files=tuple(files),
        records=found.records,
        own_requests=sum(found.queued_by_pid.get(pid, 0) for pid in own),
        dropped=sum(dropped),
        foreign_bytes=found.foreign_bytes,
        cgroups=frozenset(cgroups),
    )


def _write_without_cgroups(target: BinaryIO, relayed: Path) -> set[int]:
    """Write the records of a file of blktrace(8) with messages that say cgroups; return these."""
    marks = Marks()
    for block in read_blocks(relayed):
        if block.starts:
            raw, places, headers = _headers(block)
            ours = np.ones(len(headers), dtype=bool)
            target.write(
                _bytes_of(block, raw, places, headers=headers, ours=ours, marks=marks).data
            )
    return marks.seen


@dataclass(frozen=True)
class Recording:
    """Raw files by CPU, the names that a source learned and what it lost."""

    spools: dict[int, list[Path]]
    """Files of records in the order of time, by CPU number."""
    processes: dict[int, str]
    """Name by process id."""
    overrun: int
    """Records overwritten in the kernel before they were read."""
    dropped: int
    """Records that the kernel had no room for."""
    clock_to_wall_ns: int
    """To be added to a record's time to get unix time."""
    taken: int | None = None
    """Records that were taken from the kernel; None: not known."""
    cut: frozenset[int] = frozenset()
    """CPUs whose last records found no space."""
    is_live: bool = True
    """Whether process ids still are those of the records."""

    def write(self, folder: CaptureFolder) -> CaptureFiles:
        """Write the files of records and layout.json into `folder`.

        They are NAME.blktrace.CPU, of several disks NAME-DISK.blktrace.CPU.
        """
        paths = [path for some in self.spools.values() for path in some]
        between = between_of(folder.layout)
        found = survey(paths, without=[*map(number_of, between)])
        folder = _followed(folder, paths)
        processes = self._names(found.pids, folder.own_pid)
        disks = folder.layout["devices"]
        files: list[str] = []
        seen: set[int] = set()
        for disk in disks:
            notes = self._notes(found, number_of(disk), processes)
            is_ours = _chooser(disk, disks, between)
            # A CPU without records has its file too: blkparse stops at the first that is missing.
            for cpu in range(max(self.spools, default=0) + 1):
                name = f"{folder.stem(disk['device'])}.blktrace.{cpu}"
                files.append(folder.packed(name))
                spools, first = self.spools.get(cpu, []), notes if cpu == 0 else []
                marks = Marks()
                with folder.writer(name) as target:
                    write_cpu_file(
                        target, spools, cpu=cpu, notes=first, is_ours=is_ours, marks=marks
                    )
                seen |= marks.seen
        written = CaptureFiles(
            files=tuple(files),
            records=found.records,
            own_requests=found.queued_by_pid.get(folder.own_pid, 0),
            dropped=self.dropped + self._not_read(found),
            overrun=max(self.overrun, found.lost),
            foreign_bytes=found.foreign_bytes,
            cgroups=frozenset(seen),
            whole_ns=self._whole_ns(found),
        )
        return folder.finish(
            written, processes=processes, is_live=self.is_live, own_pid=folder.own_pid
        )

    def _not_read(self, found: Survey) -> int:
        """Return how many records were taken from the kernel and are in no file."""
        read = found.records + found.others
        return 0 if self.taken is None else max(0, self.taken - read)

    def _whole_ns(self, found: Survey) -> int | None:
        """Return how long all CPUs' records found space, from the first one on; None: always."""
        if not self.cut:
            return None
        last_ns = min(survey(self.spools[cpu]).last_ns for cpu in self.cut)
        return max(0, last_ns - (found.first_ns or 0))

    def _names(self, pids: set[int], own_pid: int) -> dict[int, str]:
        """Return the name of each process in the records, as far as it can be known."""
        known, names = {0: "swapper", **self.processes, own_pid: OWN_NAME}, {}
        for pid in pids:
            comm = Path(f"/proc/{pid}/comm")
            if pid in known:
                names[pid] = known[pid]
            elif self.is_live and comm.exists():
                names[pid] = comm.read_text(errors="replace").strip()
        return names

    def _notes(self, found: Survey, device: int, processes: dict[int, str]) -> list[bytes]:
        if found.first_ns is None or device not in found.devices:
            return []
        wall_ns = found.first_ns + self.clock_to_wall_ns
        return notify_records(found, device, processes=processes, wall_ns=wall_ns)


def _followed(folder: CaptureFolder, spools: Sequence[Path]) -> CaptureFolder:
    """Return the folder with a layout in which remaps are followed."""
    if "above" not in folder.layout:
        return folder
    return copied(folder, layout=followed(folder.layout, remaps_in(spools)))


def clock_to_wall_ns() -> int:
    """Return what makes a time of the monotonic clock one since 1970."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def between_of(layout: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the devices that are traced for their remaps alone."""
    found: Sequence[dict[str, Any]] = layout.get("above", {}).get("between", ())
    return found


def _chooser(
    disk: dict[str, Any], disks: list[dict[str, Any]], between: Sequence[dict[str, Any]]
) -> Callable[[Any], Any] | None:
    """Return what selects a disk's records by their device numbers; one disk has them all.

    Records of no captured disk go with the first one, so that nothing is left out unnoticed; but
    for those of the devices `between`, which are traced for their remaps.
    """
    if len(disks) == 1 and not between:
        return None
    number = number_of(disk)
    others = [number_of(other) for other in (*disks, *between) if other != disk]
    if disk is not disks[0]:
        return lambda column: column == number
    return lambda column: ~np.isin(column, others)
