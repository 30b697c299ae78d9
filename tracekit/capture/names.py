"""Names for the blocks of a capture: the files of mounted file systems, before and after it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tracekit.capture.command import failure_of
from tracekit.layout import NameSummary
from tracekit.stack.devices import Stack
from tracekit.stack.file_map import join_walks, table_of
from tracekit.stack.file_walk import FileSystem, Walk, walk
from tracekit.stack.host import read_host
from tracekit.stack.mounts import Mount
from tracekit.store import write_table

LOGICAL = ("btrfs", "zfs", "bcachefs")
"""File systems whose extents are places of their own, not of a device."""


@dataclass
class Names:
    """What is known of the files on the traced disks."""

    disks: Sequence[str]
    limit_s: float
    """For one look at all files."""
    systems: list[FileSystem] = field(default_factory=list)
    before: Walk | None = None
    notes: list[str] = field(default_factory=list)
    _stack: Stack | None = None
    _summary: NameSummary | None = None

    def begin(self, mounts: Sequence[Mount]) -> None:
        """Look at the files before the capture; without a time limit do nothing."""
        if not self.limit_s:
            return
        self._stack, _ = read_host(self.disks, mounts, reads_content=False)
        self.systems = self._found(self._stack, mounts)
        self.before = walk(self.systems, limit_s=self.limit_s)

    def end(self, folder: Path, file_name: str) -> NameSummary | None:
        """Look again, and write the map into a folder; return what it holds.

        Where that fails, the capture goes without.
        """
        failure = failure_of(partial(self._end, folder / file_name))
        if failure is not None:
            (folder / file_name).unlink(missing_ok=True)
            self.notes.append(f"no names of files: {failure}")
        return self._summary

    def _end(self, file: Path) -> None:
        if self._stack is None or self.before is None:
            return
        after = walk(self.systems, limit_s=self.limit_s)
        rows = join_walks(self.before, after, systems=self.systems)
        table = table_of(
            self._stack, self.systems, rows=rows, paths=after.paths(), disks=self.disks
        )
        write_table(file, table)
        is_cut = self.before.is_cut or after.is_cut
        if is_cut:
            self.notes.append(
                f"names of files: cut off after {len(after):,} files, the others' blocks are not"
                " known: give more time with --names"
            )
        self._summary = NameSummary(files=len(after), pieces=table.num_rows, is_cut=is_cut)

    def _found(self, stack: Stack, mounts: Sequence[Mount]) -> list[FileSystem]:
        """Return the mounted file systems on the disks; those in files of others are left out."""
        names = {node.numbers: node.name for node in stack.nodes.values()}
        points: dict[str, list[Mount]] = {}
        for mount in mounts:
            name = names.get(mount.device)
            if name is not None and self._is_ours(stack, name) and os.path.isdir(mount.point):
                points.setdefault(name, []).append(mount)
            elif mount.filesystem in LOGICAL:
                self._leave_out(stack, mount)
        return [FileSystem(name, _chosen(found)) for name, found in points.items()]

    def _is_ours(self, stack: Stack, name: str) -> bool:
        below = stack.reach(name)
        loops = [one for one in below if one in stack.nodes and stack.nodes[one].kind == "loop"]
        return bool({*below} & {*self.disks}) and {*loops} <= {*self.disks}

    def _leave_out(self, stack: Stack, mount: Mount) -> None:
        source = os.path.basename(os.path.realpath(mount.source))
        note = f"names of files on {mount.filesystem} are not known: {mount.source}"
        if source in stack.nodes and self._is_ours(stack, source) and note not in self.notes:
            self.notes.append(note)


def _chosen(mounts: Sequence[Mount]) -> tuple[str, ...]:
    """Return where a file system is to be looked at: its root, or else each folder of it."""
    whole = [mount.point for mount in mounts if mount.root == "/"]
    return tuple(whole[:1] or dict.fromkeys(mount.point for mount in mounts))
