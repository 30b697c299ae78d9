"""Prices of what a ledger counted: what requests one after the other take on any devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.native.ledger import HELD_ALL, HELD_NONE, HELD_SOME, Counts, Held
from tracekit.native.placement import PLACED_ROLES
from tracekit.native.spindle import Disk
from tracekit.profiles import Profile
from tracekit.schema import ROLES
from tracekit.simulate.block_orders import TouchedBlocks, blocks_in_order
from tracekit.simulate.head import base_cost, disk_of
from tracekit.simulate.placement import device_cost, picoseconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Devices = tuple[Profile, Profile]


def hold(
    touched: TouchedBlocks,
    shares: Mapping[str, int],
    *,
    coverage: str,
    is_issued: bool,
    disks: tuple[Disk, ...],
) -> Held:
    """Put so many blocks of each role on NVM, in the order of the coverage."""
    import numpy as np

    on_nvm = np.zeros(len(touched.keys), np.uint8)
    held = [HELD_NONE] * len(ROLES)
    for role in ROLES[:PLACED_ROLES]:
        count, index = shares.get(role, 0), ROLES.index(role)
        order: NDArray[np.int64] = blocks_in_order(touched, role, coverage=coverage)
        on_nvm[order[:count]] = index + 1
        if count and len(order):
            held[index] = HELD_ALL if count >= len(order) else HELD_SOME
    return Held(touched.keys, on_nvm, touched.devices, tuple(held), is_issued, disks)


def disks_of(pairs: list[Devices]) -> tuple[Disk, ...]:
    """Return each disk once that is the base device of a pair."""
    disks = (disk_of(base) for base, _ in pairs)
    return tuple(dict.fromkeys(disk for disk in disks if disk is not None))


def time_ps(counts: Counts, devices: Devices, *, disks: tuple[Disk, ...]) -> int:
    """Return what the counted requests take on base and NVM, to the picosecond.

    Each part of a request costs its device's latency, or what continuing costs it, and its
    transfer; a flush of a role that is on both devices the longer of both. A disk's head costs its
    positions, and every part on it what continuing does.
    """
    base, nvm = devices
    total = 0
    for which, cost in enumerate((base_cost(base), device_cost(nvm))):
        on_disk = which == 0 and base.has_head
        for op in range(2):
            fresh_ps = cost.sequential_ps[op] if on_disk else cost.latency_ps[op]
            total += counts.apart[which][op] * fresh_ps
            total += counts.joined[which][op] * cost.sequential_ps[op]
            total += counts.sectors[which][op] * cost.sector_ps[op]
        total += counts.fua[which] * cost.fua_ps
    flush_ps = (picoseconds(base.flush_us), picoseconds(nvm.flush_us))
    total += counts.flushes[HELD_NONE] * flush_ps[0] + counts.flushes[HELD_ALL] * flush_ps[1]
    total += counts.flushes[HELD_SOME] * max(flush_ps)
    disk = disk_of(base)
    return total + (0 if disk is None else counts.position_ps[disks.index(disk)])
