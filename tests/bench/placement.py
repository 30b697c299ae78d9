"""The placement sweep, and beside it numpy charging the same trace once for each capacity."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.harness import Bench, peak_mib, timed
from tests.bench.inputs import CHUNK, coded, filled, request_batches
from tracekit._native.placement import Cost
from tracekit.devices import DevicePair, Profile, device_cost, load_profiles
from tracekit.model.answer import make_grid, only_shown
from tracekit.model.block_orders import read_blocks
from tracekit.model.placement import ChargedTrace, Curves, simulate_curves, sweep
from tracekit.store import write_batches
from tracekit.tables import BLOCKS, REQUESTS

Array = np.ndarray[Any, Any]
Chunk = dict[str, Array]
ROLES = ("fs", "journal", "swap")
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
        written = random.random(count) < 0.7
        yield {"role": role, "block": bounds[role] + place, "blocks": blocks, "is_write": written}


def write_trace(folder: Path, requests: int) -> None:
    """Write requests.parquet, one issued every 50 us, and blocks.parquet of a synthetic trace."""
    folder.mkdir()
    bounds = starts(requests)
    touches = np.zeros(bounds[-1] + 9, np.int64)
    made = chunks(requests)

    def rows(first: int, count: int) -> dict[str, Any]:
        chunk = next(made)
        np.add.at(touches, chunk["block"], 1)
        np.add.at(touches, chunk["block"] + chunk["blocks"], -1)
        queue_ns = (first + np.arange(count)) * 50_000
        return {
            "queue_ns": queue_ns,
            "issue_ns": queue_ns + 20_000,
            "complete_ns": queue_ns + 120_000,
            "device": coded(np.zeros(count), ("sda",)),
            "sector": chunk["block"] * 8,
            "length_bytes": chunk["blocks"] * 4096,
            "operation": coded(chunk["is_write"], ("read", "write")),
            "role": coded(chunk["role"], ROLES),
        }

    write_batches(folder / "requests.parquet", request_batches(requests, rows), schema=REQUESTS)
    counts = touches.cumsum()
    block = np.flatnonzero(counts)
    zeros = np.zeros(len(block), np.int64)
    columns = {
        "device": coded(zeros, ("sda",)),
        "block": block,
        "role": coded(np.searchsorted(bounds, block, side="right") - 1, ROLES),
        "reads": zeros,
        "writes": counts[block],
        "temperature": coded(zeros, ("hot",)),
    }
    batch = filled(columns, BLOCKS, fill=1)
    pq.write_table(pa.Table.from_batches([batch]), folder / "blocks.parquet")


def served_ps(first: Array, end: Array, op: Array, cost: Cost) -> int:
    """Charge a device's requests, of blocks from `first` to before `end`, one after the other."""
    joined = np.append(False, first[1:] == end[:-1])[: len(first)]
    fixed = np.where(joined, np.array(cost.sequential_ps)[op], np.array(cost.latency_ps)[op])
    return int(fixed.sum() + ((end - first) * 8 * np.array(cost.sector_ps)[op]).sum())


def direct_ps(loaded: Chunk, rank: Array, *, capacity: int, costs: tuple[Cost, Cost]) -> int:
    """Charge every request with the blocks of the lowest ranks on NVM and return ps.

    The base device has each run of blocks apart, NVM has those of a request together.
    """
    count = loaded["blocks"]
    op = loaded["is_write"].astype(np.int64)
    request = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    touched = np.arange(len(request)) + np.repeat(loaded["block"] - before, count)
    on_nvm = rank[touched] < capacity
    is_start = np.append(True, (np.diff(request) != 0) | (np.diff(on_nvm) != 0))
    begin = np.flatnonzero(is_start)
    last = np.append(begin[1:], len(request)) - 1
    begin, last = begin[~on_nvm[begin]], last[~on_nvm[begin]]
    base_ps = served_ps(touched[begin], touched[last] + 1, op[request[begin]], costs[0])
    place = np.cumsum(rank < capacity) - 1
    mine = np.flatnonzero(on_nvm)
    first = mine[np.diff(request[mine], prepend=-1) != 0]
    held = np.bincount(request[mine], minlength=1)[request[first]]
    start = place[touched[first]]
    return base_ps + served_ps(start, start + held, op[request[first]], costs[1])


def compare(
    out: Bench, folder: Path, requests: int, curves: Curves, devices: tuple[Profile, Profile]
) -> None:
    """Charge the trace with numpy at some capacities of the optimal order: the same time.

    Heads and all: `curves` are of the sweep, or of a walk as queued.
    """
    parts = list(chunks(requests))
    loaded = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    touched = read_blocks(folder / "blocks.parquet")
    block = pq.read_table(folder / "blocks.parquet", columns=["block"])["block"].to_numpy()
    rank = np.full(starts(requests)[-1] + 9, len(block))
    by_heat = np.lexsort((touched.turn, np.uint32(0xFFFFFFFF) - touched.accesses))
    rank[block[by_heat]] = np.arange(len(block))
    costs = (device_cost(devices[0]), device_cost(devices[1]))
    seconds = []
    for index in np.linspace(0, len(curves.points) - 1, COMPARED).astype(int):
        capacity = int(curves.points[index])
        charge = partial(direct_ps, loaded, rank, capacity=capacity, costs=costs)
        expected, used = timed(charge)
        if expected != curves.base_total_ps + curves.optimal_ps[index]:
            raise SystemExit(f"the model differs from numpy at {capacity} blocks")
        seconds.append(used.wall_s)
    each = sum(seconds) / len(seconds)
    out.row("numpy", equal_at=COMPARED, one_capacity_s=each, for_64_of_7_orders_s=each * 64 * 7)


def measure(
    out: Bench, folder: Path, devices: tuple[Profile, Profile], *, is_walk: bool, is_other: bool
) -> Curves:
    """Time one sweep: as issued or as queued; or a walk as queued, serial or with queues."""

    def work() -> tuple[Curves, int, int]:
        touched = read_blocks(folder / "blocks.parquet")
        grid = make_grid(touched.role_blocks().tolist(), [])
        trace = ChargedTrace(folder / "requests.parquet", touched, DevicePair(*devices))
        if not is_walk:
            curves = sweep(replace(trace, is_issued=not is_other), grid.fine)
            return curves, len(touched.keys), len(grid.fine) * 7
        points = only_shown(grid).fine
        curves = simulate_curves(replace(trace, is_open=is_other), points)
        return curves, len(touched.keys), len(points) * (len(curves.simulated) - 1)

    (curves, blocks, placements), used = timed(work)
    name = ("one after the other", "with queues") if is_walk else ("as issued", "as queued")
    figures = {"wall_s": used.wall_s, "cpu_s": used.cpu_s, "peak_mib": peak_mib()}
    case = f"{'walk' if is_walk else 'sweep'} {name[is_other]}, {devices[0].name}"
    out.row(case, blocks=blocks, placements=placements, **figures)
    return curves


def bench_placement(out: Bench, *, requests: int = 2_000_000, only_sweep: bool = False) -> None:
    """Sweep all capacities of seven block orders in one pass; numpy does one capacity in a pass.

    numpy's arrays are in memory, and it must give the same time, of the sweep and of the walk. The
    walks place the shown capacities on a disk with a head.
    """
    folder = out.input(f"placement-{requests}", partial(write_trace, requests=requests))
    profiles = load_profiles()
    plain = (profiles["ssd-sata"], profiles["dax-pcm"])
    disk = (profiles["hdd-7200"], profiles["dax-pcm"])
    seeking = (profiles["hdd-7200-seek"], profiles["dax-pcm"])
    measure(out, folder, plain, is_walk=False, is_other=False)
    swept = measure(out, folder, plain, is_walk=False, is_other=True)
    walked = measure(out, folder, disk, is_walk=True, is_other=False)
    for is_open in (False, True):
        measure(out, folder, seeking, is_walk=True, is_other=is_open)
    if not only_sweep:
        compare(out, folder, requests, swept, plain)
        compare(out, folder, requests, walked, disk)
