"""How to carry a recommendation out: a shell script for the traced layout, with its way back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath

import numpy as np

from tracekit.arrow import read_whole
from tracekit.metadata import Region
from tracekit.model.answer import Recommendation
from tracekit.model.cache_rivals import Static, beating
from tracekit.model.carry_header import CACHE, Part, about, about_part, comments
from tracekit.model.commands_by_hand import (
    bcache,
    cut_cache,
    rival_text,
    whole_copy,
    xfs_log,
)
from tracekit.model.database_logs import load_rules
from tracekit.model.file_extents import log_directories, log_of
from tracekit.model.placement_units import (
    DIRECTORY,
    EXTENT,
    FILE,
    FS,
    JOURNAL,
    LOG,
    region_bytes,
)
from tracekit.model.rival_kinds import IN_MEMORY, CacheTimes
from tracekit.model.unit_answer import TABLE
from tracekit.model.unit_charges import (
    EXT,
    FILES_BYTES,
    VOLUME_BYTES,
    Journal,
    file_systems,
    find_journals,
    is_volume,
    node_of,
)
from tracekit.store import TraceFolder
from tracekit.tables import FILE_MAP, ROLE_NAMES
from tracekit.units import BLOCK_BYTES, MIB, SECTOR_BYTES, format_size

SHELL = Path(__file__).with_name("scripts")
SHOWN_FILES = 8
LVM_EXTENT = 4 * MIB


def script(folder: TraceFolder, advice: Recommendation) -> str:
    """Return the script; where nothing is to be moved it says so and does nothing."""
    parts = find_parts(folder, advice)
    done = [one for one in parts if one.library]
    lines = [
        "#!/bin/sh",
        *comments(about(folder, advice, parts=parts)),
        *chain.from_iterable(comments(about_part(one, done)) for one in parts),
    ]
    if not done:
        is_by_hand = any(not one.is_instead for one in parts)
        said = "all is by hand: see the comments" if is_by_hand else "nothing is to be moved"
        return "\n".join([*lines, f"echo '{said}'"]) + "\n"
    lines += ["set -eu", *_variables(done), ""]
    for name in dict.fromkeys(["common", *(one.library for one in done)]):
        lines += [(SHELL / f"{name}.sh").read_text()]
    nvms = dict.fromkeys(one.nvm for one in done)
    lines += [
        'if [ "$NVM_LOST" != yes ] || [ "${1:-apply}" = apply ]; then',
        *(f'  check_device {name} "${name}"' for name in nvms),
        "fi",
        "check_tools $TOOLS",
        "case ${1:-apply} in",
        "apply)",
        *(_call(way, one, one.arguments) for way in ("check", "apply") for one in done),
        "  ;;",
        "undo)",
        *_undo(done),
        "  ;;",
        '*) stop "usage: sh $0 [apply|undo]" ;;',
        "esac",
        'if is_dry; then say "# nothing was done: set TRACEKIT_APPLY=yes for that"; fi',
    ]
    return "\n".join(lines) + "\n"


def _variables(parts: Sequence[Part]) -> Iterator[str]:
    """Yield assignments of what the environment does not set."""
    given = dict(chain.from_iterable(one.variables for one in parts))
    for name, value in {**{one.nvm: "" for one in parts}, **given}.items():
        yield f'[ -n "${{{name}:-}}" ] || {name}={shlex.quote(value)}'


def _call(way: str, one: Part, arguments: Sequence[str]) -> str:
    words = [f'"${one.nvm}"' if word == NVM else word for word in arguments]
    return f"  {way}_{one.action} {' '.join(words)}"


def _undo(done: Sequence[Part]) -> Iterator[str]:
    """Yield the way back: last things first.

    Where the NVM is dead, a file system has to be mounted again before what was moved from it.
    """
    calls = [_call("undo", one, one.undo_arguments or one.arguments) for one in done]
    moved = [one for one in done if one.library == "move"]
    if not moved or moved == [*done]:
        yield from reversed(calls)
    else:
        yield '  if [ "$NVM_LOST" = yes ]; then'
        yield from (f"  {_call('release', one, one.undo_arguments)}" for one in moved)
        yield from (f"  {one}" for one in calls)
        yield "  else"
        yield from (f"  {one}" for one in reversed(calls))
        yield "  fi"
    if moved:
        yield "  leave_files"


def find_parts(folder: TraceFolder, advice: Recommendation) -> list[Part]:
    """Return what is to be done for the answer by units, else for the answer by roles."""
    layout = folder.info.layout
    if advice.units is None:
        blocks = advice.answer.blocks
        roles = {role: count * BLOCK_BYTES for role, count in blocks.items() if count}
        parts = list(_role_parts(layout, roles, advice.caches))
    elif not advice.units.placed_count:
        parts = []
    else:
        table = read_whole(folder.require(TABLE, made_by="recommend"))
        rows = [row for row in table.to_pylist() if row["is_placed"]]
        roles = {row["name"]: row["bytes"] for row in rows if row["unit"] == "role"}
        files = [(row["unit"], row["name"]) for row in rows if row["unit"] in (FILE, DIRECTORY)]
        logs = [row["name"] for row in rows if row["unit"] == LOG]
        moved = [row for row in rows if row["unit"] != "role"]
        total = FILES_BYTES + sum(row["taken_bytes"] for row in moved)
        extents = [row for row in rows if row["unit"] == EXTENT]
        parts = [
            *_role_parts(layout, roles, advice.caches),
            *_move_parts(files, total),
            *_log_parts(folder, logs, total),
            *_extent_parts(extents, layout),
        ]
    return list(_named([*parts, *_rival_parts(layout, advice)]))


def _named(parts: Sequence[Part]) -> Iterator[Part]:
    """Give each part a device of its own; all moved files are on one."""
    kinds = {one.library for one in parts if one.library}
    before: list[str] = []
    for one in parts:
        name = f"NVM_{one.library.upper()}" if len(kinds) > 1 else one.nvm
        count = before.count(one.library) if one.library != "move" else 0
        before.append(one.library)
        yield replace(one, nvm=f"{name}_{count}" if count else name)


NVM = '"$NVM"'
SINGLE = "a single point of failure"
RAID = (
    "mdadm --create /dev/md/nvm --level=1 --raid-devices=2 /dev/A /dev/B (one NVM each), and give"
    " /dev/md/nvm for the NVM."
)


def _role_parts(
    layout: Sequence[Region], roles: dict[str, int], caches: Sequence[CacheTimes]
) -> Iterator[Part]:
    journal, size = roles.get("journal", 0), roles.get("fs", 0)
    is_whole = size >= region_bytes(layout).get("fs", 0) > 0
    is_along = "fs" in roles and _has_journals_along(layout, is_whole=is_whole)
    if journal and not is_along:
        yield from _journal_parts(layout, journal)
    if "swap" in roles:
        yield _swap_part(roles["swap"])
    if size:
        yield from _fs_parts(layout, size + is_along * journal, caches, is_whole=is_whole)


def _has_journals_along(layout: Sequence[Region], *, is_whole: bool) -> bool:
    """Say whether each journal is in a file system that is cached or moved as one device."""
    systems = {f"{one.name} journal": one for one in file_systems(layout)}
    journals = [one for one in layout if one.role == JOURNAL]
    homes = [systems.get(str(one.name)) for one in journals]
    return homes != [] and all(one and (is_whole or is_volume(node_of(one))) for one in homes)


def _path(region: Region) -> str:
    """Return the path of a region's device: names of the device mapper lie in its own folder."""
    return f"/dev/{'' if node_of(region) == region.name else 'mapper/'}{region.name}"


def _journal_parts(layout: Sequence[Region], size: int) -> Iterator[Part]:
    """Yield how each file system that has a journal in the trace gets it on the NVM."""
    found = find_journals(layout, size)
    other = [
        one.system for one in found if one.system and one.system.filesystem not in (*EXT, None)
    ]
    yield from (_text_journal(one) for one in other)
    kept = [one for one in found if one.system not in other]
    for number, one in enumerate(kept):
        yield _ext4_journal(one, suffix=f"_{number}" if number else "")


def _ext4_journal(journal: Journal, *, suffix: str) -> Part:
    system, mib = journal.system, journal.mib
    outer = [one for one in journal.regions if system and one.name != f"{system.name} journal"]
    device, old = _path(system) if system else "", _path(outer[0]) if outer else ""
    names = {
        "FS": device,
        "POINT": system.mount or "" if system else "",
        "MIB": str(mib),
        "FS_UUID": (system.uuid or "any") if system and isinstance(system.uuid, str) else "any",
        "OLD_JOURNAL": old,
    }
    variables = {f"{name}{suffix}": value for name, value in names.items()}
    fs, point, size, uuid, outside = (f'"${name}"' for name in variables)
    before = f", an external one on {old}," if old else ""
    return Part(
        title=f"the journal of {device or 'the ext4 that FS names'}{before} moves to the NVM",
        lost="the last seconds of writes are lost, and the file system cannot be used until undo"
        f" with NVM_LOST=yes. The journal alone on one device is {SINGLE}.",
        mirrored=RAID,
        library="journal",
        action="journal",
        role=JOURNAL,
        nvm_bytes=mib * MIB,
        variables=tuple(variables.items()),
        arguments=(fs, point, NVM, size, uuid),
        undo_arguments=(fs, point, NVM, size, uuid, outside),
        text=(
            "A journal cannot be divided: all of it moves. After device numbers change, run",
            "e2fsck or mount with journal_path=/dev/disk/by-label/tracekit-journal.",
        ),
    )


def _text_journal(system: Region) -> Part:
    """Return the words for a file system whose log no command moves while it has data."""
    name = shlex.quote(_path(system))
    point = shlex.quote(system.mount or "MOUNT")
    if system.filesystem == "zfs":
        return Part(
            title=f"the intent log of the pool at {point} on the NVM",
            lost="the last seconds of synchronous writes are lost, if the machine stops then too.",
            mirrored="zpool add POOL log mirror /dev/A /dev/B",
            role=JOURNAL,
            text=("$ zpool add POOL log /dev/NVM", "undo:", "$ zpool remove POOL /dev/NVM"),
        )
    return Part(
        title=f"the log of the {system.filesystem} on {name} (by hand: it is chosen by mkfs)",
        lost="the file system cannot be mounted without its log; xfs_repair -L loses the last"
        " writes.",
        mirrored=RAID,
        role=JOURNAL,
        text=xfs_log(name, point),
    )


def _swap_part(size: int) -> Part:
    return Part(
        title="a swap area on the NVM, of higher priority than the others",
        lost="processes whose memory is on it are killed, or the machine stops; no file is lost.",
        mirrored=RAID,
        library="swap",
        action="swap",
        role="swap",
        nvm_bytes=size,
        arguments=(NVM, str(size)),
        undo_arguments=(NVM,),
        text=("The other swap areas stay for what does not fit.",),
    )


def _fs_parts(
    layout: Sequence[Region], size: int, caches: Sequence[CacheTimes], *, is_whole: bool
) -> Iterator[Part]:
    """Yield a cache for a file system of which blocks are placed: no name moves a block."""
    systems: list[Region | None] = [*file_systems(layout)]
    for one in systems or [None]:
        if one is None or not is_volume(node_of(one)):
            is_copied = is_whole and one is not None and one.filesystem in EXT
            yield _whole_part(one) if one and is_copied else _no_name_part(one, size, caches)
        elif is_whole:
            yield _pvmove_part(_path(one), [(0, one.sectors * SECTOR_BYTES)])
        else:
            yield _cache_part(_path(one), size, caches)


def _volume(path: str) -> str:
    """Return the variable that names a logical volume."""
    return f"LV_{re.sub(r'[^0-9A-Za-z]', '_', PurePosixPath(path).name)}"


def _cache_part(path: str, size: int, caches: Sequence[CacheTimes]) -> Part:
    ways = {
        ("dm-cache", "through"): "CACHE=writethrough",
        ("dm-cache", "back"): "CACHE=writeback",
        ("dm-writecache", "back"): "CACHE=writecache",
    }
    return Part(
        title=f"a cache for {path}: single blocks of a file system have no name to move by",
        lost="nothing is lost with CACHE=writethrough, the default: undo with NVM_LOST=yes. With"
        f" CACHE=writeback or writecache the volume is lost: {SINGLE}.",
        mirrored=RAID,
        library="lvm",
        action=CACHE,
        nvm_bytes=size,
        variables=((_volume(path), path), ("CACHE", "writethrough")),
        arguments=(f'"${_volume(path)}"', NVM, str(size)),
        undo_arguments=(f'"${_volume(path)}"', NVM),
        text=(*_cache_times(caches, ways), *cut_cache(_volume(path))),
    )


def _cache_times(
    caches: Sequence[CacheTimes], ways: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    """Yield what caches take by simulation: the prediction of placed blocks is not theirs."""
    found = [one for one in caches if (one.rival, one.mode) in ways]
    if found:
        largest = format_size(max(one.capacity_bytes for one in found))
        yield f"A cache takes other times than placed blocks; of {largest}, simulated:"
    yield from (f"  {ways[one.rival, one.mode]}: {one.times}" for one in found)


def _whole_part(system: Region) -> Part:
    """Return the words for a file system that goes to the NVM whole."""
    name, point = shlex.quote(_path(system)), shlex.quote(system.mount or "MOUNT")
    return Part(
        title=f"the whole file system on {name}, {format_size(system.sectors * SECTOR_BYTES)}, by"
        " hand: a copy of its blocks",
        lost="the file system is lost; the old one stays, as it was at the copy.",
        mirrored=RAID,
        role=FS,
        text=whole_copy(name, point),
    )


def _no_name_part(system: Region | None, size: int, caches: Sequence[CacheTimes]) -> Part:
    name = _path(system) if system else "the base device"
    ways = {
        ("bcache", "through"): "bcache, writethrough (its default)",
        ("bcache", "back"): "bcache, writeback",
    }
    how = (*_cache_times(caches, ways), *bcache("through"))
    if system and system.filesystem == "zfs":
        how = (
            "Or a read cache of the pool, which writes do not wait for:",
            "$ zpool add POOL cache /dev/NVM",
            "undo:",
            "$ zpool remove POOL /dev/NVM",
        )
    return Part(
        title=f"{format_size(size)} of the {ROLE_NAMES['fs']} on {name}: by hand, as its blocks"
        " have no name to move by",
        lost="nothing is lost with a write-through cache, the file system with a write-back one.",
        mirrored=RAID,
        role=FS,
        text=("Ask with --unit directory or file and --files for what can be moved by name.", *how),
    )


def _rival_parts(layout: Sequence[Region], advice: Recommendation) -> Iterator[Part]:
    """Yield how the cache is made that is quicker than what is carried out, if one is."""
    found = advice.units if advice.units is not None else advice.answer
    static = Static("the answer above", found.capacity_bytes, found.elapsed_ns)
    is_lvm = any(is_volume(node_of(one)) for one in file_systems(layout))
    for said, best in beating(advice.caches, static):
        lost, mirrored = "nothing that is not on the base device, too.", RAID
        if best.rival in IN_MEMORY:
            lost, mirrored = "nothing: it takes memory.", "nothing of it is on a device."
        elif best.mode in ("back", "only", "alone"):
            lost = f"the file systems that it is for are lost with it: {SINGLE}."
        text = rival_text(best, is_lvm=is_lvm, is_block=advice.units is None)
        yield Part(said, lost, mirrored, text=text, is_instead=True)


def _move_parts(rows: Sequence[tuple[str, str]], total: int) -> Iterator[Part]:
    """Yield the files and directories, each with a name of its own on the NVM, which all share."""
    taken: set[str] = set()
    for number, (kind, given) in enumerate(rows):
        path = given.rstrip("/")
        name = PurePosixPath(path).name
        if name in taken or name == "lost+found" or name.endswith(".undone"):
            name = f"{name}.{number}"
        taken.add(name)
        arguments = (shlex.quote(path), shlex.quote(name), NVM)
        text = (
            "A name on which something is mounted cannot be deleted or replaced (EBUSY): for",
            "programs that write a new file and rename it over the old one, move the directory.",
        )
        yield Part(
            title=f"{kind} {path} moves to the NVM, and is mounted where it was",
            lost="what is in it is lost; undo with NVM_LOST=yes brings the original back, which"
            " stays as PATH.tracekit-old, as it was at the move.",
            mirrored=RAID,
            library="move",
            action="move",
            nvm_bytes=total,
            arguments=(*arguments, str(total)),
            undo_arguments=arguments,
            text=text if kind == FILE else (),
        )


def _log_parts(folder: TraceFolder, logs: Sequence[str], total: int) -> Iterator[Part]:
    """Yield the placed logs of databases: directories of their own move, others are by hand."""
    moved: list[tuple[str, str]] = []
    for name in logs:
        table = folder.require(FILE_MAP, made_by="parse")
        mounts = {one.mount for one in folder.info.layout if one.mount}
        folders, files = log_directories(table, name, mounts=mounts)
        moved += [(DIRECTORY, one) for one in folders]
        if files:
            yield Part(
                title=f"the {name}: by hand, as it lies among other files",
                lost="what is in it is lost, and with it the last transactions.",
                mirrored=RAID,
                text=(
                    _elsewhere(log_of(name)),
                    *(f"  {one}" for one in files[:SHOWN_FILES]),
                ),
            )
    yield from _move_parts(moved, total)


def _elsewhere(database: str) -> str:
    """Return how a database is told to write its log elsewhere, as far as that is known."""
    known = load_rules().get(database)
    if known is not None and known.setting:
        return f"Let the database write it to the NVM: {known.setting}."
    return "Ask with --unit directory, for all that lies there."


def _extent_parts(rows: Sequence[dict[str, object]], layout: Sequence[Region]) -> Iterator[Part]:
    """Yield the extents of each device, neighbours as one; only LVM can move them."""
    paths = {node_of(one): _path(one) for one in reversed(layout)}  # the first one is the whole
    for device in sorted({str(row["device"]) for row in rows}):
        mine = [row for row in rows if row["device"] == device]
        spans = merge_spans(
            [(int(str(row["first_block"])) * BLOCK_BYTES, int(str(row["bytes"]))) for row in mine]
        )
        if is_volume(device):
            yield _pvmove_part(paths.get(device, f"/dev/{device}"), spans)
        else:
            size = sum(size for _, size in spans)
            yield Part(
                title=f"{format_size(size)} in extents of {device}: no logical volume, by hand",
                lost="what is in them is lost.",
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


def _pvmove_part(path: str, spans: Sequence[tuple[int, int]]) -> Part:
    size = sum(size for _, size in spans)
    return Part(
        title=f"{format_size(size)} in extents of the logical volume {path} move by pvmove",
        lost=f"what is in the moved extents is lost, and so the file system: {SINGLE}.",
        mirrored=RAID,
        library="lvm",
        action="extents",
        role=FS,
        nvm_bytes=size + VOLUME_BYTES,
        variables=((_volume(path), path),),
        arguments=(
            f'"${_volume(path)}"',
            NVM,
            str(size + VOLUME_BYTES),
            *(f"{first}+{length}" for first, length in spans),
        ),
        undo_arguments=(f'"${_volume(path)}"', NVM),
        text=tuple(_whole_extents(spans, size)),
    )


def _whole_extents(spans: Sequence[tuple[int, int]], size: int) -> Iterator[str]:
    """Say that more moves than was predicted where units are smaller than LVM's extents."""
    touched = {
        extent
        for first, length in spans
        for extent in range(first // LVM_EXTENT, (first + length - 1) // LVM_EXTENT + 1)
    }
    if len(touched) * LVM_EXTENT > size:
        whole = format_size(len(touched) * LVM_EXTENT)
        yield f"LVM moves whole extents: {whole} with those of 4 MiB, its default. To predict that:"
        yield "recommend --unit extent=4MiB, or with the size that vgs -o vg_extent_size prints."
