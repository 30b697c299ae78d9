"""The base device fitted from the trace's own service times, and who uses it."""

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, succeed
from tests.simulate.placement_models import Request, write_trace
from tests.traces import json_of
from tracekit.classify import ClassifyOptions, classify
from tracekit.devices import Profile
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder

SAMPLES = Path(__file__).resolve().parents[2] / "sample-traces"
NAMES = ("browser", "gnuplot", "oltp", "sysbench", "video")
DEVICE = Profile("known", "", 110.0, 60.0, 200.0, 100.0, 900.0, 400.0, 1.0, 15.0)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TraceFolder]:
    """The sample traces, classified."""
    place, found = tmp_path_factory.mktemp("samples"), {}
    for name in NAMES:
        found[name], _ = parse([SAMPLES / name], place / name)
        classify(found[name], ClassifyOptions())
    return found


TIMES = ("insert_ns", "getrq_ns", "queue_ns")
READ = [
    *("operation", "length_bytes", "merged_into", "issue_ns", "complete_ns", "is_preflush"),
    *("device", *TIMES),
]


@cache
def busy_ns(requests: Path) -> tuple[int, int]:
    """Add up the time in which each device had something in flight, interval by interval.

    Return it with the sum of response times.
    """
    intervals: dict[str, list[tuple[int, int]]] = {}
    for row in pq.read_table(requests, columns=READ).to_pylist():
        is_flush = row["operation"] == "flush"
        is_data = row["operation"] in ("read", "write") and row["length_bytes"] > 0
        if not (is_flush or is_data) or row["merged_into"] is not None:
            continue
        began = row["issue_ns"]
        waits = row["is_preflush"] and not is_flush
        queued = next(row[name] for name in TIMES if row[name] is not None)
        if waits or (is_flush and began is None):
            began = queued if began is None else min(queued, began)
        if began is not None and row["complete_ns"] is not None:
            intervals.setdefault(row["device"], []).append((began, row["complete_ns"]))
    total = responses = 0
    for found in intervals.values():
        reached = 0
        for begin, end in sorted(found):
            total += max(end - max(begin, reached), 0)
            reached = max(reached, end)
            responses += end - begin
    return total, responses


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", ["issued", "queued"])
def test_the_base_takes_what_was_traced(
    name: str, level: str, samples: dict[str, TraceFolder]
) -> None:
    folder = samples[name]
    result = recommend(folder, RecommendOptions(level=level))
    expected_ns, _ = busy_ns(folder.table("requests"))
    assert result.base.kind == "fitted"
    assert result.base.requests == result.base.timed_requests
    assert result.base.busy_ns == expected_ns
    if level == "issued":
        # The means fit by themselves, but for a few shares of each kind.
        assert result.base.factor == pytest.approx(1, abs=0.03)
    # THEN to the rounding of prices to picoseconds the model says what was traced
    assert result.answer.base_elapsed_ns == pytest.approx(expected_ns, rel=1e-5)
    assert "The base device is the traced disk itself, busy for" in result.headline[0]


def test_with_queueing_the_mean_response_is_the_traced_one(samples: dict[str, TraceFolder]) -> None:
    folder = samples["video"]
    result = recommend(folder, RecommendOptions(queueing="open"))
    _, responses_ns = busy_ns(folder.table("requests"))
    count = sum(role.requests for role in result.roles.values())
    operations = pq.read_table(folder.table("requests"), columns=["operation"])["operation"]
    flushes = operations.to_pylist().count("flush")
    assert result.answer.base_elapsed_ns == pytest.approx(
        responses_ns / (count + flushes), rel=1e-5
    )


def served(
    device: Profile, seed: int, count: int = 4000, *, preflushes: bool = False
) -> list[Request]:
    """Requests that the device serves one by one, some of them one after the other on it.

    With preflushes forced writes have one of which no event says when it ended.
    """
    chance = random.Random(seed)  # noqa: S311 - a fixed trace, no secret
    found, now_ns, end = list[Request](), 0, 0
    for _ in range(count):
        operation = chance.choice(["read", "write", "write", "flush"])
        sectors = 0 if operation == "flush" else chance.choice([8, 16, 64, 256])
        joins = chance.random() < 0.3
        sector = end if joins else chance.randrange(1 << 20) * 512
        is_fua = operation == "write" and chance.random() < 0.2
        took_us = device.flush_us
        if operation != "flush":
            setup_us = getattr(device, f"{operation}_setup_us")
            rate = getattr(device, f"{operation}_mib_s")
            took_us = (device.sequential_setup_us if joins and end else setup_us) or 0.0
            took_us += sectors * 512 / (1 << 20) / rate * 1e6 + is_fua * device.fua_us
            took_us += is_fua * preflushes * device.flush_us
            end = sector + sectors
        done_ns = now_ns + round(took_us * 1000)
        found.append(
            Request("fs", sector, sectors, operation, is_fua, is_fua and preflushes,
                    queue_ns=now_ns, issue_ns=now_ns, complete_ns=done_ns)
        )  # fmt: skip
        now_ns = done_ns + chance.randrange(100_000)
    return found


@pytest.mark.parametrize(("slower", "preflushes"), [(1.0, False), (3.0, False), (1.0, True)])
def test_a_known_device_is_found_again(slower: float, preflushes: bool, tmp_path: Path) -> None:
    device = replace(DEVICE, read_latency_us=110.0 * slower, flush_us=900.0 * slower)
    write_trace(tmp_path, served(device, 1, preflushes=preflushes))
    found = recommend(TraceFolder(tmp_path), RecommendOptions(nvm="ssd-optane"))
    fitted, names = found.profiles[0], ("read_latency_us", "write_latency_us", "read_mib_s")
    for name in (*names, "write_mib_s", "sequential_setup_us", "flush_us", "fua_us"):
        assert getattr(fitted, name) == pytest.approx(getattr(device, name), rel=0.03), name
    assert found.base.factor == pytest.approx(1, abs=0.01)
    assert (found.base.explained_ratio or 0) > 0.999


def test_requests_in_flight_share_the_device(tmp_path: Path) -> None:
    # GIVEN pairs of requests of 100 us, issued together, of which the device serves two at once;
    # and some alone
    requests = [
        Request("fs", 8000 * (number + side), 8, "read", queue_ns=1000 * number * 1000,
                issue_ns=1000 * number * 1000, complete_ns=(1000 * number + 100) * 1000)
        for number in range(400)
        for side in range(1 + number % 2)
    ]  # fmt: skip
    write_trace(tmp_path, requests)
    result = recommend(TraceFolder(tmp_path), RecommendOptions(queueing="open"))
    # THEN it was busy for 100 us a pair, and serves two at once
    assert result.base.busy_ns == 400 * 100_000
    assert result.profiles[0].parallelism == 2
    assert result.answer.base_elapsed_ns == pytest.approx(100_000, rel=1e-5)


@pytest.mark.parametrize(
    ("timed", "reason"),
    [
        (0, "the trace has no service times"),
        (20, "20 of 100 requests have service times, and 30 are needed"),
        (40, "the completions of 60% of the requests are missing"),
    ],
)
def test_without_times_the_base_is_assumed_and_the_headline_says_so(
    timed: int, reason: str, tmp_path: Path
) -> None:
    requests = served(DEVICE, 2, 100)
    untimed = [replace(one, complete_ns=None) for one in requests[timed:]]
    write_trace(tmp_path, [*requests[:timed], *untimed])
    result = recommend(TraceFolder(tmp_path), RecommendOptions())
    assert result.base_profile == "hdd-7200"
    assert f"The base device is assumed, a hdd-7200: {reason}; choose" in result.headline[0]
    # AND so does the one of an answer by units where no role is known
    write_trace(tmp_path / "unknown", [replace(one, role="unknown") for one in untimed[40:]])
    unknown = recommend(TraceFolder(tmp_path / "unknown"), RecommendOptions())
    assert "only whole extents" in unknown.headline[0]
    assert "The base device is assumed, a hdd-7200: the trace has no" in unknown.headline[0]
    # AND a device that is asked for is no assumption
    result = recommend(TraceFolder(tmp_path), RecommendOptions(base="ssd-nvme"))
    assert (result.base.kind, result.base.sentence) == ("given", None)


def test_some_missing_completions_are_stated_and_count_as_the_mean(tmp_path: Path) -> None:
    requests = served(DEVICE, 3, 400)
    whole = recommend(TraceFolder(write_trace(tmp_path / "a", requests)), RecommendOptions())
    some = [
        replace(one, complete_ns=None) if n % 10 == 0 else one for n, one in enumerate(requests)
    ]
    part = recommend(TraceFolder(write_trace(tmp_path / "b", some)), RecommendOptions())
    assert "(completions of 10.0% of the requests are missing)" in part.headline[0]
    assert part.answer.base_elapsed_ns == pytest.approx(part.base.busy_ns / 0.9, rel=1e-5)
    assert part.answer.base_elapsed_ns == pytest.approx(whole.answer.base_elapsed_ns, rel=0.1)


def test_the_fitted_base_is_found_by_its_name(samples: dict[str, TraceFolder]) -> None:
    trace = samples["video"].path
    succeed("recommend", trace)
    advice: dict[str, Any] = json_of(trace / "recommendation.json")
    assert [profile["name"] for profile in advice["profiles"]] == ["trace", "dax-pcm"]
    # WHEN the recommendation is used by what reads it THEN all know the device
    succeed("simulate", "sensitivity", trace)
    succeed("simulate", "endurance", trace)
    words = ("--engine", "emulated", "--device", "trace", "--device", "nvm=dax-pcm")
    succeed("replay", trace, "--dry-run", "--placement", "answer", *words)
    done = invoke("verify-placement", trace, "--duration", "200ms", "--repeat", "1")
    assert "predicted" in done.stdout, done.stderr
