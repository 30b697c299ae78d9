"""What lies where on the traced disks: layout.json of a capture, or a dump of sfdisk."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.errors import InputError

LAYOUT_VERSION = 1
DEVICE_KEYS = ("device", "major", "minor", "size_sectors", "logical_sector_bytes", "rotational")
PARTITION_KEYS: tuple[str, ...] = ("device", "partition", "name", "start_sector", "sectors", "role")
PARTITION_KEYS += ("filesystem", "mount", "evidence")
SWAP_TYPES = {"0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "82"}
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


def read_layout(path: Path) -> Layout:
    """Read a layout.json or an sfdisk dump; raise InputError that says what is wrong with it."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        hint = "give a layout.json, or what `sfdisk --dump DISK` prints"
        raise InputError(f"{path}: cannot be read as a layout: {error}", hint=hint) from None
    return _from_json(path, text) if text.lstrip().startswith("{") else _from_sfdisk(path, text)


def _bad(path: Path, what: str) -> InputError:
    return InputError(f"{path}: {what}", hint="see layout.json in docs/design.md")


def _from_json(path: Path, text: str) -> Layout:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise _bad(path, f"not valid JSON: {error}") from None
    version = content.get("layout_version")
    if version != LAYOUT_VERSION:
        raise _bad(path, f"layout_version is {version!r}, this tracekit reads {LAYOUT_VERSION}")
    loss = content.get("loss") or {}
    try:
        return Layout(
            devices=[_device(entry) for entry in content.get("devices") or []],
            partitions=[_partition(entry) for entry in content.get("partitions") or []],
            processes={int(p): str(n) for p, n in (content.get("processes") or {}).items()},
            overrun=int(loss.get("overrun") or 0),
            dropped=int(loss.get("dropped") or 0),
            kernel=None if content.get("kernel") is None else str(content["kernel"]),
        )
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise _bad(path, f"a value is not what it should be: {error!r}") from None


def _device(entry: dict[str, Any]) -> dict[str, Any]:
    device: dict[str, Any] = {key: entry.get(key) for key in DEVICE_KEYS}
    device["device"] = str(entry["device"])
    for key in ("major", "minor"):
        device[key] = None if entry.get(key) is None else int(entry[key])
    return device


def _partition(entry: dict[str, Any]) -> dict[str, Any]:
    partition: dict[str, Any] = {key: entry.get(key) for key in PARTITION_KEYS}
    partition["device"] = str(entry["device"])
    for key in ("start_sector", "sectors"):
        partition[key] = int(entry[key])
    return partition


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
