"""The storage stack of another host, from what its own programs print."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tracekit.errors import InputError
from tracekit.stack.contents import Contents, add_pools, give_uses
from tracekit.stack.device_mapper import Target, map_target, read_tables, striped
from tracekit.stack.devices import Beside, Node, Piece, Stack
from tracekit.stack.md import Arrays, map_array
from tracekit.stack.mounts import Mount, Swap, read_swaps
from tracekit.stack.signatures import ZFS, Signature
from tracekit.stack.zfs import PoolPart, read_status
from tracekit.units import SECTOR_BYTES

READABLE = (
    "lsblk -J -b -O; sfdisk -d or -J DISK; blkid; findmnt -J; cat /proc/swaps; dmsetup table;"
    " pvs and lvs --reportformat json; DEVICE=FILE of dumpe2fs -h DEVICE and of"
    " debugfs -R 'stat <8>' DEVICE; xfs_info; DEVICE=FILE of xfs_db;"
    " zpool status -LP; filefrag -v SWAPFILE; mdadm --examine MEMBER...; mdadm --detail ARRAY...;"
    " cat /proc/mdstat"
)
_XFS_FEATURE = re.compile(r"\b(crc|finobt|rmapbt|reflink)=(\d)")
_LVM_DEVICE = re.compile(r"(?P<name>[^,(]+)\((?P<extent>\d+)\)")
_LVM_LABEL = re.compile(r"((?:[^-]|--)+)-((?:[^-]|--)+)")
"""Volume group and volume, whose own hyphens are doubled."""
_PAIR = re.compile(r'(\w+)="([^"]*)"')
_SFDISK = re.compile(
    r"^(?P<node>/\S+)\s*:\s*start=\s*(?P<start>\d+),\s*size=\s*(?P<size>\d+)(?P<rest>.*)"
)
_FRAGMENT = re.compile(r"^ *\d+: +(\d+)\.\. *\d+: +(\d+)\.\. *(\d+):", re.MULTILINE)
SOME = "a file system"
_FACTS = {"logical_sector_bytes": "log-sec", "rotational": "rota", "scheduler": "sched"}
"""Of a disk in layout.json, and the column of lsblk."""
_SWAP_TYPES = {"0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "82"}


@dataclass
class Gathered:
    """What texts say, before they are put together."""

    nodes: dict[str, Node] = field(default_factory=dict)
    below: dict[str, set[str]] = field(default_factory=dict)
    signatures: dict[str, Signature] = field(default_factory=dict)
    """By the path of a device."""
    mounts: list[Mount] = field(default_factory=list)
    swaps: list[Swap] = field(default_factory=list)
    swap_files: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    tables: dict[str, list[Target]] = field(default_factory=dict)
    volumes: list[dict[str, str]] = field(default_factory=list)
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By physical volume: first sector of its extents, and sectors of one."""
    journals: dict[str, tuple[int, list[tuple[int, int]]]] = field(default_factory=dict)
    """By device: bytes of a block (0: not known), first block and number of blocks."""
    block_bytes: dict[str, int] = field(default_factory=dict)
    """Of an ext4, by its UUID."""
    inner: dict[str, str] = field(default_factory=dict)
    """Size of the journal inside an ext4, by its UUID."""
    sources: dict[str, str] = field(default_factory=dict)
    pools: dict[str, PoolPart] = field(default_factory=dict)
    """By device, as zpool names it."""
    arrays: Arrays = field(default_factory=Arrays)
    outside: list[str] = field(default_factory=list)
    """XFS whose log is on another device."""
    doubts: list[str] = field(default_factory=list)
    unplaced: set[str] = field(default_factory=set)
    """Devices of which a doubt says that the places of their blocks are not known."""


def read_texts(texts: Mapping[str, str]) -> tuple[Stack, Contents]:
    """Return the stack that texts describe, and its contents with what they leave open.

    `texts` are by their file's name, or DEVICE=NAME for one that names no device. Raise InputError
    for a text that none of the known programs prints.
    """
    found = Gathered()
    for name, text in texts.items():
        device, equals, _ = name.rpartition("=")
        try:
            _take(found, text, device if equals else "", name)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise InputError(
                f"{name}: not as its program prints it: {error!r}", hint=f"give {READABLE}"
            ) from None
    if not found.nodes:
        raise InputError("the texts name no disk", hint="give at least `lsblk -J -b -O`")
    return _put_together(found)


def _take(found: Gathered, text: str, device: str, name: str) -> None:
    if text.lstrip().startswith("{"):
        content = json.loads(text)
        for key, take_json in _JSON.items():
            if key in content:
                take_json(found, content)
                return
    for pattern, take in _TEXTS:
        if re.search(pattern, text, re.MULTILINE):
            take(found, text, device)
            return
    if text.strip() and text.strip() != "No devices found":
        raise InputError(f"{name}: not a text that is known", hint=f"give {READABLE}")


def _lsblk(found: Gathered, content: dict[str, Any]) -> None:
    for entry in content["blockdevices"]:
        _lsblk_entry(found, entry, None)


def _lsblk_entry(found: Gathered, entry: dict[str, Any], parent: str | None) -> None:
    name = kernel_name(entry.get("kname") or entry["name"])
    try:
        sectors = int(entry["size"]) // SECTOR_BYTES
    except ValueError:
        raise InputError(
            f"lsblk: the size of {name} is {entry['size']}, which is rounded",
            hint="print it with lsblk -J -b -O",
        ) from None
    # A table of partitions, which may be read first, does not say all of a disk.
    node = found.nodes.setdefault(name, Node(name, "", sectors))
    # Another text, of fewer columns, takes nothing away.
    node.sectors = sectors
    node.numbers = (entry.get("maj:min") or "").replace(":", ",") or node.numbers
    node.kind = entry.get("type") or node.kind
    node.label = entry["name"] if kernel_name(entry["name"]) != name else node.label
    if parent is None:
        for key, column in _FACTS.items():
            value = entry.get(column)
            node.facts[key] = node.facts.get(key) if value is None else value
    else:
        found.below.setdefault(name, set()).add(parent)
        if node.kind == "part" and entry.get("start") is not None:
            node.pieces = [Piece(0, sectors, parent, int(entry["start"]))]
    known = found.signatures.get(f"/dev/{name}")
    if entry.get("fstype") and (known is None or known.uuid == "?"):
        found.signatures[f"/dev/{name}"] = _signature(entry["fstype"], entry.get("uuid"))
    for point in entry.get("mountpoints") or [entry.get("mountpoint")]:
        if point == "[SWAP]":
            found.swaps.append(Swap(f"/dev/{name}", is_file=False))
        elif point:
            found.mounts.append(Mount("", point, entry.get("fstype") or "", f"/dev/{name}"))
    for child in entry.get("children", ()):
        _lsblk_entry(found, child, name)


def _signature(kind: str, uuid: str | None, **more: Any) -> Signature:
    word = {"ext2": "ext4", "ext3": "ext4"}.get(kind, kind)
    return Signature(word, uuid or "?", **more)


def kernel_name(path: str) -> str:
    """Return the name of a disk or partition; a folder of its own (cciss!c0d0) is cciss/c0d0."""
    return path.removeprefix("/dev/").removeprefix("mapper/").replace("!", "/")


def _partition(found: Gathered, disk: str, path: str, start: int, sectors: int) -> Node:
    name = kernel_name(path)
    node = found.nodes.setdefault(name, Node(name, "", sectors))
    found.nodes.setdefault(disk, Node(disk, "", start + sectors))
    found.nodes[disk].sectors = max(found.nodes[disk].sectors, start + sectors)
    node.kind, node.sectors = "part", sectors
    node.pieces = [Piece(0, sectors, disk, start)]
    found.below.setdefault(node.name, set()).add(disk)
    return node


def _sfdisk_json(found: Gathered, content: dict[str, Any]) -> None:
    table = content["partitiontable"]
    factor = int(table.get("sectorsize", SECTOR_BYTES)) // SECTOR_BYTES
    for one in table.get("partitions", ()):
        disk = kernel_name(table["device"])
        _partition(found, disk, one["node"], one["start"] * factor, one["size"] * factor)
        if str(one.get("type")).lower() in _SWAP_TYPES:
            found.signatures.setdefault(one["node"], _signature("swap", None))


def _sfdisk_dump(found: Gathered, text: str, _device: str) -> None:
    disk = re.search(r"^device:\s*(\S+)", text, re.MULTILINE)
    scale = re.search(r"^sector-size:\s*(\d+)", text, re.MULTILINE)
    factor = int(scale[1]) // SECTOR_BYTES if scale else 1
    for match in filter(None, map(_SFDISK.match, text.splitlines())):
        start, size = int(match["start"]) * factor, int(match["size"]) * factor
        _partition(found, kernel_name(disk[1] if disk else ""), match["node"], start, size)
        kind = re.search(r"\b(?:type|Id)=\s*([0-9A-Fa-f-]+)", match["rest"])
        if kind and kind[1].lower() in _SWAP_TYPES:
            found.signatures.setdefault(match["node"], _signature("swap", None))


def _findmnt(found: Gathered, content: dict[str, Any]) -> None:
    for entry in content["filesystems"]:
        source = str(entry.get("source") or "").partition("[")[0]
        options = entry.get("fs-options") or entry.get("options") or ""
        found.mounts.append(Mount("", entry["target"], entry["fstype"], source, options))
        if "children" in entry:
            _findmnt(found, {"filesystems": entry["children"]})


def _blkid(found: Gathered, text: str, _device: str) -> None:
    for line in text.splitlines():
        path, colon, rest = line.partition(": ")
        values = dict(_PAIR.findall(rest))
        if colon and "TYPE" in values:
            journal = values.get("EXT_JOURNAL")
            more = {"journal_uuid": journal} if journal else {}
            found.signatures[path] = _signature(values["TYPE"], values.get("UUID"), **more)


def _report(found: Gathered, content: dict[str, Any]) -> None:
    for report in content["report"]:
        for row in report.get("pv", ()):
            if row.get("pe_start") and row.get("vg_extent_size"):
                sizes = (_lvm_sectors(row["pe_start"]), _lvm_sectors(row["vg_extent_size"]))
                found.groups[row["pv_name"]] = sizes
        rows = [*report.get("seg", ()), *report.get("lv", ())]
        found.volumes += [row for row in rows if {"seg_start", "seg_size", "devices"} <= row.keys()]
        if rows and not found.volumes:
            found.doubts.append(
                "lvs lists no segments: print lvs -a --segments --units s --reportformat json -o"
                " lv_name,vg_name,segtype,seg_start,seg_size,devices,stripes,stripe_size"
            )


def _lvm_sectors(text: str) -> int:
    number = text.strip().rstrip("sS")
    if not number.isdecimal():
        raise InputError(f"{text} is rounded", hint="print pvs and lvs with --units s")
    return int(number)


def _dumpe2fs(found: Gathered, text: str, _device: str) -> None:
    def value(key: str) -> str:
        match = re.search(rf"^{key}: +(\S.*)$", text, re.MULTILINE)
        return match[1].strip() if match else ""

    uuid, block = value("Filesystem UUID"), int(value("Block size"))
    found.block_bytes[uuid] = block
    if value("Journal inode"):
        found.inner[uuid] = value("Total journal size") or value("Journal size") or "of some size"
    if "journal_dev" in value("Filesystem features"):
        found.sources[uuid] = "jbd"


def _debugfs(found: Gathered, text: str, device: str) -> None:
    if not device:
        raise InputError(
            "a text of debugfs names no device", hint="give it as DEVICE=FILE, such as sda2=journal"
        )
    places = text.partition("EXTENTS:")[2] or text.partition("BLOCKS:")[2]  # of ext3
    rows = re.findall(r"\(\d+(?:-\d+)?\):(\d+)(?:-(\d+))?", places)
    runs = [(int(first), int(last or first) - int(first) + 1) for first, last in rows]
    size, blocks = re.search(r"\bSize: (\d+)", text), sum(count for _, count in runs)
    found.journals[device] = (int(size[1]) // blocks if size and blocks else 0, runs)


def _xfs_info(found: Gathered, text: str, device: str) -> None:
    """Take the log of an XFS: beside it, or where mkfs.xfs puts it inside."""
    path = re.search(r"meta-data=(\S+)", text)
    where = re.search(r"^log +=(\S+).*?bsize=(\d+) +blocks=(\d+)", text, re.MULTILINE)
    groups = re.search(r"agcount=(\d+), agsize=(\d+)", text)
    if path is None or where is None or groups is None:
        raise InputError("a text of xfs_info has no log or groups", hint="give all of it")
    name = device or path[1]
    if where[1] == "external":  # of one that is mounted: the name of its log is left out
        found.outside.append(name)
        return
    if where[1] != "internal":
        found.mounts.append(Mount("", "", "xfs", name, f"logdev={where[1]}"))
        return
    before = text.partition("naming")[0]
    sizes = dict(re.findall(r"\b(sectsz|sunit|agcount)=(\d+)", before))
    # A file system that has grown has more groups than the four of mkfs.xfs, and its log stays.
    if sizes.get("agcount") != MADE_GROUPS:
        return  # and _doubt_journals says what is missing
    has = {key: value == "1" for key, value in _XFS_FEATURE.findall(text)}
    # Behind the headers and the roots of the trees of the middle group.
    trees = 4 + has.get("finobt", False) + has.get("rmapbt", False) + has.get("reflink", False)
    start = int(groups[1]) // 2 * int(groups[2]) + trees
    found.journals[name] = (int(where[2]), [(start, int(where[3]))])
    found.sources[name] = ASSUMED_LOG
    if (sizes.get("sectsz", "512"), sizes.get("sunit", "0"), where[2]) != ("512", "0", "4096"):
        found.sources[name] += ", some sectors more or less"


ASSUMED_LOG = "xfs_info, assumed to be where mkfs.xfs puts it"
MADE_GROUPS = "4"
"""Groups that mkfs.xfs makes of a disk below 4 TiB that is no RAID."""


def _xfs_db_of(name: str) -> str:
    fields = "blocksize agblocks agblklog logstart logblocks"
    return f"`xfs_db -r -c 'sb 0' -c 'p {fields}' /dev/{os.path.basename(name)}`"


def _xfs_db(found: Gathered, text: str, device: str) -> None:
    """Take the log of an XFS from its super block."""
    if not device:
        raise InputError(
            "a text of xfs_db names no device", hint="give it as DEVICE=FILE, such as sda2=log"
        )
    rows = re.findall(r"^(\w+) = (\d+)$", text, re.MULTILINE)
    value = {key: int(number) for key, number in rows}
    missing = [key for key in _XFS_FIELDS if key not in value]
    if missing:
        raise InputError(
            f"a text of xfs_db lacks {', '.join(missing)}",
            hint=f"print it with {_xfs_db_of(device)}",
        )
    if not value["logstart"]:  # it is outside
        return
    group, block = divmod(value["logstart"], 1 << value["agblklog"])
    start = group * value["agblocks"] + block
    found.journals[device] = (value["blocksize"], [(start, value["logblocks"])])
    found.sources[device] = XFS_DB


XFS_DB = "xfs_db"
_XFS_FIELDS = ("blocksize", "agblocks", "agblklog", "logstart", "logblocks")


def _filefrag(found: Gathered, text: str, _device: str) -> None:
    for part in text.split("File size of ")[1:]:
        path = part.partition(" is ")[0]
        size = re.search(r"blocks? of (\d+) bytes", part)
        scale = (int(size[1]) if size else 4096) // SECTOR_BYTES
        rows = [tuple(map(int, row)) for row in _FRAGMENT.findall(part)]
        found.swap_files[path] = [
            (first * scale, (last - first + 1) * scale) for _, first, last in rows
        ]


_JSON: dict[str, Callable[[Gathered, dict[str, Any]], None]] = {
    "blockdevices": _lsblk,
    "partitiontable": _sfdisk_json,
    "filesystems": _findmnt,
    "report": _report,
}
_TEXTS: tuple[tuple[str, Callable[[Gathered, str, str], None]], ...] = (
    (r"^Filename\s+Type\s+Size", lambda found, text, _: found.swaps.extend(read_swaps(text))),
    (r"^Filesystem UUID:", _dumpe2fs),
    (r"^Inode: 8 ", _debugfs),
    (r"^ *pool: ", lambda found, text, _: found.pools.update(read_status(text))),
    (r"^logstart = ", _xfs_db),
    (r"^meta-data=", _xfs_info),
    (r"^File size of ", _filefrag),
    (r"^Personalities ?:", lambda found, text, _: found.arrays.take_mdstat(text)),
    (r"^ +Magic : a92b4efc", lambda found, text, _: found.arrays.take_examine(text)),
    (r"^ +Raid Level : ", lambda found, text, _: found.arrays.take_detail(text)),
    (r"^device: */|^label: ", _sfdisk_dump),
    (r"^\S+: \d+ \d+ \S+", lambda found, text, _: found.tables.update(read_tables(text))),
    (r'^/\S+: .*\w+="', _blkid),
)


class _Names:
    """The devices that paths name: of the kernel, of the device mapper, of LVM."""

    def __init__(self, found: Gathered) -> None:
        self._names = {f"/dev/{name}": name for name in found.nodes}
        for node in found.nodes.values():
            if node.label:
                self._names[f"/dev/mapper/{node.label}"] = node.name
                self._names.setdefault(f"/dev/{node.label}", node.name)
                if volume := _LVM_LABEL.fullmatch(node.label):
                    group, name = (part.replace("--", "-") for part in volume.groups())
                    self._names.setdefault(f"/dev/{group}/{name}", node.name)

    def __getitem__(self, path: str) -> str | None:
        return self._names.get(path if path.startswith("/") else f"/dev/{path}")


def _put_together(found: Gathered) -> tuple[Stack, Contents]:
    names = _Names(found)
    _map_nodes(found, names)
    contents = Contents(doubts=found.doubts, unplaced=found.unplaced)
    for path, signature in found.signatures.items():
        name = names[path]
        if name is not None:
            known = contents.signatures.get(name)
            contents.signatures[name] = signature if known is None or known.uuid == "?" else known
    _add_journals(found, contents, names)
    # lsblk knows where something is mounted, and not always what it is.
    for mount in sorted(found.mounts, key=lambda one: not one.filesystem):
        name = names[mount.source]
        if name is not None and mount.point:
            known = contents.signatures.get(name)
            kind = mount.filesystem or (known.kind if known else SOME)
            contents.mounts.setdefault(name, replace(mount, filesystem=kind))
            _mount_all(contents, name, mount)
        log = names[mount.option("logdev") or ""]
        if log is not None:
            contents.logs_of[log] = mount.source
    of_log = {names[one] for one in contents.logs_of.values()}
    found.doubts += [
        f"on which device the log of {name} (xfs) is, is not known: add `findmnt -J`"
        for name in found.outside
        if names[name] not in of_log
    ]
    _add_pools(found, contents, names)
    _doubt_journals(found, contents, names)
    _add_swaps(found, contents, names)
    unread = found.nodes.keys() - contents.signatures.keys()
    contents.unread = dict.fromkeys(unread, "no text says what it holds")
    stack = Stack([*found.nodes.values()])
    give_uses(stack, contents)
    return stack, contents


def _add_pools(found: Gathered, contents: Contents, names: _Names) -> None:
    for device, part in found.pools.items():
        name = names[device]
        if name is None:
            found.doubts.append(
                f"{device} of the pool {part.pool} is no device of the texts: print `zpool status"
                " -LP`, of the same host"
            )
        else:
            contents.pools[name] = part
    add_pools(contents, found.mounts)
    for name, known in contents.signatures.items():
        if known and known.kind == ZFS and name not in contents.pools:
            found.doubts.append(
                f"which part of a ZFS pool {name} is, is not known: add `zpool status -LP`"
            )


def _mount_all(contents: Contents, name: str, mount: Mount) -> None:
    """Mount a btrfs on all devices that have its UUID."""
    own = contents.signatures.get(name)
    for other, signature in contents.signatures.items():
        if own and signature and own.kind == "btrfs" and signature.uuid == own.uuid:
            contents.mounts.setdefault(other, mount)


def _map_nodes(found: Gathered, names: _Names) -> None:
    numbers = {node.numbers.replace(",", ":"): node.name for node in found.nodes.values()}
    for node in found.nodes.values():
        tables = found.tables.get(node.label) or found.tables.get(node.name)
        below = sorted(found.below.get(node.name, ()))
        if tables:
            for target in tables:
                _map_target(found, node, target, numbers)
        elif node.kind == "crypt" and len(below) == 1:
            # LUKS puts its header before the data and nothing behind it.
            offset = found.nodes[below[0]].sectors - node.sectors
            node.pieces = [Piece(0, node.sectors, below[0], offset)]
        elif node.kind == "lvm":
            _map_volume(found, node, names)
        elif re.match(r"md[_\d]", node.name) and node.kind != "part" and below:
            _map_array(found, node, below)
        elif node.kind == "mpath":
            node.pieces = [Piece(0, node.sectors, one, 0) for one in below]
        elif node.kind == "part" and below and not node.pieces:
            raise InputError(
                f"lsblk does not say where {node.name} begins on {below[0]}",
                hint="print it with lsblk -J -b -O, or add sfdisk -J DISK",
            )
        if not node.pieces and not node.aside:
            node.aside = dict.fromkeys(below, Beside.BLOCKS)
            if below:
                _doubt_places(found, node, below, "add `dmsetup table`")


def _doubt_places(found: Gathered, node: Node, below: Sequence[str], remedy: str) -> None:
    found.unplaced.add(node.name)
    found.doubts.append(
        f"where the blocks of {node.title} lie on {', '.join(below)} is not known: {remedy}"
    )


def _map_array(found: Gathered, node: Node, below: Sequence[str]) -> None:
    array = found.arrays.array(f"/dev/{node.name}", {name: f"/dev/{name}" for name in below})
    if array is not None and map_array(node, array):
        return
    node.aside = node.aside or dict.fromkeys(below, Beside.BLOCKS)
    names = " ".join(f"/dev/{name}" for name in below)
    has_all = {*names.split()} <= found.arrays.members.keys()
    remedy = "run `tracekit layout` there" if has_all else f"add `mdadm --examine {names}`"
    _doubt_places(found, node, below, remedy)


def _map_target(found: Gathered, node: Node, target: Target, names: dict[str, str]) -> None:
    try:
        map_target(node, target, names=names)
    except (IndexError, ValueError):
        raise InputError(
            f"dmsetup table: the line of {node.title} is not whole:"
            f" {target.kind} {' '.join(target.words)}",
            hint="print it with `dmsetup table`, all of it",
        ) from None
    absent = {one.below for one in node.pieces} | {*node.aside}
    if absent := absent - {*found.nodes}:
        found.doubts.append(
            f"{node.title} lies on {', '.join(sorted(absent))}, which lsblk does not have: give"
            " both of the same host"
        )


def _map_volume(found: Gathered, node: Node, names: _Names) -> None:
    """Map a logical volume by its segments; of what is not in a row or striped nothing is known."""
    for row in found.volumes:
        volume = row["lv_name"].strip("[]")
        path = f"/dev/{row['vg_name']}/{volume}"
        members = [
            (one["name"], int(one["extent"])) for one in _LVM_DEVICE.finditer(row["devices"])
        ]
        if names[path] != node.name or row.get("segtype") not in ("linear", "striped"):
            continue
        if not members or not all(one in found.groups and names[one] for one, _ in members):
            continue
        places = [
            (str(names[one]), found.groups[one][0] + extent * found.groups[one][1])
            for one, extent in members
        ]
        first, sectors = _lvm_sectors(row["seg_start"]), _lvm_sectors(row["seg_size"])
        if len(places) == 1:
            node.pieces.append(Piece(first, sectors, *places[0]))
        else:
            chunk = _lvm_sectors(row.get("stripe_size") or "0")
            node.pieces += striped(first, sectors, members=places, chunk=chunk)
    node.pieces.sort(key=lambda piece: piece.first_sector)


def _add_journals(found: Gathered, contents: Contents, names: _Names) -> None:
    told = {names[one] for one in found.journals if found.sources.get(one) == XFS_DB}
    for device, (block, runs) in found.journals.items():
        source = found.sources.get(device, "debugfs")
        if source.startswith(ASSUMED_LOG) and names[device] in told:
            continue
        name = names[device]
        signature = contents.signatures.get(name or "")
        if name is None or signature is None:
            why = (
                "no text has this device" if name is None else "add `blkid`, which says what it is"
            )
            found.doubts.append(f"{device}: its journal is left out: {why}")
            continue
        size = (block or found.block_bytes.get(signature.uuid, 4096)) // SECTOR_BYTES
        extents = tuple((first * size, count * size) for first, count in runs)
        contents.signatures[name] = Signature(
            signature.kind, signature.uuid, journal_extents=extents
        )
        contents.sources[name] = source
        if source.startswith(f"{ASSUMED_LOG},"):
            found.doubts.append(
                f"where the log of {name} (xfs) begins is assumed, some sectors more or less:"
                f" {_xfs_db_of(name)} says it, give that as {name}=FILE"
            )
    for name, signature in contents.signatures.items():
        size_text = found.inner.get(signature.uuid) if signature else None
        if signature and size_text and not signature.journal_extents:
            found.doubts.append(
                f"{name} has a journal inside, {size_text}: `debugfs -R 'stat <8>' /dev/{name}`"
                f" says where, give it as {name}=FILE"
            )
    for name, signature in contents.signatures.items():
        if signature and found.sources.get(signature.uuid) == "jbd":
            contents.signatures[name] = Signature("jbd", signature.uuid)


def _doubt_journals(found: Gathered, contents: Contents, names: _Names) -> None:
    """Say of which file systems no text tells the journal or log: its requests would be theirs."""
    kinds = {name: mount.filesystem for name, mount in contents.mounts.items()}
    kinds |= {name: known.kind for name, known in contents.signatures.items() if known}
    outside = {names[one.source] for one in found.mounts if one.option("logdev")}
    for name, kind in kinds.items():
        known = contents.signatures.get(name)
        if known and (known.journal_extents or known.journal_uuid):
            continue
        if kind in ("ext3", "ext4") and (known is None or known.uuid not in found.block_bytes):
            found.doubts.append(
                f"whether {name} ({kind}) has a journal inside, and where, is not known: add"
                f" `dumpe2fs -h /dev/{name}`"
            )
        if kind == SOME:
            found.doubts.append(f"which file system {name} holds is not known: add `findmnt -J`")
        if kind == "xfs" and name not in outside:
            found.doubts.append(
                f"where the log of {name} (xfs) lies is not known: add `xfs_info /dev/{name}`, or"
                f" {name}=FILE of {_xfs_db_of(name)}"
            )


def _add_swaps(found: Gathered, contents: Contents, names: _Names) -> None:
    for swap in found.swaps:
        name = names[swap.path]
        if not swap.is_file and name is not None:
            contents.swaps.add(name)
        if not swap.is_file:
            continue
        points = [
            (len(mount.point), device)
            for device, mount in contents.mounts.items()
            if Path(swap.path).is_relative_to(mount.point)
        ]
        runs = found.swap_files.get(swap.path)
        if runs and points:
            contents.swap_files.setdefault(max(points)[1], {})[swap.path] = runs
        else:
            how = f"add `filefrag -v {shlex.quote(swap.path)}`"
            found.doubts.append(f"where the swap file {swap.path} lies is not known: {how}")
