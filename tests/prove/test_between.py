"""What measurements of both devices have of the machine, and what others took of its processors."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracekit.device.characterize as measuring
import tracekit.replay.verify_runs as verifying
from tests.command_line import invoke
from tests.prove.test_prove import requests
from tests.simulate.placement_models import Request, model, write_trace
from tests.traces import json_of
from tracekit.device.characterize import CharacterizeOptions, characterize
from tracekit.device.steps import ALL, Amounts, read_latencies
from tracekit.device.target import TargetOptions
from tracekit.device.trace_mix import MixCell, Slices, TraceMix, model_ns
from tracekit.device.trace_mix import slowness as slowness_of_cells
from tracekit.devices import DevicePair, Profile, load_profiles
from tracekit.machine_state import Use
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.repeats import mean_of
from tracekit.replay.between import Between, Round, Speeds, halfway, middle, slowness
from tracekit.replay.completions import HEADER, RECORD
from tracekit.replay.prediction import Prediction, Repeat
from tracekit.replay.verdict import Expected, Tolerances, Verdict, gain_of, verdict_of
from tracekit.replay.verify import verify
from tracekit.replay.verify_runs import Runs, Timed, VerifyOptions
from tracekit.replay.without_stolen import Took, times_without
from tracekit.stolen_time import ATTEMPTS, StealWatch, Stretches, stretches_of
from tracekit.store import TraceFolder
from tracekit.units import MIB

MS = 1_000_000
BASE_NS, MOVED_NS = 700 * MS, 300 * MS
"""Of requests that stay, and of those that go to the NVM; there these take a tenth."""
PUBLISHED = 0.27
TOLERANCES = Tolerances(0.05, 0.1)


def device(name: str, us: float) -> Profile:
    return Profile(name, "", us, us, 400.0, 400.0, flush_us=us, fua_us=us, price_per_gb=1.0)


def test_slower_devices_take_so_many_times_as_long() -> None:
    # GIVEN requests on two devices, of which one takes twice and one three times as long
    requests = [
        Request(
            "fs", 8 * (7 * n % 50), operation="read" if n % 3 else "write", is_preflush=n % 9 == 0
        )
        for n in range(200)
    ]
    pair = DevicePair(device("disk", 50.0), device("nvm", 12.0))
    slow = pair.slowed(2.0, 3.0)
    everything = {block for one in requests for block in one.blocks}
    moved = {(name, block) for name, block in everything if block < 13}
    # THEN an explicit sum of them does, too
    alone, slower = (model(requests, set(), one).service for one in (pair, slow))
    assert slower == pytest.approx(2 * alone, rel=1e-6)
    alone, slower = (model(requests, everything, one).service for one in (pair, slow))
    assert slower == pytest.approx(3 * alone, rel=1e-6)
    mixed = model(requests, moved, slow).service
    assert 2 * model(requests, moved, pair).service < mixed
    # AND what is made slower and quicker again is what it was
    assert pair.base.slowed(4.0).slowed(0.25) == pair.base


def test_what_requests_take_is_told_as_a_multiple_of_the_profile() -> None:
    # GIVEN reads, with setup and bytes, writes with FUA behind a flush, and flushes
    profile = device("disk", 50.0)
    page_us, four_us = 4096 / 400 / (1 << 20) * 1e6, 16384 / 400 / (1 << 20) * 1e6
    known_us = (50 - page_us + four_us, 50 + 50 + 50, 50)
    kinds: list[dict[str, Any]] = [
        {"operation": "read", "length_bytes": 16384, "is_preflush": False, "is_fua": False},
        {"operation": "write", "length_bytes": 4096, "is_preflush": True, "is_fua": True},
        {"operation": "flush", "length_bytes": 0, "is_preflush": False, "is_fua": False},
    ]
    cells = [
        MixCell(**kind, is_sequential=False, requests=count, mean_ns=1.5e3 * us)
        for kind, count, us in zip(kinds, (5, 3, 2), known_us, strict=True)
    ]
    # THEN the sum by the profile is the one by hand, and the multiple is what they were made with
    by_hand = sum(count * us for count, us in zip((5, 3, 2), known_us, strict=True))
    assert model_ns(cells, profile) == pytest.approx(1e3 * by_hand)
    assert slowness_of_cells(cells, profile) == pytest.approx(1.5)


def replayed(rounds: list[Round], times: list[tuple[float, float]]) -> tuple[Runs, Prediction]:
    """Return runs with these times, and the prediction at the speeds between them."""

    def at(base: Speeds, placed: Speeds) -> Repeat:
        stays, goes = BASE_NS * placed.base, MOVED_NS / 10 * placed.nvm
        return Repeat(round((BASE_NS + MOVED_NS) * base.base), round(stays + goes))

    here = middle([one for both in rounds for one in both])
    told = at(here, here)
    predicted = Prediction(
        told.base_ns,
        told.placed_ns,
        1 - told.placed_ns / told.base_ns,
        rounds=[at(*both) for both in rounds],
    )
    base, placed = (
        [Timed(round(ns), None, {}) for ns in side] for side in zip(*times, strict=True)
    )
    return Runs(base, placed, rounds=rounds), predicted


def swinging(
    seed: int, count: int = 12, *, stays: float = 0.9
) -> tuple[list[Round], list[tuple[float, float]]]:
    """Return what a machine that swings shows: two devices of one processor, 2 % of noise.

    The true gain is PUBLISHED, the true times are those of the model. What is measured between two
    replays and these take turns; the logarithm of the speed is an autoregressive process, by which
    the slowest of 25 takes about twice as long as the quickest.
    """
    rng = np.random.default_rng(seed)
    swing = [0.18 * rng.normal()]
    for _ in range(4 * count):
        swing.append(stays * swing[-1] + 0.18 * math.sqrt(1 - stays**2) * rng.normal())
    speed = np.exp(np.array(swing)[:, None] + rng.normal(0, 0.02, (4 * count + 1, 2)))
    during = [halfway(*ends) for ends in pairwise(Speeds(*map(float, one)) for one in speed[::2])]
    rounds = [Round(*during[n : n + 2]) for n in range(0, 2 * count, 2)]
    took = speed[1::2, 0]
    times = [
        ((BASE_NS + MOVED_NS) * took[n], (BASE_NS + MOVED_NS / 10) * took[n + 1])
        for n in range(0, 2 * count, 2)
    ]
    return rounds, times


def judged(runs: Runs, predicted: Prediction, *, published: float = PUBLISHED) -> Verdict:
    expected = Expected(predicted.base_ns, predicted.placed_ns, published, {})
    pairs = runs.at_one_speed(predicted).pairs
    return verdict_of(
        pairs, expected, tolerances=TOLERANCES, emulations=[(None, None)] * len(pairs)
    )


def widths(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the widths of the gain's interval, and of the time on the base device."""
    low, high = gain_of(pairs) or (0.0, 0.0)
    base = mean_of([base for base, _ in pairs])
    return high - low, 2 * ((base.high or 0.0) / base.mean - 1)


@pytest.mark.parametrize(
    ("stays", "gain", "time"),
    [(0.98, 0.95, 0.6), (0.9, 0.9, 0.6), (0.7, 0.95, 0.75), (0.0, 1.05, 1.05)],
)
def test_on_a_swinging_machine_intervals_are_narrower_and_hold_the_truth(
    stays: float, gain: float, time: float
) -> None:
    # GIVEN 400 proofs on a machine whose speed swings, more or less slowly, with nothing else wrong
    alone, between, holds, verdicts = [], [], 0, []
    for seed in range(400):
        runs, predicted = replayed(*swinging(seed, stays=stays))
        pairs = runs.at_one_speed(predicted).pairs
        low, high = gain_of(pairs) or (0.0, 0.0)
        holds += low <= PUBLISHED <= high
        alone.append(widths(runs.pairs))
        between.append(widths(pairs))
        verdicts.append(judged(runs, predicted).name)
    # THEN the intervals are narrower, or as wide, and hold the truth about as often as they say
    ratio = np.median(between, axis=0) / np.median(alone, axis=0)
    assert ratio[0] < gain
    assert ratio[1] < time
    assert 0.92 <= holds / 400 <= 0.98
    assert verdicts.count("did not hold") <= 8


@pytest.mark.parametrize("nvm", [1.0, 20.0])
def test_a_claim_is_not_made_true_by_what_is_measured_between(nvm: float) -> None:
    # GIVEN a gain of 95 % that somebody wrote into the answer, or an NVM said to be so much faster
    found, times = swinging(1)
    rounds = [Round(*(Speeds(one.base, one.nvm * nvm) for one in both)) for both in found]
    runs, predicted = replayed(rounds, times)
    # THEN the prediction did not hold, or nobody can tell
    assert judged(runs, predicted, published=0.95).name != "held"
    drift = slowness(
        [one.nvm for both in rounds for one in both],
        [1.0, 0.95, 1.05],
        what="NVM",
        tolerance_ratio=0.1,
    ).drift
    assert (drift is not None) == (nvm == 20.0)


@pytest.mark.parametrize(
    ("found", "is_other"),
    [
        ([1.0, 1.02, 0.98, 1.01], False),
        ([1.5, 1.52, 1.48, 1.51], True),
        ([0.6, 0.62, 0.58, 0.61], True),
        # it swings: nobody can say that it is another
        ([1.0, 1.7, 1.1, 1.6], False),
    ],
)
def test_a_device_that_is_no_longer_what_was_measured_is_named(
    found: list[float], is_other: bool
) -> None:
    told = slowness(found, [1.0, 0.97, 1.03], what="base device", tolerance_ratio=0.1)
    assert (told.drift is not None) == is_other
    if told.drift:
        assert told.drift.startswith("the base device took ")
    assert (told.low_ratio, told.high_ratio) == (min(found), max(found))


OWN = """
[slow]
read_latency_us = 600
write_latency_us = 800
read_mib_s = 10000
write_mib_s = 8000
flush_us = 1000
fua_us = 200
price_per_gb = 1
[fast]
read_latency_us = 100
write_latency_us = 150
read_mib_s = 30000
write_mib_s = 20000
flush_us = 50
fua_us = 10
price_per_gb = 1
"""


def traced(place: Path) -> TraceFolder:
    """Return a trace of a hot file system and a journal, recommended for."""
    (place / "own.toml").write_text(OWN)
    hot = [
        Request(
            "journal" if n % 3 == 0 else "fs",
            800 + n // 3 % 40 * 8 if n % 3 == 0 else n % 7 * 64,
            operation="read" if n % 5 == 1 else "write",
            is_preflush=n % 30 == 0,
            queue_ns=n * MS,
            issue_ns=n * MS + 10,
        )
        for n in range(150)
    ]
    path = write_trace(place / "trace", hot, counts={"requests": 150}, source={"files": []})
    folder = TraceFolder(path)
    recommend(folder, RecommendOptions("slow", "fast", (20 << 12,), profiles=place / "own.toml"))
    return folder


def test_requests_between_replays_take_what_the_device_takes(tmp_path: Path) -> None:
    # GIVEN requests of one half of a trace on an emulated device
    folder = traced(tmp_path)
    place = tmp_path / "slices"
    place.mkdir()
    mix = TraceMix(folder, seconds=0.05)
    count = mix.requests_for(600e3)
    target = TargetOptions(device="slow", profiles=tmp_path / "own.toml", size_bytes=4 * MIB)
    found = Slices(target, mix, requests=count, place=place)
    # THEN each time they take what its profile says, or more where the emulation is late
    profile = load_profiles(tmp_path / "own.toml")["slow"]
    for _ in range(2):
        cells = found.measure()
        assert 0 < sum(one.requests for one in cells) <= 75
        assert slowness_of_cells(cells, profile) > 0.99
        half = slowness_of_cells(cells, profile.slowed(2.0))
        assert 2 * half == pytest.approx(slowness_of_cells(cells, profile))
    assert not list(place.glob("*.completions"))


@pytest.mark.parametrize(("speeds", "drift"), [(Speeds(1.0, 1.0), ""), (Speeds(1.5, 1.0), "150%")])
def test_a_verification_says_what_was_measured_between(
    speeds: Speeds, drift: str, tmp_path: Path
) -> None:
    # GIVEN emulated devices, of which something measured between the replays says how fast they are
    folder = traced(tmp_path)
    asked: list[int] = []

    def measure() -> Speeds:
        asked.append(1)
        return speeds

    options = VerifyOptions(
        seconds=0.05, repeats=3, tolerance_ratio=1, time_tolerance_ratio=0.4, only_compared=True,
        profiles=tmp_path / "own.toml",
    )  # fmt: skip
    alone = verify(folder, options)
    told = verify(folder, options, between=Between(measure, [Speeds(1.0, 1.0)] * 3))
    # THEN it was asked before the first replay and behind each
    sides = 3 if told["runner_up"] else 2
    assert len(asked) == 3 * sides + 1
    # AND the prediction is the one for such devices
    for key, wanted in (("base_ns", speeds.base), ("placed_ns", None)):
        now, before = (one["predicted"][key] for one in (told, alone))
        assert now == pytest.approx(before * wanted, abs=1) if wanted else now >= before
        assert [one[key] for one in told["predicted"]["rounds"]] == [now] * 3
    # AND what was replayed did not change with it, but that the device is another is said
    assert told["measured"] == told["interleaved"]["as_it_was"]
    line = next(one for one in told["headline"] if one.startswith("Between the replays"))
    assert f" took {speeds.base:.0%} ({speeds.base:.0%} to {speeds.base:.0%}) of what" in line
    assert drift in (told["interleaved"]["base"]["drift"] or "")
    assert (told["interleaved"]["base"]["drift"] is not None) == bool(drift)
    assert not (drift and told["verdict"] == "held")


EVER = 1 << 62


def stretches(*pairs: tuple[int, int]) -> Stretches:
    begin, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return Stretches(begin, end)


@pytest.mark.parametrize(
    ("stolen", "expected"),
    [
        ([5, 5, 5, 5, 5, 5], []),
        ([5, 5, 5, 6, 6, 6], [(10, 40)]),
        # kernels count down, too; at the ends there is no look beside
        ([5, 4, 4, 4, 4, 9], [(0, 20), (30, 50)]),
        ([0, 0, 1, 1, 2, 2], [(0, 50)]),
        ([7], []),
    ],
)
def test_stretches_have_a_look_on_each_side(
    stolen: list[int], expected: list[tuple[int, int]]
) -> None:
    times = np.arange(len(stolen)) * 10
    found = stretches_of(times, np.array(stolen))
    assert [*zip(found.begin_ns.tolist(), found.end_ns.tolist(), strict=True)] == expected


def test_clear_is_what_touches_no_stretch() -> None:
    chance = np.random.default_rng(3)
    edges = np.sort(chance.choice(1000, 40, replace=False)).reshape(-1, 2)
    found = Stretches(*edges.T)
    begin = chance.integers(0, 1000, 500)
    end = begin + chance.integers(0, 60, 500)
    known = [
        not any(low <= last and high >= first for low, high in edges.tolist())
        for first, last in zip(begin.tolist(), end.tolist(), strict=True)
    ]
    assert found.clear(begin, end).tolist() == known
    assert 0 < sum(known) < 500
    shared = (min(700, high) - max(200, low) for low, high in edges.tolist())
    assert found.within(200, 700) == sum(max(0, one) for one in shared)
    assert found.since(100).begin_ns.tolist() == (edges[:, 0] - 100).tolist()


def test_a_watch_sees_what_the_kernel_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3 4 5 6 7 8 0 0\n")
    monkeypatch.setattr("tracekit.stolen_time.STAT", stat)
    monkeypatch.setattr("tracekit.stolen_time.LOOK_S", 0.001)
    with StealWatch() as quiet:
        pass
    assert len(quiet.found().begin_ns) == 0
    with StealWatch() as watch:
        while len(watch._looks) < 3:
            pass
        stat.write_text("cpu  1 2 3 4 5 6 7 9 0 0\n")
    assert len(watch.found().begin_ns) == 1
    # AND a system without the counter leaves nothing out
    monkeypatch.setattr("tracekit.stolen_time.STAT", tmp_path / "none")
    with StealWatch() as blind:
        pass
    assert len(blind.found().begin_ns) == 0


def took(step_ns: Any, *, service_ns: Any = None, role: Any = None, clear: Any = None) -> Took:
    step_ns = np.asarray(step_ns)
    service_ns = step_ns - 1 if service_ns is None else service_ns
    role = np.zeros(len(step_ns), int) if role is None else role
    return Took(step_ns, service_ns, role, np.ones(len(step_ns), bool) if clear is None else clear)


def test_replays_take_what_they_take_without_the_stolen_time() -> None:
    # GIVEN requests of known cost in five replays of different speed, of which a fifth each was
    # stopped for long now and then
    chance = np.random.default_rng(8)
    cost = chance.integers(20, 400, 3000) * 1000
    role = chance.integers(0, 3, 3000)
    runs, known = [], []
    for speed in (1.0, 1.1, 0.9, 1.05, 0.95):
        clear = np.repeat(chance.random(30) > 0.2, 100)
        step = np.rint(cost * speed).astype(int)
        known.append((step.sum(), [(step[role == n] - 1).sum() for n in range(3)]))
        stopped = np.where(clear, step, step + chance.integers(0, 10**7, 3000))
        runs.append(took(stopped, role=role, clear=clear))
        assert stopped.sum() > 2 * step.sum()
    # THEN each takes what it would have, by role too: the cost of a window is not that of another
    for (time_ns, role_ns), (step_ns, by_role) in zip(times_without(runs), known, strict=True):
        assert time_ns == pytest.approx(step_ns, rel=0.02)
        assert [*role_ns.values()] == pytest.approx(by_role, rel=0.02)


def test_nothing_changes_where_nothing_was_stolen_or_everything() -> None:
    runs = [took([1000, 3000, 70]), took([1100, 2900, 90])]
    assert [time_ns for time_ns, _ in times_without(runs)] == [4070, 4090]
    assert [sum(found.values()) for _, found in times_without(runs)] == [4067, 4087]
    lost = [replace(one, is_clear=np.zeros(3, bool)) for one in runs]
    assert times_without(lost) == times_without(runs)
    with pytest.raises(ValueError, match="not of the same requests"):
        times_without([took([1]), took([1, 2])])


def test_latencies_are_those_outside_of_the_stretches(tmp_path: Path) -> None:
    header = np.zeros((), HEADER)
    header["magic"], header["record_bytes"] = b"TKDONE\r\n", RECORD.itemsize
    rows = [(n, 0, n * 100, n * 100 + (5000 if n == 7 else 90), 0, 0, 0, n % 2) for n in range(9)]
    file = tmp_path / "a"
    file.write_bytes(header.tobytes() + np.array(rows, RECORD).tobytes())
    found, pace = read_latencies(file, 9, depth=1, stolen=stretches((310, 350), (695, 6000)))
    # THEN request 3 and all from 7 on, and 6 that ends at 690, are told apart
    assert {name: (one.count, one.mean) for name, one in found.items()} == {
        ALL: (6, 90.0), "read": (4, 90.0), "write": (2, 90.0)
    }  # fmt: skip
    assert pace.seen == 9


class Thief:
    """A watch that sees everything stolen in its first turns, and nothing in those behind."""

    def __init__(self, turns: int) -> None:
        self.left, self.asked = turns, 0

    def __call__(self) -> Any:
        self.asked += 1
        return self

    def __enter__(self) -> "Thief":
        return self

    def __exit__(self, *_: object) -> None:
        self.left -= 1

    def found(self) -> Stretches:
        return stretches((0, EVER)) if self.left >= 0 else Stretches()


AMOUNTS = Amounts(
    fill_percent=0, precondition=0, writes=50, reads=50, sizes=20, flushes=20, surface=50,
    write_percents=(50,), depths=(4,),
)  # fmt: skip


@pytest.mark.parametrize(("turns", "left_out"), [(0, 0.0), (ATTEMPTS - 1, 0.0), (ATTEMPTS, 0.1)])
def test_a_step_that_lost_most_of_it_is_run_again(
    turns: int, left_out: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    thief = Thief(turns)
    monkeypatch.setattr(measuring, "StealWatch", thief)
    monkeypatch.setattr(measuring, "LEAST", 10)  # requests, of which smaller steps have fewer
    target = TargetOptions(path=tmp_path / "new.img", size_bytes=8 << 20)
    found = characterize(tmp_path / "out", CharacterizeOptions(target=target, amounts=AMOUNTS))
    # THEN it is run again as long as it may help, and what is left out is told
    assert thief.asked == found["steps"] + min(turns, ATTEMPTS - 1)
    assert (found["left_out_ratio"] > 0) == (left_out > 0)
    assert any("are left out, as the hypervisor" in one for one in found["warnings"]) == (
        left_out > 0
    )


@pytest.mark.parametrize(("turns", "ratio"), [(1, 0.0), (2 * ATTEMPTS, 1 / 3)])
def test_a_replay_that_lost_most_of_it_is_run_again(
    turns: int, ratio: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_trace(
        tmp_path / "trace", requests(), counts={"requests": 150}, source={"files": []}
    )
    for name in ("base", "nvm"):
        (tmp_path / f"{name}.img").write_bytes(bytes(8 << 20))
    assert invoke("recommend", folder, "--base", "hdd-7200").exit_code == 0
    thief = Thief(turns)
    monkeypatch.setattr(verifying, "StealWatch", thief)
    words = [word for name in ("base", "nvm") for word in (
        "--target", f"{'' if name == 'base' else 'nvm='}{tmp_path}/{name}.img",
        "--write-to", f"{tmp_path}/{name}.img")]  # fmt: skip
    invoke("verify-placement", folder, *words, "--repeat", "2", "--tolerance", "1",
           "--time-tolerance", "1e6")  # fmt: skip
    told = json_of(folder / "verification.json")
    assert told["left_out_ratio"] == pytest.approx(ratio)
    # THEN of base, placement and runner-up, twice each, the first two are run again
    assert thief.asked == 6 + min(turns, 4)
    assert any("count with what they took in other repeats" in one for one in told["headline"]) == (
        ratio > 0
    )


@pytest.mark.parametrize(
    ("use", "is_busy", "words"),
    [
        (Use(0.0, 0.17, left_out_ratio=0.4), False, "17.0% of time was stolen, 40.0% of requests"),
        (Use(0.0, 0.17, left_out_ratio=0.51), True, "51.0% of requests left out for it"),
        (Use(0.0, 0.17), True, "17.0% of time was stolen"),
        (Use(0.6, 0.0, left_out_ratio=0.0), True, "0.6 other tasks ran, 0.0% of time was stolen"),
    ],
)
def test_what_was_left_out_does_not_make_a_machine_busy(
    use: Use, is_busy: bool, words: str
) -> None:
    assert use.is_busy == is_busy
    assert words in use.words
