"""What the placement kernels share: disks whose head moves, and sums beyond 64 bits."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_I64 = ctypes.c_int64
_U64 = ctypes.c_uint64


@dataclass(frozen=True)
class Disk:
    """A base device whose head moves: times in ps, distances in sectors; see spindle.h."""

    track_ps: float
    root_ps: float
    linear_ps: float
    unknown_ps: int
    half_turn_ps: int
    settle_ps: tuple[int, int]
    track_sectors: int
    capacity_sectors: int


class NativeDisk(ctypes.Structure):
    """`struct tk_spindle`."""

    _fields_ = [
        ("track_ps", ctypes.c_double),
        ("root_ps", ctypes.c_double),
        ("linear_ps", ctypes.c_double),
        ("unknown_ps", _I64),
        ("half_turn_ps", _I64),
        ("settle_ps", _I64 * 2),
        ("track_sectors", _I64),
        ("capacity_sectors", _I64),
    ]


class Wide(ctypes.Structure):
    """`struct tk_wide`."""

    _fields_ = [("low", _U64), ("high", _U64)]


def whole(wide: Wide) -> int:
    """Return a sum of more than 64 bits."""
    return int(wide.high) << 64 | int(wide.low)


def native_disk(disk: Disk | None) -> NativeDisk:
    """Return a disk as the kernels take it; one of zeros for none."""
    if disk is None:
        return NativeDisk()
    return NativeDisk(
        disk.track_ps,
        disk.root_ps,
        disk.linear_ps,
        disk.unknown_ps,
        disk.half_turn_ps,
        (_I64 * 2)(*disk.settle_ps),
        disk.track_sectors,
        disk.capacity_sectors,
    )
