"""The kernel's own counters of a disk, read when recording begins and ends.

They tell the completions that a source did not see. Fields and what they count: the kernel's
Documentation/admin-guide/iostats.rst and Documentation/block/stat.rst.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.capture.tracefs import read_setting

FIELDS = {"read": 0, "write": 4, "discard": 11, "flush": 15}
"""Requests completed, by their place in the file `stat`; flushes are those of the device."""
IN_FLIGHT = 8
SETTLE_S = 0.003
"""What a command did last is in the counters by then: parse takes a millisecond as the most that
they can be late."""
WHY_OFF = "the kernel does not count its requests: queue/iostats is 0"
WHY_COMMANDS = "the kernel counts commands to it as well: queue/iostats_passthrough is 1"
WHY_GONE = "it went away, and its counters with it"
WHY_OLD = "the kernel, before 4.18, counts discards as writes"


@dataclass(frozen=True)
class Reading:
    """The counters of a disk at a moment."""

    before_ns: int
    """CLOCK_MONOTONIC before the file was read."""
    after_ns: int
    in_flight: int
    completed: dict[str, int]
    """By the names of FIELDS; those that this kernel has."""
    identity: int
    """Of the disk's folder: another disk of the same name has another."""

    def as_json(self) -> dict[str, Any]:
        """Return what layout.json keeps."""
        kept = {name: getattr(self, name) for name in ("before_ns", "after_ns", "in_flight")}
        return kept | {"completed": self.completed}


def read_all(disks: Sequence[Path]) -> list[Reading | str]:
    """Read the counters of each disk, a folder in /sys/block; or the reason why they tell nothing.

    A reading takes some 20 us, with which requests of other disks may go on.
    """
    return [_read(disk) for disk in disks]


def _read(disk: Path) -> Reading | str:
    if _setting(disk / "queue/iostats") == "0":
        return WHY_OFF
    if _setting(disk / "queue/iostats_passthrough") == "1":
        return WHY_COMMANDS
    try:
        identity = disk.stat().st_ino
        before_ns = time.monotonic_ns()
        text = (disk / "stat").read_text()
    except OSError:
        return WHY_GONE
    after_ns = time.monotonic_ns()
    values = [int(word) for word in text.split()]
    if len(values) <= FIELDS["discard"]:
        return WHY_OLD
    completed = {name: values[at] for name, at in FIELDS.items() if at < len(values)}
    return Reading(before_ns, after_ns, values[IN_FLIGHT], completed, identity)


def _setting(file: Path) -> str | None:
    try:
        return read_setting(file)
    except OSError:
        return None


def told(
    disks: Sequence[Path], *, begin: Sequence[Reading | str], end: Sequence[Reading | str]
) -> list[dict[str, Any]]:
    """Return `counters` of layout.json: of each disk both readings, or why they tell nothing."""
    return [
        {"device": disk.name, **_pair(first, last)}
        for disk, first, last in zip(disks, begin, end, strict=True)
    ]


def _pair(begin: Reading | str, end: Reading | str) -> dict[str, Any]:
    if isinstance(begin, str):
        return {"why_not": begin}
    if isinstance(end, str):
        return {"why_not": end}
    if begin.identity != end.identity:
        return {"why_not": WHY_GONE}
    return {"begin": begin.as_json(), "end": end.as_json()}
