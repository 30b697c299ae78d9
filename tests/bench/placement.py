"""Time the placement sweep, and beside it numpy charging the same trace once for each capacity.

The sweep gives all capacities of seven block orders in one pass; numpy here gives one capacity of
one order in one pass over arrays in memory, and must come to the same time.

    python tests/bench/placement.py /big/disk/folder --requests 2000000
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit._native.placement import Cost
from tracekit.devices import Profile, device_cost, load_profiles
from tracekit.model.answer import make_grid, only_shown
from tracekit.model.block_orders import read_blocks
from tracekit.model.event_simulation import sweep_walked
from tracekit.model.placement import Curves, sweep
from tracekit.store import write_batches
from tracekit.tables import BLOCKS, REQUESTS

Array = np.ndarray[Any, Any]
Chunk = dict[str, Array]

CHUNK = 1 << 20
# Blocks of fs, journal and swap for each million of requests, one after the other on the device.
ROLE_BLOCKS = (350_000, 50_000, 100_000)
ROLE_SHARES = (0.6, 0.25, 0.15)
COMPARED = 3


def starts(requests: int) -> Array:
    """Return the first block of each role's part, and the end of the last."""
    sizes = [max(64, size * requests // 1_000_000) for size in ROLE_BLOCKS]
    return np.concatenate([[0], np.cumsum(sizes)])


def chunks(requests: int) -> Iterator[Chunk]:
    """Yield requests of 4 to 32 KiB, skewed in the file system, cyclic in the journal."""
    random = np.random.default_rng(7)
    bounds = starts(requests)
    for first in range(0, requests, CHUNK):
        count = min(CHUNK, requests - first)
        role = random.choice(3, count, p=ROLE_SHARES).astype(np.int64)
        size = (bounds[1:] - bounds[:-1])[role]
        skewed = (size * random.random(count) ** 4).astype(np.int64)
        cyclic = (first + np.arange(count)) * 2 % size
        place = np.where(role == 1, cyclic, skewed)
        blocks = np.minimum(random.integers(1, 9, count), size - place)
        yield {
            "id": first + np.arange(count),
            "role": role,
            "block": bounds[role] + place,
            "blocks": blocks,
            "is_write": random.random(count) < 0.7,
        }


def request_table(chunk: Chunk) -> pa.Table:
    """Return a chunk as rows of `requests`, one issued every 50 us."""
    count = len(chunk["id"])
    queue_ns = chunk["id"] * 50_000
    texts = {
        "device": (np.zeros(count, np.int32), ["sda"]),
        "operation": (chunk["is_write"].astype(np.int32), ["read", "write"]),
        "role": (chunk["role"].astype(np.int32), ["fs", "journal", "swap"]),
    }
    numbers = {
        "request_id": chunk["id"],
        "queue_ns": queue_ns,
        "issue_ns": queue_ns + 20_000,
        "complete_ns": queue_ns + 120_000,
        "sector": chunk["block"] * 8,
        "length_bytes": chunk["blocks"] * 4096,
    }
    columns = []
    for field in REQUESTS:
        if field.name in texts:
            codes, names = texts[field.name]
            columns.append(pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names)))
        elif field.name in numbers:
            columns.append(pa.array(numbers[field.name], field.type))
        elif field.nullable:
            columns.append(pa.nulls(count, field.type))
        else:
            zeros = pa.array(np.zeros(count, np.int64))
            columns.append(zeros.cast(field.type))
    return pa.Table.from_arrays(columns, schema=REQUESTS)


def write_trace(folder: Path, requests: int) -> None:
    """Write requests.parquet and blocks.parquet of a synthetic trace."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = starts(requests)
    touches = np.zeros(bounds[-1] + 9, np.int64)

    def batches() -> Iterator[Any]:
        for chunk in chunks(requests):
            yield from request_table(chunk).to_batches()
            np.add.at(touches, chunk["block"], 1)
            np.add.at(touches, chunk["block"] + chunk["blocks"], -1)

    write_batches(folder / "requests.parquet", batches(), schema=REQUESTS)
    counts = touches.cumsum()
    block = np.flatnonzero(counts)
    role = np.searchsorted(bounds, block, side="right") - 1
    ones = np.ones(len(block), np.int64)
    device = pa.DictionaryArray.from_arrays(pa.array(ones.astype(np.int32) - 1), pa.array(["sda"]))
    names = pa.array(["fs", "journal", "swap"])
    filled = {
        "device": device,
        "block": pa.array(block),
        "role": pa.DictionaryArray.from_arrays(pa.array(role.astype(np.int32)), names),
        "reads": pa.array(ones - 1),
        "writes": pa.array(counts[block]),
        "temperature": pa.DictionaryArray.from_arrays(device.indices, pa.array(["hot"])),
    }
    columns = [
        filled[field.name] if field.name in filled else pa.array(ones).cast(field.type)
        for field in BLOCKS
    ]
    pq.write_table(pa.Table.from_arrays(columns, schema=BLOCKS), folder / "blocks.parquet")


def direct_ps(
    loaded: Chunk, rank: Array, *, capacity: int, costs: tuple[Cost, Cost]
) -> tuple[int, float]:
    """Charge every request with the blocks of the lowest ranks on NVM; return ps and seconds."""
    started = time.monotonic()
    first = np.concatenate([[0], loaded["blocks"].cumsum()[:-1]])
    touched = np.repeat(loaded["block"] - first, loaded["blocks"]) + np.arange(
        loaded["blocks"].sum()
    )
    on_nvm = np.add.reduceat((rank[touched] < capacity).astype(np.int64), first)
    ends = loaded["block"] + loaded["blocks"]
    joined = np.concatenate(
        [
            [False],
            (ends[:-1] == loaded["block"][1:]) & (loaded["role"][1:] == loaded["role"][:-1]),
        ]
    )
    starts_nvm = rank[loaded["block"]] < capacity
    before_nvm = np.concatenate([[False], (rank[ends - 1] < capacity)[:-1]])
    total = 0
    for which, cost in enumerate(costs):
        held = on_nvm if which else loaded["blocks"] - on_nvm
        continues = joined & (starts_nvm == bool(which)) & (before_nvm == bool(which))
        for op in (0, 1):
            mine = (loaded["is_write"] == bool(op)) & (held > 0)
            total += int(np.count_nonzero(mine & ~continues)) * cost.latency_ps[op]
            total += int(np.count_nonzero(mine & continues)) * cost.sequential_ps[op]
            total += int(held[mine].sum()) * 8 * cost.sector_ps[op]
    return total, time.monotonic() - started


def compare(folder: Path, requests: int, curves: Curves, devices: tuple[Profile, Profile]) -> None:
    """Charge the trace with numpy at some capacities of the optimal order, and print the cost."""
    parts = list(chunks(requests))
    loaded = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    touched = read_blocks(folder / "blocks.parquet")
    block = pq.read_table(folder / "blocks.parquet", columns=["block"])["block"].to_numpy()
    rank = np.full(starts(requests)[-1] + 9, len(block))
    by_heat = np.argsort(np.uint32(0xFFFFFFFF) - touched.accesses, kind="stable")
    rank[block[by_heat]] = np.arange(len(block))
    seconds = []
    for index in np.linspace(0, len(curves.points) - 1, COMPARED).astype(int):
        costs = (device_cost(devices[0]), device_cost(devices[1]))
        expected, took = direct_ps(loaded, rank, capacity=int(curves.points[index]), costs=costs)
        if expected != curves.base_total_ps + curves.optimal_ps[index]:
            raise SystemExit(f"the sweep differs from numpy at {curves.points[index]} blocks")
        seconds.append(took)
    each = sum(seconds) / len(seconds)
    print(
        f"numpy: {each:.2f} s for one capacity of one order, equal at {COMPARED};"
        f" {each * 64 * 7:.0f} s for 64 capacities of 7 orders"
    )


def time_walks(folder: Path, requests: int) -> None:
    """Walk the shown capacities on a disk with a head, one after the other and with queues."""
    profiles = load_profiles()
    devices = (profiles["hdd-7200-seek"], profiles["dax-pcm"])
    for is_open in (False, True):
        started, worked = time.monotonic(), time.process_time()
        touched = read_blocks(folder / "blocks.parquet")
        grid = only_shown(make_grid(touched.role_blocks().tolist(), []))
        curves = sweep_walked(
            (folder / "requests.parquet", touched),
            points=grid.fine,
            devices=devices,
            is_issued=True,
            is_open=is_open,
        )
        took = time.monotonic() - started
        walks = len(grid.fine) * (len(curves.walked) - 1)
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"walk {'with queues' if is_open else 'one after the other'}: {requests:,} requests,"
            f" {walks} placements in {took:.2f} s"
            f" ({time.process_time() - worked:.2f} s of processor),"
            f" peak {peak_mib:.0f} MiB"
        )


def main() -> None:
    """Make the trace where it is missing, sweep it, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=2_000_000)
    parser.add_argument("--only-sweep", action="store_true")
    options = parser.parse_args()
    folder = options.folder / f"placement-{options.requests}"
    if not (folder / "blocks.parquet").exists():
        write_trace(folder, options.requests)
    profiles = load_profiles()
    devices = (profiles["hdd-7200"], profiles["dax-pcm"])
    for is_issued in (True, False):
        started, worked = time.monotonic(), time.process_time()
        touched = read_blocks(folder / "blocks.parquet")
        points = make_grid(touched.role_blocks().tolist(), []).fine
        curves = sweep(
            folder / "requests.parquet",
            touched,
            points=points,
            devices=devices,
            is_issued=is_issued,
        )
        took = time.monotonic() - started
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"sweep as {'issued' if is_issued else 'queued'}: {options.requests:,} requests,"
            f" {len(touched.keys):,} blocks, {len(points)} capacities of 7 orders in {took:.2f} s"
            f" ({time.process_time() - worked:.2f} s of processor), peak {peak_mib:.0f} MiB"
        )
    time_walks(folder, options.requests)
    if not options.only_sweep:
        compare(folder, options.requests, curves, devices)


if __name__ == "__main__":
    main()
