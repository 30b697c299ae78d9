"""Files that somebody else may have made: opened without links or waiting, read up to a limit.

A trace folder has regular files and folders only. The folder itself may be reached by a link; a
link inside it could lead to any file of this machine, and a pipe would be waited for without end.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracekit.errors import InputError, MissingError

TEXT_BYTES = 64 << 20
"""The most of a JSON, TOML or SQL file; a layout of a hundred thousand regions is smaller."""

MOST_DEPTH = 64
_READ_BYTES = 1 << 20
_WAY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GIVEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_HINT = "remove it, or put the file itself there: only regular files and folders are read"
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def open_inside(folder: Path, place: str) -> int:
    """Return a descriptor of the regular file at a place such as `findings/totals.parquet`.

    Raise InputError where it or a folder on the way is a link, or it is anything but a regular
    file; OSError with the file's path for what the system refuses.
    """
    *way, name = place.split("/")
    if not {"", ".", ".."}.isdisjoint((*way, name)):
        raise InputError(f"{folder / place}: this is no place of a file", hint=_HINT)
    above = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    reached = folder
    try:
        for part in way:
            reached /= part
            _check(reached, os.stat(part, dir_fd=above, follow_symlinks=False), stat.S_IFDIR)
            below = os.open(part, _WAY, dir_fd=above)
            os.close(above)
            above = below
        reached /= name
        # Before it is opened, because that alone can set a device to work.
        _check(reached, os.stat(name, dir_fd=above, follow_symlinks=False), stat.S_IFREG)
        file = os.open(name, _GIVEN | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        error.filename = str(reached)
        raise
    finally:
        os.close(above)
    return _checked(reached, file)


def _checked(path: Path, file: int) -> int:
    """Return the descriptor of a regular file; what stood at its path may have changed."""
    try:
        _check(path, os.fstat(file), stat.S_IFREG)
    except BaseException:
        os.close(file)
        raise
    return file


def _check(path: Path, found: os.stat_result, wanted: int) -> None:
    """Raise InputError for a link and for what is neither a regular file nor a folder.

    A file where a folder is wanted is, as for the system, one with nothing below it.
    """
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFREG != wanted:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if kind != wanted:
        raise InputError(f"{path} is {_KINDS.get(kind, 'no file')}", hint=_HINT)


def check_inside(folder: Path, place: str) -> Path:
    """Return the path of a place in a folder; raise InputError as `open_inside`.

    What is not there is no error: the path can be written to.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        os.close(open_inside(folder, place))
    return folder / place


def open_regular(path: Path) -> int:
    """Return a descriptor of a regular file that is no link; raise as `open_inside`."""
    return open_inside(path.parent, path.name)


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file that is no link; raise InputError above the limit."""
    return _read(path, open_regular(path), TEXT_BYTES)


def sha256_of(path: Path) -> str:
    """Return the digest of a regular file that is no link; raise as `open_inside`."""
    with os.fdopen(open_regular(path), "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def copy_regular(path: Path, target: Path) -> None:
    """Copy a regular file that is no link; raise as `open_inside`."""
    with os.fdopen(open_regular(path), "rb") as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy)


def read_given(path: Path, *, most_bytes: int = TEXT_BYTES) -> bytes:
    """Return the content of a file that the user named, a link or the pipe of `<(command)` too.

    A pipe with a name is rejected: somebody must write to it, or it is waited for without end.
    Raise MissingError where nothing is, OSError for what else the system refuses.
    """
    try:
        file = os.open(path, _GIVEN)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingError(path) from None
    kind = stat.S_IFMT(os.fstat(file).st_mode)
    is_named = kind == stat.S_IFIFO and not os.readlink(f"/proc/self/fd/{file}").startswith("pipe:")
    if is_named or kind in (stat.S_IFBLK, stat.S_IFDIR):
        os.close(file)
        raise InputError(f"{path} is {_KINDS[kind]}, not a file", hint="name a regular file")
    os.set_blocking(file, True)
    return _read(path, file, most_bytes)


def check_depth(content: Any) -> None:
    """Raise RecursionError for JSON or TOML nested so deeply that no later step could walk it."""
    level = [content]
    for _ in range(MOST_DEPTH):
        level = [part for one in level for part in _parts(one)]
        if not level:
            return
    raise RecursionError


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _read(path: Path, file: int, most_bytes: int) -> bytes:
    parts, left = list[bytes](), most_bytes + 1
    try:
        while left and (part := os.read(file, min(left, _READ_BYTES))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(file)
    if not left:
        raise InputError(f"{path} has more than {most_bytes >> 20} MiB", hint="check what it is")
    return b"".join(parts)
