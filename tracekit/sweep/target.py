"""Where a sweep runs: directories, and file systems in guests of the VM lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracekit.errors import UsageError
from tracekit.lab.disks import MIB, Disk, dax_start_mib, parse_disks
from tracekit.plan.files import MOST_LINE_NS, Medium
from tracekit.sizes import parse_duration, parse_size
from tracekit.sweep.medium import file_system, is_dax, is_memory

LAB = "lab:"
MEMORY = "memory:"
MEMORY_HINT = "memory:/dev/shm/NAME, or memory:/dev/shm/NAME:100ns:450ns with times of 64 bytes"
LAB_HINT = "lab:dax=1GiB, lab:pmem=1GiB, lab:fs=1GiB or lab:fs=1GiB:5ms:1"
MEMORY_MIB = 1024
"""Of a guest, the page cache of its file system included."""


@dataclass(frozen=True)
class Guest:
    """A guest with one ext4: on a disk, or on persistent memory with or without DAX."""

    disk: Disk | None
    memory_mib: int
    """Of persistent memory; 0 when it is a disk."""
    is_dax: bool
    is_exact: bool
    medium: Medium | None = field(default=None, repr=False)
    """What slower memory adds to reads and writes by DAX. Not in `repr`, which names runs."""


@dataclass(frozen=True)
class Memory:
    """A directory of this machine's memory: of real DAX, or standing for it."""

    stands_for_dax: bool
    medium: Medium | None = None


@dataclass(frozen=True)
class Target:
    """A directory and the name that it has in tables; with a guest, a directory in there."""

    name: str
    directory: Path
    guest: Guest | None = None
    memory: Memory | None = None
    """That its files are, as persistent memory is used by DAX."""

    @property
    def is_dax(self) -> bool:
        """Say whether its files are persistent memory itself, without the page cache."""
        if self.guest:
            return self.guest.is_dax
        return self.memory is not None or is_dax(self.directory)

    @property
    def medium(self) -> Medium | None:
        """Return what slower memory adds to reads and writes; None: nothing."""
        of = self.guest or self.memory
        return of.medium if of else None


def split_targets(texts: Sequence[str], *, is_exact: bool = False) -> tuple[Target, ...]:
    """Return the targets of [NAME=]DIRECTORY or [NAME=]lab:KIND=SIZE; `is_exact`: of guests.

    Raise UsageError for two of a name, and for what is no target.
    """
    found = tuple(_target(text, is_exact=is_exact) for text in texts)
    if len({target.name for target in found}) < len(found):
        raise UsageError("--target: two targets have the same name", hint="NAME=DIRECTORY")
    if is_exact and not any(target.guest for target in found):
        raise UsageError("--exact: no target is in the lab", hint=LAB_HINT)
    return found


def _target(text: str, *, is_exact: bool) -> Target:
    name, equals, path = text.partition("=")
    if not equals or "/" in name or name.startswith((LAB, MEMORY)):
        name, path = text, text
    if not name or not name.isprintable():
        raise UsageError(f"--target {text}: a target needs a name", hint="NAME=DIRECTORY")
    if path.startswith(LAB):
        return Target(name, Path(path), _guest(path.removeprefix(LAB), is_exact=is_exact))
    if path.startswith(MEMORY):
        return _memory_target(name, path.removeprefix(MEMORY), text)
    return Target(name, _directory(Path(path), text))


def _directory(directory: Path, text: str) -> Path:
    if not directory.is_dir():
        reason = "is no directory" if directory.exists() else "does not exist"
        raise UsageError(
            f"--target {text}: {directory} {reason}",
            hint=f"make it (mkdir -p), name another one, or a file system of a guest: {LAB_HINT}",
        )
    return directory


def _memory_target(name: str, path: str, text: str) -> Target:
    delays: list[str] = []
    if not Path(path).is_dir():
        path, *delays = path.rsplit(":", 2)
    directory = _directory(Path(path), text)
    if len(delays) == 1:
        raise UsageError(f"--target {text}: two times are needed", hint=MEMORY_HINT)
    has_dax = is_dax(directory)
    if not (has_dax or is_memory(directory)):
        raise UsageError(
            f"--target {text}: {directory} is on {file_system(directory)}, which is no memory",
            hint=MEMORY_HINT,
        )
    return Target(name, directory, memory=Memory(not has_dax, _medium(delays)))


def _guest(text: str, *, is_exact: bool) -> Guest:
    kind, _, size = text.partition("=")
    if kind == "fs":
        return Guest(_disk(text), 0, is_dax=False, is_exact=is_exact)
    if kind not in ("dax", "pmem"):
        raise UsageError(f"--target {LAB}{text}: there is no such thing", hint=LAB_HINT)
    size, *delays = size.split(":")
    if delays and (kind != "dax" or len(delays) != 2):
        raise UsageError(
            f"--target {LAB}{text}: only DAX has times, of reading and of writing 64 bytes",
            hint="lab:dax=1GiB:100ns:450ns adds them to those of the guest's memory",
        )
    memory_mib = parse_size(size, option="--target") // MIB
    if memory_mib < 1:
        raise UsageError(f"--target {LAB}{text}: less than a MiB", hint=LAB_HINT)
    dax_start_mib(memory_mib, MEMORY_MIB)
    medium = _medium(delays)
    return Guest(None, memory_mib, is_dax=kind == "dax", is_exact=is_exact, medium=medium)


def _medium(delays: Sequence[str]) -> Medium | None:
    return Medium(*map(_line_ns, delays)) if delays else None


def _line_ns(text: str) -> int:
    line_ns = parse_duration(text, option="--target")
    if line_ns > MOST_LINE_NS:
        raise UsageError(f"--target: {text} for 64 bytes is more than a millisecond")
    return line_ns


def _disk(text: str) -> Disk:
    try:
        return parse_disks([text])[0]
    except UsageError as error:
        reason = str(error).removeprefix("--disk: ")
        raise UsageError(f"--target {LAB}{text}: {reason}", hint=error.hint or LAB_HINT) from None
