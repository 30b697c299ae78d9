"""The paths of a file plan: a tree of names, each below a directory that comes before it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.errors import InputError

KINDS = ("file", "directory")
NONE = 0xFFFFFFFF  # no file, other file, handle or record to wait for
MAX_NAME_BYTES = 255

FILE = np.dtype(
    [
        ("size_bytes", "<u8"),
        ("name_offset", "<u8"),
        ("name_bytes", "<u4"),
        ("parent", "<u4"),
        ("kind", "u1"),
        ("is_present", "u1"),
        ("reserved", "V6"),
    ]
)

Records = npt.NDArray[np.void]


class FileTable:
    """The paths of a plan; numbers are given in the order of `add`, from 0."""

    def __init__(self) -> None:
        """Start without any path."""
        self._numbers: dict[str, int] = {}
        self._names: list[bytes] = []
        self._rows: list[tuple[int, int, int, int]] = []

    def __len__(self) -> int:
        """Return how many paths there are."""
        return len(self._rows)

    def add(self, path: str, *, kind: str = "file", size_bytes: int = 0, there: bool = True) -> int:
        """Add a path that is relative to the target directory and return its number.

        `there`: it exists before the first operation, a file with `size_bytes` bytes. Directories
        on the way that were not added before are added as such. Raises InputError for a path that
        leaves the target directory, came before, or lies below a file or a directory that is not
        there.
        """
        if path in self._numbers:
            raise InputError(f"the path {path!r} is in the plan twice")
        head, _, name = path.rpartition("/")
        parent = self._parent(head, path) if head or path.startswith("/") else NONE
        encoded = name.encode(errors="surrogateescape")
        if name in ("", ".", "..") or b"\0" in encoded or len(encoded) > MAX_NAME_BYTES:
            raise InputError(
                f"the path {path!r} cannot be in a plan: {name!r} is no name",
                hint="paths are relative to the target directory, without '.' and '..'",
            )
        if there and parent != NONE and not self._rows[parent][3]:
            raise InputError(f"the path {path!r} is there before the run, its directory is not")
        number = len(self._rows)
        self._numbers[path] = number
        self._names.append(encoded)
        self._rows.append((size_bytes, parent, KINDS.index(kind), int(there)))
        return number

    def number(self, path: str) -> int | None:
        """Return the number of a path, None when it was not added."""
        return self._numbers.get(path)

    def _parent(self, head: str, path: str) -> int:
        known = self._numbers.get(head)
        if known is None:
            known = self.add(head, kind="directory")
        if KINDS[self._rows[known][2]] != "directory":
            raise InputError(f"the path {path!r} lies below {head!r}, which is a file")
        return known

    def rows(self) -> tuple[tuple[int, int, int, int], ...]:
        """Return size in bytes, parent, kind and presence of each path."""
        return tuple(self._rows)

    def arrays(self) -> tuple[Records, bytes]:
        """Return the table as in the file, and the names one after the other."""
        table = np.zeros(len(self._rows), FILE)
        if self._rows:
            size, parent, kind, there = (
                np.array(column) for column in zip(*self._rows, strict=True)
            )
            table["size_bytes"], table["parent"] = size, parent
            table["kind"], table["is_present"] = kind, there
            lengths = np.array([len(name) for name in self._names], np.uint64)
            table["name_bytes"] = lengths
            table["name_offset"] = np.cumsum(lengths) - lengths
        return table, b"".join(self._names)
