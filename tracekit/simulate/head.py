"""A disk whose head moves, as the native models take it: of the placement and of the replay."""

from __future__ import annotations

from dataclasses import replace

from tracekit.disk import seek_curve
from tracekit.native.placement import Cost
from tracekit.native.spindle import Disk
from tracekit.profiles import Profile
from tracekit.schema import SECTOR_BYTES
from tracekit.simulate.placement import MIB, device_cost, picoseconds

GB = 10**9


def disk_of(profile: Profile) -> Disk | None:
    """Return the head of a profile's disk, None for a device without one."""
    if profile.rpm is None or profile.seek_average_us is None or profile.capacity_gb is None:
        return None
    curve = seek_curve(profile)
    turn_us = 60e6 / profile.rpm
    return Disk(
        track_ps=curve.track_us * 1e6,
        root_ps=curve.root_us * 1e6,
        linear_ps=curve.linear_us * 1e6,
        unknown_ps=picoseconds(profile.seek_average_us),
        half_turn_ps=picoseconds(turn_us / 2),
        settle_ps=(0, picoseconds(profile.write_settle_us or 0)),
        track_sectors=round(turn_us / 1e6 * profile.read_mib_s * MIB / SECTOR_BYTES),
        capacity_sectors=round(profile.capacity_gb * GB / SECTOR_BYTES),
    )


def base_cost(base: Profile) -> Cost:
    """Return the base device's costs; on a disk what goes on where the head is costs no more."""
    cost = device_cost(base)
    if not base.has_head:
        return cost
    continued = picoseconds(base.sequential_setup_us or 0)
    return replace(cost, sequential_ps=(continued, continued))
