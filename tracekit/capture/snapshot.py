"""What is there before a command begins: files below a folder, and descriptors it is given."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tracekit.errors import UsageError
from tracekit.native.calls import Known
from tracekit.schema.file_operations import EVIDENCE, FILE_KINDS

MOST_FILES = 1_000_000
SNAPSHOT = EVIDENCE.index("snapshot")
FILE, DIRECTORY, OTHER = range(1, len(FILE_KINDS) + 1)


def files_below(folder: Path) -> tuple[Known, ...]:
    """Return what is below a folder, itself included; links are not followed.

    Raise UsageError when there is more than can be kept.
    """
    found = []
    for path, status in _walk(os.fsencode(folder)):
        kind = OTHER
        if stat.S_ISREG(status.st_mode):
            kind = FILE
        elif stat.S_ISDIR(status.st_mode):
            kind = DIRECTORY
        size = status.st_size if kind == FILE else -1
        found.append(Known(path, kind, size, SNAPSHOT))
        if len(found) > MOST_FILES:
            raise UsageError(
                f"{folder}: more than {MOST_FILES:,} files are below it",
                hint="choose a smaller --below, or none",
            )
    return tuple(found)


def _walk(folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    yield folder, os.stat(folder)
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue  # it may not be entered, or it has just gone
        for entry in entries:
            try:
                yield entry.path, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def standard_files() -> tuple[tuple[int, str, int, int], ...]:
    """Return those standard streams that are files: number, path, position, flags of open."""
    found = []
    for number in range(3):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
            lines = Path(f"/proc/self/fdinfo/{number}").read_text().splitlines()
        except OSError:
            continue
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        if path.startswith("/") and not path.endswith(" (deleted)"):
            found.append((number, path, int(facts["pos"]), int(facts["flags"], 8)))
    return tuple(found)
