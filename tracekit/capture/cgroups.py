"""Control groups: which one the kernel counts an event for, and the paths of their ids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.stack.mounts import read_mounts

MARK = 0x100
"""In an action of blktrace: the payload begins with the id of a cgroup."""
ID_BYTES = 8
NOTIFY_MESSAGE = 0x400 << 16 | 2
DIGITS = 20
PROC = Path("/proc")
Ids = NDArray[np.uint64]


def hierarchy(mountinfo: Path | None = None) -> Path | None:
    """Return where the hierarchy is mounted in which the kernel counts I/O, None if nowhere.

    That is `blkio` of cgroup v1 if it is mounted, otherwise v2.
    """
    second = None
    for mount in read_mounts(mountinfo or PROC / "self/mountinfo"):
        if mount.root != "/":
            continue
        if mount.filesystem == "cgroup" and "blkio" in mount.options.split(","):
            return Path(mount.point)
        second = second or (Path(mount.point) if mount.filesystem == "cgroup2" else None)
    return second


def paths_of_cgroups() -> dict[int, str]:
    """Return the path of each cgroup that is there, below the root of the hierarchy, by its id."""
    top = hierarchy()
    if top is None:
        return {}
    found: dict[int, str] = {}
    for folder, _, _ in os.walk(top):
        place = folder.removeprefix(str(top)) or "/"
        try:
            found[os.stat(folder).st_ino] = place
        except OSError:  # it was just removed
            continue
    return found


class Marks:
    """Says in one CPU's file which cgroup its queue events have.

    blkparse 1.2 reads no record that names one. A message is put before each queue event whose
    cgroup is another than that of the one before it.
    """

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self._last = 0

    def changes(self, ids: Ids) -> NDArray[np.int64]:
        """Return the places of those whose id is another than the one before it."""
        if not len(ids):
            return np.empty(0, np.int64)
        before = np.r_[np.uint64(self._last), ids[:-1]]
        self._last = int(ids[-1])
        self.seen.update(np.unique(ids[ids > 0]).tolist())
        return np.flatnonzero(ids != before)


def with_messages(
    data: NDArray[np.uint8], at: NDArray[np.int64], *, headers: NDArray[Any], ids: Ids
) -> NDArray[np.uint8]:
    """Return records' bytes with a message before each event that begins at a byte of `at`.

    `headers` and `ids` are those of the events, whose time, place and number the message has.
    """
    count = len(at)
    if not count:
        return data
    notes = headers.copy()
    notes["action"], notes["sector"], notes["bytes"], notes["error"] = NOTIFY_MESSAGE, 0, 0, 0
    text = np.char.mod(f"cgroup %0{DIGITS}d", ids).astype(bytes)
    notes["pdu_len"] = text.dtype.itemsize
    parts = (notes.view(np.uint8).reshape(count, -1), text.view(np.uint8).reshape(count, -1))
    rows = np.concatenate(parts, axis=1)
    return np.insert(data, np.repeat(at, rows.shape[1]), rows.ravel())
