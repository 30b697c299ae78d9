"""Machine-wide settings that a capture changes: written down first, given back whatever happens.

The old values stand in a state file before a setting is touched. So a capture that was killed
leaves a list from which the next one repairs the machine. A lock on a file beside it allows one
capture at a time; the kernel drops the lock when its holder dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tracekit.capture.tracefs import read_setting
from tracekit.errors import TracekitError

STATE_FOLDER = Path("/run/tracekit")


class Settings:
    """Kernel settings changed by one capture; `restore` gives them back in reverse order."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._changed: list[tuple[Path, str]] = []
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

    def restore(self) -> None:
        """Give every changed setting back and drop the state file.

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
        if failed:
            self._changed = failed
            self._write_state()
            raise TracekitError("; ".join(complaints), hint="the next capture tries it again")
        self._state.unlink(missing_ok=True)

    def _write_state(self) -> None:
        state = {
            "changed": [[str(path), value] for path, value in self._changed],
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
def only_capture(folder: Path = STATE_FOLDER) -> Iterator[tuple[Settings, bool]]:
    """Hold the capture lock; yield fresh settings, and whether a killed capture was cleaned up.

    Raise TracekitError when another capture runs. The settings are given back on leaving.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as lock:
        _take(lock)
        state = folder / "state.json"
        dead = Settings.of_dead_capture(state)
        if dead is not None:
            dead.restore()
            dead.remove_leftover()
        settings = Settings(state)
        try:
            yield settings, dead is not None
        finally:
            settings.restore()


def _take(lock: IO[str]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise TracekitError(
            f"another capture is running (pid {lock.read().strip()})",
            hint="the kernel's tracer is one for the whole machine: wait for it, or stop it",
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
