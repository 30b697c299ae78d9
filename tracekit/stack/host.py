"""The storage stack of this host, as /sys, the device mapper and the devices themselves have it."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from tracekit._native.file_places import file_extents
from tracekit.errors import TracekitError
from tracekit.helper_programs import run_helper
from tracekit.stack.contents import Contents, add_pools, give_uses
from tracekit.stack.device_mapper import (
    Target,
    map_target,
    read_tables,
    thin_blocks,
)
from tracekit.stack.devices import Beside, Node, Piece, Stack
from tracekit.stack.md import array_of, map_array
from tracekit.stack.mounts import Mount, by_device, read_mounts, read_swaps
from tracekit.stack.signatures import Signature, read_signature
from tracekit.units import SECTOR_BYTES

CLASS = Path("/sys/class/block")
BTRFS = Path("/sys/fs/btrfs")
SERVED = ("9p", "afs", "ceph", "cifs", "fuse", "lustre", "nfs", "nfs4", "smb3", "virtiofs")
"""File systems that another host or a program serves."""
_THIN_BLOCK_BYTES = 4096
Value = TypeVar("Value")


def device_path(name: str) -> Path:
    """Return the file of a device; slashes in its name are exclamation marks in /sys."""
    return Path("/dev") / name.replace("!", "/")


def node_of(folder: Path) -> Node:
    """Return a device by its folder in /sys; raise OSError where it goes away."""
    numbers = (folder / "dev").read_text().strip().replace(":", ",")
    node = Node(folder.name, numbers, int((folder / "size").read_text()))
    if (folder / "partition").exists():
        node.kind = "part"
        start = int((folder / "start").read_text())
        node.pieces = [Piece(0, node.sectors, folder.resolve().parent.name, start)]
    elif (folder / "dm").is_dir():
        node.kind, node.label = "dm", (folder / "dm/name").read_text().strip()
    elif (folder / "loop").is_dir():
        node.kind = "loop"
    elif (folder / "md/level").exists():
        map_array(node, array_of(folder))
    return node


def _unless_gone(read: Callable[[], Value]) -> Value | None:
    with suppress(OSError, ValueError):
        return read()
    return None


def read_nodes(mounts: Sequence[Mount] = ()) -> list[Node]:
    """Return all devices with what lies below each, as far as it is not a file or a table."""
    folders = sorted(CLASS.iterdir())
    found = (_unless_gone(partial(node_of, folder)) for folder in folders)
    nodes = [node for node in found if node is not None and node.sectors]
    names = {node.numbers: node.name for node in nodes}
    for node in nodes:
        slaves = [one.name for one in (CLASS / node.name / "slaves").glob("*")]
        if node.kind == "loop":
            below = _unless_gone(partial(_backing_devices, node.name, names, mounts))
            node.aside = dict.fromkeys(below or (), Beside.BLOCKS)
        elif node.kind != "part" and not node.pieces and not node.aside:
            node.aside = dict.fromkeys(sorted(slaves), Beside.BLOCKS)
    return nodes


def _backing_file(name: str) -> Path:
    return Path((CLASS / name / "loop/backing_file").read_text().strip())


def _backing_devices(name: str, names: dict[str, str], mounts: Sequence[Mount]) -> list[str]:
    """Return the devices that the file of a loop device is on."""
    return devices_of(_backing_file(name), names, mounts=mounts)


def devices_of(
    path: Path, names: dict[str, str], *, mounts: Sequence[Mount], depth: int = 0
) -> list[str]:
    """Return the devices that a file is on: its file system's, or those of its mount's source.

    An overlay is followed to its upper folder, which is where it writes. `names` are the devices by
    numbers. A file of another host or program is on none, and is not looked at: whoever serves it
    may not answer.
    """
    if _is_served(path, mounts):
        return []
    status = path.stat()
    number = status.st_rdev if path.is_block_device() else status.st_dev
    numbers = f"{os.major(number)},{os.minor(number)}"
    if os.major(number):
        return [names[numbers]] if numbers in names else []
    found: dict[str, None] = {}
    above = partial(devices_of, names=names, mounts=mounts, depth=depth + 1)
    for mount in _mounts_of(path, numbers, mounts):
        upper = mount.option("upperdir")
        if mount.filesystem == "overlay" and upper and depth < 8:
            with suppress(OSError):
                found |= dict.fromkeys(above(Path(upper)))
        elif Path(mount.source).is_block_device():
            found |= dict.fromkeys(_with_its_btrfs(above(Path(mount.source))))
    return list(found)


def _is_served(path: Path, mounts: Sequence[Mount]) -> bool:
    """Say whether another host or a program serves the file system that a path is in."""
    above = [mount for mount in mounts or read_mounts() if path.is_relative_to(mount.point)]
    kinds = [mount.filesystem for mount in sorted(above, key=lambda mount: len(mount.point))]
    return bool(kinds) and kinds[-1].partition(".")[0] in SERVED


def _mounts_of(path: Path, numbers: str, mounts: Sequence[Mount]) -> list[Mount]:
    """Return the mounts with the numbers of a file; a file in a btrfs has those of a subvolume."""
    found = [mount for mount in mounts if mount.device == numbers]
    place = path.resolve()
    above = [mount for mount in mounts if place.is_relative_to(mount.point)]
    return found or sorted(above, key=lambda mount: len(mount.point))[-1:]


def _with_its_btrfs(devices: list[str]) -> list[str]:
    """Return devices and those of the same mounted btrfs: its mount names one of them."""
    found = dict.fromkeys(devices)
    for folder in BTRFS.glob("*/devices"):
        names = [one.name for one in folder.iterdir()]
        if not found.keys().isdisjoint(names):
            found |= dict.fromkeys(sorted(names))
    return list(found)


def logs_of(
    devices: Collection[str], nodes: Sequence[Node], *, mounts: Sequence[Mount]
) -> list[str]:
    """Return the devices that external journals and logs of mounted file systems are on."""
    names = {node.numbers: node.name for node in nodes}
    found: list[str] = []
    for mount in mounts:
        if names.get(mount.device) in devices and (log := mount.option("logdev")):
            found += _unless_gone(partial(devices_of, Path(log), names, mounts=mounts)) or []
    signatures = {name: _signature_of(name) for name in devices}
    journals = {one.journal_uuid for one in signatures.values() if one and one.journal_uuid}
    for node in nodes if journals else ():
        one = _signature_of(node.name)
        if one and one.kind == "jbd" and one.uuid in journals:
            found.append(node.name)
    return found


def _signature_of(name: str) -> Signature | None:
    return _unless_gone(partial(read_signature, device_path(name)))


def read_host(
    disks: Iterable[str],
    mounts: Sequence[Mount],
    *,
    reads_content: bool = True,
    swaps: Path = Path("/proc/swaps"),
) -> tuple[Stack, Contents]:
    """Return the stack over these disks with its uses, and what they were found from.

    Devices that lie on none of the disks are in it without a use.
    """
    nodes = read_nodes(mounts)
    rough = Stack(nodes)
    wanted = [node for node in nodes if {*rough.reach(node.name)} & {*disks}]
    names = {node.numbers: node.name for node in nodes}
    contents = Contents()
    _map_all(wanted, names, contents)
    for node in wanted:
        contents.signatures[node.name] = None
        try:
            if reads_content:
                contents.signatures[node.name] = read_signature(device_path(node.name))
        except OSError as error:
            contents.unread[node.name] = f"its content cannot be read: {error.strerror}"
    _map_bcache(wanted, contents)
    stack = Stack(nodes)
    _add_mounts(contents, mounts, names)
    add_pools(contents, mounts)
    _add_swaps(contents, _unless_gone(swaps.read_text) or "", mounts, names)
    give_uses(stack, contents)
    return stack, contents


def _map_all(nodes: Sequence[Node], names: dict[str, str], contents: Contents) -> None:
    """Map loop devices along the extents of their files, and the device mapper by its tables."""
    tables = _tables() if any(node.kind == "dm" for node in nodes) else {}
    if unmapped := [one.title for one in nodes if one.kind == "dm" and one.label not in tables]:
        contents.doubts.append(
            f"where the blocks of {', '.join(unmapped)} lie is not known: install dmsetup"
        )
    by_name = {numbers.replace(",", ":"): name for numbers, name in names.items()}
    pools = {node.name: target for node in nodes for target in tables.get(node.label, ())}
    for node in nodes:
        if node.kind == "loop":
            _map_loop(node)
        elif node.kind == "dm" and node.label in tables:
            node.aside = {}
            read_thin = partial(_thin_pieces, pools=pools, names=by_name)
            for target in tables[node.label]:
                map_target(node, target, names=by_name, read_thin=read_thin)


def _tables() -> dict[str, list[Target]]:
    """Return the tables of the device mapper, none where dmsetup is missing."""
    with suppress(TracekitError):
        return read_tables(run_helper(["dmsetup", "table"], capture_output=True, text=True).stdout)
    return {}


def _thin_pieces(
    pool: str, number: int, *, pools: dict[str, Target], names: dict[str, str]
) -> list[Piece]:
    """Read a pool's metadata past the page cache, which does not see what the pool writes there."""
    metadata = pools[pool].words[0] if pool in pools else ""
    if metadata not in names:
        return []
    os.sync()  # a pool commits what it provisioned with the next flush
    try:
        file = os.open(device_path(names[metadata]), os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return []
    try:
        return thin_blocks(partial(_read_direct, file), number, pool=pool)
    finally:
        os.close(file)


def _read_direct(file: int, block: int) -> bytes:
    with mmap.mmap(-1, _THIN_BLOCK_BYTES) as buffer:
        os.preadv(file, [buffer], block * _THIN_BLOCK_BYTES)
        return bytes(buffer)


def _map_loop(node: Node) -> None:
    """Map a loop device along its file; a file system that does not know leaves it unordered."""
    with suppress(OSError, ValueError):
        below = next(iter(node.aside), "")
        file = _backing_file(node.name)
        offset = int((CLASS / node.name / "loop/offset").read_text()) // SECTOR_BYTES
        if file.is_block_device():
            node.pieces, node.aside = [Piece(0, node.sectors, below, offset)], {}
            return
        with file.open("rb") as opened:
            for logical, physical, sectors in file_extents(opened.fileno()):
                first = max(logical - offset, 0)
                end = min(logical + sectors - offset, node.sectors)
                if first < end:
                    start = physical + first + offset - logical
                    node.pieces.append(Piece(first, end - first, below, start))
        node.aside = {} if node.pieces else node.aside


def _map_bcache(nodes: Sequence[Node], contents: Contents) -> None:
    """Map a bcache on its backing device, which keeps the order of the blocks."""
    for node in nodes:
        if not re.fullmatch(r"bcache\d+", node.name):
            continue
        node.kind = "bcache"
        for name in list(node.aside):
            found = contents.signatures.get(name)
            if found is not None and found.data_offset:
                node.pieces.append(Piece(0, node.sectors, name, found.data_offset))
                del node.aside[name]


def _add_mounts(contents: Contents, mounts: Sequence[Mount], names: dict[str, str]) -> None:
    for numbers, mount in by_device(list(mounts)).items():
        if numbers in names:
            contents.mounts[names[numbers]] = mount
    for mount in mounts:
        if mount.filesystem == "btrfs":
            # It has a device number of its own; each of its devices has the same UUID.
            for name in _named(mount.source, names):
                own = contents.signatures.get(name)
                for other, found in contents.signatures.items():
                    if other == name or (own and found and own.uuid == found.uuid):
                        contents.mounts.setdefault(other, mount)
        for name in _named(mount.option("logdev") or "", names):
            contents.logs_of[name] = mount.source


def _named(path: str, names: dict[str, str]) -> list[str]:
    """Return the device that a path names, none where it names no device."""
    found = _unless_gone(lambda: Path(path).stat().st_rdev) if path.startswith("/") else None
    numbers = f"{os.major(found)},{os.minor(found)}" if found else ""
    return [names[numbers]] if numbers in names else []


def _add_swaps(
    contents: Contents, table: str, mounts: Sequence[Mount], names: dict[str, str]
) -> None:
    for swap in read_swaps(table):
        if not swap.is_file:
            contents.swaps.update(_named(swap.path, names))
            continue
        runs = _unless_gone(partial(file_runs, Path(swap.path)))
        below = _unless_gone(partial(devices_of, Path(swap.path), names, mounts=mounts)) or []
        known = [name for name in below if runs and not _is_logical(contents.mounts.get(name))]
        for name in known:
            contents.swap_files.setdefault(name, {})[swap.path] = runs or []
        if not known:
            contents.doubts.append(
                f"where the swap file {swap.path} lies is not known: its requests have the role of"
                " its file system"
            )


def _is_logical(mount: Mount | None) -> bool:
    """Whether a file system's extents are places of its own and not of its device."""
    return mount is not None and mount.filesystem == "btrfs"


def file_runs(path: Path) -> list[tuple[int, int]]:
    """Return first sector and number of sectors of each piece of a file on its device."""
    with path.open("rb") as file:
        return [(start, sectors) for _, start, sectors in file_extents(file.fileno())]
