"""What a characterization is made of: plans, latencies by brute force, fits of a known device."""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.device.device_answer import measured_twice, twice_fault
from tracekit.device.fit import checked_name, closest_lanes, complete, fit, write_profile
from tracekit.device.steps import (
    ALL,
    ROUND,
    Amounts,
    Latencies,
    Step,
    bucket_low,
    bucket_of,
    read_latencies,
    steps,
    write_plan,
)
from tracekit.devices import load_profiles
from tracekit.errors import UsageError
from tracekit.plans import block_plan
from tracekit.replay.completions import HEADER, RECORD
from tracekit.replay.player import device_spec
from tracekit.units import MIB

SIZE_BYTES = 1 << 30


def exact(step: Step, cost: Any, lanes: int) -> dict[str, Any]:
    """Return the result of a step where `cost(step, operation)` is the service time in ns."""
    names = ["flush"] if step.is_flushed else []
    names += ["write"] if step.write_ratio > 0 else []
    names += ["read"] if step.write_ratio < 1 else []
    operations, everything = {}, Latencies()
    for name in names:
        one = Latencies()
        values = np.full(10, round(cost(step, name)), np.int64)
        one.add(values)
        everything.add(values)
        operations[name] = one.as_dict()
    share = step.write_ratio
    mean_s = (share * cost(step, "write") + (1 - share) * cost(step, "read")) / 1e9
    return {
        "step": asdict(step),
        "elapsed_ns": 10**9,
        "iops": min(step.depth, lanes) / mean_s,
        "usual_iops": min(step.depth, lanes) / mean_s,
        "operations": {ALL: everything.as_dict(), **operations},
    }


def device(
    *, read_ns: float, write_ns: float, read_rate: float, write_rate: float, lanes: int,
    flush_ns: float = 5e5, empty_ns: float = 5e5, fua_ns: float = 0.0, next_ns: float | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return all steps of a device with these setups in ns and rates in bytes a second."""

    def cost(step: Step, operation: str) -> float:
        if operation == "flush":
            return empty_ns if step.kind == "empty_flush" else flush_ns
        setup = read_ns if operation == "read" else write_ns
        if step.is_sequential and next_ns is not None:
            setup = next_ns
        setup += fua_ns if step.is_forced else 0
        rate = read_rate if operation == "read" else write_rate
        return setup + step.length_bytes / rate * 1e9

    return [exact(step, cost, lanes) for step in steps(Amounts(), SIZE_BYTES)]


def records(path: Path, step: Step, **options: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    write_plan(path, step, size_bytes=options.get("size", SIZE_BYTES), seed=(1, 2))
    data = path.read_bytes()[block_plan.HEADER.itemsize :]
    return np.frombuffer(data[: step.requests * block_plan.RECORD.itemsize], block_plan.RECORD)


def test_the_steps_are_those_of_the_study() -> None:
    every = steps(Amounts(), SIZE_BYTES)
    chosen = [step for step in every if step.kind != ROUND]
    # THEN the device is filled twice in sequence, then written at random: 20 % writes, 256 at once
    assert chosen[0] == Step("fill", 2048, 1.0, 32, 1 << 20, is_sequential=True)
    assert (chosen[1].kind, chosen[1].write_ratio, chosen[1].depth) == ("precondition", 0.2, 256)
    # AND a million writes come before five million reads, one at a time, of 4 KiB
    assert chosen[2] == Step("random_write", 1_000_000, 1.0)
    assert chosen[3] == Step("random_read", 5_000_000, 0.0)
    # AND the surface has every pair of write share and depth
    surface = {(step.write_ratio, step.depth) for step in chosen if step.kind == "surface"}
    assert len(surface) == 6 * 9
    # AND up to 25 rounds of writes stand before the first measurement, as in SNIA's PTS
    kinds = [step.kind for step in every]
    assert kinds[2:28] == [ROUND] * 25 + ["random_write"]
    # AND longer requests are mixed, too; an emulated device needs neither, and is filled once
    assert {(s.length_bytes, s.depth) for s in every if s.kind == "mixed"} == {
        (length, depth) for length in (65536, 1048576) for depth in (1, 4, 16)
    }
    emulated = steps(Amounts(), SIZE_BYTES, is_emulated=True)
    assert emulated[0].requests == 1024
    assert {step.kind for step in every} - {step.kind for step in emulated} == {ROUND, "mixed"}
    # AND a quick run has a hundredth of it
    quick = [step for step in steps(Amounts().quick(), SIZE_BYTES) if step.kind != ROUND]
    assert [step.requests for step in quick[:4]] == [1024, 10_000, 10_000, 50_000]


def test_a_plan_holds_what_its_step_says(tmp_path: Path) -> None:
    rows = records(tmp_path / "a", Step("surface", 20_000, 0.2))
    is_write = rows["operation"] == block_plan.WRITE
    # THEN a fifth writes (five standard deviations of a binomial around it)
    assert abs(is_write.mean() - 0.2) < 5 * math.sqrt(0.2 * 0.8 / 20_000)
    # AND places are 4 KiB pages all over the size, evenly
    assert (rows["sector"] % 8 == 0).all()
    tenth = np.bincount(rows["sector"] * 512 * 10 // SIZE_BYTES, minlength=10)
    assert len(tenth) == 10
    assert tenth.min() > 1800
    # AND the same seed gives the same bytes
    records(tmp_path / "b", Step("surface", 20_000, 0.2))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_flushes_follow_writes_and_sequences_go_on(tmp_path: Path) -> None:
    rows = records(tmp_path / "a", Step("flush", 6, 1.0, is_flushed=True))
    assert rows["operation"].tolist() == [block_plan.WRITE, block_plan.FLUSH] * 3
    assert rows["length_sectors"].tolist() == [8, 0] * 3
    # GIVEN a size of three pages, THEN a sequence begins anew at its end
    rows = records(tmp_path / "b", Step("sequential", 5, 0.0, is_sequential=True), size=3 * 4096)
    assert rows["sector"].tolist() == [0, 8, 16, 0, 8]
    rows = records(tmp_path / "c", Step("fua", 2, 1.0, is_forced=True))
    assert rows["flags"].tolist() == [block_plan.FUA] * 2


@given(st.integers(0, 1 << 50))
def test_a_bucket_holds_its_value(value: int) -> None:
    bucket = int(bucket_of(np.array([value], np.int64))[0])
    assert bucket_low(bucket) <= value < bucket_low(bucket + 1)
    # AND is at most a 128th of it wide
    assert bucket_low(bucket + 1) - bucket_low(bucket) <= max(1, value / 128)


@given(st.lists(st.lists(st.integers(0, 10**9), max_size=50), min_size=1, max_size=5))
def test_latencies_are_those_of_brute_force(chunks: list[list[int]]) -> None:
    found, every = Latencies(), sorted(value for chunk in chunks for value in chunk)
    for chunk in chunks:
        found.add(np.array(chunk, np.int64))
    assert found.count == len(every)
    if not every:
        return
    assert found.mean == pytest.approx(statistics.fmean(every))
    assert found.low == every[0]
    assert found.high == every[-1]
    deviation = statistics.stdev(every) if len(every) > 1 else 0.0
    assert found.deviation == pytest.approx(deviation, rel=1e-9, abs=1e-6)
    for ratio in (0.5, 0.99, 0.999):
        exact = every[math.ceil(ratio * len(every)) - 1]
        assert exact <= found.percentile(ratio) <= exact * (1 + 1 / 128)


def write_completions(path: Path, rows: Sequence[tuple[int, ...]]) -> Path:
    header = np.zeros((), HEADER)
    header["magic"], header["record_bytes"] = b"TKDONE\r\n", RECORD.itemsize
    path.write_bytes(header.tobytes() + np.array(rows, RECORD).tobytes())
    return path


def test_completions_are_told_apart(tmp_path: Path) -> None:
    # GIVEN two reads and a write that were done, and a write that failed, from 100 ns on
    rows = [
        (0, 0, 100, 150, 0, 0, 0, 0),
        (1, 0, 160, 180, 0, 0, 0, 1),
        (2, 0, 190, 260, 0, 0, 0, 0),
        (3, 0, 270, 990, -5, 0, 1, 1),
    ]
    found, pace = read_latencies(write_completions(tmp_path / "a", rows), 4, depth=1)
    assert {name: (one.count, one.failed, one.mean) for name, one in found.items()} == {
        ALL: (3, 1, pytest.approx(140 / 3)),
        "read": (2, 0, 60.0),
        "write": (1, 1, 20.0),
    }
    assert pace.elapsed_ns == 160


def test_a_pause_does_not_change_the_usual_rate(tmp_path: Path) -> None:
    # GIVEN a request every us, and after the first half a pause of a second
    rows = [
        (n, 0, n * 1000 + pause, n * 1000 + 900 + pause, 0, 0, 0, 0)
        for n in range(1000)
        for pause in [10**9 if n >= 500 else 0]
    ]
    _, pace = read_latencies(write_completions(tmp_path / "a", rows), 1000, depth=1)
    # THEN the usual rate is a million a second, whatever the whole took
    assert pace.usual_iops == pytest.approx(1e6)
    assert pace.elapsed_ns == 10**9 + 999_900


def test_what_is_done_at_once_after_pauses_is_no_usual_rate(tmp_path: Path) -> None:
    # GIVEN 64 in flight on a device of a request a us, seen 64 at a time after each pause of 64 us
    rows = [(n, 0, max(0, n - 64) * 1000, (n // 64 + 1) * 64_000, 0, 0, 0, 0) for n in range(6400)]
    _, pace = read_latencies(write_completions(tmp_path / "a", rows), 640, depth=64)
    # THEN the rate is that of the device, a million a second, and not of what came at once
    assert pace.usual_iops == pytest.approx(1e6)


@pytest.mark.parametrize("lanes", [1, 7, 64])
@pytest.mark.parametrize("next_ns", [None, 2_000.0])
def test_an_exact_device_is_found_again(lanes: int, next_ns: float | None) -> None:
    # GIVEN the steps of a device of 50 us + 4 KiB at 1 GB/s, and so on, without any noise
    results = device(
        read_ns=50_000, write_ns=20_000, read_rate=1e9, write_rate=4e8, lanes=lanes,
        flush_ns=7e5, empty_ns=1e5 * lanes, fua_ns=3e5, next_ns=next_ns,
    )  # fmt: skip
    found = {one.parameter: one.value for one in fit(results)}
    near = {
        "read_latency_us": 54.096,
        "write_latency_us": 30.24,
        "read_mib_s": 1e9 / MIB,
        "write_mib_s": 4e8 / MIB,
        "flush_us": 700.0,
        "fua_us": 300.0,
        "parallelism": lanes,
        "write_read_ratio": 30.24 / 54.096,
        **({} if next_ns is None else {"sequential_setup_us": 2.0}),
    }
    assert {key: found[key] for key in near} == pytest.approx(near, rel=2e-3)
    assert ("sequential_setup_us" in found) == (next_ns is not None)
    # AND a flush of nothing where it takes less than one behind a write
    empty_us = {1: 100.0}.get(lanes)
    assert found.get("empty_flush_us") == (empty_us and pytest.approx(empty_us, rel=2e-3))


@pytest.mark.parametrize(
    ("percent", "depth", "times", "message"),
    [
        (0, 1, 0.4, "the same random reads were measured twice and do not agree: 50,000 and then"),
        (100, 1, 2.5, "the same random writes were measured twice and do not agree: 25,000 and"),
        (0, 1, 0.6, ""),
        (0, 2, 0.4, ""),
        (40, 1, 0.4, ""),
    ],
)
def test_the_same_requests_at_another_rate_are_named(
    percent: int, depth: int, times: float, message: str
) -> None:
    results = device(read_ns=20e3, write_ns=40e3, read_rate=1e15, write_rate=1e15, lanes=4)
    assert not [*measured_twice(results)]
    (cell,) = (
        one for one in results
        if (one["step"]["kind"], one["step"]["depth"]) == ("surface", depth)
        and one["step"]["write_ratio"] == percent / 100
    )  # fmt: skip
    cell["usual_iops"] *= times
    found = [*measured_twice(results)]
    assert len(found) == bool(message)
    assert all(one.startswith(message) for one in found)
    # AND eight times as far is no figure of a device: all from the first of the two is to be redone
    assert twice_fault(results) is None
    cell["usual_iops"] *= 9 / times
    fault = twice_fault(results)
    assert (fault is None) == (depth != 1 or percent == 40)
    if fault is not None:
        assert results[fault[0]]["step"]["kind"].startswith("random_")
        assert "were measured twice and do not agree" in fault[1]


def test_the_lanes_are_the_closest_of_all() -> None:
    chance = random.Random(3)  # noqa: S311 - fixed figures, no secret
    costs = [(2**n, chance.uniform(1e-5, 1e-4), 0.0) for n in range(8)]
    cells = [(d, c, min(d, 11) / c * chance.uniform(0.7, 1.4)) for d, c, _ in costs]

    def distance(lanes: int) -> float:
        return statistics.fmean(abs(math.log(iops * c / min(d, lanes))) for d, c, iops in cells)

    best = min(range(1, 257), key=distance)
    lanes, found = closest_lanes(cells)
    assert lanes == best
    assert found == pytest.approx(distance(best))


def test_without_writes_only_reads_are_fitted() -> None:
    every = device(read_ns=50_000, write_ns=1, read_rate=1e9, write_rate=1e9, lanes=4)
    reads = [one for one in every if one["step"]["write_ratio"] == 0]
    found = {one.parameter: one.value for one in fit(reads)}
    assert set(found) == {
        "read_latency_us", "read_median_us", "read_mib_s", "parallelism", "read_parallelism",
    }  # fmt: skip
    assert found["parallelism"] == 4
    # AND what a profile needs beside it is missing, or taken from another
    values, taken, missing = complete(found, like="", profiles=None, price_per_gb=None)
    assert missing == ["write_latency_us", "write_mib_s", "flush_us", "fua_us"]
    values, taken, missing = complete(found, like="ssd-emlc", profiles=None, price_per_gb=2.0)
    assert (values["write_latency_us"], values["price_per_gb"], missing) == (37.1, 2.0, [])
    assert taken == ["write_latency_us", "write_mib_s", "flush_us", "fua_us"]


def test_time_that_does_not_grow_with_the_length_still_gives_a_profile(tmp_path: Path) -> None:
    # GIVEN a device whose requests all take 10 us whatever their length
    results = device(read_ns=10_000, write_ns=10_000, read_rate=1e18, write_rate=1e18, lanes=1)
    found = {one.parameter: one.value for one in fit(results) if one.is_in_profile}
    values, _, missing = complete(found, like="", profiles=None, price_per_gb=None)
    assert missing == []
    # THEN what is written is read again by every command
    profile = write_profile(tmp_path / "p.toml", "flat", values=values, about='a "b"\x1b[31m')
    assert profile.read_latency_us == 10.0
    assert load_profiles(tmp_path / "p.toml")["flat"] == profile


def test_emulation_has_the_lanes_of_a_profile(tmp_path: Path) -> None:
    found = {"parallelism": 6.0, "read_latency_us": 50.0, "write_latency_us": 60.0}
    values, _, _ = complete(found, like="ssd-emlc", profiles=None, price_per_gb=None)
    profile = write_profile(tmp_path / "p.toml", "six", values=values, about="six")
    assert "lanes=6" in device_spec(profile).split(",")


def test_names_of_profiles(tmp_path: Path) -> None:
    assert checked_name("", path=tmp_path / "my disk.img", device="") == "my-disk-img"
    assert checked_name("", path=None, device="ssd-emlc") == "ssd-emlc-measured"
    with pytest.raises(UsageError, match="--name 'a b'"):
        checked_name("a b", path=None, device="")


def test_a_small_scale_leaves_as_many_requests_as_say_something() -> None:
    few = Amounts(scale=1e-3).quick()
    assert [few.scaled(count) for count in (few.reads, few.sizes, few.flushes)] == [200, 200, 200]


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ({"scale": 0.0}, "--scale 0"),
        ({"fill_percent": 201}, "--fill 201"),
        ({"reads": 0}, "--reads 0"),
        ({"reads": 2 << 40}, "--reads 2199023255552: not a number"),
        ({"reads": 1 << 40, "scale": 2.0}, "--scale 2: too many requests of --reads"),
        ({"precondition": -1}, "--precondition -1"),
        ({"depths": ()}, "--depths"),
        ({"depths": (0,)}, "--depths 0"),
        ({"depths": (4, 4)}, "stands there twice"),
        ({"write_percents": (101,)}, "--write-percents 101"),
    ],
)
def test_amounts_that_cannot_be_are_rejected(amounts: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Amounts(**amounts)  # type: ignore[arg-type]
