"""What a capture changes in the kernel: written down first, restored whatever happens."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from tracekit.capture.tracefs import mount, read_setting
from tracekit.errors import TracekitError
from tracekit.helper_programs import run_helper
from tracekit.metadata import Record, read_object, validate
from tracekit.stack.mounts import read_mounts

DEBUGFS = Path("/sys/kernel/debug")
PATIENCE_S = 3.0
TRACER, OURS = "current_tracer", "blk"
# include/uapi/linux/fs.h
_BLKTRACESTART = 0x1274
_BLKTRACESTOP = 0x1275
_BLKTRACETEARDOWN = 0x1276


def mounted_debugfs() -> Path | None:
    """Return where debugfs is mounted, or None."""
    points = [Path(mount.point) for mount in read_mounts() if mount.filesystem == "debugfs"]
    return points[-1] if points else None


def unmount(point: str) -> None:
    """Take a mount away; one that another program uses by now is left to it."""
    run_helper(["umount", point], capture_output=True)


@contextmanager
def debugfs() -> Iterator[Path]:
    """Yield where debugfs is mounted; where it is not, mount it for that long."""
    if (folder := mounted_debugfs()) is not None:
        yield folder
        return
    is_ours = mount("debugfs", DEBUGFS)
    try:
        yield DEBUGFS
    finally:
        if is_ours:
            unmount(str(DEBUGFS))


@contextmanager
def opened(path: str | Path) -> Iterator[int]:
    """Yield a descriptor of a disk or a folder; opening a disk does not wait for a medium."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def tear_down(device: str) -> None:
    """End a trace of the device that no blktrace(8) is left to end.

    One that lives, also after a while, is somebody's own and is not touched.
    """
    end_s = time.monotonic() + PATIENCE_S
    while tracers(device):
        if time.monotonic() > end_s:
            return
        time.sleep(0.02)
    if not _is_traced(device):
        return
    with opened(device) as disk:
        end_trace(disk)


def begin_trace(device: str) -> None:
    """Let the trace run that blktrace(8) has set up; afterwards it runs, whoever was first."""
    with opened(device) as disk:
        _control(disk, _BLKTRACESTART)


def end_trace(disk: int) -> None:
    """Stop and remove the kernel's trace of an open disk, whether or not it runs."""
    for request in (_BLKTRACESTOP, _BLKTRACETEARDOWN):
        _control(disk, request)


def _control(disk: int, request: int) -> None:
    try:
        fcntl.ioctl(disk, request)
    except OSError as error:
        if error.errno != errno.EINVAL:  # it is in that state already
            raise


def held_by_probes(devices: list[str]) -> list[tuple[str, str]]:
    """Return what looking for a source holds in the kernel for a moment, as `LET_GO` knows it."""
    mount = [] if mounted_debugfs() else [("mount", str(DEBUGFS))]
    return mount + [("trace", device) for device in devices if not _is_traced(device)]


def _is_traced(device: str) -> bool:
    enable = Path("/sys/block") / Path(device).name / "trace/enable"
    return enable.read_text().strip() != "0"


def tracers(device: str) -> list[int]:
    """Return the processes of blktrace(8) that trace the device."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(os.fsdecode(words[0])).name == "blktrace" and os.fsencode(device) in words:
            found.append(int(path.parent.name))
    return found


class Leftover(Record):
    """The folder of a capture, by what it is and not by its name alone."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, folder: Path) -> Leftover:
        """Return what a folder is."""
        info = folder.lstat()
        return cls(path=str(folder.absolute()), device=info.st_dev, inode=info.st_ino)

    def folder(self) -> Path | None:
        """Return it if what has its name by now still is that very folder."""
        with suppress(OSError, ValueError):
            if Leftover.of(Path(self.path)) == self:
                return Path(self.path)
        return None


class KernelState(Record):
    """The content of state.json: what one capture changed and holds; only root writes it."""

    changed: list[tuple[str, str]]
    held: list[tuple[Literal["mount", "trace"], str]]
    leftover: Leftover | None


LET_GO: dict[str, Callable[[str], None]] = {"mount": unmount, "trace": tear_down}
"""How each sort of thing that is held is let go, by its name in the state file."""


STATE_FOLDER = Path("/run/tracekit")
SCRIPT_FOLDERS = [f"{place}/tracekit-remote.*" for place in ("run", "dev/shm", "tmp")]
"""Below the root: where the script of `capture --remote` keeps what it changed on this host."""


class Settings:
    """Kernel settings changed by one capture; `restore` gives them back in reverse order.

    Without a state file nothing may be changed, and nothing is written down.
    """

    def __init__(self, state: Path | None) -> None:
        self._state = state
        self._changed: list[tuple[Path, str]] = []
        self._held: list[tuple[str, str]] = []
        self._leftover: Leftover | None = None

    def leave(self, folder: Path) -> None:
        """Name the folder whose records are to be recovered if this process is killed."""
        self._leftover = Leftover.of(folder)
        self._write_state()

    def change(self, values: dict[Path, str]) -> None:
        """Set each path to its value, after the old values are safely in the state file."""
        self._changed += [(path, read_setting(path)) for path in values]
        self._write_state()
        for path, value in values.items():
            _write(path, value)

    def hold(self, kind: str, what: str) -> None:
        """Say what is about to be held in the kernel; `kind` is a name in LET_GO."""
        self._held.append((kind, what))
        self._write_state()

    @contextmanager
    def holding(self, *things: tuple[str, str]) -> Iterator[None]:
        """Say what another part holds for a while and lets go of, unless it is killed."""
        before = list(self._held)
        self._held += things
        self._write_state()
        try:
            yield
        finally:
            self._held = before
            self._write_state()

    def restore(self) -> None:
        """Give every changed setting back, let go of what is held, and drop the state file.

        Raise TracekitError naming each setting that could not be given back: the others are, and
        the next capture tries these again.
        """
        failed: list[tuple[Path, str]] = []
        complaints = []
        while self._changed:
            path, value = self._changed.pop()
            try:
                if path.name != TRACER or read_setting(path) in (value, OURS):
                    _write(path, value)  # one that somebody else took meanwhile is theirs
            except FileNotFoundError:
                continue  # the device went away, and its settings with it
            except TracekitError as error:
                failed.insert(0, (path, value))
                complaints.append(str(error))
        while self._held:
            kind, what = self._held.pop()
            with suppress(FileNotFoundError):
                LET_GO[kind](what)
        if failed:
            self._changed = failed
            self._write_state()
            raise TracekitError("; ".join(complaints), hint="the next capture tries it again")
        if self._state is not None:
            self._state.unlink(missing_ok=True)

    def _write_state(self) -> None:
        if self._state is None:
            if self._changed or self._held:
                raise ValueError("a capture without the lock changes nothing in the kernel")
            return
        state = {
            "changed": [(str(path), value) for path, value in self._changed],
            "held": self._held,
            "leftover": self._leftover,
        }
        part = self._state.with_suffix(".part")
        _write_own(part, msgspec.json.encode(state).decode())
        part.replace(self._state)

    @classmethod
    def of_dead_capture(cls, state: Path) -> Settings | None:
        """Return what a killed capture left changed, or None; InputError where that is torn."""
        if not state.exists():
            return None
        settings = cls(state)
        hint = "look at the settings of the tracer"
        found = validate(read_object(state, hint=hint), KernelState, file=state, hint=hint)
        settings._changed = [(Path(path), value) for path, value in found.changed]
        settings._held = list(found.held)
        settings._leftover = found.leftover
        return settings

    def take_over(self, script: Path) -> None:
        """Take what a script in this folder changed before it was killed: `saved` names it."""
        saved = script / "saved"
        lines = saved.read_text().splitlines(keepends=True) if saved.exists() else []
        # Each is written before the setting is changed, so one in mid-line was not changed yet.
        pairs = (line.split() for line in lines if line.endswith("\n"))
        self._changed += [(Path(path), value) for path, value in pairs]

    @property
    def left(self) -> Path | None:
        """The folder of a killed capture, where it still is what it was."""
        return self._leftover.folder() if self._leftover else None

    @property
    def shown(self) -> list[str]:
        """What is changed and held, in words."""
        changed = [f"{path.parent.name}/{path.name}" for path, _ in self._changed]
        return [*changed, *(f"{kind} {what}" for kind, what in self._held)]


def dead_scripts() -> list[Path]:
    """Return the folders of scripts of `capture --remote` that were killed on this host."""
    found = [one for pattern in SCRIPT_FOLDERS for one in Path("/").glob(pattern)]
    return [one for one in found if _is_own(one) and not _is_owner_alive(one)]


def _is_own(folder: Path) -> bool:
    info = folder.lstat()
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()


def _is_owner_alive(folder: Path) -> bool:
    """Whether the process that made the folder runs, and not a later one of its number."""
    try:
        pid, began = (folder / "owner").read_text().split()
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return False
    return status[0] != "Z" and status[19] == began


def _write(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TracekitError(f"{path}: cannot be set to {value}: {error.strerror}") from None


def _make_own(folder: Path) -> None:
    """Make the folder of the state, which root alone may enter; it is no link to another."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    foreign = TracekitError(f"{folder} is not a folder of this user alone", hint="remove it")
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise foreign from None
    try:
        found = os.fstat(descriptor)
        # Somebody else could have written there what is restored.
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise foreign
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _write_own(path: Path, text: str) -> None:
    """Write a file of the state; a link in its place is not followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        file.write(text)


class TracerInUseError(TracekitError):
    """Another capture with the kernel's tracer is running."""


@contextmanager
def tracer_lock(tracefs: Path, state_folder: Path) -> Iterator[Path]:
    """Hold the capture lock; yield the file for the state of this capture, or of a killed one.

    The lock is on tracefs itself, which all containers of a kernel share as they share its tracer.
    Raise TracekitError when another capture runs.
    """
    _make_own(state_folder)
    holder = state_folder / "pid"
    with opened(tracefs) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = f" (pid {holder.read_text()})" if holder.exists() else ""
            raise TracerInUseError(
                f"another capture is running{pid}",
                hint="the kernel's tracer is one for the whole machine: wait for it, or stop it, or"
                " give --source bpf, which goes without",
            ) from None
        _write_own(holder, str(os.getpid()))
        try:
            yield state_folder / "state.json"
        finally:
            holder.unlink(missing_ok=True)
