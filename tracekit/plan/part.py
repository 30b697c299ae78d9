"""A traced device, or some of its sectors, whose requests have a target of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracekit.errors import UsageError
from tracekit.schema import ROLES

LABEL_MOST = 31
_PART = re.compile(r"(?P<device>[^@]+)(?:@(?P<first>\d{1,15})\+(?P<sectors>\d{1,15}))?")


@dataclass(frozen=True)
class Part:
    """What `label` names: a device, from a sector on to the one before `end_sector`, None: all."""

    label: str
    device: str
    first_sector: int = 0
    end_sector: int | None = None


def known_devices(info: Mapping[str, Any]) -> list[str]:
    """Return the names of the devices in a trace's `trace.json`."""
    entries = [*info.get("devices", []), *info.get("layout", [])]
    return list(dict.fromkeys(entry["device"] for entry in entries))


def parts_of(labels: Sequence[str], devices: Sequence[str]) -> tuple[Part, ...]:
    """Return what the labels name that are no roles: DEVICE or DEVICE@SECTOR+SECTORS.

    Raise UsageError for one that names nothing on the trace's devices, and for two that overlap.
    """
    parts = tuple(_part(label, devices) for label in labels if label not in ROLES)
    for number, one in enumerate(parts):
        for other in parts[:number]:
            if _overlap(one, other):
                raise UsageError(
                    f"{other.label} and {one.label} overlap: a request has one target",
                    hint="give each sector of a device to one --target",
                )
    return parts


def _part(label: str, devices: Sequence[str]) -> Part:
    found = _PART.fullmatch(label)
    if found is None or found["device"] not in devices:
        raise UsageError(
            f"there is no role '{label}', and no such device in the trace",
            hint=f"roles are {', '.join(ROLES)}; devices are {', '.join(devices)}; a part is such"
            " as sda@2048+8192 (first sector, sectors); a path with '=' needs a slash before it",
        )
    if len(label) > LABEL_MOST or not label.isascii() or not label.isprintable() or " " in label:
        raise UsageError(f"'{label}' is no name for a target: at most 31 printable ASCII letters")
    if found["first"] is None:
        return Part(label, found["device"])
    first, sectors = int(found["first"]), int(found["sectors"])
    if sectors == 0:
        raise UsageError(
            f"'{label}' is empty", hint="DEVICE@FIRST+SECTORS, in sectors of 512 bytes"
        )
    return Part(label, found["device"], first, first + sectors)


def _overlap(one: Part, other: Part) -> bool:
    if one.device != other.device:
        return False
    if one.end_sector is None or other.end_sector is None:
        return True
    return one.first_sector < other.end_sector and other.first_sector < one.end_sector
