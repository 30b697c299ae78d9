"""What a guest is to do, and the disk that tells it: scripts, command, shared files, replayers."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import UsageError
from tracekit.lab.build import GUEST, make_file_system
from tracekit.lab.disks import Disk
from tracekit.lab.packages import run_tool
from tracekit.native import FILE_PROGRAM, PROGRAM, program_path

PACKAGE = Path(__file__).resolve().parents[1]
LAYOUT_MODULES = (
    *("__init__.py", "errors.py"),
    *(f"capture/{name}.py" for name in ("__init__", "layout", "mounts", "signatures", "tracefs")),
)
"""What the guest needs to describe its disks as `tracekit capture` does."""
LIBRARY = re.compile(r"(/\S+) \(0x")


@dataclass(frozen=True)
class Job:
    """One run of a guest."""

    command: tuple[str, ...]
    disks: tuple[Disk, ...] = ()
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
    for name in LAYOUT_MODULES:
        target = tree / "host/tracekit" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, target)
    if job.share is None:
        (tree / "share").mkdir()
    else:
        shutil.copytree(job.share, tree / "share", symlinks=True)
    _add_replayers(tree)
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


def _add_replayers(tree: Path) -> None:
    """Add the replay programs with this machine's libraries, whatever the guest's own are."""
    native = tree / "native"
    native.mkdir()
    (tree / "bin").mkdir()
    for name in (PROGRAM, FILE_PROGRAM):
        program = program_path(name)
        shutil.copy(program, native / name)
        start = f"/lab/native/{name}"
        for library in LIBRARY.findall(run_tool("ldd", str(program))):
            shutil.copy(library, native)
            if Path(library).name.startswith("ld-"):
                start = f"/lab/native/{Path(library).name} --library-path /lab/native {start}"
        wrapper = tree / "bin" / name
        wrapper.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
        wrapper.chmod(0o755)
