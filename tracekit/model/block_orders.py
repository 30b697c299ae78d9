"""The touched blocks of a trace, and the orders in which a placement moves them to NVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import BLOCK, DEVICE, HOTTEST, OPTIMAL, PLACED_ROLES, START
from tracekit.arrow import Integers, name_codes, numbers, read_columns, row_count
from tracekit.errors import InputError
from tracekit.tables import ROLES, role_codes

COLUMNS = ["device", "block", "role", "reads", "writes", "first_ns"]
MAX_BLOCK = 1 << 54


@dataclass(frozen=True)
class TouchedBlocks:
    """Every touched 4 KiB block in the order of device and block number."""

    device_names: list[str]
    devices: NDArray[np.void]  # _native.placement.DEVICE; one more than names, without blocks
    keys: Integers  # strictly ascending; adjacent blocks have adjacent keys
    role: NDArray[np.uint8]  # index in ROLES
    accesses: NDArray[np.uint32]  # read and write requests that touched it
    turn: NDArray[np.uint32]  # its place among equally hot ones

    def role_blocks(self) -> Integers:
        """Return how many blocks each role touched."""
        return np.bincount(self.role, minlength=len(ROLES))

    def by_device(self, chosen: Integers) -> Iterator[tuple[str, Integers]]:
        """Yield each device's name and block numbers for ascending positions of blocks."""
        for index, name in enumerate(self.device_names):
            entry = self.devices[index]
            low = int(entry["first_key"])
            keys = self.keys[chosen]
            is_own = (keys >= low) & (keys < low + int(entry["blocks"]))
            if is_own.any():
                yield name, keys[is_own] - low + int(entry["first_block"])


@dataclass(frozen=True)
class OrderedBlocks:
    """At which capacity point each block moves to NVM."""

    blocks: NDArray[np.void]  # _native.placement.BLOCK
    optimal_blocks: Integers  # blocks on NVM by role and point, in the optimal order


def read_blocks(file: Path) -> TouchedBlocks:
    """Read blocks.parquet; raise InputError when a block appears twice or beyond 2^54."""
    count = row_count(file)
    names: list[str] = []
    device = np.empty(count, np.int32)
    block = np.empty(count, np.int64)
    role = np.empty(count, np.uint8)
    accesses = np.empty(count, np.uint32)
    first_ns = np.empty(count, np.int64)
    filled = 0
    for column in read_columns(file, COLUMNS):
        part = slice(filled, filled + len(column["block"]))
        device[part] = name_codes(column["device"], names, grow=True)
        block[part] = numbers(column["block"])
        role[part] = role_codes(column["role"])
        touches = numbers(column["reads"]) + numbers(column["writes"])
        accesses[part] = np.minimum(touches, np.iinfo(np.uint32).max)
        first_ns[part] = numbers(column["first_ns"])
        filled = part.stop
    if count and not (block.min() >= 0 and block.max() < MAX_BLOCK):
        raise InputError(f"{file}: a block number is negative or beyond 2^54")
    order = _address_order(device, block)
    if order is not None:
        device, block, role, accesses = device[order], block[order], role[order], accesses[order]
        first_ns = first_ns[order]
    devices = _number_keys(file, device, block, len(names))
    return TouchedBlocks(names, devices, block, role, accesses, _turns(block, first_ns))


def order_blocks(touched: TouchedBlocks, points: Integers) -> OrderedBlocks:
    """Give each block its capacity point in each order.

    The block of rank r (from 0) is on NVM at capacities of r + 1 blocks and more. Hotter blocks
    have more accesses. Of equally hot ones neighbours stay together, by address: pieces of touched
    neighbours come by their first access, so that the order is the same wherever they lie.
    """
    blocks = np.zeros(len(touched.keys), np.dtype(BLOCK))
    blocks["role"] = touched.role
    blocks["point"] = len(points)
    by_heat = hottest_first(touched).astype(np.uint32)
    point_of_rank = _point_of_rank(points, len(by_heat))
    blocks["point"][by_heat, OPTIMAL] = point_of_rank
    for role in range(PLACED_ROLES):
        is_role = touched.role == role
        start = np.flatnonzero(is_role)
        blocks["point"][start, START] = point_of_rank[: len(start)]
        blocks["point"][by_heat[is_role[by_heat]], HOTTEST] = point_of_rank[: len(start)]
    optimal = np.zeros((len(ROLES), len(points)), np.int64)
    for role in range(len(ROLES)):
        point = blocks["point"][blocks["role"] == role, OPTIMAL]
        optimal[role] = np.bincount(point, minlength=len(points) + 1)[:-1]
    return OrderedBlocks(blocks, optimal.cumsum(axis=1))


def blocks_in_order(touched: TouchedBlocks, role: str, *, coverage: str) -> Integers:
    """Return the positions of a role's blocks in the order in which they move to NVM."""
    of_role = np.flatnonzero(touched.role == ROLES.index(role))
    return of_role if coverage == "start" else of_role[hottest_first(touched, of_role)]


def hottest_first(touched: TouchedBlocks, chosen: Integers | None = None) -> Integers:
    """Return positions, of those chosen, by falling accesses, and then by turn."""
    part = slice(None) if chosen is None else chosen
    key = (np.uint32(0xFFFFFFFF) - touched.accesses[part]).astype(np.uint64) << np.uint64(32)
    key |= touched.turn[part]
    return np.argsort(key)


def _turns(keys: Integers, first_ns: Integers) -> NDArray[np.uint32]:
    """Return the place of each block in the order of pieces of neighbours by first access."""
    begins = np.flatnonzero(np.append(True, np.diff(keys) > 1)[: len(keys)])
    sizes = np.diff(begins, append=len(keys))
    first = np.minimum.reduceat(first_ns, begins) if len(begins) else first_ns
    order = np.argsort(first, kind="stable")
    moved = np.empty(len(begins), np.int64)
    moved[order] = sizes[order].cumsum() - sizes[order] - begins[order]
    return (np.arange(len(keys)) + np.repeat(moved, sizes)).astype(np.uint32)


def _point_of_rank(points: Integers, count: int) -> NDArray[np.uint16]:
    """Return the first point whose capacity is at least rank + 1, for each rank."""
    fitting = np.minimum(np.append(points, max(count, int(points[-1]))), count)
    return np.repeat(np.arange(len(fitting), dtype=np.uint16), np.diff(fitting, prepend=0))


def _address_order(device: NDArray[np.int32], block: Integers) -> Integers | None:
    """Return the order of device and block, None where the rows are in it already."""
    same = device[1:] == device[:-1]
    if bool(np.all((device[1:] > device[:-1]) | (same & (block[1:] > block[:-1])))):
        return None
    return np.lexsort((block, device))


def _number_keys(
    file: Path, device: NDArray[np.int32], block: Integers, device_count: int
) -> NDArray[np.void]:
    """Turn block numbers into keys in place, each device's range after the one before it."""
    devices = np.zeros(device_count + 1, np.dtype(DEVICE))
    next_key = 0
    bounds = np.searchsorted(device, np.arange(device_count + 1))
    for index in range(device_count):
        part = block[bounds[index] : bounds[index + 1]]
        if not len(part):
            continue
        first, span = int(part[0]), int(part[-1]) - int(part[0]) + 1
        devices[index] = (first, span, next_key)
        part += next_key - first
        next_key += span + 1
    if len(block) > 1 and int(np.min(np.diff(block))) < 1:
        raise InputError(f"{file}: a block appears twice", hint="run: tracekit classify")
    return devices
