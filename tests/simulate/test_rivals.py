"""Caches as rivals of a placement: slow models, the placement's own, and samples of long traces."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import invoke, refused, succeed
from tests.simulate.rival_models import MODELS, Prices, Request, Setup
from tests.simulate.traces import Request as Asked
from tests.simulate.traces import make_trace
from tests.traces import json_of, rows_of
from tracekit._native import placement
from tracekit._native.placement import Cost, Rival, Rows
from tracekit.classify import ClassifyOptions, classify
from tracekit.devices import DevicePair, base_cost, device_cost, load_profiles
from tracekit.model import rival_kinds, rival_sample
from tracekit.model.answer import charged_trace, read_recommendation
from tracekit.model.block_orders import read_blocks
from tracekit.model.cache_rivals import Static, better, headline, quickest
from tracekit.model.placement import ChargedTrace, to_ns
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.model.rival_kinds import (
    KINDS,
    MIB,
    CacheTimes,
    Kind,
    RivalRow,
    base_alone_ns,
    compete,
)
from tracekit.model.rival_sample import REGION_BLOCKS, choose_parts, compete_on_samples
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder

SAMPLE = Path(__file__).resolve().parents[2] / "sample-traces" / "sysbench"
CAPACITY = 4 << 20


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    """Parse and classify a real trace, and recommend with each request as queued."""
    path = tmp_path_factory.mktemp("sysbench") / "trace"
    folder, _ = parse([SAMPLE], path)
    if not (path / "layout.json").exists():
        shutil.copy(SAMPLE / "layout.json", path)
    classify(folder, ClassifyOptions())
    recommend(folder, RecommendOptions(level="queued", capacities_bytes=(CAPACITY,)))
    return TraceFolder(path)


def prices_of(trace: ChargedTrace, one: Kind) -> Prices:
    base, nvm = base_cost(trace.devices.base), device_cost(trace.devices.nvm)
    if one.is_memory:
        # 4 KiB at the speeds of LZ4's README, by sector
        sector = (4096 * 10**6 // 1820 // 8, 4096 * 10**6 // 422 // 8)
        nvm = Cost((0, 0), (0, 0), sector, 0)
    return Prices(
        latency=(base.latency_ps, nvm.latency_ps),
        sequential=(base.sequential_ps, nvm.sequential_ps),
        sector=(base.sector_ps, nvm.sector_ps),
        fua=(base.fua_ps, nvm.fua_ps),
        flush=trace.devices.flush_ps,
    )


def requests_of(trace: ChargedTrace) -> list[Request]:
    """Return transfers, and flushes without sectors, a preflush before its transfer."""
    found, now = [], 0
    for rows in trace.rows():
        columns = (rows.queue_ns, rows.sector, rows.length_bytes, rows.action, rows.role)
        flags = (rows.is_fua, rows.is_preflush, rows.is_meta)
        for at, sector, length, action, role, fua, preflush, meta in zip(
            *(np.asarray(column).tolist() for column in (*columns, *flags)), strict=True
        ):
            now = max(now, at)
            if action == placement.FLUSH or preflush:
                found.append(Request(0, 0, is_write=False, now_ns=now))
            if action in (placement.READ, placement.WRITE) and length:
                is_write = action == placement.WRITE
                flagged = (bool(fua), bool(preflush), role, bool(meta))
                found.append(Request(sector, -(-length // 512), is_write, at, *flagged))
    return found


SHORT = {
    "bucket_blocks": "bucket",
    "high_percent": "high",
    "low_percent": "low",
    "cutoff_sectors": "cutoff",
    "stale_ns": "stale_ns",
    "commit_blocks": "commit_blocks",
    "small_sectors": "small",
}


def check_as_in_the_model(row: RivalRow, one: Kind, trace: ChargedTrace, capacity: int) -> None:
    size = one.block_bytes // 512
    asked = requests_of(trace)
    blocks = {
        block
        for request in asked
        for block in range(
            request.sector // size, (request.sector + request.sectors - 1) // size + 1
        )
    }
    setup = Setup(
        one.kind, one.mode, size, int(capacity * 2.084) if one.is_memory else capacity,
        **{SHORT[name]: value for name, value in one.settings.items()},
    )  # fmt: skip
    model = MODELS[one.kind](setup, prices_of(trace, one), len(blocks))
    for request in asked:
        model.serve(request)
    assert row.elapsed_ns == to_ns(model.counts["response_ps"])
    assert (row.background_base_ns, row.background_nvm_ns) == tuple(map(to_ns, model.behind))
    assert row.delayed_ns == to_ns(model.delayed + sum(model.owed_ps))
    names = [name for name in model.counts if name != "response_ps"]
    assert {name: getattr(row, name) for name in names} == {
        name: model.counts[name] for name in names
    }


CHOSEN = [one for one in KINDS if (one.kind, one.mode) != ("bcache", "back")]


@pytest.mark.parametrize(
    "one", [one for one in CHOSEN if not one.is_memory], ids=lambda one: f"{one.name}-{one.mode}"
)
def test_a_real_trace_is_as_in_the_model(
    one: Kind, sample: TraceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = charged_trace(sample, read_recommendation(sample))
    monkeypatch.setattr(rival_kinds, "KINDS", (one,))
    ((row,), _) = compete(trace, CAPACITY)
    check_as_in_the_model(row, one, trace, CAPACITY // one.block_bytes)


@pytest.mark.parametrize(
    ("capacity", "kib"),
    [
        # As LVM says it: "Using 256.00 KiB chunk size instead of default 64.00 KiB", of 220 GiB,
        # and 512.00 KiB of 470 GiB.
        (4 << 20, 64), (61 << 30, 64), (62 << 30, 96), (220 << 30, 256), (470 << 30, 512),
    ],
)  # fmt: skip
def test_dm_cache_has_the_chunks_of_lvm(capacity: int, kib: int) -> None:
    sizes = {one.of(capacity).block_bytes for one in KINDS if one.name == "dm-cache"}
    assert sizes == {kib << 10}


def test_a_cache_of_larger_chunks_is_as_in_the_model(
    sample: TraceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN so few chunks that they are of 96 KiB
    trace = charged_trace(sample, read_recommendation(sample))
    one = next(one for one in KINDS if (one.name, one.mode) == ("dm-cache", "back"))
    monkeypatch.setattr(rival_kinds, "KINDS", (one,))
    monkeypatch.setattr(rival_kinds, "MOST_CHUNKS", 43)
    ((row,), _) = compete(trace, CAPACITY)
    assert row.block_bytes == 96 << 10
    check_as_in_the_model(row, one.of(CAPACITY), trace, CAPACITY // row.block_bytes)
    # AND a sample of a quarter has those of the whole
    assert compete(trace, CAPACITY // 4, load=4)[0][0].block_bytes == row.block_bytes


def test_swap_in_memory_is_as_in_the_model(tmp_path: Path) -> None:
    # GIVEN more pages swapped out than memory holds, and files beside them
    draws = np.random.default_rng(3).integers(0, (3, 900, 8), (700, 3)).tolist()
    asked = [
        ("read" if kind == 1 else "write", block if kind == 2 else 1000 + block % 400, 1 + blocks)
        for kind, block, blocks in draws
    ]
    folder = make_trace(tmp_path / "t", asked, second="swap")
    advice = recommend(folder, RecommendOptions(base="ssd-emlc", level="queued"))
    trace = charged_trace(folder, advice)
    found = {row.rival: row for row in compete(trace, 64 * 4096)[0]}
    for one in KINDS:
        if one.is_memory:
            check_as_in_the_model(found[one.name], one, trace, 64)
    # THEN zram turned pages away, zswap wrote them out as well
    assert found["zram"].bypassed > found["zswap"].bypassed > 0
    assert found["zswap"].writebacks > found["zram"].writebacks == 0


def test_a_cache_that_does_nothing_takes_what_the_base_takes(tmp_path: Path) -> None:
    # GIVEN reads and writes of which none is forced, so that a log has nothing to do
    asked = [("write" if at % 3 else "read", at * 7 % 90, 1 + at % 9) for at in range(300)]
    folder = make_trace(tmp_path / "t", asked)
    advice = recommend(folder, RecommendOptions(level="queued"))
    rows, _ = compete(charged_trace(folder, advice), 1 << 20)
    log = next(row for row in rows if row.rival == "ZFS log")
    # THEN the time is that of the placement model, head and all
    assert log.elapsed_ns == advice.answer.base_elapsed_ns
    assert (log.fills, log.background_base_ns) == (0, 0)


def test_the_command_names_what_beats_the_placement(sample: TraceFolder) -> None:
    done = succeed("simulate", "rivals", sample.path)
    answer = json_of(sample.path / "simulations" / "rivals.json")
    rows = rows_of(sample.table("simulations/rivals"))
    # AND without swap in the trace all but what is for swap
    names = [(one.name, one.mode) for one in KINDS if not one.is_memory]
    assert [(row["rival"], row["mode"]) for row in rows] == names
    assert done.stdout.splitlines() == answer["headline"]
    sure = min(rows, key=lambda row: row["elapsed_ns"] + row["delayed_ns"])
    beats = sure["elapsed_ns"] + sure["delayed_ns"] < answer["placement_elapsed_ns"]
    assert (f"{sure['rival']} (write-{sure['mode']}) beats" in done.stdout) == beats
    assert any("background time" in line for line in answer["assumptions"])
    # AND it has a row a cache, and the quickest placement there is
    assert answer["caches"] == [row | {"error_ns": 0} for row in rows]
    best = read_recommendation(sample).best_placement
    assert best is not None
    assert best.answer.elapsed_ns < read_recommendation(sample).answer.elapsed_ns
    assert (answer["placement"], answer["placement_elapsed_ns"]) == (
        *("best", best.answer.elapsed_ns),
    )
    # AND who has no pool of ZFS is told what is best without
    assert sure["rival"].startswith("ZFS") == (len(answer["headline"]) == 2)


def test_what_a_cache_is_too_small_for_is_named(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", at % 40, 1) for at in range(60)])
    refused(invoke("simulate", "rivals", folder.path), "recommendation", error=Exception)
    recommend(folder, RecommendOptions(capacities_bytes=(64 << 10,)))
    done = succeed("simulate", "rivals", folder.path)
    assert done.stderr == "caches left out, the capacity is too small: dm-cache, bcache\n"
    recommend(folder, RecommendOptions(queueing="open"))
    refused(invoke("simulate", "rivals", folder.path), "queueing")


def row_of(
    rival: str, elapsed: int, background: int = 0, delayed: int = 0, error: int = 0
) -> CacheTimes:
    names = ("elapsed_ns", "background_base_ns", "delayed_ns", "error_ns")
    times = {
        name: one * 10**9
        for name, one in zip(names, (elapsed, background, delayed, error), strict=True)
    }
    mode = "alone" if rival == "zram" else "back"
    return CacheTimes(rival=rival, mode=mode, capacity_bytes=MIB, **times)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([], ""),
        ([row_of("bcache", 9), row_of("zram", 10)], ""),
        ([row_of("bcache", 5, 4, 4), row_of("zram", 10)], ""),
        (
            [row_of("bcache", 5, 4), row_of("dm-cache", 1, 9, 7)],
            "bcache (write-back) beats the placement: 5 s, and 4 s of its own work while the base"
            " device is idle",
        ),
        (
            [row_of("bcache", 5, 4, 3), row_of("dm-cache", 9, 9)],
            "bcache (write-back) beats the placement: 8 s with 3 s of its own work that finds no"
            " idle time, and 1 s of its own work while the base device is idle",
        ),
        ([row_of("zram", 5), row_of("dm-cache", 6)], "zram (in memory) beats the placement: 5 s"),
        (
            [row_of("bcache", 5, error=3), row_of("dm-cache", 4, error=5)],
            "bcache (write-back) beats the placement: 5 s +- 3 s (from samples)",
        ),
    ],
)
def test_the_cache_that_is_better_is_named(rows: list[CacheTimes], line: str) -> None:
    static = Static("this", MIB, 9 * 10**9)
    lines = [f"With 1 MiB, {line}; this takes 9 s of I/O."] if line else []
    assert better(rows, static) == lines
    (whole,) = headline(rows, static)
    if not rows:
        assert whole == "1 MiB are too small for each of the caches."
    else:
        none = "With 1 MiB no cache beats the placement: this takes 9 s of I/O, bcache (write-back)"
        assert whole == lines[0] if lines else whole.startswith(f"{none} 9 s")


@pytest.mark.parametrize(
    ("rows", "second"),
    [
        ([row_of("ZFS log", 3), row_of("bcache", 5)], "bcache (write-back) beats it: 5 s."),
        ([row_of("ZFS log", 3), row_of("bcache", 9)], "none does; bcache (write-back) takes 9 s."),
        (
            [row_of("ZFS log", 9), row_of("bcache", 11)],
            "none does; bcache (write-back) takes 11 s.",
        ),
        ([row_of("ZFS log", 6), row_of("bcache", 5)], None),
        ([row_of("ZFS log", 3)], None),
    ],
)
def test_what_needs_no_pool_of_zfs_is_named_too(rows: list[CacheTimes], second: str | None) -> None:
    static = Static("this", MIB, 9 * 10**9)
    first, *others = headline(rows, static)
    assert ("no cache beats" in first) == (rows[0].busy_ns >= static.elapsed_ns)
    assert others == ([f"Without a pool of ZFS, {second}"] if second else [])
    # AND the recommendation says so where it is better
    beats = second is not None and "beats" in second
    assert better(rows, static)[1:] == (others if beats else [])


def test_the_answer_names_a_cache_that_is_better(sample: TraceFolder) -> None:
    advice = read_recommendation(sample)
    rows, _ = compete(charged_trace(sample, advice), CAPACITY)
    # THEN it has the time of each, and what the command says, compared with the best placement
    names = CacheTimes.__struct_fields__
    assert [[getattr(one, name) for name in names] for one in advice.caches] == [
        [getattr(row, name) for name in names] for row in rows
    ]
    named = better(rows, quickest(advice, advice.answer)[1])
    assert named
    assert advice.headline[-len(named) :] == named


def test_an_answer_with_queues_is_without_caches(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", at % 40, 1) for at in range(60)])
    advice = recommend(folder, RecommendOptions(queueing="open"))
    assert advice.caches == []
    assert not any("beats the placement" in line for line in advice.headline)


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


def rows_for(asked: list[Request], devices: int) -> Rows:
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
        rival.add(rows_for(asked, device_count))
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


SAMPLED_BYTES = 8 * MIB


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ChargedTrace:
    """Charge skewed requests about 62 MiB of two devices, none of them in two regions."""
    random = np.random.default_rng(5)
    place = (8000 * random.random(8000) ** 2).astype(int) * 5003 % 8000
    asked: list[Asked] = [
        (
            "write" if random.random() < 0.5 else "read",
            at,
            min(1 + at % 4, -at % REGION_BLOCKS or 1),
        )
        for at in place.tolist()
    ]
    folder = make_trace(tmp_path_factory.mktemp("sample") / "t", asked, devices=2)
    touched, known = read_blocks(folder.table("blocks")), load_profiles()
    devices = DevicePair(known["ssd-sata"], known["dax-pcm"])
    return ChargedTrace(folder.table("requests"), touched, devices, is_issued=False)


def times(rows: list[CacheTimes]) -> list[tuple[object, ...]]:
    names = ("rival", "mode", "elapsed_ns", "background_base_ns", "delayed_ns")
    return [tuple(getattr(row, name) for name in names) for row in rows]


def test_a_sample_of_all_is_all(made: ChargedTrace) -> None:
    found, _ = compete_on_samples(
        made, SAMPLED_BYTES, base_ns=base_alone_ns(made), parts=1, samples=1
    )
    assert times(found) == times([*compete(made, SAMPLED_BYTES)[0]])
    assert {row.error_ns for row in found} == {0}


def test_parts_hold_every_request_and_block_once(made: ChargedTrace) -> None:
    parts = rival_sample.sample_parts(made, parts=7, samples=7)
    ids = np.concatenate([rows.request_id for part in parts for rows in part.kept])
    assert sorted(ids.tolist()) == [one for rows in made.rows() for one in rows.request_id]
    keys = np.concatenate([part.touched.keys for part in parts])
    assert sorted(keys.tolist()) == made.touched.keys.tolist()
    assert min(len(part.touched.keys) for part in parts) > 0


def test_samples_are_as_far_off_as_they_say(made: ChargedTrace) -> None:
    # GIVEN half of the trace in four samples
    found, missing = compete_on_samples(made, SAMPLED_BYTES, base_ns=base_alone_ns(made), parts=8)
    assert missing == []
    exact = {(row.rival, row.mode): row for row in compete(made, SAMPLED_BYTES)[0]}
    off = [
        abs(row.busy_ns - exact[row.rival, row.mode].busy_ns) / max(row.error_ns, 1)
        for row in found
    ]
    # THEN nine of ten times are within two standard errors, which are small
    assert len(off) == len(exact)
    assert sorted(off)[len(off) * 9 // 10] <= 1
    assert max(row.error_ns / row.busy_ns for row in found) < 0.2


def test_a_cache_without_requests_in_a_sample_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN swap in one region, so that three of four samples have none
    monkeypatch.setattr(rival_sample, "SAMPLED_REQUESTS", 1000)
    monkeypatch.setattr(rival_sample, "LEAST_BYTES", MIB)
    asked: list[Asked] = [("read", 2000 + at * 37 % 6000, 1) for at in range(1500)]
    folder = make_trace(tmp_path / "t", [*asked, ("write", 1500, 1)], second="swap")
    advice = recommend(folder, RecommendOptions(base="ssd-sata", capacities_bytes=(6 * MIB,)))
    assert not {"zram", "zswap"} & {row.rival for row in advice.caches}
    assert "not compared, as a sample has no requests for them: zram, zswap" in advice.assumptions


def test_an_answer_about_many_requests_says_that_it_has_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rival_sample, "SAMPLED_REQUESTS", 1000)
    monkeypatch.setattr(rival_sample, "LEAST_BYTES", MIB)
    folder = make_trace(tmp_path / "t", [("read", at * 37 % 8000, 1) for at in range(1500)])
    advice = recommend(folder, RecommendOptions(base="ssd-sata", capacities_bytes=(6 * MIB,)))
    assert any("on 4 samples, each of 1/6 " in line for line in advice.assumptions)
    assert advice.caches
    # AND not with few requests, or too small a capacity to divide
    assert [choose_parts(1500, size * MIB) for size in (400, 5, 4)] == [6, 5, 1]
    assert choose_parts(1000, 400 * MIB) == 1
