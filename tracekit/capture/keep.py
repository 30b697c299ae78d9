"""What is kept of a recording: the files, the names and the losses, in the capture's folder."""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from tracekit.capture.records import Survey, notify_records, survey, write_cpu_file
from tracekit.store import write_json

SUFFIXES = {"none": "", "xz": ".xz", "zstd": ".zst"}
OWN_NAME = "tracekit"


@dataclass(frozen=True)
class Kept:
    """What a capture's folder holds."""

    records: int
    """Records of the kernel; the notify records added are not among them."""
    own_requests: int
    """Requests that the capturing process itself queued."""
    overrun: int
    dropped: int
    foreign_bytes: int
    """Bytes in the tracer's stream that were no record."""
    files: tuple[str, ...]
    missed_at_most: int = 0
    """Events of all disks that the kernel did not show the source; which disk's is not known."""
    disks_dropped: tuple[tuple[str, int], ...] = ()
    """What `dropped` is made of, disk and count, where the source has a buffer for each disk."""


@dataclass(frozen=True)
class Recording:
    """Raw files by CPU, the names that a source learned and what it lost; a `Recorded`."""

    spools: dict[int, Path]
    """Files of records in the order of time, by CPU number."""
    processes: dict[int, str]
    """Name by process id."""
    overrun: int
    """Records overwritten in the kernel before they were read."""
    dropped: int
    """Records that the kernel had no room for."""
    clock_to_wall_ns: int
    """To be added to a record's time to get unix time."""

    def keep(self, folder: Path, *, name: str, layout: dict[str, Any], compress: str) -> Kept:
        """Write the files of records and layout.json into `folder` and remove the spool files.

        They are NAME.blktrace.CPU, of several disks NAME-DISK.blktrace.CPU.
        """
        return _keep(self, folder, name=name, layout=layout, compress=compress)


def _keep(
    recording: Recording, folder: Path, *, name: str, layout: dict[str, Any], compress: str
) -> Kept:
    found = survey(list(recording.spools.values()))
    processes = _names(recording, found.pids)
    files: list[str] = []
    for disk in layout["devices"]:
        path = folder / stem_of(name, disk["device"], layout=layout)
        notes = _notes(found, _number_of(disk), processes, recording)
        is_ours = _chooser(disk, layout["devices"])
        files += _write_disk(recording, path, compress=compress, notes=notes, is_ours=is_ours)
    for spool in recording.spools.values():
        spool.unlink()
    overrun = max(recording.overrun, found.lost)
    own_requests = found.queued_by_pid.get(os.getpid(), 0)
    layout = {
        **layout,
        "processes": {str(pid): text for pid, text in sorted(processes.items())},
        "loss": {"overrun": overrun, "dropped": recording.dropped},
        "capture": {
            **layout["capture"],
            "records": found.records,
            "own_pid": os.getpid(),
            "own_requests": own_requests,
            "foreign_bytes": found.foreign_bytes,
        },
    }
    write_json(folder / "layout.json", layout)
    return Kept(
        records=found.records,
        own_requests=own_requests,
        overrun=overrun,
        dropped=recording.dropped,
        foreign_bytes=found.foreign_bytes,
        files=tuple(files),
    )


def _write_disk(
    recording: Recording,
    path: Path,
    *,
    compress: str,
    notes: list[bytes],
    is_ours: Callable[[Any], Any] | None,
) -> list[str]:
    """Write PATH.blktrace.CPU of each CPU and return the names."""
    names = []
    for cpu in range(max(recording.spools) + 1):
        # A CPU without records has its file too: blkparse stops at the first number it misses.
        names.append(f"{path.name}.blktrace.{cpu}{SUFFIXES[compress]}")
        with packing_writer(path.parent / names[-1], compress) as target:
            spool, first = recording.spools.get(cpu), notes if cpu == 0 else []
            write_cpu_file(target, spool, cpu=cpu, notes=first, is_ours=is_ours)
    return names


def stem_of(name: str, device: str, *, layout: dict[str, Any]) -> str:
    """Return how a disk's files begin: NAME, or NAME-DISK where several disks were captured."""
    return name if len(layout["devices"]) == 1 else f"{name}-{device}"


def _number_of(disk: dict[str, Any]) -> int:
    return int(disk["major"]) << 20 | int(disk["minor"])


def _chooser(disk: dict[str, Any], disks: list[dict[str, Any]]) -> Callable[[Any], Any] | None:
    """Return what tells a disk's records by their device numbers; one disk has them all.

    What is of no captured disk goes with the first one, so that nothing is left out in silence.
    """
    if len(disks) == 1:
        return None
    number, others = _number_of(disk), [_number_of(other) for other in disks if other != disk]
    if disk is not disks[0]:
        return lambda column: column == number
    import numpy as np

    return lambda column: ~np.isin(column, others)


def _names(recording: Recording, pids: set[int]) -> dict[int, str]:
    """Return the name of each process in the records, as far as it can be known."""
    names = {pid: recording.processes[pid] for pid in pids if pid in recording.processes}
    for pid in pids - names.keys():
        comm = Path(f"/proc/{pid}/comm")
        if pid == 0:
            names[pid] = "swapper"
        elif comm.exists():
            names[pid] = comm.read_text(errors="replace").strip()
    if os.getpid() in pids:
        names[os.getpid()] = OWN_NAME
    return names


def _notes(
    found: Survey, device: int, processes: dict[int, str], recording: Recording
) -> list[bytes]:
    if found.first_ns is None or device not in found.devices:
        return []
    wall_ns = found.first_ns + recording.clock_to_wall_ns
    return notify_records(found, device, processes=processes, wall_ns=wall_ns)


@contextmanager
def packing_writer(path: Path, compress: str) -> Iterator[BinaryIO]:
    """Yield a new file that packs what is written: none, xz or zstd, as SUFFIXES has them."""
    if compress == "xz":
        with lzma.open(path, "wb", preset=6) as target:
            yield cast(BinaryIO, target)
    elif compress == "zstd":
        import pyarrow as pa

        with pa.CompressedOutputStream(str(path), "zstd") as target:
            yield target
    else:
        with path.open("wb") as plain:
            yield plain
