"""The file that a measurement made, as the user's own state folder remembers it.

A trace folder may come from somebody else, and what its files name is not to be removed or written
for that. So what was made is recorded outside, by the device and inode of the trace folder, which
stay when it is renamed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from tracekit.errors import InputError
from tracekit.metadata import Record, read_object, validate
from tracekit.store import write_json

HINT = "set XDG_STATE_HOME to a folder of your own"


class MadeFile(Record):
    """A file that was made for a measurement, by what it is and not by its name alone."""

    path: str
    device: int
    inode: int
    bytes: int

    def find(self) -> Path | None:
        """Return where it is, None if what is there by now is not that very file."""
        path = Path(self.path)
        try:
            info = path.lstat()
        except (OSError, ValueError):
            return None
        found = (info.st_dev, info.st_ino, info.st_size)
        is_same = found == (self.device, self.inode, self.bytes)
        return path if is_same and stat.S_ISREG(info.st_mode) else None


def recall(output: Path) -> MadeFile | None:
    """Return the file that a measurement into this trace folder made, if it still is that one."""
    entry = _entry(output)
    made = None if entry is None else _read(entry)
    return made if made is not None and made.find() is not None else None


def record(output: Path, path: Path) -> MadeFile:
    """Remember that the file was made for a measurement into this trace folder."""
    entries = state_folder() / "made"
    entries.mkdir(mode=0o700, exist_ok=True)
    for stale in entries.glob("*.json"):
        known = _read(stale)
        if known is None or known.find() is None:
            stale.unlink(missing_ok=True)
    real = os.path.realpath(path)
    info = os.lstat(real)
    made = MadeFile(path=real, device=info.st_dev, inode=info.st_ino, bytes=info.st_size)
    write_json(entries / _name(output), msgspec.to_builtins(made))
    return made


def forget(output: Path, *, removes: bool) -> None:
    """Remember no longer what was made for this trace folder; remove it, too, where asked."""
    entry = _entry(output)
    if entry is None:
        return
    made = _read(entry)
    path = None if made is None else made.find()
    if removes and path is not None:
        path.unlink()
    entry.unlink(missing_ok=True)


def state_folder() -> Path:
    """Return where tracekit keeps what this user alone may tell it; make it if it is not there.

    It is tracekit in $XDG_STATE_HOME or ~/.local/state. Raises InputError where it belongs to
    somebody else.
    """
    home, folder = Path(os.path.expanduser("~")), _state_folder()
    if not folder.is_absolute():
        raise InputError("there is no home folder to keep what is made for a run", hint=HINT)
    try:
        # Root with the home of somebody else would make folders there that these cannot use.
        if home in folder.parents and not _is_ours(home.resolve()):
            raise InputError(f"{home} is not a folder of yours", hint=HINT)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(folder):
            raise InputError(f"{folder} is not a folder of yours", hint=HINT)
        folder.chmod(0o700)
    except OSError as error:
        message = f"{folder}: cannot keep what is made for a run: {error.strerror}"
        raise InputError(message, hint=HINT) from None
    return folder


def _is_ours(folder: Path) -> bool:
    """Say whether it is a folder, and no link to one, of who runs this."""
    try:
        info = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()


def _state_folder() -> Path:
    """Return the path of the state folder; it is relative where there is no home folder."""
    # The specification of $XDG_STATE_HOME ignores a path that is not absolute.
    home = os.environ.get("XDG_STATE_HOME", "")
    given = home if os.path.isabs(home) else os.path.expanduser("~/.local/state")
    return Path(given) / "tracekit"


def _entry(output: Path) -> Path | None:
    """Return the file that says what was made for the trace folder, None if there is none."""
    folder = _state_folder()
    if not output.is_dir() or not folder.is_absolute() or not _is_ours(folder):
        return None
    entry = folder / "made" / _name(output)
    return entry if entry.is_file() else None


def _name(output: Path) -> str:
    info = output.stat()
    return f"{info.st_dev:x}-{info.st_ino:x}.json"


def _read(entry: Path) -> MadeFile | None:
    """Return what an entry holds, None if it is torn."""
    with suppress(InputError):
        return validate(read_object(entry, hint=HINT), MadeFile, file=entry, hint=HINT)
    return None
