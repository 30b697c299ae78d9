"""The paths of a captured trace as the tree of files of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracekit.plan.file_table import FileTable
from tracekit.plan.file_waits import Integers
from tracekit.store import TraceFolder

MADE_BY = "capture --files"


@dataclass
class Tree:
    """The files of a plan; numbers are those of the plan, -1 for what cannot be in one."""

    table: FileTable = field(default_factory=FileTable)
    number_of: dict[int, int] = field(default_factory=dict)
    """By file_id of the trace."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why a file_id has no number."""
    folders: list[int] = field(default_factory=list)
    """Number of the folder of each number, -1 for the directory of the run."""
    plain_files: set[int] = field(default_factory=set)
    """Numbers of what is no folder."""
    absent: set[str] = field(default_factory=set)
    """Paths that were not there."""
    present_files: int = 0
    present_bytes: int = 0
    unknown_sizes: int = 0

    def parents(self, numbers: Integers) -> Integers:
        """Return the numbers of the folders that hold these, -1 where there is none."""
        folders = np.array([*self.folders, -1], np.int64)
        return folders[np.where(numbers < 0, len(folders) - 1, numbers)]


def build_tree(folder: TraceFolder) -> Tree:
    """Read the table `files`: paths become relative to `/`, folders come before what they hold."""
    import pyarrow.parquet as pq

    rows = pq.read_table(folder.require("files", made_by=MADE_BY)).to_pylist()
    rows.sort(key=lambda row: row["path"].split("/"))
    tree = Tree()
    folders = _folders(rows)
    for row in rows:
        reason = _reason(tree, row)
        if reason:
            tree.reasons[row["file_id"]] = reason
        else:
            _add(tree, row, is_folder=row["kind"] == "directory" or row["path"] in folders)
    return tree


def _folders(rows: list[dict[str, Any]]) -> set[str]:
    """Return what must be a folder, because something lies below it that was there."""
    found: set[str] = set()
    for row in rows:
        if row["evidence"] == "absent" or row["kind"] == "other":
            continue
        head = row["path"].rpartition("/")[0]
        while head and head not in found:
            found.add(head)
            head = head.rpartition("/")[0]
    return found


def _reason(tree: Tree, row: dict[str, Any]) -> str | None:
    """Return why a path cannot be in a plan, or None."""
    if row["kind"] == "other":
        return "no plain file"
    if row["path"] == "/":
        return "the root of all"
    head = row["path"].rpartition("/")[0]
    while head:
        number = tree.table.number(head[1:])
        if number is not None:
            return "below a file" if number in tree.plain_files else None
        head = head.rpartition("/")[0]
    return None


def _add(tree: Tree, row: dict[str, Any], *, is_folder: bool) -> None:
    size_bytes = 0 if is_folder else row["size_bytes"] or 0
    path = row["path"][1:]
    _add_folders(tree, path)
    # Nothing was there in a folder that was not, whatever a name that is a link seemed to say.
    is_there = row["evidence"] != "absent" and path.rpartition("/")[0] not in tree.absent
    number = tree.table.number(path)
    if number is None:
        kind = "directory" if is_folder else "file"
        number = tree.table.add(path, kind=kind, size_bytes=size_bytes, there=is_there)
        tree.absent.update(() if is_there else (path,))
    if not is_folder:
        tree.plain_files.add(number)
    tree.number_of[row["file_id"]] = number
    _note_folders(tree, path)
    if is_there and not is_folder:
        tree.present_files += 1
        tree.present_bytes += size_bytes
        tree.unknown_sizes += row["size_bytes"] is None


def _add_folders(tree: Tree, path: str) -> None:
    """Add the folders of a path that no operation names: they are there if their own folder is."""
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        folder = "/".join(parts[:count])
        if tree.table.number(folder) is None:
            is_there = folder.rpartition("/")[0] not in tree.absent
            tree.table.add(folder, kind="directory", there=is_there)
            tree.absent.update(() if is_there else (folder,))


def _note_folders(tree: Tree, path: str) -> None:
    """Note the folder of a path that was added, and of those that were added with it."""
    while len(tree.folders) < len(tree.table):
        tree.folders.append(-1)
    while path:
        head = path.rpartition("/")[0]
        number, folder = tree.table.number(path), tree.table.number(head)
        if number is not None and folder is not None:
            tree.folders[number] = folder
        path = head
