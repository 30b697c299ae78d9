"""How to carry a recommendation out: a shell script for the traced layout, with its way back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePosixPath

import numpy as np

from tracekit.arrow import read_whole
from tracekit.metadata import Region
from tracekit.model.answer import Recommendation
from tracekit.model.placement_units import EXTENT, FILE, TABLE, region_bytes
from tracekit.store import TraceFolder
from tracekit.tables import ROLE_NAMES
from tracekit.units import BLOCK_BYTES, MIB, SECTOR_BYTES, format_duration, format_size

SHELL = Path(__file__).with_name("scripts")
LEAST_JOURNAL_MIB, DEFAULT_JOURNAL_MIB = 4, 128
EXTRA_RATIO, EXTRA_BYTES = 1.1, 16 * MIB
"""What a file system on the NVM takes beside its files."""
EXT = ("ext3", "ext4")


@dataclass(frozen=True)
class Part:
    """One thing to carry out: functions of a shell file, or only words."""

    title: str
    lost: str
    mirrored: str
    library: str = ""
    """File in `scripts`; without one there is only the text."""
    action: str = ""
    """Functions apply_ and undo_ of that."""
    nvm: str = "NVM"
    """Variable of the device that it takes."""
    nvm_bytes: int = 0
    variables: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    undo_arguments: tuple[str, ...] | None = None
    text: tuple[str, ...] = ()


def script(folder: TraceFolder, advice: Recommendation) -> str:
    """Return the script; where nothing is to be moved it says so and does nothing."""
    parts = find_parts(folder, advice)
    done = [one for one in parts if one.library]
    lines = [
        "#!/bin/sh",
        *_comment(_about(advice, parts)),
        *chain.from_iterable(_comment(_about_part(one, done)) for one in parts),
        "set -eu",
        *_variables(done),
        "",
    ]
    for name in dict.fromkeys(["common", *(one.library for one in done)]):
        lines += [(SHELL / f"{name}.sh").read_text()]
    applied = [_call("apply", one, one.arguments) for one in done]
    undone = [
        _call("undo", one, one.arguments if one.undo_arguments is None else one.undo_arguments)
        for one in reversed(done)
    ]
    lines += [
        "case ${1:-apply} in",
        "apply)",
        *(applied or ['  say "nothing is to be moved"']),
        "  ;;",
        "undo)",
        *(undone or ['  say "nothing was moved"']),
        "  ;;",
        '*) stop "usage: sh $0 [apply|undo]" ;;',
        "esac",
        'if is_dry; then say "# nothing was done: set TRACEKIT_APPLY=yes for that"; fi',
    ]
    return "\n".join(lines) + "\n"


def _comment(lines: Sequence[str]) -> list[str]:
    """Return comments; whatever a name has in it stays in its line."""
    return [f"# {re.sub(r'[^ -~]', '?', line)}".rstrip() for line in lines]


def _about(advice: Recommendation, parts: Sequence[Part]) -> list[str]:
    found = advice.units if advice.units is not None else advice.answer
    gain = (
        f"Predicted: {found.gain_ratio:.1%} less I/O time, {format_duration(found.base_elapsed_ns)}"
        f" -> {format_duration(found.elapsed_ns)}, with {format_size(found.capacity_bytes)} of"
        f" {advice.nvm_profile}."
    )
    names = list(dict.fromkeys(one.nvm for one in parts if one.library))
    settings = " ".join(f"{name}=/dev/..." for name in names)
    return [
        "Carries out a recommendation of tracekit.",
        *advice.headline[:1],
        gain,
        "",
        "  sh FILE         prints the commands and does nothing",
        f"  TRACEKIT_APPLY=yes {settings} sh FILE         runs them",
        f"  TRACEKIT_APPLY=yes {settings} sh FILE undo    takes them back",
        "",
        "Back up first and end the applications. Wherever it is cut, all file systems can be",
        "mounted; run it again and it goes on. If the NVM is dead: undo with NVM_LOST=yes.",
        *(
            [
                "",
                "The NVM must be divided, for example by sfdisk, into these partitions:",
                *(f"  size={_mib(one.nvm_bytes)}MiB    {one.nvm}" for one in _by_nvm(parts)),
            ]
            if len(names) > 1
            else []
        ),
        "",
    ]


def _about_part(one: Part, done: Sequence[Part]) -> list[str]:
    needed = f" ({one.nvm}, at least {format_size(one.nvm_bytes)})" if one in done else ""
    return [
        f"* {one.title}{needed}",
        f"  If the NVM dies: {one.lost}",
        f"  Mirrored: {one.mirrored}",
        *(f"  {line}" for line in one.text),
        "",
    ]


def _by_nvm(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield one part for each device."""
    yield from {one.nvm: one for one in parts if one.library}.values()


def _mib(size: int) -> int:
    return -(-size // MIB)


def _variables(parts: Sequence[Part]) -> Iterator[str]:
    """Yield assignments of what the environment does not set."""
    given = dict(chain.from_iterable(one.variables for one in parts))
    for name, value in {**{one.nvm: "" for one in parts}, **given}.items():
        yield f'[ -n "${{{name}:-}}" ] || {name}={shlex.quote(value)}'


def _call(way: str, one: Part, arguments: Sequence[str]) -> str:
    return f"  {way}_{one.action} {' '.join(arguments)}"


def find_parts(folder: TraceFolder, advice: Recommendation) -> list[Part]:
    """Return what is to be done for the answer by units, else for the answer by roles."""
    layout = folder.info.layout
    if advice.units is None:
        blocks = advice.answer.blocks
        roles = {role: count * BLOCK_BYTES for role, count in blocks.items() if count}
        parts = list(_role_parts(layout, roles))
    elif not advice.units.placed_count:
        parts = []
    else:
        table = read_whole(folder.require(TABLE, made_by="recommend"))
        rows = [row for row in table.to_pylist() if row["is_placed"]]
        roles = {row["name"]: row["bytes"] for row in rows if row["unit"] == "role"}
        files = [row for row in rows if row["unit"] in (FILE, "directory")]
        extents = [row for row in rows if row["unit"] == EXTENT]
        parts = [*_role_parts(layout, roles), *_move_parts(files), *_extent_parts(extents)]
    return _named(parts)


def _named(parts: list[Part]) -> list[Part]:
    """Give parts of different kinds a device each; all moved files are on one."""
    if len({one.library for one in parts if one.library}) < 2:
        return parts
    return [
        replace(
            one,
            nvm=f"NVM_{one.library.upper()}",
            arguments=tuple(_renamed(one.arguments, one.library)),
            undo_arguments=None
            if one.undo_arguments is None
            else tuple(_renamed(one.undo_arguments, one.library)),
        )
        for one in parts
    ]


def _renamed(arguments: Sequence[str], library: str) -> Iterator[str]:
    for one in arguments:
        yield f'"$NVM_{library.upper()}"' if one == NVM else one


NVM = '"$NVM"'
RAID = (
    "mdadm --create /dev/md/nvm --level=1 --raid-devices=2 /dev/A /dev/B (one NVM each), and give"
    " /dev/md/nvm for the NVM."
)


def _role_parts(layout: Sequence[Region], roles: dict[str, int]) -> Iterator[Part]:
    if "journal" in roles:
        yield from _journal_parts(layout, roles["journal"])
    if "swap" in roles:
        yield _swap_part(roles["swap"])
    if "fs" in roles:
        yield from _fs_parts(layout, roles["fs"])


def _file_systems(layout: Sequence[Region]) -> list[Region]:
    return [one for one in layout if one.role == "fs" and one.name]


def _journal_parts(layout: Sequence[Region], size: int) -> Iterator[Part]:
    """Yield how each file system that has a journal in the trace gets it on the NVM."""
    journals = [one for one in layout if one.role == "journal"]
    systems = _file_systems(layout)
    other = [one for one in systems if one.filesystem not in (*EXT, None)]
    for unlike in other:
        yield _text_journal(unlike)
    if other and len(other) == len(systems):
        return
    kept: list[Region | None] = [one for one in systems if one not in other]
    for number, one in enumerate(kept or [None]):
        mine = [journal for journal in journals if one is not None and _has(one, journal)]
        outer = (
            [journal for journal in mine if journal.name != f"{one.name} journal"] if one else []
        )
        held = sum(journal.sectors for journal in mine) * SECTOR_BYTES
        mib = max(_mib(held or size), LEAST_JOURNAL_MIB) if mine or size else DEFAULT_JOURNAL_MIB
        if one is not None and journals and not mine:
            continue
        yield _ext4_journal(one, outer, mib=mib, suffix=f"_{number}" if number else "")


def _has(system: Region, journal: Region) -> bool:
    """Say whether a journal is that file system's: in it, or on a device that names it."""
    inside = journal.name == f"{system.name} journal"
    words = re.split(r"[ ,]+", journal.evidence or "")
    return inside or str(system.name) in words


def _ext4_journal(system: Region | None, outer: Sequence[Region], *, mib: int, suffix: str) -> Part:
    device = f"/dev/{system.name}" if system and system.name else ""
    old = f"/dev/{outer[0].name}" if outer else ""
    names = {"FS": device, "POINT": system.mount or "" if system else "", "OLD_JOURNAL": old}
    variables = {f"{name}{suffix}": value for name, value in names.items()}
    quoted = [f'"${name}"' for name in variables]
    return Part(
        title=f"the journal of {device or 'the ext4 that FS names'} becomes an external one",
        lost="the last seconds of writes, and the file system is read-only until NVM_LOST=yes undo;"
        " the journal alone on one device is a single point of failure.",
        mirrored=RAID,
        library="journal",
        action="journal",
        nvm_bytes=mib * MIB,
        variables=(*variables.items(), (f"MIB{suffix}", str(mib))),
        arguments=(*quoted[:2], NVM, f'"$MIB{suffix}"'),
        undo_arguments=(*quoted[:2], NVM, f'"$MIB{suffix}"', quoted[2]),
        text=(
            "A journal cannot be divided: all of it moves. After device numbers change, run",
            "e2fsck or mount with journal_path=/dev/disk/by-label/tracekit-journal.",
        ),
    )


def _text_journal(system: Region) -> Part:
    """Return the words for a file system whose log no command moves while it has data."""
    name = shlex.quote(f"/dev/{system.name}")
    point = shlex.quote(system.mount or "MOUNT")
    if system.filesystem == "zfs":
        return Part(
            title=f"the intent log of the pool at {point} on the NVM",
            lost="the last seconds of synchronous writes, if the machine stops at the same time.",
            mirrored="zpool add POOL log mirror /dev/A /dev/B",
            text=("zpool add POOL log /dev/NVM", "undo: zpool remove POOL /dev/NVM"),
        )
    return Part(
        title=f"the log of the {system.filesystem} on {name} (by hand: it is chosen by mkfs)",
        lost="the file system cannot be mounted without its log; xfs_repair -L loses the last"
        " writes.",
        mirrored=RAID,
        text=(
            f"xfsdump -l 0 -f /backup/dump {point}; umount {point}",
            f"mkfs.xfs -f -l logdev=/dev/NVM {name}    # destroys: only behind a whole dump",
            f"mount -o logdev=/dev/NVM {name} {point}; xfsrestore -f /backup/dump {point}",
            "undo: the same without logdev.",
        ),
    )


def _swap_part(size: int) -> Part:
    return Part(
        title="a swap area on the NVM, of higher priority than the others",
        lost="processes whose memory is on it are killed, or the machine stops; no file is lost.",
        mirrored=RAID,
        library="swap",
        action="swap",
        nvm_bytes=size,
        arguments=(NVM, str(size)),
        undo_arguments=(NVM,),
        text=("The other swap areas stay for what does not fit.",),
    )


def _fs_parts(layout: Sequence[Region], size: int) -> Iterator[Part]:
    """Yield a cache for a file system of which blocks are placed: no name moves a block."""
    whole = region_bytes(layout).get("fs", 0)
    systems: list[Region | None] = [*_file_systems(layout)]
    for one in systems or [None]:
        is_lvm = one is not None and str(one.name).startswith("dm-")
        if is_lvm and one is not None and size >= whole > 0:
            spans = [(0, one.sectors * SECTOR_BYTES)]
            yield _pvmove_part(str(one.name), spans)
        elif is_lvm and one is not None:
            yield _cache_part(str(one.name), size)
        else:
            yield _no_name_part(one, size)


def _volume(device: str) -> str:
    """Return the variable that names a logical volume."""
    return f"LV_{re.sub(r'[^0-9A-Za-z]', '_', device)}"


def _cache_part(device: str, size: int) -> Part:
    return Part(
        title=f"a cache for /dev/{device}: single blocks of a file system have no name to move by",
        lost="with CACHE=writethrough, the default, nothing: lvconvert --uncache --force. With"
        " writeback or writecache the volume is lost, it is a single point of failure.",
        mirrored="give lvcreate --type raid1 -m1 with two NVM, then lvconvert as printed.",
        library="lvm",
        action="cache",
        nvm_bytes=size,
        variables=((_volume(device), f"/dev/{device}"), ("CACHE", "writethrough")),
        arguments=(f'"${_volume(device)}"', NVM, str(size)),
        undo_arguments=(f'"${_volume(device)}"', NVM),
    )


def _no_name_part(system: Region | None, size: int) -> Part:
    name = shlex.quote(f"/dev/{system.name}") if system else "/dev/BASE"
    return Part(
        title=f"{format_size(size)} of the {ROLE_NAMES['fs']} on {name}: by hand, as its blocks"
        " have no name to move by",
        lost="with a write-through cache nothing, with a write-back one the file system.",
        mirrored=RAID,
        text=(
            "Ask with --unit directory or file and --files for what can be moved by name, or use",
            "a cache; without LVM that destroys what is on the disk, so copy it away first:",
            f"  make-bcache -C /dev/NVM -B {name}    # then mkfs /dev/bcache0, and copy back",
            "  undo: echo 1 > /sys/block/bcache0/bcache/detach, and wait for state 'no cache'",
        ),
    )


def _move_parts(rows: Sequence[dict[str, object]]) -> Iterator[Part]:
    """Yield the files and directories, each with a name of its own on the NVM."""
    total = round(sum(int(str(row["bytes"])) for row in rows) * EXTRA_RATIO) + EXTRA_BYTES
    taken: set[str] = set()
    for number, row in enumerate(rows):
        path = str(row["name"]).rstrip("/")
        name = PurePosixPath(path).name
        if name in taken or name == "lost+found" or name.endswith(".undone"):
            name = f"{name}.{number}"
        taken.add(name)
        arguments = (shlex.quote(path), shlex.quote(name), NVM)
        yield Part(
            title=f"{row['unit']} {path} moves to the NVM, and is mounted where it was",
            lost="what is in it; the original stays as PATH.tracekit-old, as old as the move.",
            mirrored=RAID,
            library="move",
            action="move",
            nvm_bytes=total,
            arguments=(*arguments, str(total)),
            undo_arguments=arguments,
        )


def _extent_parts(rows: Sequence[dict[str, object]]) -> Iterator[Part]:
    """Yield the extents of each device, neighbours as one; only LVM can move them."""
    for device in sorted({str(row["device"]) for row in rows}):
        mine = [row for row in rows if row["device"] == device]
        spans = merge_spans(
            [(int(str(row["first_block"])) * BLOCK_BYTES, int(str(row["bytes"]))) for row in mine]
        )
        if device.startswith("dm-"):
            yield _pvmove_part(device, spans)
        else:
            size = sum(size for _, size in spans)
            yield Part(
                title=f"{format_size(size)} in extents of {device}: no logical volume, by hand",
                lost="what is in them.",
                mirrored=RAID,
                text=(
                    "Extents can be moved in LVM only. Use a cache of this size, or LVM; they are",
                    "(bytes from the start of the device):",
                    *(f"  {first}+{size}" for first, size in spans),
                ),
            )


def merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts (first, size) with those that touch as one."""
    ordered = np.array(sorted(spans), np.int64).reshape(-1, 2)
    ends = ordered.sum(axis=1)
    is_new = np.append(True, ordered[1:, 0] > ends[:-1])[: len(ordered)]
    first = ordered[is_new, 0]
    last = ends[np.append(is_new[1:], True)[: len(ordered)]]
    return [(int(a), int(b - a)) for a, b in zip(first, last, strict=True)]


def _pvmove_part(device: str, spans: Sequence[tuple[int, int]]) -> Part:
    size = sum(size for _, size in spans)
    return Part(
        title=f"{format_size(size)} in extents of the logical volume /dev/{device} move by pvmove",
        lost="what is in the moved extents, and so most of the file system.",
        mirrored=RAID,
        library="lvm",
        action="extents",
        nvm_bytes=size + 4 * MIB,
        variables=((_volume(device), f"/dev/{device}"),),
        arguments=(
            f'"${_volume(device)}"',
            NVM,
            str(size + 4 * MIB),
            *(f"{first}+{length}" for first, length in spans),
        ),
        undo_arguments=(f'"${_volume(device)}"', NVM),
    )
