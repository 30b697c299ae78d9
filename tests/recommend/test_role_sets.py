"""The best split between every set of roles, against charging every request of every division."""

import itertools
import random
from pathlib import Path

import pytest

from tests.recommend.traces import BLOCK, DEVICES, oltp, recommended
from tests.simulate.placement_traces import Block, Request, elapsed_ps, hottest_first
from tracekit.devices import device_cost, load_profiles, picoseconds
from tracekit.model.placement import to_ns

ROLES = ("fs", "journal", "swap")
SETS = [held for size in (1, 2, 3) for held in itertools.combinations(ROLES, size)]


def name_of(held: tuple[str, ...]) -> str:
    return "combined" if held == ROLES else "+".join(held)


def three_roles(seed: int) -> list[Request]:
    """Return 40 requests on 4 blocks of each role, some long, some flushes."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable trace
    requests = []
    for _ in range(40):
        role = rng.choice(ROLES)
        block = min(int(rng.expovariate(0.7)), 3)
        operation = rng.choice(["read", "write", "write", "write", "flush"])
        sectors = 8 * rng.randint(1, 4 - block) if operation != "flush" else 0
        sector = 800 * ROLES.index(role) + 8 * block
        requests.append(Request(role, sector, sectors, operation, is_fua=rng.random() < 0.2))
    return requests


def least_ns(requests: list[Request], held: tuple[str, ...], *, capacity: int) -> int:
    """Try every division of a capacity in blocks between the roles, and return the least time."""
    known = load_profiles(DEVICES)
    devices = (known["disk"], known["nvm"])
    costs = (device_cost(devices[0]), device_cost(devices[1]))
    flush_ps = (picoseconds(devices[0].flush_us), picoseconds(devices[1].flush_us))
    orders = [hottest_first(requests, role) for role in held]
    times = []
    for shares in itertools.product(*(range(len(order) + 1) for order in orders)):
        if sum(shares) <= capacity:
            placed: set[Block] = set()
            for order, share in zip(orders, shares, strict=True):
                placed.update(order[:share])
            times.append(elapsed_ps(requests, placed, costs=costs, flush_ps=flush_ps))
    return int(to_ns(min(times)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("capacity", [0, 1, 3, 5, 12, 20])
def test_no_division_of_any_set_is_better(seed: int, capacity: int, tmp_path: Path) -> None:
    # GIVEN a trace of three roles, WHEN a placement is sought
    requests = three_roles(seed)
    result = recommended(tmp_path, requests, capacities_bytes=(capacity * BLOCK,))
    found = {one["placement"]: one for one in result["role_sets"]}
    # THEN every set of roles is there, with the least time of all its divisions
    assert {name: one["elapsed_ns"] for name, one in found.items()} == {
        name_of(held): least_ns(requests, held, capacity=capacity) for held in SETS
    }
    # AND uses no more than there is, and nothing for other roles; its gain is of the base's time
    for held in SETS:
        one = found[name_of(held)]
        given = {role: one[f"{role}_bytes"] for role in ROLES}
        assert one["capacity_bytes"] == capacity * BLOCK
        assert sum(given.values()) <= capacity * BLOCK
        assert all(role in held for role, size in given.items() if size)
        base_ns = result["answer"]["base_elapsed_ns"]
        assert one["gain_ratio"] == pytest.approx(1 - one["elapsed_ns"] / base_ns, abs=1e-9)
    # AND the shortest is first
    times = [one["elapsed_ns"] for one in result["role_sets"]]
    assert times == sorted(times)


def test_of_equal_sets_the_smaller_is_first(tmp_path: Path) -> None:
    # GIVEN a file system of hot blocks, and a journal and swap of one request each
    requests = [Request("fs", 16 * block) for _ in range(9) for block in range(4)]
    requests += [Request("journal", 800), Request("swap", 1600)]
    # WHEN only the file system's hottest blocks fit, THEN adding roles to it changes nothing
    result = recommended(tmp_path, requests, capacities_bytes=(2 * BLOCK,))
    names = [one["placement"] for one in result["role_sets"]]
    assert names[:4] == ["fs", "fs+journal", "fs+swap", "combined"]
    # AND without it a pair saves both single requests
    assert names[4:] == ["journal+swap", "journal", "swap"]


def test_only_sets_of_roles_that_the_trace_has(tmp_path: Path) -> None:
    # GIVEN traces of two roles, of one and of none, WHEN a placement is sought
    two = recommended(tmp_path / "two", oltp()[::3])
    one = recommended(tmp_path / "one", [Request("swap", 0)])
    none = recommended(tmp_path / "none", [Request("other", 0)])
    # THEN the set of all roles is called combined, and no role is told that is not there
    assert {found["placement"] for found in two["role_sets"]} == {"combined", "fs", "journal"}
    assert [found["placement"] for found in one["role_sets"]] == ["swap"]
    assert none["role_sets"] == []


def test_sets_are_walked_where_roles_share_a_queue(tmp_path: Path) -> None:
    # GIVEN three roles that queue for one disk, WHEN sets are compared by mean response times
    requests = three_roles(1)
    result = recommended(
        tmp_path, requests, base="hdd-7200-seek", queueing="open", capacities_bytes=(4 * BLOCK,)
    )
    found = {one["placement"]: one for one in result["role_sets"]}
    # THEN every set has its time, and none that may leave a capacity empty is worse than no NVM
    assert found.keys() == {name_of(held) for held in SETS}
    base_ns = result["answer"]["base_elapsed_ns"]
    assert all(0 < one["elapsed_ns"] <= base_ns for one in found.values())
