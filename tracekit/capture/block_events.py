"""The kernel's block events: which of them make requests, and the numbers by which disks go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracekit.capture.tracefs import tracefs_folder

EVENTS = (
    *("bio_queue", "bio_remap", "bio_backmerge", "bio_frontmerge", "bio_complete", "split"),
    *("getrq", "rq_insert", "rq_issue", "rq_merge", "rq_requeue", "rq_complete"),
)
"""Names behind `block:block_`."""


def known_events() -> list[str]:
    """Return those of EVENTS that this kernel has."""
    folder = tracefs_folder() / "events/block"
    return [name for name in EVENTS if (folder / f"block_{name}").is_dir()]


def disk_numbers(disks: Sequence[Path]) -> list[int]:
    """Return the device numbers of disks and their partitions, as the kernel's events have them.

    An event of a partition's request may carry the partition's number (include/linux/kdev_t.h:
    major << 20 | minor).
    """
    files: list[Path] = []
    for disk in disks:
        files += [disk / "dev", *sorted(disk.glob(f"{disk.name}*/dev"))]
    pairs = [file.read_text().split(":") for file in files]
    return [int(major) << 20 | int(minor) for major, minor in pairs]
