"""Every set of roles, and the gain as a range."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.recommend.traces import BLOCK, DEVICES, curve, recommended
from tests.simulate.placement_traces import Block, Request, hottest_first
from tests.simulate.walk_model import model
from tracekit.devices import DevicePair, Profile, load_profiles
from tracekit.model.changes import changed_devices, variants

MS = 1_000_000


def small() -> list[Request]:
    """Return a hot and a cold part of a file system, and a journal: 50 blocks in all."""
    hot = [Request("fs", 16 * block) for _ in range(50) for block in range(5)]
    cold = [Request("fs", 16 * block) for block in range(5, 30)]
    return hot + cold + [Request("journal", 1 << 20 | 16 * n) for _ in range(9) for n in range(20)]


def timed() -> list[Request]:
    """Return the same with flushes, FUA and a read now and then, one every millisecond."""
    return [
        replace(
            request,
            operation="read" if number % 7 == 3 else "write",
            is_fua=number % 11 == 0 and number % 7 != 3,
            is_preflush=number % 5 == 0,
            queue_ns=number * MS,
        )
        for number, request in enumerate(small())
    ]


def test_every_set_of_roles_has_its_best_split(tmp_path: Path) -> None:
    # GIVEN a trace of three roles, small enough that every division can be tried
    random = np.random.default_rng(4)
    requests = [
        Request(role, 800 * n + 8 * int(random.zipf(1.5) % 9), 8, queue_ns=0)
        for _ in range(60)
        for n, role in enumerate(("fs", "journal", "swap"))
    ]
    recommended(tmp_path, requests)
    alone = {role: curve(tmp_path, role) for role in ("fs", "journal", "swap")}
    base = curve(tmp_path, "base", "none")[0]
    for first, second in itertools.combinations(alone, 2):
        for capacity, found in curve(tmp_path, f"{first}+{second}").items():
            # THEN its curve is the best sum of both roles' savings
            best = min(
                alone[first][one] + alone[second][other] - base
                for one, other in itertools.product(alone[first], alone[second])
                if one + other <= capacity
            )
            assert found == pytest.approx(best, abs=3)


def shares_of(result: dict[str, Any], requests: list[Request]) -> set[Block]:
    """Return the blocks that the answer puts on NVM."""
    return {
        block
        for role in ("fs", "journal", "swap")
        for block in hottest_first(requests, role)[: result["answer"][f"{role}_bytes"] // BLOCK]
    }


def gain(
    part: list[Request], blocks: set[Block], pair: tuple[Profile, Profile], *, queueing: str
) -> float:
    """Charge the base alone and the placement, request by request."""
    alone, placed = (
        model(part, held, pair, level="queued", trace=timed()) for held in (set(), blocks)
    )
    if queueing == "open":
        return 1 - sum(placed.responses) / sum(alone.responses)
    return 1 - placed.service / alone.service


@pytest.mark.parametrize("queueing", ["serial", "open"])
@pytest.mark.parametrize("base", ["disk", "hdd-7200-seek", "ssd-emlc"])
def test_the_range_is_over_single_parts_and_windows(
    base: str, queueing: str, tmp_path: Path
) -> None:
    # GIVEN a base device of constant cost, a disk with a head, or flash
    requests = timed()
    info = {"clock": {"duration_ns": len(requests) * MS, "wall_ns": None}}
    result = recommended(tmp_path, requests, info=info, base=base, queueing=queueing)
    pair = DevicePair(load_profiles(DEVICES)[base], load_profiles(DEVICES)["nvm"])
    blocks, found = shares_of(result, requests), result["gain_range"]
    # WHEN each part of each device takes half and twice as long, one at a time
    gains = {}
    for one in variants(pair, (0.5, 2.0)):
        key = (one.device, one.parameter, one.factor)
        gains[key] = gain(requests, blocks, changed_devices(pair, one), queueing=queueing)
    # AND each eighth of the requests is a trace of its own
    size = -(-len(requests) // 8)
    parts = [
        gain(requests[n : n + size], blocks, pair, queueing=queueing)
        for n in range(0, len(requests), size)
    ]
    # THEN the ends are those gains, and named
    assert found["parameter"]["tried"] == len(gains)
    assert found["window"]["tried"] == len(parts) == 8
    for end, choose in (("low", min), ("high", max)):
        told = found["parameter"][end]
        assert told["gain_ratio"] == pytest.approx(choose(gains.values()), abs=1e-6)
        named = gains[told["device"], told["parameter"], told["factor"]]
        assert named == pytest.approx(told["gain_ratio"], abs=1e-6)
        told = found["window"][end]
        assert told["gain_ratio"] == pytest.approx(choose(parts), abs=1e-6)
        assert parts[told["window"] - 1] == pytest.approx(told["gain_ratio"], abs=1e-6)
        assert told["start_ns"] == (told["window"] - 1) * size * MS
        whole = choose([*gains.values(), *parts])
        assert found[f"{end}_ratio"] == pytest.approx(whole, abs=1e-6)
    assert found["cut"] == {"length_ns": None, "requests": size}
    assert result["headline"][3].startswith("With one part of a device taking 0.5 or 2 times as")


def test_a_long_trace_is_cut_by_the_hour(tmp_path: Path) -> None:
    # GIVEN half the requests in the first of four hours, and none in the third
    hour_ns = 3600 * 10**9
    hours = [0] * 200 + [1] * 100 + [3] * 100
    requests = [
        replace(request, queue_ns=hour * hour_ns + number)
        for number, (hour, request) in enumerate(zip(hours, timed(), strict=False))
    ]
    info = {"clock": {"duration_ns": 4 * hour_ns, "wall_ns": None}}
    found = recommended(tmp_path, requests, info=info)["gain_range"]
    assert found["cut"] == {"length_ns": hour_ns, "requests": None}
    assert found["window"]["tried"] == 3
    assert {found["window"][end]["window"] for end in ("low", "high")} <= {1, 2, 4}


@pytest.mark.parametrize("queueing", ["serial", "open"])
@pytest.mark.parametrize("count", [0, 1])
def test_next_to_nothing_has_a_defined_range(count: int, queueing: str, tmp_path: Path) -> None:
    result = recommended(tmp_path, timed()[:count], queueing=queueing)
    found = result["gain_range"]
    if count == 0:
        assert found is None
    else:
        assert 0 < found["low_ratio"] <= result["answer"]["gain_ratio"] <= found["high_ratio"] < 1
        assert found["window"]["tried"] == 1
        assert "in the only window of the trace the same" in result["headline"][3]
    json.dumps(result, allow_nan=False)


def test_a_trace_without_times_is_cut_by_count(tmp_path: Path) -> None:
    requests = [replace(request, queue_ns=None, issue_ns=None) for request in timed()]
    found = recommended(tmp_path, requests)["gain_range"]
    assert found["window"]["tried"] == 8
    assert found["window"]["low"]["start_ns"] is None
    assert pq.read_metadata(tmp_path / "requests.parquet").num_rows == len(requests)
