"""Placements with a moving head and under queueing, against a model of one placement."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulate import placement_models
from tests.simulate.placement_models import DISK, HEAD, NVM, Request, model, traces, write_trace
from tracekit._native.placement import SCENARIO
from tracekit.devices import DevicePair, Profile, load_profiles, seek_curve
from tracekit.model.block_orders import blocks_in_order, read_blocks
from tracekit.model.placement import (
    ChargedTrace,
    Curves,
    nested_chains,
    simulate_curves,
    thread_partition,
)

NO_HEAD: dict[str, Any] = {"sequential_setup_us": None, "empty_flush_us": None}
PLAIN = replace(DISK, **NO_HEAD)
TWO = replace(NVM, parallelism=2.0)
LANES = replace(DISK, parallelism=3.0)


def walked(folder: Path, devices: tuple[Profile, Profile], **options: Any) -> Curves:
    """Walk a trace at every capacity from nothing to all of its blocks."""
    touched = read_blocks(folder / "blocks.parquet")
    points = np.arange(len(touched.keys) + 1)
    requests = folder / "requests.parquet"
    return simulate_curves(ChargedTrace(requests, touched, DevicePair(*devices), **options), points)


def response_us(
    curves: Curves, how: str, names: tuple[str, ...], point: int
) -> tuple[float, float]:
    """Return the mean response time and the makespan of a placement."""
    found = curves.simulated[how, names]
    assert found.response_ps is not None
    assert found.makespan_ps is not None
    return found.response_ps[point] / 1e6, found.makespan_ps[point] / 1e6


def dated(requests: list[Request], gaps_us: list[int]) -> list[Request]:
    """Let each request come so long after the one before."""
    times = np.cumsum(gaps_us[: len(requests)]).tolist()
    return [
        replace(request, queue_ns=time * 1000)
        for request, time in zip(requests, times, strict=True)
    ]


def assert_every_placement(
    curves: Curves, requests: list[Request], devices: tuple[Profile, Profile], **options: Any
) -> None:
    """Compare each series of placements at each capacity with the model."""
    hot = options.pop("hot", requests)
    level = options.pop("level", "queued")
    orders = {
        (how, (role,)): order
        for role in curves.placed_roles
        for how, order in (
            ("hottest", placement_models.hottest_first(hot, role)),
            ("start", sorted(set(placement_models.hottest_first(hot, role)))),
        )
    }
    orders["hottest", ("optimal",)] = placement_models.hottest_first(hot)
    for key, order in orders.items():
        for capacity in {*range(0, len(curves.points), 3), len(curves.points) - 1}:
            placed, is_by_address = set(order[:capacity]), key[1] == ("optimal",)
            expected = model(requests, placed, devices, level=level, is_by_address=is_by_address)
            found = curves.simulated[key]
            assert found.service_ps[capacity] == expected.service, (key, capacity)
            if found.response_ps is None or found.makespan_ps is None:
                continue
            mean = sum(expected.responses) // max(len(expected.responses), 1)
            assert found.response_ps[capacity] == mean, (key, capacity)
            assert found.makespan_ps[capacity] == expected.makespan, (key, capacity)


QUIET = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@QUIET
@given(requests=traces())
def test_without_head_or_queue_a_walk_is_the_sweep(requests: list[Request], tmp_path: Path) -> None:
    folder, devices = write_trace(tmp_path, requests), (PLAIN, replace(NVM, **NO_HEAD))
    curves, sweep = walked(folder, devices), placement_models.curves_of(folder, devices)
    assert not sweep.simulated
    # THEN every curve, and every role's part of the base, is that of the one-pass sweep
    assert curves.base_ps.tolist() == sweep.base_ps.tolist()
    for key, change in sweep.change_ps.items():
        if key[1] in curves.placed_roles:
            assert curves.change_ps[key].tolist() == change.tolist()
    assert curves.optimal_ps.tolist() == sweep.optimal_ps.tolist()
    assert curves.totals == replace(sweep.totals, base_ps=(0,) * 5)


@QUIET
@given(requests=traces(), devices=st.sampled_from([(HEAD, NVM), (DISK, NVM), (PLAIN, DISK)]))
def test_heads_equal_brute_force(
    requests: list[Request], devices: tuple[Profile, Profile], tmp_path: Path
) -> None:
    folder = write_trace(tmp_path, requests)
    assert_every_placement(walked(folder, devices), requests, devices)


@QUIET
@given(
    requests=traces(),
    gaps_us=st.lists(st.sampled_from([0, 3, 90, 5000, 60_000]), min_size=25, max_size=25),
    devices=st.sampled_from([(DISK, NVM), (HEAD, TWO), (LANES, TWO)]),
)
def test_queues_equal_brute_force(
    requests: list[Request], gaps_us: list[int], devices: tuple[Profile, Profile], tmp_path: Path
) -> None:
    requests = dated(requests, gaps_us)
    curves = walked(write_trace(tmp_path, requests), devices, is_open=True)
    assert_every_placement(curves, requests, devices)
    # AND the roles' parts of the mean add up
    assert curves.base_total_ps == curves.simulated["none", ()].compared_ps[0]


@pytest.mark.parametrize("is_open", [False, True])
def test_merged_requests_come_when_they_were_issued(is_open: bool, tmp_path: Path) -> None:
    queued, issued = placement_models.as_issued(5, 12)
    folder = write_trace(tmp_path, queued)
    curves = walked(folder, (HEAD, NVM), is_issued=True, is_open=is_open)
    assert_every_placement(curves, issued, (HEAD, NVM), hot=queued, level="issued")


@pytest.mark.parametrize("is_open", [False, True])
def test_a_split_costs_what_its_blocks_cost(is_open: bool, tmp_path: Path) -> None:
    # GIVEN a trace of all roles, WHEN a capacity is divided between two and three of them
    requests, _ = placement_models.as_issued(6, 9)
    folder = write_trace(tmp_path, requests)
    curves = walked(folder, (HEAD, NVM), is_open=is_open)
    touched = read_blocks(folder / "blocks.parquet")
    names = [
        (name, int(block))
        for name, blocks in touched.by_device(np.arange(len(touched.keys)))
        for block in blocks
    ]
    assert len(curves.simulated_splits) == 2 * 4
    for (how, held), split in curves.simulated_splits.items():
        for point in range(0, len(curves.points), 5):
            # THEN its time is that of a walk with just these blocks on NVM, and it fits
            assert split.blocks[:, point].sum() <= curves.points[point]
            placed = {
                names[index]
                for role, count in zip(held, split.blocks[:, point], strict=True)
                for index in blocks_in_order(touched, role, coverage=how)[:count]
            }
            expected = model(requests, placed, (HEAD, NVM), level="queued")
            timings = curves.simulated[how, held]
            assert timings.service_ps[point] == expected.service
            assert timings.compared_ps[point] == curves.base_total_ps + split.change_ps[point]


def test_a_journal_on_nvm_spares_the_file_system_its_seeks(tmp_path: Path) -> None:
    # GIVEN a file system written in sequence, with a journal write far away after each write
    requests = []
    for number in range(4):
        requests += [Request("fs", 8 * number), Request("journal", 1_000_000 + 80 * number)]
    folder = write_trace(tmp_path, requests)
    curves = walked(folder, (HEAD, NVM))
    # WHEN the whole journal is on NVM, THEN the head stays, and only the first write is sought for
    journal = model(
        requests,
        set(placement_models.hottest_first(requests, "journal")),
        (HEAD, NVM),
        level="queued",
    ).service
    assert curves.base_total_ps + curves.change_ps["hottest", "journal"][4] == journal
    # AND on NVM, where its blocks are neighbours, each goes on where the one before it ended
    nvm_ps = round(NVM.write_setup_us * 1e6) + 3 * 4 * 10**6
    nvm_ps += 32 * round(512 / (1 << 20) / 300 * 1e12)
    first_ps = (8500 + 500 + 4000) * 10**6
    base_ps = first_ps + 4 * (120 * 10**6 + 8 * round(512 / (1 << 20) / 0.25 * 1e12))
    assert journal == base_ps + nvm_ps


def test_a_queue_by_hand(tmp_path: Path) -> None:
    # GIVEN a device of 1,000 us a request, and three requests at 0, 200 and 5,000 us
    device = Profile("slow", "", 1000.0, 1000.0, 1e7, 1e7, 0.0, 0.0, 1.0)
    times_us = (0, 200, 5000)
    requests = [Request("fs", 800 * at, queue_ns=at * 1000) for at in times_us]
    curves = walked(write_trace(tmp_path, requests), (device, NVM), is_open=True)
    # THEN the second waits 800 us: 1,000, 1,800 and 1,000 us, and all are done at 6,000 us
    assert response_us(curves, "none", (), 0) == pytest.approx((3800 / 3, 6000), rel=1e-5)
    assert curves.simulated["none", ()].service_ps[0] == pytest.approx(3000e6, rel=1e-5)


def test_data_wait_for_their_flush_by_hand(tmp_path: Path) -> None:
    # GIVEN a write with a preflush on a device that takes 1,000 us for a request, 400 for a flush
    device = replace(Profile("slow", "", 1000.0, 1000.0, 1e7, 1e7, 0.0, 0.0, 1.0), flush_us=400.0)
    request = Request("fs", 0, queue_ns=0, is_preflush=True)
    curves = walked(write_trace(tmp_path, [request]), (device, NVM), is_open=True)
    # THEN it is one response, of 1,400 us; on NVM of 1 us for the flush of nothing and 90
    assert curves.order_counts["responses"] == 1
    assert response_us(curves, "none", (), 0)[0] == pytest.approx(1400, rel=1e-5)
    assert response_us(curves, "hottest", ("fs",), 1)[0] == pytest.approx(91, rel=1e-5)


def test_data_on_nvm_wait_for_the_flush_of_both(tmp_path: Path) -> None:
    # GIVEN a role of two blocks, of which the hotter one is on NVM, written with a preflush at 0
    device = Profile("slow", "", 1000.0, 1000.0, 1e7, 1e7, 400.0, 0.0, 1.0)
    nvm = Profile("fast", "", 10.0, 10.0, 1e7, 1e7, 1.0, 0.0, 1.0)
    requests = [
        Request("fs", 0, queue_ns=0, is_preflush=True),
        Request("fs", 0, queue_ns=100_000),
        Request("fs", 800, queue_ns=9_000_000),
    ]
    curves = walked(write_trace(tmp_path, requests), (device, nvm), is_open=True)
    # THEN its data are done 10 us after the base device's flush of 400; the next does not wait
    expected = ((410 + 10 + 1000) / 3, 10_000)
    assert response_us(curves, "hottest", ("fs",), 1) == pytest.approx(expected, rel=1e-4)


def test_devices_that_are_only_flushed_are_one(tmp_path: Path) -> None:
    # GIVEN flushes on two devices that nothing is read from or written to, of 900 us then
    flushes = [Request("fs", 0, 0, "flush", device=device) for device in ("sda", "nvme0n1")]
    curves = walked(write_trace(tmp_path, flushes), (DISK, NVM), is_open=True)
    # THEN the second one waits for the first: 900 and 1,800 us
    assert curves.simulated["none", ()].compared_ps[0] == 1350 * 10**6


def test_requests_without_a_time_come_with_the_one_before(tmp_path: Path) -> None:
    requests = [Request("fs", 0, queue_ns=5000), Request("fs", 80, queue_ns=None)]
    folder = write_trace(tmp_path, [*requests, Request("fs", 800, queue_ns=4000)])
    curves = walked(folder, (DISK, NVM), is_open=True)
    assert curves.order_counts["undated"] == 2


def test_an_empty_trace_takes_no_time(tmp_path: Path) -> None:
    curves = walked(write_trace(tmp_path, []), (HEAD, NVM), is_open=True)
    assert curves.base_total_ps == 0
    assert curves.simulated["none", ()].compared_ps.tolist() == [0]


def test_the_mean_of_all_seeks_is_the_average_seek() -> None:
    disk = load_profiles()["hdd-7200-seek"]
    curve = seek_curve(disk)
    # WHEN distances of random places are averaged, with the density 2 (1 - x)
    x = (np.arange(200_000) + 0.5) / 200_000
    times = curve.track_us + curve.root_us * np.sqrt(x) + curve.linear_us * x
    # THEN the mean is the data sheet's average, and the ends are its other figures
    assert float(np.mean(2 * (1 - x) * times)) == pytest.approx(disk.seek_average_us, rel=1e-6)
    assert curve.track_us == disk.seek_track_us
    assert curve.track_us + curve.root_us + curve.linear_us == pytest.approx(disk.seek_full_us)
    # AND the latencies that other commands use are those of the average seek
    assert disk.seek_average_us is not None
    assert disk.rpm is not None
    half_turn_us = 30e6 / disk.rpm
    assert disk.read_setup_us == pytest.approx(disk.seek_average_us + half_turn_us, rel=1e-3)
    assert disk.write_setup_us == pytest.approx(disk.read_setup_us + 100, rel=1e-3)


def test_parts_of_the_trace_are_apart() -> None:
    # The model keeps no block of two roles: its parts must not touch.
    ends = sorted((first, first + size) for first, size in placement_models.PARTS.values())
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))


def scenarios(*rows: tuple[int, tuple[int, int]]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return placements of an order and of limits of the first two roles."""
    found = np.zeros(len(rows), np.dtype(SCENARIO))
    for index, (order, limit) in enumerate(rows):
        found[index] = (order, (*limit, 0, 0, 0))
    return found


ROWS = ((0, (0, 0)), (0, (1, 0)), (0, (0, 1)), (0, (2, 1)), (1, (1, 1)), (1, (2, 0)), (2, (3, 3)))


def test_a_chain_holds_what_grows() -> None:
    assert nested_chains(scenarios(*ROWS)) == [[0, 1, 3], [2], [4], [5], [6]]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_every_placement_is_simulated_and_the_base_by_each(threads: int, is_open: bool) -> None:
    shares = thread_partition(scenarios(*ROWS), threads, is_open=is_open)
    assert 1 <= len(shares) <= threads
    assert {index for share in shares for index in share.tolist()} == set(range(len(ROWS)))
    for share in shares:
        assert share.tolist() == sorted({0, *share.tolist()})
    assert sum(len(share) for share in shares) <= len(ROWS) + len(shares)


@pytest.mark.parametrize("is_open", [False, True])
def test_threads_change_nothing(
    is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued, _ = placement_models.as_issued(7, 15)
    folder = write_trace(tmp_path, queued)
    found = []
    for count in (1, 5):
        monkeypatch.setattr("os.sched_getaffinity", lambda _pid, n=count: set(range(n)))
        found.append(walked(folder, (HEAD, TWO), is_issued=True, is_open=is_open))
    one, five = found
    assert one.base_ps.tolist() == five.base_ps.tolist()
    assert one.totals == five.totals
    assert one.order_counts == five.order_counts
    for key, timed in one.simulated.items():
        assert timed.service_ps.tolist() == five.simulated[key].service_ps.tolist()
        assert timed.compared_ps.tolist() == five.simulated[key].compared_ps.tolist()
