"""What is on the traced disks: partitions and what lies in them, each with its evidence."""

from __future__ import annotations

import os
import platform
import stat
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.capture.tracefs import read_setting
from tracekit.errors import UsageError
from tracekit.stack.contents import Contents, swap_file_evidence
from tracekit.stack.devices import Beside, Node, Stack, draw, entries_of
from tracekit.stack.host import devices_of, logs_of, read_host, read_nodes
from tracekit.stack.mounts import Mount, read_mounts, read_swaps
from tracekit.stack.texts import kernel_name, read_texts


def disks_below(path: Path, mounts: list[Mount]) -> set[str]:
    """Return the names of all disks that a file at `path` ends up on.

    Partitions, stacked devices (dm, md), loop devices and overlays are followed down; a file system
    without a device of its own (btrfs) is followed by the source in the mount table if it is one.
    An external journal or log is written to as well.
    """
    nodes = read_nodes(mounts)
    stack = Stack(nodes)
    names = {node.numbers: node.name for node in nodes}
    found = {one for name in devices_of(path, names, mounts=mounts) for one in stack.reach(name)}
    found |= {one for name in logs_of(found, nodes, mounts=mounts) for one in stack.reach(name)}
    return {name for name in found if name in stack.nodes and stack.nodes[name].kind != "part"}


LAYOUT_VERSION = 1
SWAPS = Path("/proc/swaps")
BLOCK_FOLDER = Path("/sys/block")
MAPPED = "dm-"
"""How the kernel's names of devices of the device mapper begin."""
NUMBERS = Path("/sys/dev/block")


def find_disk(device: str) -> Path:
    """Return the folder in /sys/block of a whole disk such as /dev/loop0.

    Raise UsageError for anything else; for a partition, name its disk.
    """
    name = _kernel_name(Path(device))
    disk, parent = BLOCK_FOLDER / name, Path("/sys/class/block") / name
    if disk.is_dir():
        return disk
    if (parent / "partition").exists():
        whole = parent.resolve().parent.name
        hint = f"trace the whole disk, /dev/{whole}: its requests are listed by partition"
        raise UsageError(f"{device} is a partition", hint=hint)
    hint = "lsblk lists the disks of this machine"
    if "/" not in device:
        hint += "; put a command after --"
    raise UsageError(f"{device} is not a block device", hint=hint)


def _kernel_name(device: Path) -> str:
    """Return what the kernel calls a device: a node in /dev/mapper may have a name of its own."""
    with suppress(OSError):
        status = device.stat()
        if stat.S_ISBLK(status.st_mode):
            numbers = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
            return (NUMBERS / numbers).resolve(strict=True).name
    return device.resolve().name


def find_disks(devices: Sequence[str]) -> list[Path]:
    """Return the folder in /sys/block of each disk.

    Raise UsageError as `find_disk` does, and for a disk that is named twice.
    """
    found: dict[Path, str] = {}
    for device in devices:
        disk = find_disk(device)
        if disk in found:
            also = "" if found[disk] == device else f", also as {found[disk]}"
            raise UsageError(f"{device} is named twice{also}", hint="name each disk once")
        if not _has_bytes(disk):
            raise UsageError(
                f"{device} has no sectors",
                hint="it is a loop device without a file, or a drive without a medium",
            )
        found[disk] = device
    return list(found)


def read_layout(
    disks: Sequence[Path], mounts: list[Mount], *, reads_content: bool = True
) -> dict[str, Any]:
    """Return the parts of layout.json that describe the disks; signatures are in their content."""
    return _read(disks, mounts, reads_content=reads_content)[0]


def _read(
    disks: Sequence[Path], mounts: list[Mount], *, reads_content: bool
) -> tuple[dict[str, Any], set[str]]:
    """Return the layout, and the disks of which a content could not be read."""
    names = [disk.name for disk in disks]
    stack, contents = read_host(names, mounts, reads_content=reads_content, swaps=SWAPS)
    if absent := [name for name in names if name not in stack.nodes]:
        raise FileNotFoundError(f"{absent[0]} went away")
    layout = _layout(stack, disks)
    parts = {disk: {disk, *(part.name for part in stack.partitions_of(disk))} for disk in names}
    found = {disk: _unread(contents, own) for disk, own in parts.items()}
    unread = {disk: lines for disk, lines in found.items() if lines}
    rest = contents.unread.keys() - set[str]().union(*parts.values())
    if above := _above(stack, names):
        layout["above"] = above | {"doubts": contents.followed}
    return layout | _left_open([*contents.doubts, *_unread(contents, rest)], unread), {*unread}


def _above(stack: Stack, disks: Sequence[str]) -> dict[str, Any]:
    """Return what leads from devices whose blocks have no known order on disks to these.

    Those devices and what is on them, and the ones between, of which the kernel records remaps.
    """
    tops, between = list[str](), dict[str, None]()
    for node in stack.nodes.values():
        unordered = [name for name, what in node.aside.items() if what == Beside.BLOCKS]
        reached = [one for name in unordered for one in stack.reach(name)]
        if node.name.startswith(MAPPED) and node.name not in disks and {*disks} & {*reached}:
            tops.append(node.name)
            between |= dict.fromkeys(one for one in reached if one.startswith(MAPPED))
    if not tops:
        return {}
    return {
        "devices": [_numbered(stack.nodes[name]) for name in tops],
        "between": [_numbered(stack.nodes[name]) for name in between if name not in disks],
        "partitions": entries_of(stack, tops),
    }


def _left_open(doubts: list[str], unread: dict[str, list[str]]) -> dict[str, Any]:
    """Return the keys of layout.json for what is not known: in general, and of each disk."""
    found = {"doubts": doubts, "unread": unread}
    return {key: value for key, value in found.items() if value}


def _layout(stack: Stack, disks: Sequence[Path]) -> dict[str, Any]:
    return {
        "layout_version": LAYOUT_VERSION,
        "kernel": platform.release(),
        "devices": [_describe_disk(disk) for disk in disks],
        "partitions": entries_of(stack, [disk.name for disk in disks]),
    }


@dataclass(frozen=True)
class Described:
    """What is on disks."""

    layout: dict[str, Any]
    """The content of a layout.json."""
    tree: list[str]
    doubts: list[str]
    """What is not known, and what to do about it."""


def describe(devices: Sequence[str] = ()) -> Described:
    """Describe disks of this host, all of them unless some are named."""
    mounts = read_mounts()
    if devices:
        disks = find_disks(devices)
    else:
        stack = Stack(read_nodes(mounts))
        lowest = [name for name in stack.nodes if len(stack.reach(name)) == 1]
        disks = [BLOCK_FOLDER / name for name in lowest if (BLOCK_FOLDER / name).is_dir()]
    names = [disk.name for disk in disks]
    stack, contents = read_host(names, mounts)
    layout = _layout(stack, disks)
    doubts = [*contents.doubts, *_unread(contents, contents.unread)]
    return _with_doubts(layout, draw(stack, names), doubts)


def _unread(contents: Contents, names: Collection[str]) -> list[str]:
    """Return why the content of some devices could not be read."""
    hint = "" if os.geteuid() == 0 else "; root can read it"
    return [f"{name}: {why}{hint}" for name, why in contents.unread.items() if name in names]


def describe_texts(texts: Mapping[str, str], devices: Sequence[str] = ()) -> Described:
    """Describe disks of another host by texts of its programs; raise InputError for others."""
    stack, contents = read_texts(texts)
    names = [kernel_name(os.path.normpath(device)) for device in devices] or [
        name for name, node in stack.nodes.items() if not node.below
    ]
    if absent := [name for name in names if name not in stack.nodes]:
        known = ", ".join(stack.nodes)
        raise UsageError(f"{absent[0]} is in none of the texts", hint=f"they have {known}")
    found = [stack.nodes[name] for name in names]
    layout = {
        "layout_version": LAYOUT_VERSION,
        "kernel": None,
        "devices": [_numbered(one) | {"size_sectors": one.sectors, **one.facts} for one in found],
        "partitions": entries_of(stack, names),
    }
    return _with_doubts(layout, draw(stack, names), contents.doubts)


def _with_doubts(layout: dict[str, Any], tree: list[str], doubts: list[str]) -> Described:
    return Described(layout | ({"doubts": doubts} if doubts else {}), tree, doubts)


def _numbered(node: Node) -> dict[str, Any]:
    major, _, minor = node.numbers.partition(",")
    numbers = {"major": int(major), "minor": int(minor)} if minor else {}
    return {"device": node.name, **numbers}


def read_again(
    before: dict[str, Any],
    disks: Sequence[Path],
    *,
    mounts: list[Mount],
    reads_content: bool = True,
) -> tuple[dict[str, Any], list[str]]:
    """Return the layout as it is now, and the disks that went away, which keep what was before.

    A loop device that is detached goes step by step: it cannot be read, has no bytes, is not there.
    """
    while True:
        there = [disk for disk in disks if _has_bytes(disk)]
        try:
            now, unread = _read(there, mounts, reads_content=reads_content)
        except OSError:
            if all(map(_has_bytes, there)):
                raise
            continue  # one went away meanwhile
        break
    known = {disk.name for disk in there if disk.name not in unread and _has_bytes(disk)}
    gone = []
    for disk in disks:
        kept, found = (_entries(layout, disk.name) for layout in (before, now))
        if disk.name not in known and kept != found:
            gone.append(disk.name)
    for key in ("devices", "partitions"):
        now[key] = [entry for entry in now[key] if entry["device"] not in gone]
        now[key] += [entry for entry in before[key] if entry["device"] in gone]
    ended, told = _ended(_swap_files(before, now))
    now["partitions"] += ended
    if "above" in before:  # what was traced has to be known
        now["above"] = now.get("above", before["above"]) | {"between": before["above"]["between"]}
    doubts: list[str] = [*now.pop("doubts", ()), *told]
    lasting = {disk: before.get("unread", {}).get(disk, []) for disk in gone}
    unread = now.pop("unread", {}) | lasting
    return now | _left_open(doubts, {disk: some for disk, some in unread.items() if some}), gone


def _swap_files(layout: Mapping[str, Any], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pieces of swap files that a layout has and another one does not know."""
    places = {(one["device"], one["start_sector"], one["role"]) for one in known["partitions"]}
    return [
        one
        for one in layout["partitions"]
        if "swap_file" in one and (one["device"], one["start_sector"], one["role"]) not in places
    ]


def _ended(pieces: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return pieces of swap files as of before the end, and what is to be said of them."""
    sectors: Counter[str] = Counter()
    for one in pieces:
        sectors[one["name"]] += one["sectors"]
    doubts = [
        f"{name}: the swap file was switched off during the capture: all requests in its"
        f" {count:,} sectors have the role swap, also those of before and after"
        for name, count in sectors.items()
    ]
    return [one | {"evidence": _evidence_of_ended(one)} for one in pieces], doubts


def _evidence_of_ended(piece: Mapping[str, Any]) -> str:
    path = piece["swap_file"]
    return swap_file_evidence(path, piece["name"].removesuffix(f":{path}"), is_off=True)


class SwapFiles:
    """The swap files of this host while a capture records: they may come and go."""

    def __init__(self, disks: Sequence[Path]) -> None:
        """Take the disks, folders in /sys/block, before their layout is read."""
        self._disks = disks
        self._known = self._names()

    def _names(self) -> set[str]:
        with suppress(OSError):
            return {one.path for one in read_swaps(SWAPS.read_text()) if one.is_file}
        return set()

    def add_new(self, layout: dict[str, Any]) -> bool:
        """Add to the layout what came since the last look; return whether there was something.

        What could not be read is looked for again.
        """
        names = self._names()
        if not names - self._known:
            self._known = names
            return False
        with suppress(OSError):
            pieces = _swap_files(read_layout(self._disks, read_mounts()), layout)
            layout["partitions"] += pieces
            self._known = names
            return bool(pieces)
        return False


def _entries(layout: Mapping[str, Any], device: str) -> list[dict[str, Any]]:
    entries = [*layout["devices"], *layout["partitions"]]
    return [entry for entry in entries if entry["device"] == device]


def _has_bytes(disk: Path) -> bool:
    try:
        return _number(disk / "size") > 0
    except OSError:
        return False


def _describe_disk(disk: Path) -> dict[str, Any]:
    major, minor = (disk / "dev").read_text().split(":")
    try:
        scheduler = read_setting(disk / "queue/scheduler")
    except FileNotFoundError:
        scheduler = "none"  # disks without queues (dm, md, zram) have no file for it
    return {
        "device": disk.name,
        "major": int(major),
        "minor": int(minor),
        "size_sectors": _number(disk / "size"),
        "logical_sector_bytes": _number(disk / "queue/logical_block_size"),
        "rotational": _number(disk / "queue/rotational") == 1,
        "scheduler": scheduler,
    }


def _number(file: Path) -> int:
    return int(file.read_text())
