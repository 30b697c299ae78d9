"""What a capture keeps until its files are written: the folder NAME.unfinished.

Whatever ends the capture, the folder stays until its content has its place: `finish` writes that,
now or in another process. A list names the folders of this machine, also after it was booted again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import to_builtins

from tracekit.capture.recording import (
    CaptureFiles,
    CaptureFolder,
    NothingRecordedError,
    closed_to_others,
)
from tracekit.durable import folder_for
from tracekit.errors import PartialError, TracekitError, UsageError, foreign_error, named_for
from tracekit.layout import CaptureSummary
from tracekit.machine_state import boot_id
from tracekit.metadata import Record, read_object, validate
from tracekit.stack.file_map import MAP_NAME
from tracekit.store import left_behind, new_folder, write_json

SUFFIX = ".unfinished"
MANIFEST = "capture.json"
RAW_NAME, START_NAME, LOG_NAME = "calls.raw", "start.json", "source.log"
"""Of file operations: what a source writes, what was known before, and what its program says."""
OF_FILES = (RAW_NAME, START_NAME, LOG_NAME)
FILES_MANIFEST = "file-capture.json"
"""Of file operations: versions that do not know these leave the folder as it is."""
INDEX = Path("/var/lib/tracekit/unfinished")
RESERVE_BYTES = 16 << 20
RESERVE_PART = 16


class FileWork(Record, kw_only=True):
    """What a capture of file operations was asked for, and what was measured before it."""

    below: str | None
    hashes_names: bool
    untraced_ns: int | None
    cost: tuple[int, int] | None
    """Nanoseconds that a call takes longer, and that its duration looks longer."""


class Manifest(Record, kw_only=True):
    """What is to be known to write the files, but for the records."""

    output: str
    """Name of the capture's folder, beside this one."""
    pid: int
    boot_id: str
    began_ns: int
    """Unix time."""
    compress: str = "none"
    disks: list[str]
    """Names below /sys/block."""
    layout: dict[str, Any]
    summary: CaptureSummary
    cgroups: dict[str, str] = msgspec.field(default_factory=dict)
    """Paths of control groups when it began, by the kernel's id."""
    names_s: float = 0.0
    """How long to look at the files on the disks, before and after."""
    recorded: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the source itself has to know of its records."""
    files: FileWork | None = None
    """Of a capture of file operations, which has no disks."""

    @property
    def is_of_this_boot(self) -> bool:
        """Whether the kernel still is the one that recorded."""
        return self.boot_id == boot_id()

    def save_in(self, folder: Path) -> None:
        """Write it into its folder, or replace it there."""
        write_json(folder / (FILES_MANIFEST if self.files else MANIFEST), to_builtins(self))


def manifest_in(folder: Path) -> Path | None:
    """Return the manifest in a folder, or None."""
    files = (folder / name for name in (MANIFEST, FILES_MANIFEST))
    return next((file for file in files if file.is_file()), None)


class InUseError(UsageError):
    """Another process works on the folder."""


class Written(Protocol):
    """What a source recorded."""

    def write(self, folder: CaptureFolder) -> CaptureFiles:
        """Write it into a folder."""


class Unfinished:
    """The folder, which this process has locked."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self._lock = path, lock

    def save(self, manifest: Manifest) -> None:
        """Write or replace the manifest."""
        manifest.save_in(self.path)

    def read(self) -> Manifest:
        """Return the manifest; raise InputError where it is damaged."""
        hint = "the raw records beside it are what the kernel wrote"
        file = manifest_in(self.path) or self.path / MANIFEST
        return validate(read_object(file, hint=hint), Manifest, file=file, hint=hint)

    def forget(self) -> None:
        """Nothing was recorded: without a manifest the folder goes."""
        if file := manifest_in(self.path):
            file.unlink()

    def close(self) -> None:
        """Let others have it."""
        os.close(self._lock)

    def remove(self) -> None:
        """Delete it: what it held has its place, or there is nothing in it."""
        with suppress(OSError):  # first, so that a kill leaves nothing to be finished twice
            self.forget()
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            _change_index(lambda paths: [path for path in paths if path != self.path])

    def finish(self, recorded: Written, manifest: Manifest, *, output: Path) -> CaptureFiles:
        """Write the capture's files into the new folder `output`, and remove this one.

        Raise PartialError where that fails: then this folder stays, and can be finished later.
        """
        with self.kept(), named_for(output), new_folder(output) as part, closed_to_others(part):
            folder = CaptureFolder(
                part,
                output.name,
                manifest.layout,
                manifest.summary,
                manifest.compress,
                manifest.pid,
                manifest.cgroups,
            )
            kept = recorded.write(folder)
            if (self.path / MAP_NAME).exists():
                shutil.copyfile(self.path / MAP_NAME, part / MAP_NAME)
        self.remove()
        return kept

    def _check_there(self) -> None:
        """Raise TracekitError where somebody removed the folder, and what was in it."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._lock), self.path.stat()):
                return
        with suppress(OSError):
            self.forget()
        raise TracekitError(
            f"{self.path} was removed during the capture, and what was recorded with it",
            hint="capture again, and leave that folder until the capture has ended",
        )

    @contextmanager
    def kept(self, exit_code: int = 0) -> Iterator[None]:
        """Keep the folder where the block cannot write its files, unless nothing was recorded.

        Raise PartialError then; `exit_code` is that of the command.
        """
        self._check_there()
        try:
            yield
        except NothingRecordedError:
            self.forget()
            raise
        except (OSError, TracekitError) as error:
            why = error if isinstance(error, TracekitError) else foreign_error(error)
            raise PartialError(
                f"{why}; all that was recorded is kept in {self.path}",
                hint=f"free some space, then: tracekit capture --recover {self.path}, or with -o"
                " NAME on another disk",
                exit_code=exit_code or PartialError.exit_code,
            ) from None


def name_for(output: Path) -> Path:
    """Return where a capture keeps its records until it is finished."""
    return output.absolute().with_name(output.name + SUFFIX)


@contextmanager
def new_unfinished(output: Path) -> Iterator[Unfinished]:
    """Make the folder for a capture; without a manifest it is removed when the block ends."""
    path = name_for(output)
    with folder_for(path):
        try:
            path.mkdir(mode=stat.S_IRWXU)
        except FileExistsError:
            raise UsageError(
                f"{path} exists already: a capture that runs, or that was killed",
                hint=f"tracekit capture --recover {path}, or choose another --output",
            ) from None
        with suppress(OSError):  # a machine without such a folder knows them by their names alone
            add_to_index(path)
        found = _locked(path)
        try:
            yield found
        finally:
            if manifest_in(path) is None:
                found.remove()
            found.close()


def remove_blank(path: Path) -> bool:
    """Remove a folder that was killed before it had a manifest, or after; False for others."""
    if not path.is_dir() or manifest_in(path):
        return False
    found = _locked(path)
    try:
        for part in (*left_behind(path / FILES_MANIFEST), *(path / name for name in OF_FILES)):
            part.unlink(missing_ok=True)
        path.rmdir()
    except OSError:
        return False  # somebody else's
    finally:
        found.close()
    return True


@contextmanager
def opened_unfinished(path: Path) -> Iterator[Unfinished]:
    """Open the folder of a capture that ended somehow; raise UsageError where it is none."""
    path = path.absolute()
    if manifest_in(path) is None:
        raise UsageError(f"{path} holds no unfinished capture", hint="give a NAME.unfinished")
    info = path.lstat()
    if info.st_uid != os.geteuid() or not stat.S_ISDIR(info.st_mode):
        raise TracekitError(f"{path} is not a folder of this user", hint="recover it as its owner")
    found = _locked(path)
    try:
        yield found
    except NothingRecordedError:
        found.remove()
        raise
    finally:
        found.close()


def _locked(path: Path) -> Unfinished:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        raise InUseError(f"{path} is in use", hint="wait until its capture has ended") from None
    except OSError:
        pass  # a file system without locks
    return Unfinished(path, number)


def listed() -> list[Path]:
    """Return the folders that captures on this machine made, the oldest first."""
    try:
        return [Path(line) for line in INDEX.read_text().splitlines() if line]
    except OSError:
        return []


def left_over() -> list[tuple[Path, Manifest]]:
    """Return those that no process works on."""
    found = []
    for path in listed():
        with suppress(OSError, TracekitError), opened_unfinished(path) as one:
            found.append((path, one.read()))
    return found


def in_use() -> list[Path]:
    """Return those that a process works on, also of other users as far as this one sees them."""
    found = []
    for path in listed():
        try:
            with suppress(OSError):
                if manifest_in(path) is not None:
                    _locked(path).close()
        except InUseError:
            found.append(path)
    return found


def add_to_index(path: Path) -> None:
    """Note a folder for `listed`; raise OSError where this machine has no place for that."""
    _change_index(lambda paths: [*(one for one in paths if one.exists()), path])


def _change_index(change: Callable[[list[Path]], list[Path]]) -> None:
    INDEX.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = os.open(INDEX.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        part = INDEX.with_suffix(f".{os.getpid()}")
        part.write_text("".join(f"{path}\n" for path in change(listed())))
        part.replace(INDEX)
    finally:
        os.close(lock)


def free_name(output: Path, *, taken: Path | None = None) -> Path:
    """Return the name, or the first of NAME-2 and so on that is free and not `taken`."""
    names = [output, *(output.with_name(f"{output.name}-{number}") for number in range(2, 1000))]
    return next(one for one in names if not one.exists() and one.absolute() != taken)


def space_check(folder: Path, copies: float) -> Callable[[int], None]:
    """Return what raises TracekitError when a disk has no space left to write the files, too.

    It is called with the bytes recorded so far, of which the files take `copies` times as many. A
    reserve stays free: whoever else writes to that disk goes on.
    """
    disk = os.statvfs(folder)
    reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // RESERVE_PART)

    def check(recorded_bytes: int) -> None:
        found = os.statvfs(folder)
        if found.f_bavail * found.f_frsize < recorded_bytes * copies + reserve:
            raise TracekitError(
                f"the file system of {folder.parent} is nearly full",
                hint="free some space, choose an --output elsewhere, or give --max-size",
            )

    return check
