"""The guest's disks: parts with roles, sizes and latencies, from what the user wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.errors import UsageError
from tracekit.sizes import parse_duration, parse_size

ROLES = ("fs", "journal", "swap")
MIB = 1 << 20
LEAST_MIB = {"fs": 16, "journal": 4, "swap": 1}
MOST_MIB = 1 << 22
TABLE_MIB = 2
"""A MiB at each end of a disk is for the partition table."""
LONGEST_NS = 10**9
DEPTH = 64
"""Requests that an emulated disk serves at once unless another number is given."""
MOST_DEPTH = 1024


@dataclass(frozen=True)
class Part:
    """A partition of one role."""

    role: str
    mib: int
    latency_ns: int
    """0 for a virtual disk, as fast as QEMU serves it; else of an emulated one in memory."""
    depth: int = DEPTH
    """Requests that an emulated disk serves at once; the others wait."""


@dataclass(frozen=True)
class Disk:
    """Parts of one latency and depth, in the order in which they were given."""

    parts: tuple[Part, ...]

    @property
    def mib(self) -> int:
        """Return the size of the disk."""
        return TABLE_MIB + sum(part.mib for part in self.parts)

    @property
    def latency_ns(self) -> int:
        """Return what each request takes at least; 0 for a virtual disk."""
        return self.parts[0].latency_ns

    @property
    def depth(self) -> int:
        """Return how many requests an emulated disk serves at once."""
        return self.parts[0].depth


def parse_disks(texts: Sequence[str]) -> list[Disk]:
    """Return the disks that texts such as fs=2GiB or swap=512MiB:108us describe.

    Parts of the same latency and depth share a disk. Raise UsageError for what is wrong, naming it.
    """
    parts = [_parse_part(text) for text in texts]
    roles = [part.role for part in parts]
    for role in ROLES:
        if roles.count(role) > 1:
            raise UsageError(f"--disk: {role} is given twice", hint="give each role once")
    if "journal" in roles and "fs" not in roles:
        raise UsageError("--disk: a journal without a file system", hint="add --disk fs=SIZE")
    speeds = dict.fromkeys((part.latency_ns, part.depth) for part in parts)
    return [
        Disk(tuple(part for part in parts if (part.latency_ns, part.depth) == speed))
        for speed in speeds
    ]


def _parse_part(text: str) -> Part:
    role, equals, rest = text.partition("=")
    size, colon, speed = rest.partition(":")
    latency, second, depth = speed.partition(":")
    if not equals or role not in ROLES:
        raise UsageError(
            f"--disk: '{text}' is no disk",
            hint=f"write ROLE=SIZE[:LATENCY[:DEPTH]], {', '.join(ROLES)}",
        )
    mib = parse_size(size, option="--disk") // MIB
    if not LEAST_MIB[role] <= mib <= MOST_MIB:
        raise UsageError(
            f"--disk: {role} of {size}: from {LEAST_MIB[role]} MiB to {MOST_MIB >> 20} TiB"
        )
    latency_ns = parse_duration(latency, option="--disk") if colon else 0
    if colon and not 0 < latency_ns <= LONGEST_NS:
        raise UsageError(f"--disk: a latency of {latency}", hint="it is from 1ns to 1s")
    return Part(role, mib, latency_ns, _parse_depth(depth) if second else DEPTH)


def _parse_depth(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_DEPTH:
        raise UsageError(f"--disk: a depth of '{text}'", hint=f"it is from 1 to {MOST_DEPTH}")
    return int(text)


def dax_start_mib(dax_mib: int, memory_mib: int) -> int:
    """Return where in the guest's memory, of both sizes together, the persistent part begins.

    It must lie in one piece of real memory and leave the kernel and the end alone: QEMU's q35 has
    2 GiB of it below 4 GiB and the rest above, or all below when there is less than 2.75 GiB.
    Raise UsageError when it does not fit.
    """
    if dax_mib <= 1024 and memory_mib >= 768:
        return 512
    if memory_mib + dax_mib >= 2816 and memory_mib >= 2304:
        return 4096
    raise UsageError(
        f"--pmem of {dax_mib} MiB does not fit beside --memory of {memory_mib} MiB",
        hint="give --memory 768 for up to 1 GiB of persistent memory, 2304 for more",
    )
