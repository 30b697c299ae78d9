"""Caches on samples of a long trace, beside the same caches on all of it."""

from pathlib import Path

import numpy as np
import pytest

from tests.simulate.traces import Request, make_trace
from tracekit.devices import DevicePair, load_profiles
from tracekit.model import rival_sample
from tracekit.model.block_orders import read_blocks
from tracekit.model.placement import ChargedTrace
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.model.rival_kinds import MIB, CacheTimes, base_alone_ns, compete
from tracekit.model.rival_sample import REGION_BLOCKS, choose_parts, compete_on_samples

CAPACITY = 8 * MIB


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ChargedTrace:
    """Charge skewed requests about 62 MiB of two devices, none of them in two regions."""
    random = np.random.default_rng(5)
    place = (8000 * random.random(8000) ** 2).astype(int) * 5003 % 8000
    asked: list[Request] = [
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
    found, _ = compete_on_samples(made, CAPACITY, base_ns=base_alone_ns(made), parts=1, samples=1)
    assert times(found) == times([*compete(made, CAPACITY)[0]])
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
    found, missing = compete_on_samples(made, CAPACITY, base_ns=base_alone_ns(made), parts=8)
    assert missing == []
    exact = {(row.rival, row.mode): row for row in compete(made, CAPACITY)[0]}
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
    asked: list[Request] = [("read", 2000 + at * 37 % 6000, 1) for at in range(1500)]
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
