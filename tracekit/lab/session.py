"""One guest from start to end: its disks, its run, and what it brought."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import TracekitError, UsageError
from tracekit.lab.build import Image, build, cache_folder
from tracekit.lab.disks import MIB, dax_start_mib
from tracekit.lab.job import Job, make_input
from tracekit.lab.machine import Machine, choose_accelerator, said_lines, start, tail
from tracekit.lab.result import unpack_result
from tracekit.store import scratch_folder

SCRATCH_BYTES = 64 << 30
RESULT_BYTES = 16 << 30
BOOT_LIMIT_S = 300.0
DONE = "done"
REFUSED_STATUS = 125


@dataclass(frozen=True)
class Ended:
    """What a guest brought, in a folder that is gone when the session ends."""

    folder: Path
    """stdout, stderr, log, files/, trace/, layout.json, blktrace.log; console.log of the guest."""
    exit_status: int
    """Of the command."""
    accelerator: str
    duration_s: float
    """From the start of QEMU to its end."""


@contextmanager
def session(job: Job, *, on_step: Callable[[str], None]) -> Iterator[Ended]:
    """Build what is missing, boot a guest, let it do the job, and yield what it brought.

    Raise UsageError for an impossible job, TracekitError when the guest could not do it.
    """
    job.check()
    words = _kernel_words(job)
    image = build(job.packages, on_step=on_step)
    accelerator = choose_accelerator(image, is_exact=job.is_exact)
    on_step(f"running in a guest ({accelerator})")
    with scratch_folder(cache_folder() / "run") as work:
        machine = Machine(
            image,
            accelerator,
            memory_mib=job.memory_mib + job.dax_mib + _emulated_mib(job),
            cpus=1 if job.is_exact else job.cpus,
            disks=_make_disks(job, image, work),
            kernel_words=words,
        )
        started_s = time.monotonic()
        limit_s = BOOT_LIMIT_S + 1.2 * job.timeout_s
        console = start(machine, work / "console.log", limit_s=limit_s)
        duration_s = time.monotonic() - started_s
        if DONE not in said_lines(console):
            raise TracekitError(
                f"the guest ended without a result; its console ended with:\n{tail(console)}"
            )
        unpack_result(work / "result.img", work / "result")
        (work / "console.log").rename(work / "result/console.log")
        yield _ended(work / "result", accelerator, duration_s)


def _ended(folder: Path, accelerator: str, duration_s: float) -> Ended:
    refusal = folder / "refusal"
    if refusal.exists():
        talk = tail((folder / "log").read_text(errors="replace"))
        raise TracekitError(f"in the guest: {refusal.read_text().strip()}\n{talk}")
    status = int((folder / "status").read_text())
    return Ended(folder, status, accelerator, duration_s)


def _kernel_words(job: Job) -> str:
    if not job.dax_mib:
        return ""
    if _emulated_mib(job):
        raise UsageError(
            "--pmem and a disk with a latency were both given",
            hint="an emulated disk lies in memory too: use one guest for each",
        )
    return f"memmap={job.dax_mib}M!{dax_start_mib(job.dax_mib, job.memory_mib)}M"


def _emulated_mib(job: Job) -> int:
    return sum(disk.mib for disk in job.disks if disk.latency_ns)


def _make_disks(job: Job, image: Image, work: Path) -> tuple[tuple[str, Path], ...]:
    """Make the guest's disks as sparse files; a file system is made for the scratch disk only."""
    make_input(job, work / "input.img")
    disks = [("lab-root", image.root), ("lab-input", work / "input.img")]
    sizes = {"lab-scratch": SCRATCH_BYTES, "lab-result": RESULT_BYTES}
    sizes |= {
        f"lab-disk{number}": disk.mib * MIB
        for number, disk in enumerate(job.disks)
        if not disk.latency_ns
    }
    for serial, size_bytes in sizes.items():
        path = work / f"{serial.removeprefix('lab-')}.img"
        with path.open("xb") as file:
            file.truncate(size_bytes)
        disks.append((serial, path))
    _format(work / "scratch.img")
    return tuple(disks)


def _format(path: Path) -> None:
    from tracekit.lab.packages import run_tool

    run_tool("mke2fs", "-q", "-t", "ext4", "-b", "4096", "-O", "^has_journal", str(path))
