"""Placements at every capacity against brute force, their bad input, splits, ledger and chains."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulate import placement_models
from tests.simulate.placement_models import (
    DISK,
    HEAD,
    NVM,
    Block,
    Request,
    curves_of,
    model,
    on_nvm,
    write_trace,
)
from tracekit._native.placement import Ledger
from tracekit.devices import DevicePair, Profile, device_cost
from tracekit.errors import InputError
from tracekit.model.block_orders import read_blocks
from tracekit.model.changes import changed_devices, variants
from tracekit.model.gain_range import Placed
from tracekit.model.placement import (
    ChargedTrace,
    Curves,
    best_splits,
    curves_at,
    distinct,
    running_best,
)

PLAIN = dataclasses.replace(DISK, sequential_setup_us=None, empty_flush_us=None)
SLOW_NVM = Profile("slow", "", 9500.0, 20000.0, 50.0, 120.0, 9000.0, 0.0, 24.0)


def charged(
    requests: list[Request],
    order: list[Block],
    devices: tuple[Profile, Profile],
    *,
    count: int,
    is_by_address: bool = False,
) -> list[int]:
    """Charge the trace at each capacity up to `count` blocks, in the order given."""
    return [
        model(requests, set(order[:capacity]), devices, is_by_address=is_by_address).service
        for capacity in range(count + 1)
    ]


def assert_equals_brute_force(
    curves: Curves, requests: list[Request], devices: tuple[Profile, Profile], hot: list[Request]
) -> None:
    """Compare every curve; `hot` are the requests as queued, which decide how hot a block is."""
    count = len(curves.points) - 1
    for role in ("fs", "journal", "swap"):
        orders = {
            "hottest": placement_models.hottest_first(hot, role),
            "start": sorted(set(placement_models.hottest_first(hot, role))),
        }
        for coverage, order in orders.items():
            if not order:
                continue
            expected = charged(requests, order, devices, count=count)
            found = curves.base_total_ps + curves.change_ps[coverage, role]
            assert found.tolist() == expected, (role, coverage)
    every = placement_models.hottest_first(hot)
    expected = charged(requests, every, devices, count=count, is_by_address=True)
    assert (curves.base_total_ps + curves.optimal_ps).tolist() == expected


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    requests=placement_models.traces(),
    base=st.sampled_from([DISK, PLAIN, HEAD]),
    nvm=st.sampled_from([NVM, SLOW_NVM]),
)
def test_capacities_are_brute_force(
    requests: list[Request], base: Profile, nvm: Profile, tmp_path: Path
) -> None:
    curves = curves_of(write_trace(tmp_path, requests), (base, nvm))
    assert_equals_brute_force(curves, requests, (base, nvm), requests)


@pytest.mark.parametrize(("seed", "count"), [(1, 1), (2, 40), (3, 40), (4, 300)])
def test_merged_requests_are_charged_as_issued(seed: int, count: int, tmp_path: Path) -> None:
    # GIVEN requests of which most were merged, and that were issued in another order
    queued, issued = placement_models.as_issued(seed, count)
    folder = write_trace(tmp_path, queued)
    curves = curves_of(folder, (DISK, NVM), is_issued=True)
    # THEN each costs what the whole that reached the device costs
    assert sum(curves.totals.requests) == count
    assert curves.totals.orphan_merges == 0
    assert_equals_brute_force(curves, issued, (DISK, NVM), queued)


def test_many_pending_requests_leave_in_issue_order(tmp_path: Path) -> None:
    # GIVEN 5,000 requests that are all queued before the first is issued, backwards
    count = 5000
    queued = [
        Request("fs", 8 * number, queue_ns=number, issue_ns=100_000 - number)
        for number in range(count)
    ]
    # WHEN they are charged as issued, on a disk where only a continued request is free of seeks
    curves = curves_of(write_trace(tmp_path, queued), (DISK, NVM), is_issued=True)
    # THEN none continues the one before it, while as queued all but the first do
    cost = device_cost(DISK)
    transfer_ps = count * 8 * cost.sector_ps[1]
    assert curves.base_total_ps == count * cost.latency_ps[1] + transfer_ps
    as_queued = curves_of(tmp_path, (DISK, NVM))
    assert as_queued.base_total_ps == cost.latency_ps[1] + transfer_ps


@pytest.mark.parametrize("devices", [(DISK, NVM), (PLAIN, SLOW_NVM)])
def test_coarse_capacities_are_exact(devices: tuple[Profile, Profile], tmp_path: Path) -> None:
    requests, _ = placement_models.as_issued(7, 60)
    folder = write_trace(tmp_path, requests)
    every = curves_of(folder, devices)
    assert bool(every.simulated) == (devices[0] is DISK)
    touched = read_blocks(folder / "blocks.parquet")
    points = np.array([0, 3, 4, 20, 1000])
    trace = ChargedTrace(folder / "requests.parquet", touched, DevicePair(*devices))
    few = curves_at(trace, points)
    # THEN the values are those of every block, and constant above the footprint
    last = len(every.points) - 1
    for key, change_ps in every.change_ps.items():
        assert few.change_ps[key].tolist() == change_ps[[0, 3, 4, 20, last]].tolist()
    assert few.optimal_ps.tolist() == every.optimal_ps[[0, 3, 4, 20, last]].tolist()


def test_orders_agree_at_both_ends(tmp_path: Path) -> None:
    requests, _ = placement_models.as_issued(8, 60)
    curves = curves_of(write_trace(tmp_path, requests), (DISK, NVM))
    # WHEN nothing or the whole role is on NVM, THEN the order in which it moved does not matter
    for role in curves.placed_roles:
        hottest, start = (curves.change_ps[coverage, role] for coverage in ("hottest", "start"))
        assert hottest[0] == start[0] == 0
        assert hottest[-1] == start[-1] < 0


def test_blocks_far_apart_are_found(tmp_path: Path) -> None:
    # GIVEN touched blocks on two devices, single and in runs, from the first to beyond 1 EiB
    places = [0, 1, 2, 9, 1 << 20, (1 << 20) + 1, 1 << 38, (1 << 48) - 1, 1 << 48]
    requests = [
        Request("fs", block * 8, device=device, operation="read")
        for device in ("sdb", "sda")
        for block in places
    ]
    curves = curves_of(write_trace(tmp_path, requests), (DISK, NVM))
    # THEN every request is served there
    assert curves.totals.missing_blocks == 0
    nvm = device_cost(NVM)
    at_once = 2 * (len(places) - 1)  # there nothing is between them
    elapsed = (
        (len(requests) - at_once) * nvm.latency_ps[0]
        + at_once * nvm.sequential_ps[0]
        + len(requests) * 8 * nvm.sector_ps[0]
    )
    assert curves.base_total_ps + curves.change_ps["hottest", "fs"][-1] == elapsed


def test_an_unknown_carrier_is_counted(tmp_path: Path) -> None:
    # GIVEN a request merged into one that was issued before it was queued, and one never issued
    requests = [
        Request("fs", 0, queue_ns=0, issue_ns=5),
        Request("fs", 8, queue_ns=9, merged_into=0),
        Request("fs", 64, queue_ns=10),
    ]
    curves = curves_of(write_trace(tmp_path, requests), (DISK, NVM), is_issued=True)
    # THEN the first is charged on its own, the second left out, and both are counted
    assert (curves.totals.orphan_merges, curves.totals.not_issued) == (1, 1)
    assert sum(curves.totals.requests) == 2


def test_blocks_that_were_not_classified_stay_on_base(tmp_path: Path) -> None:
    # GIVEN requests to three blocks of which classify lists one
    write_trace(tmp_path, [Request("fs", 8)])
    blocks = (tmp_path / "blocks.parquet").read_bytes()
    write_trace(tmp_path, [Request("fs", 0, 24)])
    (tmp_path / "blocks.parquet").write_bytes(blocks)
    curves = curves_of(tmp_path, (DISK, NVM))
    # THEN two blocks are counted as missing and still cost the disk's time, each its own
    assert curves.totals.missing_blocks == 2
    disk, nvm = device_cost(DISK), device_cost(NVM)
    assert curves.base_total_ps + curves.change_ps["hottest", "fs"][-1] == (
        2 * disk.latency_ps[1] + 16 * disk.sector_ps[1] + nvm.latency_ps[1] + 8 * nvm.sector_ps[1]
    )


@pytest.mark.parametrize(("sector", "sectors"), [(-8, 8), (1 << 57, 8), (0, 1 << 23)])
def test_impossible_requests_are_counted(sector: int, sectors: int, tmp_path: Path) -> None:
    good = [Request("fs", 0), Request("fs", 80)]
    write_trace(tmp_path, good)
    blocks = (tmp_path / "blocks.parquet").read_bytes()
    expected = curves_of(tmp_path, (DISK, NVM))
    write_trace(tmp_path, [good[0], Request("fs", sector, sectors, "discard"), good[1]])
    table = pq.read_table(tmp_path / "requests.parquet")
    writes = pa.array(["write"] * 3).dictionary_encode()
    place = table.schema.get_field_index("operation")
    pq.write_table(
        table.set_column(place, table.schema.field(place), writes), tmp_path / "requests.parquet"
    )
    (tmp_path / "blocks.parquet").write_bytes(blocks)
    found = curves_of(tmp_path, (DISK, NVM))
    assert found.totals.impossible == 1
    assert found.base_total_ps == expected.base_total_ps


def test_a_request_seen_twice_is_named(tmp_path: Path) -> None:
    write_trace(tmp_path, [Request("fs", 0, issue_ns=9), Request("fs", 80, issue_ns=9)])
    file = tmp_path / "requests.parquet"
    table = pq.read_table(file)
    ids = pa.array([7, 7], pa.int64())
    pq.write_table(table.set_column(0, table.schema.field(0), ids), file)
    with pytest.raises(InputError, match="request 7 appears twice"):
        curves_of(tmp_path, (DISK, NVM), is_issued=True)


def test_times_beyond_64_bits_are_rejected(tmp_path: Path) -> None:
    # GIVEN a device so slow that one request takes 58 days
    slow = dataclasses.replace(DISK, read_latency_us=5e12)
    requests = [Request("fs", 0, operation="read")]
    with pytest.raises(InputError, match="request 1 brings the modelled time above 106 days"):
        curves_of(write_trace(tmp_path, requests * 2), (slow, NVM))


CHANGES = st.integers(-50, 20)


def every_division(capacity: int, changes: list[list[int]]) -> int:
    """Try all shares of a capacity, used up or not, and return the least sum."""
    shares = itertools.product(range(capacity + 1), repeat=len(changes))
    return min(
        sum(change[share] for change, share in zip(changes, given_, strict=True))
        for given_ in shares
        if sum(given_) <= capacity
    )


@st.composite
def role_curves(draw: st.DrawFn) -> list[list[int]]:
    count, roles = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    return [[0, *draw(st.lists(CHANGES, min_size=count, max_size=count))] for _ in range(roles)]


@settings(max_examples=200, deadline=None)
@given(role_curves())
def test_no_division_is_better(changes: list[list[int]]) -> None:
    points = np.arange(len(changes[0]))
    splits = best_splits(points, [np.array(change) for change in changes])
    expected = [every_division(int(capacity), changes) for capacity in points]
    assert splits.change_ps.tolist() == expected
    # AND its shares cost that time and fit
    for index, capacity in enumerate(points):
        shares = splits.blocks[:, index]
        assert shares.sum() <= capacity
        costs = sum(change[share] for change, share in zip(changes, shares, strict=True))
        assert costs == expected[index]


def test_distinct_numbers_are_those_of_a_set() -> None:
    assert distinct([np.array([7, 3, 7]), 0, 5, np.array([3], np.int32), 5]).tolist() == [
        0,
        3,
        5,
        7,
    ]


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(1, 30), min_size=1, max_size=6), st.data())
def test_two_roles_on_uneven_points(capacities: set[int], data: st.DataObject) -> None:
    points = np.array([0, *sorted(capacities)])
    draw = st.lists(CHANGES, min_size=len(points), max_size=len(points))
    first, second = np.array(data.draw(draw)), np.array(data.draw(draw))
    splits = best_splits(points, [first, second])
    for index, capacity in enumerate(points):
        fitting = [
            first[i] + second[j]
            for i, j in itertools.product(range(len(points)), repeat=2)
            if points[i] + points[j] <= capacity
        ]
        assert splits.change_ps[index] == min(fitting)


def test_running_best_keeps_the_first_of_equals() -> None:
    least, index = running_best(np.array([0, -5, -3, -5, -9]))
    # THEN more capacity is used only where it pays
    assert least.tolist() == [0, -5, -5, -5, -9]
    assert index.tolist() == [0, 1, 1, 1, 4]


SHARES = st.fixed_dictionaries({role: st.integers(0, 30) for role in ("fs", "journal", "swap")})
QUIET = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def placement_of(
    folder: Path, shares: dict[str, int], pairs: list[DevicePair], *, is_issued: bool = False
) -> Placed:
    touched = read_blocks(folder / "blocks.parquet")
    trace = ChargedTrace(folder / "requests.parquet", touched, pairs[0], is_issued=is_issued)
    return Placed(trace, shares, "hottest", pairs)


def counted(placement: Placed) -> Any:
    """Count a trace once: base alone and placed."""
    with Ledger(placement.on_nvm()) as ledger:
        for rows in placement.trace.rows():
            ledger.add(rows)
        counts = ledger.finish()
        assert all(one.is_empty for one in ledger.finish())
    return counts


def priced(
    folder: Path, shares: dict[str, int], pairs: list[DevicePair], *, is_issued: bool = False
) -> list[tuple[int, int]]:
    """Count a trace once, and price it for each pair: base alone and placed, in ps."""
    placement = placement_of(folder, shares, pairs, is_issued=is_issued)
    alone, placed = counted(placement)
    return [(placement.time_ps(alone, pair), placement.time_ps(placed, pair)) for pair in pairs]


@QUIET
@given(requests=placement_models.traces(), shares=SHARES, base=st.sampled_from([DISK, HEAD]))
def test_one_count_prices_every_changed_device(
    requests: list[Request], shares: dict[str, int], base: Profile, tmp_path: Path
) -> None:
    # GIVEN a placement of so many blocks, WHEN one count is priced with each part changed
    folder = write_trace(tmp_path, requests)
    first = DevicePair(base, NVM)
    pairs = [first, *(changed_devices(first, change) for change in variants(first, (0.5, 3.0)))]
    found = priced(folder, shares, pairs)
    # THEN each price is what the placement takes on those devices, request by request
    for pair, (alone, placed) in zip(pairs, found, strict=True):
        assert alone == model(requests, set(), pair, level="queued").service
        assert placed == model(requests, on_nvm(requests, shares), pair, level="queued").service


@pytest.mark.parametrize("base", [DISK, HEAD])
def test_merged_requests_are_counted_as_they_were_issued(base: Profile, tmp_path: Path) -> None:
    queued, issued = placement_models.as_issued(5, 12)
    shares = {"fs": 9, "journal": 40, "swap": 2}
    folder = write_trace(tmp_path, queued)
    ((alone, placed),) = priced(folder, shares, [DevicePair(base, NVM)], is_issued=True)
    assert alone == model(issued, set(), (base, NVM), level="issued").service
    expected = model(issued, on_nvm(queued, shares), (base, NVM), level="issued").service
    assert placed == expected


def test_counts_by_hand(tmp_path: Path) -> None:
    # GIVEN a block written twice and its neighbour once, the hot one on NVM
    requests = [Request("fs", 0), Request("fs", 8, is_fua=True), Request("fs", 0, is_preflush=True)]
    folder = write_trace(tmp_path, requests)
    placement = placement_of(folder, {"fs": 1}, [DevicePair(DISK, NVM)])
    alone, placed = counted(placement)
    # THEN alone the neighbour continues the write before it; placed it is on another device
    assert (alone.apart, alone.joined) == (((0, 2), (0, 0)), ((0, 1), (0, 0)))
    assert (placed.apart, placed.joined) == (((0, 1), (0, 2)), ((0, 0), (0, 0)))
    assert (alone.sectors[0], placed.sectors) == ((0, 24), ((0, 8), (0, 16)))
    assert (alone.fua, placed.fua) == ((1, 0), (1, 0))
    # and the last one's flush finds the first write: alone and on NVM, not on the base device
    assert alone.flushes == ((0, 1), (0, 0))
    assert placed.flushes == ((1, 0), (0, 1))
