"""Response times against a simulator as plain as it can be, and what is derived from them."""

from collections import defaultdict
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tests.simulate.placement_models import DISK, NVM
from tracekit._native.placement import (
    DEVICE,
    FLUSH,
    PLACED_ALL,
    PLACED_NONE,
    READ,
    WRITE,
    LedgerSetup,
    response_times,
)
from tracekit._native.placement import ResponseJobs as Jobs
from tracekit.devices import DevicePair
from tracekit.errors import InputError, TracekitError
from tracekit.model.responses import Extent, Load, flushes_with_writes
from tracekit.model.service_times import GIVEN, BaseFit
from tracekit.model.timed_requests import TimedRequests
from tracekit.tables import ROLES

NONE = -1
JOURNAL = ROLES.index("journal")


def simulated(
    jobs: Jobs, *, servers: tuple[int, int], is_closed: bool
) -> tuple[list[int], list[int]]:
    """Let requests arrive one by one, each when it may, in a loop over all that wait."""
    free: dict[tuple[str, int], list[int]] = {}
    waiting: dict[int, list[int]] = defaultdict(list)
    for job, stream in enumerate(jobs.stream.tolist()):
        waiting[stream].append(job)
    arrives = {mine[0]: int(jobs.arrival_ns[mine[0]]) * 1000 for mine in waiting.values()}
    responses, ends = [0] * len(jobs.stream), [0] * len(jobs.stream)
    while arrives:
        now_ps, job = min((ps, job) for job, ps in arrives.items())
        del arrives[job]
        end = now_ps
        places = (("base", int(jobs.device[job]), jobs.base_ps, servers[0]),
                  ("nvm", 0, jobs.nvm_ps, servers[1]))  # fmt: skip
        for name, device, takes, count in places:
            if takes[job] == NONE:
                continue
            pool = free.setdefault((name, device), [0] * count)
            server = pool.index(min(pool))
            pool[server] = max(pool[server], now_ps) + int(takes[job])
            end = max(end, pool[server])
        responses[job], ends[job] = end - now_ps, end
        mine = waiting[int(jobs.stream[job])]
        before, after = mine[: mine.index(job) + 1], mine[mine.index(job) + 1 :]
        if not after:
            continue
        traced_end = max(int(jobs.done_ns[one]) for one in before)
        arrival = int(jobs.arrival_ns[after[0]])
        if not is_closed:
            arrives[after[0]] = arrival * 1000
        elif traced_end <= arrival:
            arrives[after[0]] = max(ends[one] for one in before) + (arrival - traced_end) * 1000
        else:
            arrives[after[0]] = now_ps + (arrival - int(jobs.arrival_ns[job])) * 1000
    return responses, ends


def some_jobs(seed: int, count: int) -> Jobs:
    source = np.random.default_rng(seed)
    arrival = np.sort(source.integers(0, 100 * count, count))
    parts = source.integers(0, 300_000, (2, count))
    absent = source.integers(0, 4, count)
    parts[0][absent == 1] = parts[1][absent == 2] = NONE
    return Jobs(
        arrival,
        arrival + source.integers(0, 400, count),
        source.integers(0, 5, count),
        source.integers(0, 3, count),
        *parts,
    )


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("servers", [(1, 1), (3, 2)])
@pytest.mark.parametrize(("seed", "count"), [(1, 1), (2, 60), (3, 500)])
def test_response_times_are_those_of_a_plain_simulator(
    seed: int, count: int, servers: tuple[int, int], is_closed: bool
) -> None:
    jobs = some_jobs(seed, count)
    found = response_times(jobs, servers=servers, is_closed=is_closed)
    expected = simulated(jobs, servers=servers, is_closed=is_closed)
    assert [one.tolist() for one in found] == [*expected]


def test_requests_that_cannot_be_are_refused() -> None:
    jobs = some_jobs(4, 10)
    jobs.arrival_ns[5] = -1
    with pytest.raises(TracekitError, match="Invalid argument"):
        response_times(jobs, servers=(1, 1), is_closed=False)
    jobs = some_jobs(4, 10)
    jobs.base_ps[5] = 1 << 62
    with pytest.raises(InputError, match="26 days"):
        response_times(jobs, servers=(1, 1), is_closed=False)


@pytest.mark.parametrize("seed", range(20))
def test_a_flush_finds_what_was_written_in_its_place_since_the_last(seed: int) -> None:
    source = np.random.default_rng(seed)
    count = int(source.integers(0, 40))
    columns: dict[str, Any] = {one.name: np.zeros(count, int) for one in fields(TimedRequests)}
    columns["action"] = np.where(source.integers(0, 2, count) > 0, WRITE, READ)
    columns["is_fua"] = source.integers(0, 2, count) > 0
    requests = TimedRequests(**columns)
    served, flushed = source.integers(0, 2, count), source.integers(0, 2, count) > 0
    place, written = source.integers(0, 3, count), set[int]()
    found = flushes_with_writes(
        requests, Extent(served, served > 0), is_flushed=flushed, place=place
    )
    for n in range(count):
        assert found[n] == (flushed[n] and place[n] in written)
        if flushed[n]:
            written.discard(place[n])
        if requests.action[n] == WRITE and served[n] and not requests.is_fua[n]:
            written.add(place[n])


@pytest.mark.parametrize("empty_us", [0.0, 1.0, 8000.0])
def test_a_flush_that_finds_writes_on_another_placement_takes_what_that_does(
    empty_us: float,
) -> None:
    # GIVEN a write, and a flush of another role before one of its own, which then finds nothing
    columns: dict[str, Any] = {one.name: np.zeros(3, np.int64) for one in fields(TimedRequests)}
    columns |= {"action": np.array([WRITE, FLUSH, FLUSH]), "sectors": np.array([8, 0, 0])}
    columns |= {"role": np.array([0, JOURNAL, 0]), "sector": np.array([80, 0, 0])}
    columns |= {name: np.zeros(3, bool) for name in ("is_fua", "is_preflush")}
    devices = DevicePair(replace(DISK, empty_flush_us=empty_us), NVM)
    load = Load.of(TimedRequests(**columns), devices.base, BaseFit(kind=GIVEN))
    assert load.has_writes.tolist() == [False, True, False]
    # WHEN the other role is on NVM, where its flush goes then
    known = np.array([(0, 0, 0)], DEVICE)
    nothing = np.empty(0, np.int64), np.empty(0, np.uint8)
    placed = [PLACED_NONE] * len(ROLES)
    placed[JOURNAL] = PLACED_ALL
    jobs = load.jobs(
        LedgerSetup(*nothing, known, tuple(placed), is_issued=False, disks=()), devices
    )
    # THEN its own is the one that finds the write
    empty_ps, flush_ps = devices.flush_ps[0]
    assert (empty_ps, flush_ps) == (empty_us * 10**6, 8000 * 10**6)
    assert jobs.base_ps[1:].tolist() == [NONE, flush_ps]
    assert jobs.nvm_ps.tolist() == [NONE, devices.flush_ps[1][0], NONE]
