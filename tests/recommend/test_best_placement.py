"""The best placement against every placement there is, its bound, and integer programming."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.recommend.traces import BLOCK, US, recommended
from tests.simulate.placement_models import (
    DISK,
    HEAD,
    NVM,
    Block,
    Request,
    position_ps,
    write_trace,
)
from tracekit.classify import ClassifyOptions, classify
from tracekit.devices import DevicePair, Profile, base_cost, device_cost, load_profiles
from tracekit.model.answer import gain_text, longer
from tracekit.model.best_choice import near
from tracekit.model.best_placement import (
    OnNvm,
    Rival,
    Search,
    prices_of,
    read_best,
    searching,
    time_ps,
)
from tracekit.model.best_regret import Case, add_devices, case_of, worst_of
from tracekit.model.block_orders import hottest_first, read_blocks
from tracekit.model.changes import changed_devices, variants
from tracekit.model.gain_range import FACTORS
from tracekit.model.placement import ChargedTrace
from tracekit.readers.blktrace import parse
from tracekit.replay.placed import place_answer
from tracekit.store import TraceFolder
from tracekit.tables import ROLES

FLAT = replace(DISK, sequential_setup_us=None, empty_flush_us=None)
FLAT_NVM = replace(NVM, sequential_setup_us=None)
SLOW_NVM = replace(
    FLAT_NVM, write_latency_us=9800.0, write_mib_s=90.0, flush_us=9000.0, empty_flush_us=4000.0
)
PAIRS = {
    "no head": (FLAT, FLAT_NVM),
    "what continues is free": (DISK, FLAT_NVM),
    "a moving head": (HEAD, FLAT_NVM),
    "NVM that is slower in part": (DISK, SLOW_NVM),
    "flash, whose reads alone are slow": (
        replace(FLAT, write_latency_us=100.0, fua_us=0.0),
        SLOW_NVM,
    ),
}
MOST_BLOCKS = 9


def elapsed_ps(requests: Sequence[Request], on_nvm: set[Block], pair: DevicePair) -> int:
    """Serve each request: on the base device run by run from its head, on NVM at once."""
    base, nvm = base_cost(pair.base), device_cost(pair.nvm)
    total, heads, roles = 0, dict[str, int](), dict[Block, str]()
    written = set[str]()  # devices with something to flush
    for one in requests:
        roles = dict.fromkeys(one.blocks if one.is_transfer else (), one.role) | roles
    for one in requests:
        if one.operation == "flush" or one.is_preflush:
            blocks = {block for block, role in roles.items() if role == one.role}
            flushed = [one.device] * (not blocks or not blocks <= on_nvm)
            for device in [*flushed, *["NVM"] * bool(blocks & on_nvm)]:
                total += pair.flush_ps[device == "NVM"][device in written]
                written.discard(device)
        if not one.is_transfer:
            continue
        op = int(one.operation == "write")
        moved = one.sectors_on(on_nvm)
        if op and not one.is_fua:
            written |= ({"NVM"} if moved else set()) | (
                {one.device} if moved < one.sectors else set()
            )
        total += moved * nvm.sector_ps[op] + (one.sectors - moved) * base.sector_ps[op]
        total += (nvm.latency_ps[op] + one.is_fua * nvm.fua_ps) * (moved > 0)
        for sector in range(one.sector, one.sector + one.sectors):
            if (one.device, sector // 8) in on_nvm:
                continue
            head = heads.get(one.device)
            heads[one.device] = sector + 1
            if head == sector and sector > one.sector:
                continue
            total += one.is_fua * base.fua_ps
            if pair.base.has_head:
                total += base.sequential_ps[op]
                total += position_ps(pair.base, head, sector, is_write=bool(op))
            else:
                total += base.sequential_ps[op] if head == sector else base.latency_ps[op]
    return total


def chance(number: int) -> list[Request]:
    """Some requests of two devices and three roles, aligned or not, that often continue others."""
    draw = random.Random(number)  # noqa: S311
    found: list[Request] = []
    ends = {"sda": 0, "sdb": 0}
    spans = {"sda": draw.randint(3, MOST_BLOCKS - 2), "sdb": 2}
    for _ in range(draw.randint(3, 24)):
        device = "sda" if draw.random() < 0.85 else "sdb"
        begins = ends[device] if draw.random() < 0.5 else 8 * draw.randrange(spans[device])
        begins += draw.choice([0, 0, 0, 3])
        if begins >= 8 * spans[device]:
            begins = 0
        sectors = min(draw.choice([5, 8, 8, 8, 16, 24]), 8 * spans[device] - begins)
        operation = draw.choice(["read", "write", "write", "flush"])
        role = "unknown" if device == "sdb" else "journal" if begins < 16 else "fs"
        one = Request(
            role,
            begins,
            sectors if operation != "flush" else 0,
            operation,
            is_fua=operation == "write" and draw.random() < 0.2,
            is_preflush=operation == "write" and draw.random() < 0.1,
            device=device,
        )
        ends[device] = begins + one.sectors if one.is_transfer else ends[device]
        found.append(one)
    return found


def traced(folder: Path, requests: list[Request], pair: tuple[Profile, Profile]) -> ChargedTrace:
    write_trace(folder, requests)
    touched = read_blocks(folder / "blocks.parquet")
    return ChargedTrace(folder / "requests.parquet", touched, DevicePair(*pair))


def named(trace: ChargedTrace, on_nvm: OnNvm) -> set[Block]:
    chosen = trace.touched.by_device(np.flatnonzero(on_nvm))
    return {(name, int(block)) for name, blocks in chosen for block in blocks}


def every_best(requests: list[Request], trace: ChargedTrace) -> Iterator[int]:
    """Yield the least time by number of blocks, of all placements of so many or fewer."""
    blocks = sorted(named(trace, np.ones(len(trace.touched.keys), np.uint8)))
    least: float = float("inf")
    for count in range(len(blocks) + 1):
        for chosen in itertools.combinations(blocks, count):
            least = min(least, elapsed_ps(requests, set(chosen), trace.devices))
        yield int(least)


def rivals_of(search: Search, requests: list[Request], capacity: int) -> list[Rival]:
    trace = search.trace
    orders = {
        "most accessed first": hottest_first(trace.touched),
        "start": np.arange(len(trace.touched.keys)),
    }
    found = []
    for name, order in orders.items():
        on_nvm = np.zeros(len(order), np.uint8)
        on_nvm[order[:capacity]] = 1
        time_ps = elapsed_ps(requests, named(trace, on_nvm), trace.devices)
        found.append(Rival(name, on_nvm, time_ps))
    return found


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("number", range(24))
def test_no_placement_is_below_the_bound_and_few_above_the_best(
    tmp_path: Path, kind: str, number: int
) -> None:
    # GIVEN a small trace, and the least time that any placement of each size takes
    requests = chance(number)
    trace = traced(tmp_path / "trace", requests, PAIRS[kind])
    least = list(every_best(requests, trace))
    with searching(trace) as search:
        for capacity, best_ps in enumerate(least):
            rivals = rivals_of(search, requests, capacity)
            found = search.find(capacity, rivals, parts=20)
            # THEN the time is that of the placement, which fits
            placed = named(trace, found.on_nvm)
            assert len(placed) <= capacity
            assert found.elapsed_ps == elapsed_ps(requests, placed, trace.devices)
            # AND that of the model of all other placements
            if capacity % 3 == 1:
                assert time_ps(trace, found.on_nvm) == (least[0], found.elapsed_ps)
            # AND no placement is below the bound, nor any order better than the answer
            assert found.bound_ps is not None
            assert found.bound_ps <= best_ps <= found.elapsed_ps
            assert found.elapsed_ps <= min(one.elapsed_ps or 0 for one in rivals)


def test_groups_come_by_falling_value_and_equals_in_their_order(tmp_path: Path) -> None:
    # GIVEN blocks apart, each a group, with values of both signs, zeros, equals and no end
    trace = traced(tmp_path / "trace", [Request("fs", 16 * one) for one in range(600)], (DISK, NVM))
    draw = np.random.default_rng(1)
    some = np.array([np.inf, -0.0, 0.0, 1e-300, 0.5, 7.0, -3.0])
    values = draw.choice(some, 600) * draw.integers(1, 9, 600).astype(np.float64)
    order = sorted(range(600), key=lambda one: (-values[one], one))
    with searching(trace) as search:
        for capacity in (1, 90, 300, 600):
            _, on_nvm = search.kernel.choose(capacity, values, steps=0)
            # THEN the first ones are placed, but none below zero
            expected = sorted(one for one in order[:capacity] if values[one] >= 0)
            assert np.flatnonzero(on_nvm).tolist() == expected


@pytest.mark.parametrize("kind", PAIRS)
def test_devices_that_are_left_out_have_no_largest_regret(tmp_path: Path, kind: str) -> None:
    tried = 0
    for number in range(12):
        requests = chance(number)
        trace = traced(tmp_path / str(number), requests, PAIRS[kind])
        capacity = len(trace.touched.keys) // 3
        with searching(trace) as search:
            best = search.find(capacity, [], parts=20)
            placements = {"best": best.on_nvm}
            placements |= {one.name: one.on_nvm for one in rivals_of(search, requests, capacity)}
            # WHEN only the parts of devices are tried that can have the largest regret
            some: list[Case] = []
            add_devices(some, search, capacity=capacity, placements=placements)
            # THEN that is the largest one of all parts
            every = []
            for change in variants(trace.devices, FACTORS):
                search.kernel.reprice(prices_of(changed_devices(trace.devices, change)))
                sizes = {"groups": search.size.groups, "capacity": capacity}
                every.append(case_of(str(change), search.kernel, **sizes, placements=placements))
            for name in placements:
                found, known = (
                    worst_of(name, cases).worst_ratio if cases else 0.0 for cases in (some, every)
                )
                assert found == pytest.approx(known, abs=1e-9)
        tried += len(every) - len(some)
    assert tried > 12


@pytest.mark.parametrize(
    ("ratio", "words", "gain"),
    [
        (0.372, "37.2% longer than", "-37.2%"),
        (4.718, "5.7 times as long as", "none, but 5.7 times as long as before"),
        (5426.3, "more than 10 times as long as", "none, but more than 10 times as long as before"),
    ],
)
def test_what_takes_many_times_as_long_is_no_percentage(
    ratio: float, words: str, gain: str
) -> None:
    assert longer(ratio) == words
    assert gain_text(-ratio) == gain
    assert gain_text(0.981) == "98.1%"


def test_blocks_of_no_known_role_are_placed_and_can_be_replayed(tmp_path: Path) -> None:
    # GIVEN requests of unknown role, of which three blocks of two devices are used most
    hot = [Request("unknown", sector, device=device) for sector, device in HOT]
    cold = [Request("unknown", 80 + 16 * number) for number in range(7)]
    result = recommended(tmp_path, hot * 5 + cold, capacities_bytes=(3 * BLOCK,))
    # THEN they are the answer, the best there is
    best = result["best_placement"]["answer"]
    assert best["elapsed_ns"] == (7 * 5000 + 15 * 15) * US
    assert best["role_bytes"] == {"unknown": 3 * BLOCK}
    assert best["gap_ratio"] < 1e-6
    assert result["headline"][-1].startswith("Block by block, 12 KiB of unknown (2 extents, in")
    # AND the table has them, as a replay places them: for all roles, sdb behind sda
    folder = TraceFolder(tmp_path)
    touched = read_blocks(tmp_path / "blocks.parquet")
    chosen = touched.by_device(np.flatnonzero(read_best(folder, touched)))
    assert [(name, blocks.tolist()) for name, blocks in chosen] == [("sda", [0, 1]), ("sdb", [7])]
    placed = place_answer(folder, "best")
    assert {key: (one.blocks.tolist(), one.slot) for key, one in placed.moved.items()} == {
        (device, role): place
        for role in ROLES
        for device, place in (("sda", ([0, 1], 0)), ("sdb", ([7], 2)))
    }
    assert placed.on_nvm == {**dict.fromkeys(ROLES, "none"), "unknown": "part"}


HOT = ((0, "sda"), (56, "sdb"), (8, "sda"))


@pytest.mark.parametrize(
    ("gap_ratio", "words"),
    [(None, ""), (0.0, "within 0.1% of"), (0.031, "within 3.1% of"), (1.3, "is not known")],
)
def test_a_bound_that_is_far_away_proves_nothing(gap_ratio: float | None, words: str) -> None:
    assert words in near(gap_ratio)


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


def hot_and_cold(number: int) -> list[Request]:
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
    requests = hot_and_cold(number)
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
