"""What lies where on the traced disks: layout.json of a capture, or a dump of sfdisk."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from tracekit.errors import InputError
from tracekit.metadata import check_object, is_count, read_object
from tracekit.tables import ROLES
from tracekit.units import SECTOR_BYTES

LAYOUT_VERSION = 1
DEVICE_KEYS = ("device", "major", "minor", "size_sectors", "logical_sector_bytes", "rotational")
PARTITION_KEYS: tuple[str, ...] = ("device", "partition", "name", "start_sector", "sectors", "role")
PARTITION_KEYS += ("filesystem", "mount", "evidence")
SWAP_TYPES = {"0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "82"}
HINT = "see layout.json in docs/design.md"
LOSSES = ("overrun", "dropped")
MAJORS, MINORS = 1 << 12, 1 << 20  # of a dev_t in the kernel
PID_DIGITS = 9
MOST_SECTORS = (1 << 63) // SECTOR_BYTES
SFDISK_LINE = re.compile(r"(?P<path>/\S+)\s*:\s*start=\s*(?P<start>\d+),\s*size=\s*(?P<size>\d+)")
SFDISK_TYPE = re.compile(r"\b(?:type|Id)=\s*([0-9A-Fa-f-]+)")


@dataclass(frozen=True)
class Layout:
    """A layout as it was saved; `devices` and `partitions` as docs/design.md describes them."""

    devices: list[dict[str, Any]] = field(default_factory=list)
    partitions: list[dict[str, Any]] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    overrun: int = 0
    dropped: int = 0
    kernel: str | None = None  # release of the kernel that was captured
    counters: list[dict[str, Any]] = field(default_factory=list)  # read when it began and ended


def read_layout(path: Path) -> Layout:
    """Read a layout.json or an sfdisk dump; raise InputError that says what is wrong with it."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        hint = "give a layout.json, or what `sfdisk --dump DISK` prints"
        raise InputError(f"{path}: cannot be read as a layout: {error}", hint=hint) from None
    layout = _from_json(path) if text.lstrip().startswith("{") else _from_sfdisk(path, text)
    check_regions(layout.partitions, f"{path}, partitions")
    return layout


def check_regions(entries: list[dict[str, Any]], place: str) -> None:
    """Raise InputError that names the first entry which is no region of a device."""
    for number, entry in enumerate(entries):
        where = f"{place}, entry {number}"
        for key, least in (("start_sector", 0), ("sectors", 1)):
            value: Any = entry.get(key)
            if not (is_count(value) and value >= least):
                raise InputError(
                    f"{where}: {key} is {value!r}, not a whole number of at least {least}",
                    hint="give it in 512-byte sectors from the start of the device",
                )
        if entry["start_sector"] + entry["sectors"] > MOST_SECTORS:
            raise InputError(
                f"{where}: no device reaches to sector {entry['start_sector'] + entry['sectors']}",
                hint="give 512-byte sectors, not bytes",
            )
        if entry.get("role") not in (None, *ROLES):
            raise InputError(
                f"{where}: role is {entry['role']!r}", hint=f"roles are {', '.join(ROLES)}"
            )


def _bad(path: Path, what: str) -> InputError:
    return InputError(f"{path}: {what}", hint=HINT)


def _from_json(path: Path) -> Layout:
    content = read_object(path, hint=HINT)
    version = content.get("layout_version")
    if version != LAYOUT_VERSION:
        raise _bad(path, f"layout_version is {version!r}, this tracekit reads {LAYOUT_VERSION}")
    check_object(content, path, hint=HINT)
    loss = content.get("loss") or {}
    kernel, processes = content.get("kernel"), content.get("processes") or {}
    if not isinstance(processes, dict) or not all(map(_is_process, processes.items())):
        raise _bad(path, "processes are not names by process number")
    if not isinstance(loss, dict) or not all(is_count(loss.get(key, 0)) for key in LOSSES):
        raise _bad(path, f"loss is not the counts {' and '.join(LOSSES)}")
    return Layout(
        devices=[_device(path, entry) for entry in content.get("devices") or []],
        partitions=[_partition(path, entry) for entry in content.get("partitions") or []],
        processes={int(number): name for number, name in processes.items()},
        overrun=loss.get("overrun", 0),
        dropped=loss.get("dropped", 0),
        kernel=None if kernel is None else str(kernel),
        counters=[_counters(path, entry) for entry in content.get("counters") or []],
    )


def _counters(path: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """Return both readings of a disk's counters, or why there are none."""
    if "device" not in entry:
        raise _bad(path, "an entry of counters has no device name")
    if isinstance(entry.get("why_not"), str):
        return entry
    begin, end = entry.get("begin"), entry.get("end")
    if not _is_reading(begin) or not _is_reading(end):
        raise _bad(path, f"counters of {entry['device']} are no two readings")
    if begin["completed"].keys() != end["completed"].keys() or begin["after_ns"] > end["before_ns"]:
        raise _bad(path, f"counters of {entry['device']}: the readings do not belong together")
    for kind, count in begin["completed"].items():
        if end["completed"][kind] < count:
            return {"device": entry["device"], "why_not": f"its count of {kind} went back"}
    return entry


def _is_reading(found: Any) -> TypeGuard[dict[str, Any]]:
    if not isinstance(found, dict) or not isinstance(found.get("completed"), dict):
        return False
    times = (found.get("before_ns"), found.get("after_ns"))
    return all(is_count(value) for value in (*times, *found["completed"].values()))


def _is_process(item: tuple[str, Any]) -> bool:
    number, name = item
    return number.isdecimal() and len(number) <= PID_DIGITS and isinstance(name, str)


def _device(path: Path, entry: dict[str, Any]) -> dict[str, Any]:
    if "device" not in entry:
        raise _bad(path, "an entry of devices has no device name")
    for key, limit in (("major", MAJORS), ("minor", MINORS)):
        if (entry.get(key) or 0) >= limit:
            raise _bad(path, f"{key} is {entry[key]}, the kernel has numbers below {limit}")
    return {key: entry.get(key) for key in DEVICE_KEYS}


def _partition(path: Path, entry: dict[str, Any]) -> dict[str, Any]:
    if "device" not in entry:
        raise _bad(path, "an entry of partitions has no device name")
    return {key: entry.get(key) for key in PARTITION_KEYS}


def _from_sfdisk(path: Path, text: str) -> Layout:
    disk = re.search(r"^device:\s*(\S+)", text, re.MULTILINE)
    if not disk:
        raise _bad(path, "neither a layout.json nor an sfdisk dump: it has no line `device: DISK`")
    name = Path(disk[1]).name
    scale = re.search(r"^sector-size:\s*(\d+)", text, re.MULTILINE)
    factor = int(scale[1]) // 512 if scale else 1
    device = {**dict.fromkeys(DEVICE_KEYS), "device": name}
    if scale:
        device["logical_sector_bytes"] = int(scale[1])
    lines = (SFDISK_LINE.match(line) for line in text.splitlines())
    partitions = [_sfdisk_partition(name, match, factor) for match in lines if match]
    return Layout(devices=[device], partitions=partitions)


def _sfdisk_partition(device: str, match: re.Match[str], factor: int) -> dict[str, Any]:
    kind = SFDISK_TYPE.search(match.string)
    is_swap = kind is not None and kind[1].lower() in SWAP_TYPES
    return {
        **dict.fromkeys(PARTITION_KEYS),
        "device": device,
        "name": Path(match["path"]).name,
        "start_sector": int(match["start"]) * factor,
        "sectors": int(match["size"]) * factor,
        "role": "swap" if is_swap else "unknown",
        "evidence": f"partition type {kind[1]}" if kind else "partition table",
    }
