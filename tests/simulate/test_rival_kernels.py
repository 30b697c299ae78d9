"""Caches as rivals of a placement, against slow models of each."""

from typing import Any

import numpy as np
import pytest

from tests.simulate.rival_models import MODELS, Prices, Request, Setup
from tracekit._native import placement
from tracekit._native.placement import Cost, Rival, Rows

BLOCKS = 60
PRICES = Prices(
    latency=((8000, 9000), (100, 300)),
    sequential=((500, 700), (40, 50)),
    sector=((20, 30), (2, 5)),
    fua=(4000, 60),
    flush=((2500, 7000), (300, 900)),
)
BACK = {"high": 10, "low": 10}
AUTOCOMMIT = {"stale_ns": 6 * 10**8, "commit_blocks": 7}
SETUPS = [
    *[
        Setup("writecache", "back", 8, 20, high=50, low=45, load=load, **commits)
        for load, commits in (
            (1, AUTOCOMMIT),
            (1, AUTOCOMMIT | {"commit_blocks": 10**6}),
            (10**7, AUTOCOMMIT),
            (10**9, AUTOCOMMIT),
        )
    ],
    Setup("dm-cache", "back", 16, 12, high=75, low=75),
    Setup("dm-cache", "through", 16, 12, high=75, low=75),
    Setup("bcache", "through", 8, 24, bucket=4, cutoff=60, **BACK),
    Setup("bcache", "back", 8, 24, bucket=4, cutoff=60, **BACK),
    *[
        Setup("open-cas", mode, 8, 16, cutoff=40, stale_ns=9 * 10**9)
        for mode in ("through", "back", "around", "only")
    ],
    Setup("log", "back", 8, 10, high=100, low=45, stale_ns=5 * 10**9),
    Setup("special", "alone", 8, 16, high=75, low=75),
    Setup("special", "alone", 8, 16, high=75, low=75, small=20),
    Setup("memory", "alone", 8, 16),
    Setup("memory", "alone", 8, 16, low=60),
]


def requests(seed: int, devices: int, count: int = 600) -> list[Request]:
    """Return requests about a few blocks: streams, forced ones, all roles, and flushes."""
    own = BLOCKS * 8 // devices
    random = np.random.default_rng(seed)
    found, at, now = [], 0, 0
    for _ in range(count):
        now += int(random.integers(0, 4)) * 10**8
        sectors = int(random.integers(1, 40))
        follows = random.random() < 0.4
        at = at if follows else int(BLOCKS * 8 * random.random() ** 2)
        at = min(at, (min(at, BLOCKS * 8 - 1) // own + 1) * own - sectors)
        if random.random() < 0.05:
            sectors = 0
        is_write = bool(random.random() < 0.55)
        fua = is_write and bool(random.random() < 0.15)
        meta, role = bool(random.random() < 0.3), int(random.choice(3, p=(0.5, 0.15, 0.35)))
        found.append(Request(at, sectors, is_write, now, is_fua=fua, role=role, is_meta=meta))
        at += sectors
    return found


def rows_of(asked: list[Request], devices: int) -> Rows:
    """Return requests as the kernel takes them."""
    own = BLOCKS * 8 // devices
    now = np.array([one.now_ns for one in asked], np.int64)
    actions = [
        placement.FLUSH if not one.sectors else placement.WRITE if one.is_write else placement.READ
        for one in asked
    ]
    return Rows(
        request_id=np.arange(len(asked)),
        queue_ns=now,
        issue_ns=now,
        merged_into=np.full(len(asked), -1),
        sector=np.array([one.sector % own for one in asked], np.int64),
        length_bytes=np.array([one.sectors * 512 for one in asked], np.int64),
        device=np.array([one.sector // own for one in asked], np.int32),
        action=np.array(actions, np.uint8),
        role=np.array([one.role for one in asked], np.uint8),
        is_fua=np.array([one.is_fua for one in asked], np.uint8),
        is_preflush=np.zeros(len(asked), np.uint8),
        is_meta=np.array([one.is_meta for one in asked], np.uint8),
    )


def native(setup: Setup, asked: list[Request], device_count: int) -> dict[str, Any]:
    """Return what the kernel counts."""
    costs = [
        Cost(PRICES.latency[at], PRICES.sequential[at], PRICES.sector[at], PRICES.fua[at])
        for at in (0, 1)
    ]
    blocks = -(-BLOCKS * 8 // setup.size)
    devices = np.zeros(device_count + 1, placement.DEVICE)
    own = blocks // device_count
    for number in range(device_count):
        devices[number] = (0, own, number * own)
    made = Rival(
        setup.kind,
        setup.mode,
        keys=np.arange(blocks, dtype=np.int64),
        devices=devices,
        as_issued=False,
        block_sectors=setup.size,
        capacity=setup.capacity,
        base=costs[0],
        nvm=costs[1],
        flush_ps=PRICES.flush,
        bucket_blocks=setup.bucket,
        high_percent=setup.high,
        low_percent=setup.low,
        cutoff_sectors=setup.cutoff,
        stale_ns=setup.stale_ns,
        small_sectors=setup.small,
        load=setup.load,
        commit_blocks=setup.commit_blocks,
    )
    with made as rival:
        rival.add(rows_of(asked, device_count))
        return rival.finish()


@pytest.mark.parametrize(("seed", "devices"), [(0, 1), (1, 1), (2, 2), (3, 3)])
@pytest.mark.parametrize(
    "setup",
    SETUPS,
    ids=lambda one: f"{one.kind}-{one.mode}-{one.small}-{one.low}-{one.load}-{one.commit_blocks}",
)
def test_a_rival_counts_what_its_model_does(setup: Setup, seed: int, devices: int) -> None:
    asked = requests(seed, devices)
    model = MODELS[setup.kind](setup, PRICES, -(-BLOCKS * 8 // setup.size), devices=devices)
    for request in asked:
        model.serve(request)
    found = native(setup, asked, devices)
    expected = model.counts | {
        "busy_ps": tuple(model.busy),
        "background_ps": tuple(model.behind),
        "delayed_ps": (model.delayed + sum(model.owed_ps)) // setup.load,
        "dirty": len(model.dirty),
    }
    assert found == expected
    # AND the trace makes it work
    assert found["fills"] > 0
    assert min(found["reads"], found["writes"]) > 0
    if setup.load > 1:
        assert 0 < found["delayed_ps"] <= found["background_ps"][0]
    if setup.load > 1 and devices == 1:
        is_most = found["delayed_ps"] > 0.99 * found["background_ps"][0]
        assert is_most == (setup.load == 10**9)
