"""Names for the blocks of a capture: the files of mounted file systems, before and after it.

What was seen before lies beside the records, so that whoever finishes them can look again: the
capture itself, the process that writes a piece of it, or a recovery.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from tracekit.capture.command import failure_of
from tracekit.capture.unfinished import Manifest
from tracekit.layout import NameSummary
from tracekit.stack import btrfs
from tracekit.stack.devices import Node, Stack
from tracekit.stack.file_map import MAP_NAME, join_walks, table_of
from tracekit.stack.file_walk import FileSystem, Walk, numbers_at, walk
from tracekit.stack.host import read_host
from tracekit.stack.mounts import Mount
from tracekit.store import write_table

LOGICAL = (btrfs.KIND, "zfs", "bcachefs")
"""File systems whose extents are places of their own, not of a device; btrfs says of which."""
SEEN_NAME = "files.before"
"""In a folder of records: what was seen before them, while no look after them is in it."""
LEAST_LOOK_S, LOOK_PART = 1.0, 10
"""The looks for the pieces of a capture take so much at most, or such a part of its time."""


class Before(msgspec.Struct):
    """What is known of the files on the traced disks before it is captured."""

    disks: list[str]
    nodes: list[Node]
    systems: list[FileSystem]
    walk: dict[str, Any]


def look_before(disks: Sequence[str], mounts: Sequence[Mount], *, limit_s: float) -> Looked:
    """Look at the files before a capture, no longer than `limit_s`; 0: not at all."""
    if not limit_s:
        return Looked(None, [])
    host, _ = read_host(disks, mounts, reads_content=False)
    stack = Stack([*host.nodes.values(), *_logical_nodes(mounts)])
    systems, notes = _found(stack, mounts, disks)
    seen = walk(systems, limit_s=limit_s)
    nodes = [*stack.nodes.values()]
    return Looked(Before([*disks], nodes, systems, seen.saved()), notes)


@dataclass(frozen=True)
class Looked:
    """A look at the files before a capture."""

    before: Before | None
    notes: list[str]

    def save_in(self, folder: Path) -> None:
        """Write what was seen into the folder of the records; without space go without."""
        if self.before is None:
            return
        file = folder / SEEN_NAME
        if failure := failure_of(lambda: file.write_bytes(msgspec.msgpack.encode(self.before))):
            file.unlink(missing_ok=True)
            self.notes.append(f"no names of files: {failure}")


def look_after(folder: Path, manifest: Manifest) -> list[str]:
    """Look again, where only the look before is in a folder of records; write the map beside it.

    What it holds goes into the manifest; return what there is to say. Where it fails, the capture
    goes without.
    """
    notes: list[str] = []
    if manifest.summary.names is UNSET and (folder / SEEN_NAME).exists():
        failure = failure_of(lambda: _look_after(folder, manifest, notes))
        if failure is not None:
            (folder / MAP_NAME).unlink(missing_ok=True)
            notes.append(f"no names of files: {failure}")
    return notes


def _look_after(folder: Path, manifest: Manifest, notes: list[str]) -> None:
    known = msgspec.msgpack.decode((folder / SEEN_NAME).read_bytes(), type=Before)
    systems, before = known.systems, Walk.restored(known.walk)
    after = walk(systems, limit_s=manifest.names_s)
    rows = join_walks(before, after, systems=systems)
    roots = {one.device: one.points[0] for one in systems if one.trees}
    nodes = [
        btrfs.with_lasting(node, btrfs.file_system_node(node.numbers, roots[node.name]))
        if node.name in roots
        else node
        for node in known.nodes
    ]
    stack, paths = Stack(nodes), after.paths()
    table = table_of(stack, systems, rows=rows, paths=paths, disks=known.disks)
    write_table(folder / MAP_NAME, table)
    if before.is_cut or after.is_cut:
        notes.append(
            f"names of files: cut off after {len(after):,} files, the others' blocks are not"
            " known: give more time with --names"
        )
    for number in sorted(after.absent):
        device, points = systems[number].device, ", ".join(systems[number].points)
        notes.append(f"names of files on {device} are not known: it is not mounted on {points} now")
    is_cut = before.is_cut or after.is_cut or bool(after.absent)
    files, pieces = len(after), table.num_rows
    manifest.summary.names = NameSummary(files=files, pieces=pieces, is_cut=is_cut)


def _found(
    stack: Stack, mounts: Sequence[Mount], disks: Sequence[str]
) -> tuple[list[FileSystem], list[str]]:
    """Return the mounted file systems on disks, and what is left out.

    Those in files of others are left out.
    """
    nodes = {node.numbers: node for node in stack.nodes.values()}
    points: dict[str, list[Mount]] = {}
    notes: dict[str, None] = {}
    for mount in mounts:
        node = nodes.get(mount.device)
        if node is not None and _is_on(disks, stack, node.name) and os.path.isdir(mount.point):
            points.setdefault(mount.device, []).append(mount)
            if node.aside and node.kind == btrfs.KIND:
                notes[f"names of files in RAID 5 or 6 are not known: {mount.source}"] = None
        elif mount.filesystem in LOGICAL:
            source = os.path.basename(os.path.realpath(mount.source))
            if source in stack.nodes and _is_on(disks, stack, source):
                why = f"names of files on {mount.filesystem} are not known: {mount.source}"
                notes[why] = None
    return [_system(nodes[numbers], found) for numbers, found in points.items()], list(notes)


def _logical_nodes(mounts: Sequence[Mount]) -> list[Node]:
    """Return each mounted btrfs that says where its extents lie."""
    found: dict[str, Node] = {}
    for mount in mounts:
        if mount.filesystem == btrfs.KIND and mount.device not in found:
            with suppress(OSError):
                found[mount.device] = btrfs.file_system_node(mount.device, mount.point)
    return [*found.values()]


def _system(node: Node, mounts: Sequence[Mount]) -> FileSystem:
    if node.kind != btrfs.KIND:
        return FileSystem(node.name, node.numbers, _chosen(mounts))
    trees: dict[str, list[Mount]] = {}
    for mount in sorted(mounts, key=lambda one: len(one.root)):
        of_tree = trees.setdefault(numbers_at(mount.point) or "", [])
        root = f"{mount.root}/"
        if not any(root.startswith(f"{one.root.rstrip('/')}/") for one in of_tree):
            of_tree.append(mount)
    pairs = [(one.point, tree) for tree, of_tree in trees.items() if tree for one in of_tree]
    points, numbers = (tuple(pair[at] for pair in pairs) for at in (0, 1))
    return FileSystem(node.name, node.numbers, points, numbers)


def _is_on(disks: Sequence[str], stack: Stack, name: str) -> bool:
    """Whether a device lies on a disk otherwise than in a file, as behind another loop device."""
    if name in disks:
        return True
    node = stack.nodes.get(name)
    return (
        node is not None
        and node.kind != "loop"
        and any(_is_on(disks, stack, below) for below in node.below)
    )


def _chosen(mounts: Sequence[Mount]) -> tuple[str, ...]:
    """Return where a file system is to be looked at: its root, or else each folder of it."""
    whole = [mount.point for mount in mounts if mount.root == "/"]
    return tuple(whole[:1] or dict.fromkeys(mount.point for mount in mounts))
