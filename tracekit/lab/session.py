"""One guest from start to end: its disks, its run, and its results."""

from __future__ import annotations

import re
import shlex
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tracekit._native import PROGRAM, program_path
from tracekit.capture.recording import CaptureFiles, CaptureFolder, write_relayed
from tracekit.errors import TracekitError, UsageError
from tracekit.lab import machine
from tracekit.lab.image import GUEST, Image, build, cache_folder, make_file_system, run_tool
from tracekit.lab.machine import Disk, Machine, NvmeDisk
from tracekit.layout import CaptureSummary
from tracekit.metadata import read_object
from tracekit.store import scratch_folder
from tracekit.units import MIB

PACKAGE = Path(__file__).resolve().parents[1]
LAYOUT_MODULES = (
    *("errors.py", "escapes.py", "helper_programs.py", "units.py"),
    *("capture/layout.py", "capture/tracefs.py", "_native/file_places.py"),
    *(f"stack/{path.name}" for path in sorted((PACKAGE / "stack").glob("[!_]*.py"))),
)
"""What the guest needs to describe its disks as `tracekit capture` does; it has no packages."""
LIBRARY = re.compile(r"(/\S+) \(0x")


@dataclass(frozen=True)
class Job:
    """One run of a guest."""

    command: tuple[str, ...]
    disks: tuple[Disk, ...] = ()
    nvme: tuple[NvmeDisk, ...] = ()
    dax_mib: int = 0
    memory_mib: int = 1024
    cpus: int = 2
    share: Path | None = None
    """Folder whose copy the command finds in $LAB_SHARE."""
    prepare: str = ""
    """Shell text that runs before the disks are mounted anew and a trace begins."""
    limit_bytes: int = 0
    """Memory of the command with its page cache; 0: no limit."""
    mount_options: str = ""
    timeout_s: int = 600
    packages: tuple[str, ...] = ()
    is_exact: bool = False
    is_traced: bool = False
    buffer_kib: int = 1024
    """Of each of blktrace's eight buffers a CPU."""

    def check(self) -> None:
        """Raise UsageError for a job that no guest can do."""
        if self.is_traced and not self.disks:
            raise UsageError("there is no disk to trace", hint="add for example --disk fs=1GiB")
        if self.share is not None and not self.share.is_dir():
            raise UsageError(f"--share: {self.share} is not a folder")


def make_input(job: Job, image: Path) -> None:
    """Make the disk from which the guest learns its job."""
    tree = image.with_suffix("")
    tree.mkdir()
    shutil.copytree(GUEST, tree / "guest", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "guest/main").chmod(0o755)
    copy_layout_modules(tree / "host")
    if job.share is None:
        (tree / "share").mkdir()
    else:
        shutil.copytree(job.share, tree / "share", symlinks=True)
    _add_replayer(tree)
    (tree / "job").write_text(_variables(job))
    command = f"exec timeout --kill-after=10 {job.timeout_s} {shlex.join(job.command)}\n"
    (tree / "command").write_text(command)
    numbered = list(enumerate(job.disks))
    (tree / "disks").write_text(
        "".join(f"{n} {disk.latency_ns} {disk.mib} {disk.depth}\n" for n, disk in numbered)
    )
    parts = [(number, part) for number, disk in numbered for part in disk.parts]
    (tree / "parts").write_text("".join(f"{n} {part.role} {part.mib}\n" for n, part in parts))
    make_file_system(image, tree, spare_bytes=8 << 20)
    shutil.rmtree(tree)


def copy_layout_modules(folder: Path) -> None:
    """Copy what describes disks to where a Python without packages finds it."""
    for name in LAYOUT_MODULES:
        target = folder / "tracekit" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, target)
        (target.parent / "__init__.py").touch()


def _variables(job: Job) -> str:
    values = {
        "LAB_TRACE": "1" if job.is_traced else "",
        "LAB_HAS_DAX": "1" if job.dax_mib else "",
        "LAB_EXACT": "1" if job.is_exact else "",
        "LAB_PREPARE": job.prepare,
        "LAB_LIMIT_BYTES": str(job.limit_bytes),
        "LAB_MOUNT": job.mount_options,
        "LAB_BUFFER_KIB": str(job.buffer_kib),
    }
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def _add_replayer(tree: Path) -> None:
    """Add the replay program with this machine's libraries, whatever the guest's own are."""
    native = tree / "native"
    native.mkdir()
    (tree / "bin").mkdir()
    program = program_path()
    shutil.copy(program, native / PROGRAM)
    start = f"/lab/native/{PROGRAM}"
    for library in LIBRARY.findall(run_tool("ldd", str(program))):
        shutil.copy(library, native)
        if Path(library).name.startswith("ld-"):
            start = f"/lab/native/{Path(library).name} --library-path /lab/native {start}"
    wrapper = tree / "bin" / PROGRAM
    wrapper.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
    wrapper.chmod(0o755)


def unpack_result(disk: Path, folder: Path) -> None:
    """Unpack files and folders of the archive below the new `folder`.

    The archive is not trusted: links and devices are left out, a name that leads elsewhere is
    rejected. Raise TracekitError when the archive is damaged.
    """
    folder.mkdir()
    try:
        with tarfile.open(disk, "r:") as archive:
            for member in archive:
                _take(archive, member, folder)
    except tarfile.TarError as error:
        raise TracekitError(f"the guest's archive cannot be read: {error}") from None


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise TracekitError(f"the guest's archive has a file named {member.name!r}")
    target = folder / name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.isfile():
        source = archive.extractfile(member)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source is not None:
            with source, target.open("wb") as file:
                shutil.copyfileobj(source, file)


SCRATCH_BYTES = 64 << 30
RESULT_BYTES = 16 << 30
BOOT_LIMIT_S = 300.0
DONE = "done"


@dataclass(frozen=True)
class Ended:
    """The results of a guest, in a folder that is gone when the session ends."""

    folder: Path
    """stdout, stderr, log, files/, trace/, layout.json, blktrace.log; console.log of the guest."""
    exit_status: int
    """Of the command."""
    accelerator: str
    duration_s: float
    """From the start of QEMU to its end."""
    command_ns: int
    """From the command's start to its end, by the guest's clock."""


@contextmanager
def session(job: Job, *, on_step: Callable[[str], None]) -> Iterator[Ended]:
    """Build what is missing, boot a guest, let it do the job, and yield its results.

    Raise UsageError for an impossible job, TracekitError when the guest could not do it.
    """
    job.check()
    words = _kernel_words(job)
    image = build(job.packages, on_step=on_step)
    accelerator = machine.choose_accelerator(image, is_exact=job.is_exact)
    on_step(f"running in a guest ({accelerator})")
    with scratch_folder(cache_folder() / "run") as work:
        guest = Machine(
            image,
            accelerator,
            memory_mib=job.memory_mib + job.dax_mib + _emulated_mib(job),
            cpus=1 if job.is_exact else job.cpus,
            disks=_make_disks(job, image, work),
            nvme=_make_nvme(job, work),
            kernel_words=words,
        )
        started_s = time.monotonic()
        limit_s = BOOT_LIMIT_S + 1.2 * job.timeout_s
        console = machine.start(guest, work / "console.log", limit_s=limit_s)
        duration_s = time.monotonic() - started_s
        if DONE not in machine.said_lines(console):
            end = machine.tail(console)
            raise TracekitError("the guest ended without a result; its console ended with:", *end)
        unpack_result(work / "result.img", work / "result")
        (work / "console.log").rename(work / "result/console.log")
        yield _ended(work / "result", accelerator, duration_s)


def _ended(folder: Path, accelerator: str, duration_s: float) -> Ended:
    refusal = folder / "refusal"
    if refusal.exists():
        talk = machine.tail((folder / "log").read_text(errors="replace"))
        raise TracekitError(f"in the guest: {refusal.read_text().strip()}", *talk)
    status = int((folder / "status").read_text())
    command_ns = int((folder / "elapsed").read_text())
    return Ended(folder, status, accelerator, duration_s, command_ns)


def _kernel_words(job: Job) -> str:
    if not job.dax_mib:
        return ""
    if _emulated_mib(job):
        raise UsageError(
            "--pmem and a disk with a latency were both given",
            hint="an emulated disk lies in memory too: use one guest for each",
        )
    return f"memmap={job.dax_mib}M!{machine.dax_start_mib(job.dax_mib, job.memory_mib)}M"


EMULATED_MIB = 2048
SPARSE_RATIO = 16


def _emulated_mib(job: Job) -> int:
    """Return the memory that emulated disks need: large ones are sparse."""
    sizes = [disk.mib for disk in job.disks if disk.latency_ns]
    return sum(min(mib, max(EMULATED_MIB, mib // SPARSE_RATIO)) for mib in sizes)


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
    how = ("-q", "-t", "ext4", "-b", "4096", "-O", "^has_journal")
    run_tool("mke2fs", *how, str(work / "scratch.img"))
    return tuple(disks)


def _make_nvme(job: Job, work: Path) -> tuple[tuple[NvmeDisk, Path], ...]:
    """Make the NVMe disks as sparse files."""
    made = [(disk, work / f"nvme{number}.img") for number, disk in enumerate(job.nvme)]
    for disk, path in made:
        with path.open("xb") as file:
            file.truncate(disk.mib * MIB)
    return tuple(made)


DROPPED = re.compile(r"Total:\s+\d+ events \(dropped (\d+)\)")


def collect(ended: Ended, job: Job, *, folder: Path, name: str, compress: str) -> CaptureFiles:
    """Write the guest's trace and layout into `folder`.

    The files are NAME.blktrace.CPU, for several disks NAME-DISK.blktrace.CPU, and layout.json.
    """
    relay = ended.folder / "trace"
    log = (ended.folder / "blktrace.log").read_text(errors="replace")
    totals = [int(lost) for lost in DROPPED.findall(log)]
    devices = {path.name.partition(".blktrace.")[0] for path in relay.glob("*.blktrace.*")}
    if not devices or len(totals) != len(devices):
        message = "blktrace left no whole trace in the guest:"
        raise TracekitError(message, *log.strip().split("\n"))
    layout = read_object(ended.folder / "layout.json", hint="run it again")
    summary = CaptureSummary(
        source="lab-blktrace", command=list(job.command), lab=_settings(ended, job)
    )
    target = CaptureFolder(folder, name, layout, summary, compress)
    own = [int(pid) for pid in (ended.folder / "tracer").read_text().split()]
    return target.finish(write_relayed(relay, target, own=own, dropped=totals), is_live=False)


def _settings(ended: Ended, job: Job) -> dict[str, Any]:
    """Return what layout.json keeps of the guest."""
    latencies = {part.role: part.latency_ns for disk in job.disks for part in disk.parts}
    return {
        "accelerator": ended.accelerator,
        "memory_mib": job.memory_mib,
        "limit_bytes": job.limit_bytes,
        "prepare": job.prepare,
        "mount_options": job.mount_options,
        "packages": list(job.packages),
        "latency_ns": latencies,
    }
