"""Placements: the sweep beside numpy, the best beside its bound and the optimum, and emulation."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from tests.bench.harness import Bench, Failed, peak_mib, timed
from tests.bench.inputs import CHUNK, ROOT, coded, filled, request_batches
from tests.recommend.test_best_placement import Program, traced
from tests.replay.timeless import Devices
from tests.replay.trace import compiled
from tests.simulate.placement_models import Request
from tracekit._native.placement import PLACED_ROLES, Cost
from tracekit.classify import ClassifyOptions, classify
from tracekit.devices import DevicePair, Profile, base_cost, device_cost, load_profiles
from tracekit.model import answer as choice
from tracekit.model.answer import make_grid, only_shown
from tracekit.model.best_choice import HEADLINE_PARTS, Rivals
from tracekit.model.best_placement import searching
from tracekit.model.block_orders import read_blocks
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import ChargedTrace, Curves, curves_at, simulate_curves, sweep
from tracekit.readers.blktrace import parse
from tracekit.replay.placed import place
from tracekit.replay.routes import DEFAULT, NVM
from tracekit.store import TraceFolder, write_batches
from tracekit.tables import BLOCKS, REQUESTS, ROLES

Array = np.ndarray[Any, Any]
Chunk = dict[str, Array]
SYNTHETIC_ROLES = ("fs", "journal", "swap")
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
            "role": coded(chunk["role"], SYNTHETIC_ROLES),
        }

    write_batches(folder / "requests.parquet", request_batches(requests, rows), schema=REQUESTS)
    counts = touches.cumsum()
    block = np.flatnonzero(counts)
    zeros = np.zeros(len(block), np.int64)
    columns = {
        "device": coded(zeros, ("sda",)),
        "block": block,
        "role": coded(np.searchsorted(bounds, block, side="right") - 1, SYNTHETIC_ROLES),
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


def compare_sweeps(
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
        compare_sweeps(out, folder, requests, swept, plain)
        compare_sweeps(out, folder, requests, walked, disk)


SAMPLES = ("browser", "gnuplot", "oltp", "sysbench", "video")
PAIRS = ("hdd-7200:dax-pcm", "ssd-sata:ssd-optane")


def compare_best(out: Bench, name: str, folder: Path, pair: DevicePair, capacities: int) -> None:
    """Find the best placement at capacities that grow evenly to the footprint."""
    touched = read_blocks(folder / "blocks.parquet")
    trace = ChargedTrace(folder / "requests.parquet", touched, pair, is_issued=True)
    sizes = np.linspace(0, len(touched.keys), capacities + 1)[1:].astype(int)
    curves = curves_at(trace, np.append(0, np.unique(sizes)))
    answers = choice.find_answers(curves, "hottest").by_point
    rivals = Rivals(trace, curves, is_mixed=False)

    def work() -> list[tuple[float, float, float]]:
        rows = []
        with searching(trace) as search:
            for index in range(1, len(curves.points)):
                capacity = int(curves.points[index])
                found = search.find(capacity, list(rivals.at(index)), parts=HEADLINE_PARTS)
                best = min(found.elapsed_ps, *(r.elapsed_ps or 0 for r in rivals.at(index)))
                if best < found.elapsed_ps:
                    raise SystemExit(f"{name}: an order is better than the best at {capacity}")
                old = answers[index].elapsed_ns * 1000
                gap = found.elapsed_ps / max(found.bound_ps or 1, 1) - 1
                gain = 1 - found.elapsed_ps / curves.base_total_ps
                rows.append((gap, 1 - found.elapsed_ps / old, gain))
        return rows

    rows, used = timed(work)
    gaps, ahead, _ = (np.array(column) for column in zip(*rows, strict=True))
    out.row(
        f"{name} {pair.base.name}",
        capacities=len(rows),
        gap_median=float(np.median(gaps)),
        gap_worst=float(gaps.max()),
        within_3=int((gaps <= 0.03).sum()),
        ahead_median=float(np.median(ahead)),
        ahead_most=float(ahead.max()),
        worse=int((ahead < -1e-9).sum()),
        cpu_s=used.cpu_s,
    )


def bench_best_placement(
    out: Bench, *, samples: tuple[str, ...] = SAMPLES, capacities: int = 20
) -> None:
    """Compare the best placement found with its bound and with the answer by roles."""
    known = load_profiles()
    for name in samples:
        folder = out.input(f"sample-{name}", partial(made, sample=name))
        for pair in PAIRS:
            devices = DevicePair(*(known[one] for one in pair.split(":")))
            compare_best(out, name, folder, devices, capacities)


PAIR = ("hdd-7200", "dax-pcm")
COLUMNS = ("request_id", "merged_into", "device", "operation", "sector", "length_bytes")
Group = tuple[str, int, int]


def issued(folder: Path, begin_ratio: float, count: int) -> list[Request]:
    """Return requests as issued, in whole blocks, from a part of the trace on."""
    spans: dict[int, tuple[str, str, int, int]] = {}
    table = pq.read_table(folder / "requests.parquet", columns=list(COLUMNS))
    for row in table.to_pylist():
        if row["operation"] not in ("read", "write") or not row["length_bytes"]:
            continue
        place = row["request_id"] if row["merged_into"] is None else row["merged_into"]
        first, end = row["sector"], row["sector"] + row["length_bytes"] // 512
        known = spans.get(place, (row["device"], row["operation"], first, end))
        spans[place] = (*known[:2], min(known[2], first), max(known[3], end))
    chosen = sorted(spans)[int(begin_ratio * len(spans)) :][:count]
    found = []
    for device, operation, first, end in (spans[place] for place in chosen):
        begin = first // 8 * 8
        found.append(Request("fs", begin, -(-end // 8) * 8 - begin, operation, device=device))
    return found


def groups_of(requests: list[Request]) -> dict[int, list[Group]]:
    """Return the blocks of each request that are always touched together, as ranges of sectors."""
    ends: dict[str, set[int]] = {}
    for one in requests:
        ends.setdefault(one.device, set()).update((one.sector, one.sector + one.sectors))
    cuts = {device: np.array(sorted(places)) for device, places in ends.items()}
    found = {}
    for number, one in enumerate(requests):
        places = cuts[one.device]
        first, last = np.searchsorted(places, [one.sector, one.sector + one.sectors])
        inner = places[first : last + 1].tolist()
        found[number] = [(one.device, *pair) for pair in pairwise(inner)]
    return found


@dataclass
class Flow:
    """The flow of `test_best_placement.program_of` through groups instead of blocks, in ms."""

    pair: DevicePair
    program: Program = field(default_factory=Program)
    fixed_ms: float = 0.0
    moved: dict[Group, int] = field(default_factory=dict)
    anywhere: dict[str, list[int]] = field(default_factory=dict)
    ends: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def add(self, one: Request, groups: list[Group]) -> None:
        """Lead the head through the groups of a request that stay, or past them."""
        op = int(one.operation == "write")
        setup = self.program.variable(device_cost(self.pair.nvm).latency_ps[op] / 1e9)
        if one.device not in self.anywhere:
            self.anywhere[one.device] = [self.program.variable()]
            self.program.require([(self.anywhere[one.device][0], 1)], 1, 1)
        last: list[int] = []
        for group in groups:
            is_moved = self._moved(group, op)
            self.program.require([(setup, 1), (is_moved, -1)], 0, 1)
            inwards = [*last, *self._inwards(group, op)]
            outwards = [self.program.variable(), self.program.variable()]
            self.anywhere[group[0]].append(outwards[0])
            self.ends.setdefault((group[0], group[2]), []).append(outwards[1])
            last = [self.program.variable()] if group != groups[-1] else []
            for ways in (inwards, outwards + last):
                self.program.require([*((way, 1.0) for way in ways), (is_moved, 1)], 1, 1)

    def limit(self, capacity: int) -> None:
        """Let so many blocks move."""
        sizes = [(place, (group[2] - group[1]) / 8) for group, place in self.moved.items()]
        self.program.require(sizes, 0, capacity)

    def _moved(self, group: Group, op: int) -> int:
        base, nvm = base_cost(self.pair.base), device_cost(self.pair.nvm)
        if group not in self.moved:
            self.moved[group] = self.program.variable(is_whole=True)
        sectors = group[2] - group[1]
        self.fixed_ms += sectors * base.sector_ps[op] / 1e9
        self.program.costs[self.moved[group]] -= (
            sectors * (base.sector_ps[op] - nvm.sector_ps[op]) / 1e9
        )
        return self.moved[group]

    def _inwards(self, group: Group, op: int) -> list[int]:
        base = base_cost(self.pair.base)
        ways = [(self.anywhere[group[0]], base.latency_ps[op])]
        if (group[0], group[1]) in self.ends:
            ways.append((self.ends[group[0], group[1]], base.sequential_ps[op]))
        return [self.program.passed(waiting, ps / 1e9) for waiting, ps in ways]


def solve(program: Program, limit_s: float) -> OptimizeResult:
    """Look for the optimum for so long; what was proved by then is in `mip_dual_bound`."""
    rows, columns, factors = zip(*program.cells, strict=True)
    size = len(program.limits), len(program.costs)
    return milp(
        np.array(program.costs),
        constraints=LinearConstraint(
            sparse.csr_matrix((factors, (rows, columns)), shape=size), *np.array(program.limits).T
        ),
        bounds=Bounds(0, 1),
        integrality=np.array(program.is_whole, int),
        options={"time_limit": limit_s, "mip_rel_gap": 1e-4},
    )


def compare_optimum(
    out: Bench, name: str, window: list[Request], pair: DevicePair, limit_s: float
) -> None:
    """Find the best placement of a window at three capacities."""
    groups = groups_of(window)
    with tempfile.TemporaryDirectory() as place:
        trace = traced(Path(place) / "trace", window, (pair.base, pair.nvm))
        with searching(trace) as search:
            for share in (0.2, 0.4, 0.6):
                capacity = int(share * len(trace.touched.keys))
                found = search.find(capacity, [], parts=HEADLINE_PARTS)
                flow = Flow(pair)
                for number, one in enumerate(window):
                    flow.add(one, groups[number])
                flow.limit(capacity)
                least_ps = (flow.fixed_ms + solve(flow.program, limit_s).mip_dual_bound) * 1e9
                out.row(
                    f"{name}, {share:.0%} of the blocks",
                    answer_over_optimum=found.elapsed_ps / least_ps - 1,
                    optimum_over_bound=least_ps / max(found.bound_ps or 1, 1) - 1,
                )


def bench_exact_placement(
    out: Bench,
    *,
    samples: tuple[str, ...] = ("gnuplot", "oltp"),
    requests: int = 300,
    limit_s: float = 20.0,
) -> None:
    """Compare answer and bound with what an integer program proves of the optimum."""
    known = load_profiles()
    pair = DevicePair(known[PAIR[0]], known[PAIR[1]])
    for name in samples:
        folder = out.input(f"sample-{name}", partial(made, sample=name))
        for begin_ratio in (0.25, 0.5, 0.75):
            window = issued(folder, begin_ratio, requests)
            compare_optimum(out, f"{name} from {begin_ratio:.0%}", window, pair, limit_s)


FOLDER = ROOT / "sample-traces"
LIMIT = 0.02
BASE, FAST = "hdd-7200", "dax-pcm"


def pairs() -> Iterator[tuple[str, str]]:
    """Yield every built-in device as the base, and as the NVM, beside the default one.

    Not as NVM a disk whose head moves, which the model charges its mean positions.
    """
    known = load_profiles()
    yield from ((name, FAST) for name in known)
    yield from ((BASE, name) for name in known if name != FAST and not known[name].has_head)


class Sample:
    """A sample with the hottest of each role's blocks on NVM: its plans, alone and placed."""

    def __init__(self, folder: TraceFolder, *, share: int, level: str, coverage: str) -> None:
        self._touched = read_blocks(folder.table("blocks"))
        counts = zip(ROLES[:PLACED_ROLES], self._touched.role_blocks().tolist(), strict=False)
        self._blocks = {role: count // share for role, count in counts}
        self._requests = folder.table("requests")
        self._level, self._coverage = level, coverage
        placed = place(self._touched, coverage, blocks=self._blocks)
        self._plans = [compiled(folder, level=level, placed=one) for one in (None, placed)]
        self.cut_requests = self._plans[1][1].cut_requests

    def predicted_ns(self, pair: DevicePair) -> list[float]:
        """Return what the model says, of the base device alone and as placed."""
        trace = ChargedTrace(self._requests, self._touched, pair, self._level == "issued")
        return [ps / 1000 for ps in placement_ps(trace, self._blocks, coverage=self._coverage)]

    def emulated_ns(self, pair: DevicePair, program: Devices) -> list[int]:
        """Return what the program's own devices take for both at depth 1."""
        devices = {DEFAULT: pair.base, NVM: pair.nvm}
        return [program.elapsed_ns(*plan, devices) for plan in self._plans]


def made(place: Path, *, sample: str) -> None:
    """Parse and classify a sample."""
    folder, _ = parse([FOLDER / sample], place)
    classify(folder, ClassifyOptions())


def bench_one_disk(out: Bench, *, samples: str = "", devices: str = "") -> None:
    """Place a quarter of each role's blocks of each sample, on each built-in device, at depth 1.

    No request is timed: the devices' own code says what each takes. Both options are names with
    commas between them; all without.
    """
    program = Devices(out.scratch)
    known = load_profiles()
    every = sorted({path.parent.name for path in FOLDER.glob("*/*.blktrace.*")})
    for sample in samples.split(",") if samples else every:
        folder = TraceFolder(out.input(f"sample-{sample}", partial(made, sample=sample)))
        one = Sample(folder, share=4, level="issued", coverage="hottest")
        for base, nvm in pairs():
            if devices and not {base, nvm} <= {BASE, FAST, *devices.split(",")}:
                continue
            pair = DevicePair(known[base], known[nvm])
            predicted, emulated = one.predicted_ns(pair), one.emulated_ns(pair, program)
            apart = max(
                (took / told - 1 for took, told in zip(emulated, predicted, strict=True)), key=abs
            )
            seconds = {"base_s": emulated[0], "predicted_s": predicted[1], "placed_s": emulated[1]}
            figures = {name: ns / 1e9 for name, ns in seconds.items()}
            out.row(f"{sample}, {base} + {nvm}", **figures, apart=apart)
            if abs(apart) > LIMIT:
                raise Failed(f"{sample}, {base} + {nvm}: model and emulation are {apart:.1%} apart")
