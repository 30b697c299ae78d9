"""The kernel's own counters of disks, read when recording begins and ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tracekit.capture.tracefs import read_setting
from tracekit.layout import DiskCounters, Reading

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
USELESS = (("iostats", "0", WHY_OFF), ("iostats_passthrough", "1", WHY_COMMANDS))


@dataclass(frozen=True)
class CountersRead:
    """The counters of a disk at a moment."""

    reading: Reading
    identity: int
    """Of the disk's folder: another disk of the same name has another."""


def read_all(disks: Sequence[Path]) -> list[CountersRead | str]:
    """Read the counters of each disk, a folder in /sys/block, or say why they cannot be used.

    A reading takes some 20 us, with which requests of other disks may go on.
    """
    return [_read(disk) for disk in disks]


def _read(disk: Path) -> CountersRead | str:
    for name, useless, why in USELESS:
        with suppress(OSError):
            if read_setting(disk / "queue" / name) == useless:
                return why
    try:
        identity = disk.stat().st_ino
        before_ns = time.monotonic_ns()
        text = (disk / "stat").read_text()
    except OSError:
        return WHY_GONE
    after_ns = time.monotonic_ns()
    reading = reading_of(text, before_ns, after_ns=after_ns)
    return reading if isinstance(reading, str) else CountersRead(reading, identity)


def reading_of(text: str, before_ns: int, *, after_ns: int) -> Reading | str:
    """Return what a disk's file `stat` held between two times, or why it cannot be used."""
    values = [int(word) for word in text.split()]
    if len(values) <= FIELDS["discard"]:
        return WHY_OLD
    completed = {name: values[at] for name, at in FIELDS.items() if at < len(values)}
    return Reading(
        before_ns=before_ns, after_ns=after_ns, in_flight=values[IN_FLIGHT], completed=completed
    )


def counters_of(
    disks: Sequence[Path], *, begin: Sequence[CountersRead | str], end: Sequence[CountersRead | str]
) -> list[DiskCounters]:
    """Return `counters` of layout.json: of each disk both readings, or why there are none."""
    found = []
    for disk, first, last in zip(disks, begin, end, strict=True):
        if isinstance(first, str) or isinstance(last, str):
            why_not = first if isinstance(first, str) else str(last)
            found.append(DiskCounters(device=disk.name, why_not=why_not))
        elif first.identity != last.identity:
            found.append(DiskCounters(device=disk.name, why_not=WHY_GONE))
        else:
            found.append(DiskCounters(device=disk.name, begin=first.reading, end=last.reading))
    return found
