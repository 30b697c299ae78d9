"""Machine-wide settings that a capture changes: written down first, given back whatever happens.

The old values stand in a state file before a setting is touched. So a capture that was killed
leaves a list from which the next one repairs the machine. A lock allows one capture at a time; the
kernel drops it when its holder dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tracekit.capture.held import LET_GO
from tracekit.capture.tracefs import read_setting
from tracekit.errors import TracekitError

STATE_FOLDER = Path("/run/tracekit")


class Settings:
    """Kernel settings changed by one capture; `restore` gives them back in reverse order."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._changed: list[tuple[Path, str]] = []
        self._held: list[tuple[str, str]] = []
        self._leftover: Path | None = None

    def leave(self, folder: Path) -> None:
        """Name a folder that is to be deleted if this process is killed."""
        self._leftover = folder
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
                _write(path, value)
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
        self._state.unlink(missing_ok=True)

    def _write_state(self) -> None:
        state = {
            "changed": [[str(path), value] for path, value in self._changed],
            "held": self._held,
            "leftover": str(self._leftover) if self._leftover else None,
        }
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(state))
        part.replace(self._state)

    @classmethod
    def of_dead_capture(cls, state: Path) -> Settings | None:
        """Return what a killed capture left changed, or None."""
        if not state.exists():
            return None
        settings = cls(state)
        found = json.loads(state.read_text())
        settings._changed = [(Path(path), value) for path, value in found["changed"]]
        settings._held = [(kind, what) for kind, what in found["held"]]
        settings._leftover = Path(found["leftover"]) if found["leftover"] else None
        return settings

    def remove_leftover(self) -> None:
        """Delete the half-written folder of a killed capture."""
        if self._leftover is not None:
            shutil.rmtree(self._leftover, ignore_errors=True)


def _write(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TracekitError(f"{path}: cannot be set to {value}: {error.strerror}") from None


@contextmanager
def only_capture(tracefs: Path, state_folder: Path) -> Iterator[tuple[Settings, list[str]]]:
    """Hold the capture lock; yield fresh settings, and what was done about a killed capture.

    The lock is on tracefs itself, which all containers of a kernel share as they share its tracer.
    Raise TracekitError when another capture runs. The settings are given back on leaving.
    """
    state_folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    holder = state_folder / "pid"
    with _locked(tracefs, holder):
        holder.write_text(str(os.getpid()))
        state = state_folder / "state.json"
        notes = _clean_up(state)
        settings = Settings(state)
        try:
            yield settings, notes
        finally:
            holder.unlink(missing_ok=True)
            settings.restore()


@contextmanager
def _locked(path: Path, holder: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _take(lock, holder)
        yield
    finally:
        os.close(lock)


def _take(lock: int, holder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = f" (pid {holder.read_text()})" if holder.exists() else ""
        raise TracekitError(
            f"another capture is running{pid}",
            hint="the kernel's tracer is one for the whole machine: wait for it, or stop it",
        ) from None


def _clean_up(state: Path) -> list[str]:
    """Give back what a killed capture left changed; return what there is to say about it."""
    dead = Settings.of_dead_capture(state)
    if dead is None:
        return []
    notes = ["gave back the kernel settings of a capture that was killed"]
    try:
        dead.restore()
    except TracekitError as error:
        # It was tried twice by now: what the kernel does not take must not stop every capture.
        notes.append(f"except these, set them by hand: {error}")
        state.unlink()
    dead.remove_leftover()
    return notes
