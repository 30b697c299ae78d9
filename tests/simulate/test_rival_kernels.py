"""Caches as rivals of a placement, against slow models of each."""

import numpy as np
import pytest

from tests.simulate.rival_models import MODELS, Prices, Request, Setup
from tracekit._native import cache_rivals, placement
from tracekit._native.cache_rivals import RivalCounts, RivalSetup
from tracekit._native.placement import Cost, Rows

BLOCKS = 60
PRICES = Prices(
    latency=((8000, 9000), (100, 300)),
    sequential=((500, 700), (40, 50)),
    sector=((20, 30), (2, 5)),
    fua=(4000, 60),
    flush=(7000, 900),
)
BACK = {"high": 10, "low": 10}
SETUPS = [
    Setup("writecache", "back", 8, 20, high=50, low=45),
    Setup("dm-cache", "back", 16, 12, high=75, low=75),
    Setup("dm-cache", "through", 16, 12, high=75, low=75),
    Setup("bcache", "through", 8, 24, bucket=4, cutoff=60, **BACK),
    Setup("bcache", "back", 8, 24, bucket=4, cutoff=60, **BACK),
    *[
        Setup("open-cas", mode, 8, 16, cutoff=40, stale_ns=9 * 10**9)
        for mode in ("through", "back", "around", "only")
    ],
    Setup("log", "back", 8, 10, high=100, low=45, stale_ns=5 * 10**9),
]


def requests(seed: int, count: int = 600) -> list[Request]:
    """Return requests about a few blocks, streams, forced and journal writes, and flushes."""
    random = np.random.default_rng(seed)
    found, at, now = [], 0, 0
    for _ in range(count):
        now += int(random.integers(0, 4)) * 10**8
        sectors = int(random.integers(1, 40))
        follows = random.random() < 0.4
        at = at if follows else int(BLOCKS * 8 * random.random() ** 2)
        at = min(at, BLOCKS * 8 - sectors)
        if random.random() < 0.05:
            sectors = 0
        is_write = bool(random.random() < 0.55)
        fua = is_write and bool(random.random() < 0.15)
        journal = is_write and bool(random.random() < 0.2)
        found.append(Request(at, sectors, is_write, now, fua, journal))
        at += sectors
    return found


def rows_of(asked: list[Request]) -> Rows:
    """Return requests as the kernel takes them."""
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
        sector=np.array([one.sector for one in asked], np.int64),
        length_bytes=np.array([one.sectors * 512 for one in asked], np.int64),
        device=np.zeros(len(asked), np.int32),
        action=np.array(actions, np.uint8),
        role=np.array([int(one.is_journal) for one in asked], np.uint8),
        is_fua=np.array([one.is_fua for one in asked], np.uint8),
        is_preflush=np.zeros(len(asked), np.uint8),
    )


def native(setup: Setup, asked: list[Request]) -> RivalCounts:
    """Return what the kernel counts."""
    costs = [
        Cost(PRICES.latency[at], PRICES.sequential[at], PRICES.sector[at], PRICES.fua[at])
        for at in (0, 1)
    ]
    blocks = -(-BLOCKS * 8 // setup.size)
    devices = np.zeros(2, placement.DEVICE)
    devices[0] = (0, blocks, 0)
    kernel = RivalSetup(
        keys=np.arange(blocks, dtype=np.int64),
        devices=devices,
        is_issued=False,
        kind=setup.kind,
        mode=setup.mode,
        block_sectors=setup.size,
        capacity=setup.capacity,
        base=costs[0],
        nvm=costs[1],
        disk=None,
        flush_ps=PRICES.flush,
        bucket_blocks=setup.bucket,
        high_percent=setup.high,
        low_percent=setup.low,
        cutoff_sectors=setup.cutoff,
        stale_ns=setup.stale_ns,
    )
    with cache_rivals.Rival(kernel) as rival:
        rival.add(rows_of(asked))
        return rival.finish()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: f"{setup.kind}-{setup.mode}")
def test_a_rival_counts_what_its_model_does(setup: Setup, seed: int) -> None:
    asked = requests(seed)
    model = MODELS[setup.kind](setup, PRICES, -(-BLOCKS * 8 // setup.size))
    for request in asked:
        model.serve(request)
    found = native(setup, asked)
    expected = model.counts | {
        "busy_ps": tuple(model.busy),
        "background_ps": tuple(model.behind),
        "dirty": len(model.dirty),
    }
    assert vars(found) == expected
    # AND the trace makes it work
    assert found.fills > 0
    assert min(found.reads, found.writes) > 0
