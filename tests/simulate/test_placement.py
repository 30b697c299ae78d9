"""The one-pass sweep against a brute-force model that charges every request at every capacity."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulate import placement_traces
from tracekit.devices import DevicePair, Profile, device_cost
from tracekit.model.block_orders import read_blocks
from tracekit.model.placement import ChargedTrace, Curves, sweep

SLOW_NVM = Profile("slow", "", 9500.0, 20000.0, 50.0, 120.0, 9000.0, 0.0, 24.0)
# First sector and sectors of each role's part of the disk; whole blocks, as partitions are.
PARTS = {"fs": (64, 160), "journal": (224, 96), "swap": (400, 64), "other": (464, 40)}


@st.composite
def traces(draw: st.DrawFn) -> list[placement_traces.Request]:
    requests: list[placement_traces.Request] = []
    for _ in range(draw(st.integers(0, 25))):
        before = requests[-1] if requests else None
        role = draw(st.sampled_from(sorted(PARTS)))
        first, size = PARTS[role]
        sector = first + draw(st.integers(0, size - 1))
        if before is not None and draw(st.booleans()):
            role, sector = before.role, before.sector + before.sectors
            first, size = PARTS[role]
        most = first + size - sector
        if most < 1:
            continue
        requests.append(
            placement_traces.Request(
                role=role,
                sector=sector,
                sectors=draw(st.integers(1, min(most, 30))),
                operation=draw(st.sampled_from(["read", "write", "write", "flush", "discard"])),
                is_fua=draw(st.booleans()),
                is_preflush=draw(st.booleans()),
                device=draw(st.sampled_from(["sda", "sda", "nvme0n1"])),
            )
        )
    return requests


def charged(
    requests: list[placement_traces.Request],
    order: list[placement_traces.Block],
    devices: tuple[Profile, Profile],
    *,
    count: int,
) -> list[int]:
    """Charge the trace at each capacity up to `count` blocks, in the order given."""
    costs = (device_cost(devices[0]), device_cost(devices[1]))
    flush_ps = (round(devices[0].flush_us * 1e6), round(devices[1].flush_us * 1e6))
    return [
        placement_traces.elapsed_ps(requests, set(order[:capacity]), costs=costs, flush_ps=flush_ps)
        for capacity in range(count + 1)
    ]


def assert_equals_brute_force(
    curves: Curves,
    requests: list[placement_traces.Request],
    devices: tuple[Profile, Profile],
    hot: list[placement_traces.Request],
) -> None:
    """Compare every curve; `hot` are the requests as queued, which decide how hot a block is."""
    count = len(curves.points) - 1
    for role in ("fs", "journal", "swap"):
        orders = {
            "hottest": placement_traces.hottest_first(hot, role),
            "start": sorted(set(placement_traces.hottest_first(hot, role))),
        }
        for coverage, order in orders.items():
            expected = charged(requests, order, devices, count=count)
            found = curves.base_total_ps + curves.change_ps[coverage, role]
            assert found.tolist() == expected, (role, coverage)
    expected = charged(requests, placement_traces.hottest_first(hot), devices, count=count)
    assert (curves.base_total_ps + curves.optimal_ps).tolist() == expected


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(requests=traces(), nvm=st.sampled_from([placement_traces.NVM, SLOW_NVM]))
def test_every_capacity_equals_brute_force(
    requests: list[placement_traces.Request], nvm: Profile, tmp_path: Path
) -> None:
    # GIVEN a trace as queued, WHEN all capacities are swept in one pass
    curves = placement_traces.swept(
        placement_traces.write_trace(tmp_path, requests), (placement_traces.DISK, nvm)
    )
    # THEN each order of blocks costs at each capacity what charging every request gives
    assert_equals_brute_force(curves, requests, (placement_traces.DISK, nvm), requests)


def as_issued(
    seed: int, count: int
) -> tuple[list[placement_traces.Request], list[placement_traces.Request]]:
    """Return requests as queued, many merged, and the same as issued in issue order."""
    source = random.Random(seed)  # noqa: S311 - not for secrets
    queued: list[placement_traces.Request] = []
    issued: list[tuple[int, int, placement_traces.Request]] = []
    for number in range(count):
        role = source.choice(sorted(PARTS))
        first, size = PARTS[role]
        cuts = sorted(source.sample(range(size + 1), source.randint(2, 6)))
        pieces = list(pairwise(cuts))
        carrier = source.randrange(len(pieces))
        # The carrier is queued first; the others join it at either end.
        after, before = pieces[carrier + 1 :], pieces[:carrier][::-1]
        rest = [*after, *before] if source.random() < 0.5 else [*before, *after]
        start_ns = number * 10
        issue_ns = start_ns + source.choice([10, 60, 20_000])
        operation = source.choice(["read", "write"])
        whole = placement_traces.Request(
            role, first + cuts[0], cuts[-1] - cuts[0], operation, issue_ns=issue_ns
        )
        identity = len(queued)
        issued.append((issue_ns, identity, whole))
        for offset, (low, high) in enumerate([pieces[carrier], *rest]):
            queued.append(
                placement_traces.Request(
                    role,
                    first + low,
                    high - low,
                    operation,
                    queue_ns=start_ns + offset,
                    issue_ns=issue_ns if offset == 0 else None,
                    merged_into=None if offset == 0 else identity,
                )
            )
    return queued, [whole for _, _, whole in sorted(issued, key=lambda entry: entry[:2])]


@pytest.mark.parametrize(("seed", "count"), [(1, 1), (2, 40), (3, 40), (4, 300)])
def test_merged_requests_are_charged_as_they_were_issued(
    seed: int, count: int, tmp_path: Path
) -> None:
    # GIVEN requests of which most were merged, and that were issued in another order
    queued, issued = as_issued(seed, count)
    folder = placement_traces.write_trace(tmp_path, queued)
    # WHEN they are charged as issued
    curves = placement_traces.swept(
        folder, (placement_traces.DISK, placement_traces.NVM), is_issued=True
    )
    # THEN each costs what the whole that reached the device costs
    assert sum(curves.totals.requests) == count
    assert curves.totals.orphan_merges == 0
    assert_equals_brute_force(curves, issued, (placement_traces.DISK, placement_traces.NVM), queued)


def test_many_pending_requests_leave_in_issue_order(tmp_path: Path) -> None:
    # GIVEN 5,000 requests that are all queued before the first is issued, backwards
    count = 5000
    queued = [
        placement_traces.Request("fs", 8 * number, queue_ns=number, issue_ns=100_000 - number)
        for number in range(count)
    ]
    # WHEN they are charged as issued, on a disk where only a continued request is free of seeks
    curves = placement_traces.swept(
        placement_traces.write_trace(tmp_path, queued),
        (placement_traces.DISK, placement_traces.NVM),
        is_issued=True,
    )
    # THEN none continues the one before it, while as queued all but the first do
    cost = device_cost(placement_traces.DISK)
    transfer_ps = count * 8 * cost.sector_ps[1]
    assert curves.base_total_ps == count * cost.latency_ps[1] + transfer_ps
    as_queued = placement_traces.swept(tmp_path, (placement_traces.DISK, placement_traces.NVM))
    assert as_queued.base_total_ps == cost.latency_ps[1] + transfer_ps


def test_coarse_capacities_are_exact(tmp_path: Path) -> None:
    # GIVEN a trace of some hundred requests
    requests, _ = as_issued(7, 60)
    folder = placement_traces.write_trace(tmp_path, requests)
    every = placement_traces.swept(folder, (placement_traces.DISK, placement_traces.NVM))
    # WHEN it is swept at five capacities only
    touched = read_blocks(folder / "blocks.parquet")
    points = np.array([0, 3, 4, 20, 1000])
    few = sweep(
        ChargedTrace(
            folder / "requests.parquet",
            touched,
            DevicePair(placement_traces.DISK, placement_traces.NVM),
        ),
        points,
    )
    # THEN the values are those of the sweep over every block, and constant above the footprint
    last = len(every.points) - 1
    for key, change_ps in every.change_ps.items():
        assert few.change_ps[key].tolist() == change_ps[[0, 3, 4, 20, last]].tolist()
    assert few.optimal_ps.tolist() == every.optimal_ps[[0, 3, 4, 20, last]].tolist()


def test_orders_agree_at_both_ends(tmp_path: Path) -> None:
    # GIVEN any trace
    requests, _ = as_issued(8, 60)
    curves = placement_traces.swept(
        placement_traces.write_trace(tmp_path, requests),
        (placement_traces.DISK, placement_traces.NVM),
    )
    # WHEN nothing or the whole role is on NVM, THEN the order in which it moved does not matter
    for role in curves.placed_roles:
        hottest, start = (curves.change_ps[coverage, role] for coverage in ("hottest", "start"))
        assert hottest[0] == start[0] == 0
        assert hottest[-1] == start[-1] < 0


def test_blocks_far_apart_are_found(tmp_path: Path) -> None:
    # GIVEN touched blocks on two devices, single and in runs, from the first to beyond 1 EiB
    places = [0, 1, 2, 9, 1 << 20, (1 << 20) + 1, 1 << 38, (1 << 48) - 1, 1 << 48]
    requests = [
        placement_traces.Request("fs", block * 8, device=device, operation="read")
        for device in ("sdb", "sda")
        for block in places
    ]
    # WHEN all of them are placed on NVM
    curves = placement_traces.swept(
        placement_traces.write_trace(tmp_path, requests),
        (placement_traces.DISK, placement_traces.NVM),
    )
    # THEN every request is served there
    assert curves.totals.missing_blocks == 0
    nvm = device_cost(placement_traces.NVM)
    at_once = 8  # blocks 1, 2, 2^20 + 1 and 2^48 on each device
    elapsed = (
        (len(requests) - at_once) * nvm.latency_ps[0]
        + at_once * nvm.sequential_ps[0]
        + len(requests) * 8 * nvm.sector_ps[0]
    )
    assert curves.base_total_ps + curves.change_ps["hottest", "fs"][-1] == elapsed
