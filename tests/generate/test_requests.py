"""The requests that a profile becomes: against models of a few lines, and by goodness of fit."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray
from scipy import stats

from tests.generate.profiles import ARRIVAL, HEAD, READS, profile, requests
from tracekit.workload.model import mean
from tracekit.workload.reader import by_mean, find_definition, read_profile

MILLION = 1_000_000
SURE = 1e-4  # what a fixed seed must not fall below


def generator(seed: int, number: int) -> Generator:
    return Generator(PCG64(SeedSequence((seed, 0), spawn_key=(number,))))


def gaps_of(records: NDArray[np.void]) -> NDArray[np.float64]:
    """Return the ns before each request."""
    times = records["intended_ns"].astype(np.int64)
    return np.asarray(times - np.concatenate([[0], times[:-1]]), np.float64)


def test_web_server_is_the_model_number_for_number() -> None:
    # GIVEN numpy's generator, started as the kernel's are
    count, sectors = 2000, (1 << 30) // 512
    times, draws = generator(7, 0), generator(7, 1).bit_generator
    # WHEN its numbers become requests as the study says: which kind by cumulated shares, a random
    # place among all aligned ones, a sequential one behind the last of its kind
    now, last, expected = 0.0, {2: 0, 3: 0}, []
    for _ in range(count):
        now += -1e8 * math.log1p(-times.random())
        unit = (int(draws.random_raw()) >> 11) * 2.0**-53
        kind = 0 if unit < 0.65 else 1 if unit < 0.75 else 2 if unit < 0.95 else 3
        if kind < 2:
            place = (int(draws.random_raw()) * (sectors // 8) >> 64) * 8
            expected.append((now, place, 8, kind % 2))
        else:
            expected.append((now, last[kind], 128, kind % 2))
            last[kind] += 128
    # THEN these are the requests
    found = requests(read_profile(find_definition("web-server")), count, seed=7)
    for name, column in zip(("sector", "length_sectors", "operation"), (1, 2, 3), strict=True):
        assert found[name].tolist() == [row[column] for row in expected]
    assert np.abs(found["intended_ns"].astype(float) - [row[0] for row in expected]).max() < 2
    assert found["request_id"].tolist() == list(range(count))


@pytest.mark.parametrize("name", ["web-server", "paging", "log-structured"])
def test_a_million_requests_fit_the_profile(name: str) -> None:
    of = read_profile(find_definition(name))
    (stream,) = of.streams
    found = requests(of, MILLION)
    # THEN the counts by operation and size are those of the shares (chi-square)
    pairs = {(("read", "write").index(one.operation), one.most_bytes // 512): 0.0
             for one in stream.requests}  # fmt: skip
    for one in stream.requests:
        pairs[["read", "write"].index(one.operation), one.most_bytes // 512] += one.share
    counts = [
        int(((found["operation"] == code) & (found["length_sectors"] == size)).sum())
        for code, size in pairs
    ]
    assert sum(counts) == MILLION
    assert stats.chisquare(counts, [share * MILLION for share in pairs.values()]).pvalue > SURE
    # AND the gaps are exponential (Kolmogorov-Smirnov), one not knowing of the next
    gaps = gaps_of(found)
    assert stats.kstest(gaps, "expon", args=(0, stream.arrival.gap.scale)).pvalue > SURE
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.005


GAPS = {
    "gamma": ("shape = 0.4", stats.gamma(0.4, scale=1e9 / 0.4)),
    "weibull": ("shape = 0.6", stats.weibull_min(0.6, scale=1e9 / math.gamma(1 + 1 / 0.6))),
    "lognormal": ("sigma = 1.5", stats.lognorm(1.5, scale=1e9 * math.exp(-1.125))),
}


# A profile with correlated gamma gaps is refused: test_profile.py.
@pytest.mark.parametrize(
    ("kind", "correlation"), [*((kind, 0) for kind in GAPS), ("weibull", 0.6), ("lognormal", 0.6)]
)
def test_gaps_have_their_distribution(tmp_path: Path, kind: str, correlation: float) -> None:
    more, expected = GAPS[kind]
    # GIVEN gaps of a second on average, so that whole nanoseconds do not matter
    slow = ARRIVAL.replace("1ms", "1s")
    text = slow.replace('"exponential"', f'"{kind}"\n{more}\ncorrelation = {correlation}')
    found = requests(profile(tmp_path, HEAD + text + READS), MILLION)
    gaps = gaps_of(found)
    if correlation:
        # THEN normal scores of neighbouring gaps are as correlated as asked
        scores = stats.norm.ppf(expected.cdf(np.maximum(gaps, 1)))
        assert np.corrcoef(scores[1:], scores[:-1])[0, 1] == pytest.approx(correlation, abs=0.01)
        gaps = gaps[::37]  # no neighbours: the test is of independent numbers
    assert stats.kstest(gaps, expected.cdf).pvalue > SURE


def test_measured_gaps_follow_their_quantiles(tmp_path: Path) -> None:
    text = '[arrival]\nprocess = "measured"\nshares = [0, 0.5, 1]\nvalues_us = [1, 10, 1000]\n'
    of = profile(tmp_path, HEAD + text + READS)
    gaps = gaps_of(requests(of, MILLION))
    # GIVEN half of them log-uniform in 1 to 10 us, the others in 10 us to 1 ms
    assert [round(np.quantile(gaps, q) / 1e3, 1) for q in (0.25, 0.5)] == [3.2, 10.0]
    assert np.quantile(gaps, 0.75) / 1e3 == pytest.approx(100, rel=0.02)
    by_hand = 0.5 * 9 / math.log(10) + 0.5 * 990 / math.log(100)
    assert gaps.mean() / 1e3 == pytest.approx(by_hand, rel=0.01)
    assert mean(of.streams[0].arrival.gap) / 1e3 == pytest.approx(by_hand)


def test_phases_change_the_rate(tmp_path: Path) -> None:
    phases = "".join(
        f'[[phase]]\nduration = "{duration}"\nrate = {rate}\n'
        for duration, rate in (("2s", 1), ("1s", 0), ("1s", 3))
    )
    of = profile(tmp_path, HEAD + ARRIVAL + phases + READS)
    seconds = requests(of, 100_000)["intended_ns"].astype(np.int64) // 10**9
    # THEN of a cycle of 4 s with 5,000 requests the seconds have 1,000, 1,000, none and 3,000
    per_second = np.bincount(seconds % 4) / (seconds[-1] + 1) * 4
    assert per_second.tolist() == pytest.approx([1000, 1000, 0, 3000], rel=0.02)
    # AND gaps within a phase are those of its rate
    third = np.flatnonzero((seconds % 4 == 3)[1:] & (seconds % 4 == 3)[:-1])
    gaps = np.diff(requests(of, 100_000)["intended_ns"].astype(np.int64))[third]
    within = gaps[gaps < 10**9]
    assert within.mean() == pytest.approx(1e6 / 3, rel=0.02)


def test_bursts_have_their_length_and_pause(tmp_path: Path) -> None:
    text = ARRIVAL.replace('"exponential"', '"constant"').replace("1ms", "1us")
    text += 'burst = { requests = { values = [2, 6], weights = [1, 1] }, off = "constant",'
    found = requests(profile(tmp_path, HEAD + text + ' mean = "1s" }\n' + READS), 40_000)
    gaps = np.diff(found["intended_ns"].astype(np.int64))
    starts = np.flatnonzero(gaps >= 10**9) + 1
    assert set(np.diff(starts).tolist()) == {2, 6}
    assert (np.diff(starts) == 2).mean() == pytest.approx(0.5, abs=0.03)
    assert set(np.unique(gaps).tolist()) == {1000, 10**9}


def test_sizes_have_their_distribution(tmp_path: Path) -> None:
    size = '{ distribution = "gamma", mean = "256KiB", shape = 2, least = "512", most = "16MiB" }'
    found = requests(profile(tmp_path, HEAD + ARRIVAL + READS.replace('"4KiB"', size)), MILLION)
    expected = stats.gamma(2, scale=(256 << 10) / 2 / 512)
    edges = expected.ppf(np.linspace(0, 1, 41)[1:-1]).round() + 0.5
    counts = np.histogram(found["length_sectors"], np.concatenate([[0], edges, [1 << 40]]))[0]
    shares = np.diff(expected.cdf(np.concatenate([[0], edges, [np.inf]])))
    assert stats.chisquare(counts, shares * MILLION).pvalue > SURE
    assert by_mean("gamma", 3.0, shape=2.0).scale == 1.5


def test_zipf_ranks_fit_and_hot_blocks_are_shared(tmp_path: Path) -> None:
    where = 'locality = { kind = "zipf", exponent = 0.9, block = "1MiB" }\n'
    found = requests(profile(tmp_path, HEAD + ARRIVAL + READS + where), MILLION)
    # THEN the blocks' counts, sorted, are Zipf's of 64 blocks, each block once
    blocks = np.bincount(found["sector"].astype(np.int64) // 2048, minlength=64)
    ranks = np.arange(1, 65.0) ** -0.9
    expected = ranks / ranks.sum() * MILLION
    order = np.argsort(-blocks, kind="stable")
    assert stats.chisquare(blocks[order], expected).pvalue > SURE
    # AND the most popular ones are not the first ones
    assert order[:8].tolist() != list(range(8))
    # AND within a block all places are as likely
    within = np.bincount(found["sector"].astype(np.int64) % 2048 // 8, minlength=256)
    assert stats.chisquare(within).pvalue > SURE


def test_hot_blocks_get_their_share(tmp_path: Path) -> None:
    where = 'locality = { kind = "hot", blocks = 0.25, requests = 0.8, block = "1MiB" }\n'
    found = requests(profile(tmp_path, HEAD + ARRIVAL + READS + where), 200_000)
    blocks = np.sort(np.bincount(found["sector"].astype(np.int64) // 2048, minlength=64))[::-1]
    assert blocks[:16].sum() / 200_000 == pytest.approx(0.8, abs=0.005)
    assert stats.chisquare(blocks[:16]).pvalue > SURE
    assert stats.chisquare(blocks[16:]).pvalue > SURE


def test_places_are_used_again_by_their_recency(tmp_path: Path) -> None:
    where = "reuse = { share = 0.6, distance = { values = [1, 4, 50], weights = [1, 1, 1] } }\n"
    found = requests(profile(tmp_path, HEAD + ARRIVAL + READS + where), 20_000)
    # GIVEN a stack of the places by their last use, kept by hand
    stack: list[int] = []
    backs = []
    for sector in found["sector"].tolist():
        backs.append(stack[::-1].index(sector) + 1 if sector in stack else 0)
        if sector in stack:
            stack.remove(sector)
        stack.append(sector)
    counts = np.bincount(backs[100:])
    # THEN only these distances occur, each in a fifth of the requests, all others are new places
    assert np.flatnonzero(counts).tolist() == [0, 1, 4, 50]
    assert (counts[[1, 4, 50]] / len(backs[100:])).tolist() == pytest.approx([0.2] * 3, abs=0.01)


def test_runs_go_on_where_they_ended(tmp_path: Path) -> None:
    sequential = READS.replace(
        '"random"', '"sequential"\nrun = { values = [1, 5], weights = [1, 3] }'
    )
    found = requests(profile(tmp_path, HEAD + ARRIVAL + sequential), 50_000)
    jumps = np.flatnonzero(np.diff(found["sector"].astype(np.int64)) != 8) + 1
    lengths = np.bincount(np.diff(jumps), minlength=6)
    assert lengths[1] / lengths.sum() == pytest.approx(0.25, abs=0.02)
    assert lengths[[1, 5]].sum() > 0.999 * lengths.sum()  # a run may begin behind another by chance


def test_an_endless_run_starts_again_at_the_start(tmp_path: Path) -> None:
    sequential = READS.replace('"random"', '"sequential"').replace("4KiB", "24MiB")
    found = requests(profile(tmp_path, HEAD + ARRIVAL + sequential), 5)
    assert found["sector"].tolist() == [0, 49152, 0, 49152, 0]


def test_requests_do_not_depend_on_how_they_are_asked_for(tmp_path: Path) -> None:
    text = """target_size = "64MiB"
[[stream]]
arrival = { process = "weibull", shape = 0.7, mean = "1ms", correlation = 0.2 }
[[stream.request]]
share = 0.7
operation = "read"
access = "random"
size = { values = ["4KiB", "8KiB"], weights = [1, 2] }
reuse = { share = 0.5, distance = { distribution = "lognormal", mean = 30, sigma = 2 } }
[[stream.request]]
share = 0.3
operation = "write"
access = "sequential"
run = { distribution = "gamma", mean = 4, shape = 2 }
size = "4KiB"
[[stream]]
arrival = { process = "gamma", shape = 0.5, mean = "3ms" }
request = [{ share = 0.5, operation = "flush" }, { share = 0.5, operation = "write", access =
"random", size = "4KiB", locality = { kind = "zipf", exponent = 1, block = "64KiB" } }]
"""
    of = profile(tmp_path, text.replace("access =\n", "access = "))
    whole = requests(of, 50_000)
    for step in (1, 1000, 50_000):
        some = requests(of, 20_000, step=step)
        assert some.tobytes() == whole[:20_000].tobytes()
    assert requests(of, 100, seed=1).tobytes() != whole[:100].tobytes()
    # AND both streams are there, in order of time, a quarter of the requests from the slower one
    assert np.bincount(whole["target"])[1] / 50_000 == pytest.approx(0.25, abs=0.01)
    assert all(a <= b for a, b in pairwise(whole["intended_ns"].tolist()))
