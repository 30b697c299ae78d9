"""The best placement of windows of samples against the optimum, by an integer program (HiGHS)."""

import tempfile
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from tests.bench.best_placement import make_folder
from tests.bench.harness import Bench
from tests.recommend.test_best_bound import Program
from tests.recommend.test_best_placement import traced
from tests.simulate.placement_models import Request
from tracekit.devices import DevicePair, base_cost, device_cost, load_profiles
from tracekit.model.best_choice import HEADLINE_PARTS
from tracekit.model.best_placement import searching

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
    """The flow of `test_best_bound.program_of` through groups instead of blocks, in ms."""

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


def compare(out: Bench, name: str, window: list[Request], pair: DevicePair, limit_s: float) -> None:
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
        folder = out.input(f"classified-{name}", partial(make_folder, sample=name))
        for begin_ratio in (0.25, 0.5, 0.75):
            window = issued(folder, begin_ratio, requests)
            compare(out, f"{name} from {begin_ratio:.0%}", window, pair, limit_s)
