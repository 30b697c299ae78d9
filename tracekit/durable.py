"""Names that are given and exchanged in one step, and what outlasts a power cut.

Where a file system knows no flags of renameat2, each takes several steps: a kill amid them may
leave a folder that was to be replaced under a free name beside its own, and without hard links a
file that somebody makes at that moment may be replaced.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from tracekit.invoking_user import hand_over

Identity = tuple[int, int]
"""Device and inode."""
UNKNOWN = (errno.EINVAL, errno.ENOSYS)
TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
_unsynced: set[Path] = set()


def identity(path: Path) -> Identity | None:
    """Return what has this name, no link followed; None if nothing has it."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _rename(
    function: str, source: Path, name: Path, *, in_steps: Callable[[Path, Path], None]
) -> None:
    """Rename by flags of the kernel, or in steps where the file system does not know them."""
    from tracekit._native.library import call  # nothing that only reads needs it

    status = -call(function, os.fsencode(source), os.fsencode(name))
    if status in UNKNOWN:
        in_steps(source, name)
    elif status > 0:
        raise OSError(status, os.strerror(status), str(source), None, str(name))


def _taken(name: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(name))


def rename_new(source: Path, name: Path) -> None:
    """Give a file or folder a free name; FileExistsError when it is taken, by whatever."""
    _rename("tk_rename_new", source, name, in_steps=_rename_in_steps)


def _rename_in_steps(source: Path, name: Path) -> None:
    """Do without the flags: rename(2) refuses folders that are not empty, link(2) every name."""
    if os.path.lexists(name):
        raise _taken(name)
    try:
        if source.is_dir():
            source.rename(name)
            return
        os.link(source, name)
    except OSError as error:
        if error.errno in TAKEN:
            raise _taken(name) from None
        if source.is_dir():
            raise
        source.rename(name)  # a file system without links
    else:
        source.unlink()


def rename_aside(source: Path, path: Path) -> Path:
    """Give `source` the first free name like that of `path`, NAME-2 and so on; return it."""
    stem, suffix = (path.name, "") if source.is_dir() else (path.stem, path.suffix)
    for number in count(2):
        name = path.with_name(f"{stem}-{number}{suffix}")
        with suppress(FileExistsError):
            rename_new(source, name)
            return name
    raise AssertionError  # there is always a larger number


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders: neither is missing at any time."""
    _rename("tk_rename_exchange", one, other, in_steps=_exchange_in_steps)


def _exchange_in_steps(one: Path, other: Path) -> None:
    aside = rename_aside(other, other)
    try:
        rename_new(one, other)
    except OSError:
        rename_new(aside, other)
        raise
    rename_new(aside, one)


@contextmanager
def unsynced(folder: Path) -> Iterator[None]:
    """Sync nothing of a folder in the block: it is synced as a whole later, or not needed."""
    _unsynced.add(folder)
    try:
        yield
    finally:
        _unsynced.discard(folder)


def sync(path: Path) -> None:
    """Let a file's content or a folder's names outlast a power cut."""
    if not _unsynced.isdisjoint((path, *path.parents)):
        return
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        os.sync()  # a file that not even its owner may read
        return
    try:
        os.fsync(number)
    except OSError as error:
        # Some file systems cannot sync a folder: they write names at once, or not at all.
        if error.errno not in UNKNOWN:
            raise
    finally:
        os.close(number)


def sync_tree(folder: Path) -> None:
    """Sync every file and folder of a tree."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            file = Path(place, name)
            if stat.S_ISREG(file.lstat().st_mode):
                sync(file)
        sync(Path(place))


def make_folder(path: Path) -> list[Path]:
    """Make a folder, and those above it, where they are missing; return those from the top.

    They are the invoking user's.
    """
    if path.is_dir():
        return []
    made = make_folder(path.parent)
    path.mkdir(exist_ok=True)
    hand_over(path)
    sync(path.parent)
    return [*made, path]


@contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """Make the folder of a result as `make_folder`; if the block fails, empty ones go again."""
    made = make_folder(path.parent)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for folder in reversed(made):
                folder.rmdir()
        raise
