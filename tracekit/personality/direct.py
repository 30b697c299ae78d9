"""What direct I/O asks of a personality: sizes and places that are multiples of a sector."""

from __future__ import annotations

from pathlib import Path

from tracekit.errors import InputError
from tracekit.personality.model import MOVES_DATA, FileSet, Operation, Personality

SECTOR_BYTES = 512
"""The least that direct I/O takes; a disk of 4 KiB sectors takes multiples of these only."""


def check_direct(personality: Personality, file: Path) -> None:
    """Raise InputError for a call of a file opened with `direct` that the kernel would refuse."""
    opened: dict[int, FileSet | None] = {}
    for number, one in enumerate(personality.flow, start=1):
        if one.action in ("create", "open"):
            opened[one.handle] = personality.file_set(one.files or "") if one.is_direct else None
        elif one.action in MOVES_DATA and one.files is None:
            files = opened.get(one.handle)
            wrong = files and _wrong(one, files)
            if wrong:
                raise InputError(
                    f"{file}, operation {number} ({one.action}): {wrong}, which direct I/O refuses",
                    hint=f"use multiples of {SECTOR_BYTES} bytes, or leave `direct` out",
                )


def _wrong(one: Operation, files: FileSet) -> str | None:
    """Say which size is no multiple of a sector; reading may end before that."""
    if one.size_bytes % SECTOR_BYTES:
        return f"calls of {one.size_bytes:,} bytes"
    if one.action not in ("append", "write_file"):
        return None
    if one.is_random:
        return "calls of a random size"
    if files.shape or files.mean_bytes % SECTOR_BYTES:
        drawn = "sizes that are drawn" if files.shape else f"{files.mean_bytes:,} bytes each"
        return f"the files '{files.name}' have {drawn}, so that writes end within a sector"
    return None
