"""The bound and the search of the best placement against mixed-integer programming (HiGHS)."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.recommend.test_best_placement import traced
from tests.simulate.placement_models import DISK, NVM, Block, Request
from tracekit.classify import ClassifyOptions, classify
from tracekit.devices import DevicePair, base_cost, device_cost, load_profiles
from tracekit.model.best_placement import searching
from tracekit.model.block_orders import read_blocks
from tracekit.model.placement import ChargedTrace
from tracekit.readers.blktrace import parse

CLOSE_RATIO, FOUND_RATIO = 0.01, 0.05
OLTP = Path(__file__).resolve().parents[2] / "sample-traces" / "oltp"
Terms = list[tuple[int, float]]


class Program:
    """A least cost under equations and bounds."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.is_whole: list[bool] = []
        self.cells: list[tuple[int, int, float]] = []
        self.limits: list[tuple[float, float]] = []

    def variable(self, cost: float = 0.0, *, is_whole: bool = False) -> int:
        self.costs.append(cost)
        self.is_whole.append(is_whole)
        return len(self.costs) - 1

    def require(self, terms: Terms, low: float, high: float) -> None:
        self.cells += [(len(self.limits), place, factor) for place, factor in terms]
        self.limits.append((low, high))

    def passed(self, waiting: list[int], cost: float) -> int:
        """Let what waits go in at a cost, or go on waiting; return the way in."""
        enter, go_on = self.variable(cost), self.variable()
        self.require([*((way, 1.0) for way in waiting), (enter, -1), (go_on, -1)], 0, 0)
        waiting[:] = [go_on]
        return enter

    def least(self, *, is_relaxed: bool = False) -> float:
        rows, columns, factors = zip(*self.cells, strict=True)
        size = len(self.limits), len(self.costs)
        matrix = sparse.csr_matrix((factors, (rows, columns)), shape=size)
        found = milp(
            np.array(self.costs),
            constraints=LinearConstraint(matrix, *np.array(self.limits).T),
            bounds=Bounds(0, 1),
            integrality=None if is_relaxed else np.array(self.is_whole, int),
        )
        assert found.success
        return float(found.fun)


def program_of(requests: list[Request], capacity: int, pair: DevicePair) -> tuple[Program, float]:
    """The head's way through the blocks of requests that stay, as a flow; times in ms.

    It leaves each block to where that ends, or to anywhere, and goes on to a later one from there.
    """
    base, nvm = base_cost(pair.base), device_cost(pair.nvm)
    program, fixed = Program(), 0.0
    moved: dict[Block, int] = {}
    anywhere = [program.variable()]
    program.require([(anywhere[0], 1)], 1, 1)
    ends: dict[Block, list[int]] = {}
    for one in requests:
        op = int(one.operation == "write")
        setup = program.variable(nvm.latency_ps[op] / 1e9)
        last: list[int] = []
        for block in one.blocks:
            if block not in moved:
                moved[block] = program.variable(is_whole=True)
            is_moved = moved[block]
            fixed += 8 * base.sector_ps[op] / 1e9
            program.costs[is_moved] += 8 * (nvm.sector_ps[op] - base.sector_ps[op]) / 1e9
            program.require([(setup, 1), (is_moved, -1)], 0, 1)
            before = one.device, block[1] - 1
            inwards = [*last]
            for waiting, ps in (
                (anywhere, base.latency_ps),
                (ends.get(before), base.sequential_ps),
            ):
                if waiting is not None:
                    inwards.append(program.passed(waiting, ps[op] / 1e9))
            outwards = [program.variable(), program.variable()]
            anywhere.append(outwards[0])
            ends.setdefault(block, []).append(outwards[1])
            last = [program.variable()] if block != one.blocks[-1] else []
            for ways in (inwards, outwards + last):
                program.require([*((way, 1.0) for way in ways), (is_moved, 1)], 1, 1)
    program.require([(place, 1) for place in moved.values()], 0, capacity)
    return program, fixed


def chance(number: int) -> list[Request]:
    """Sequential runs that others come between, and blocks that are used again."""
    draw = random.Random(number)  # noqa: S311
    found, places = [], [0, 40, 80]
    for _ in range(100):
        kind = draw.randrange(5)
        count = draw.choice([1, 1, 2, 3])
        if kind == 4:
            begin = draw.randrange(117)
        else:
            kind %= 3
            begin = 40 * kind + places[kind] % 40
            count = min(count, 40 * (kind + 1) - begin)
            places[kind] += count
        operation = draw.choice(["read", "write"])
        found.append(Request("fs", 8 * begin, 8 * count, operation))
    return found


@pytest.mark.parametrize("number", range(3))
def test_the_bound_is_that_of_the_relaxed_program_and_the_optimum_is_near(
    tmp_path: Path, number: int
) -> None:
    # GIVEN runs that share a disk, and the least time by an integer program of the same costs
    requests = chance(number)
    trace = traced(tmp_path / "trace", requests, (DISK, replace(NVM, sequential_setup_us=None)))
    with searching(trace) as search:
        for share in (0.15, 0.5):
            capacity = int(share * len(trace.touched.keys))
            program, fixed_ms = program_of(requests, capacity, trace.devices)
            optimum_ms = fixed_ms + program.least()
            relaxed_ms = fixed_ms + program.least(is_relaxed=True)
            found = search.find(capacity, [], parts=4)
            assert found.bound_ps is not None
            # THEN no bound exceeds it, and it is about that of the linear relaxation
            assert found.bound_ps <= optimum_ms * 1e9 * (1 + 1e-6)
            assert found.bound_ps >= (1 - CLOSE_RATIO) * relaxed_ms * 1e9
            # AND the placement takes as long as the optimum, or a little longer
            assert optimum_ms * (1 - 1e-4) <= found.elapsed_ps / 1e9
            assert found.elapsed_ps / 1e9 <= (1 + FOUND_RATIO) * optimum_ms


@pytest.fixture(scope="module")
def oltp(tmp_path_factory: pytest.TempPathFactory) -> ChargedTrace:
    """The sample trace, and a disk beside memory."""
    folder, _ = parse([OLTP], tmp_path_factory.mktemp("oltp") / "trace")
    classify(folder, ClassifyOptions())
    touched, known = read_blocks(folder.table("blocks")), load_profiles()
    pair = DevicePair(known["hdd-7200"], known["dax-pcm"])
    return ChargedTrace(folder.table("requests"), touched, pair, is_issued=True)


@pytest.mark.parametrize(
    ("share", "most_ratio"), [pytest.param(0.45, 1.2, id="part"), pytest.param(1.0, 1.2, id="all")]
)
def test_a_placement_of_a_real_trace_is_near_its_bound(
    oltp: ChargedTrace, share: float, most_ratio: float
) -> None:
    # GIVEN a trace on a disk, and a capacity that no other one was asked for before
    with searching(oltp) as search:
        found = search.find(int(share * len(oltp.touched.keys)), [], parts=4)
    # THEN a bound is known even where all fits, and the placement is not far from it
    assert found.bound_ps is not None
    assert found.elapsed_ps <= most_ratio * found.bound_ps
