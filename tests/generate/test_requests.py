"""The requests of a profile: against models of a few lines, and by goodness of fit."""

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray
from scipy import stats

from tests.generate.profiles import ARRIVAL, HEAD, READS, profile, requests
from tests.traces import recencies
from tracekit._native.workload import RUN, Territory
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
        for duration, rate in (("2s", "[1, 1]"), ("1s", 0), ("1s", 3))
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
    backs = recencies(found["sector"].tolist())
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


LARGE = HEAD.replace("64MiB", "4GiB")


def kind(begins: str, pages: str, *, more: str = "", size: str = "4KiB", then: str = "") -> str:
    """Return a kind of reads that follow."""
    return (
        f'[[request]]\nshare = SHARE\noperation = "read"\naccess = "following"\n'
        f'begins = "{begins}"\npages = "{pages}"\nsize = "{size}"\n{more}\n'
        + (f"then = {then}\n" if then else "")
    )


def made(folder: Path, *kinds: str, count: int, head: str = LARGE) -> NDArray[np.void]:
    """Return requests of kinds with equal shares."""
    text = head + ARRIVAL + "".join(kinds).replace("SHARE", str(1 / len(kinds)))
    return requests(profile(folder, text), count)


def test_kinds_come_behind_each_other_as_often_as_dealt(tmp_path: Path) -> None:
    sizes = ("4KiB", "8KiB", "12KiB")
    then = ("[0, 3, 1]", "[4, 0, 0]", "[1, 0, 9]")
    kinds = [
        kind("elsewhere", "new", size=size, then=behind)
        for size, behind in zip(sizes, then, strict=True)
    ]
    found = made(tmp_path, *kinds, count=4_001)["length_sectors"] // 8 - 1
    pairs = Counter(pairwise(found.tolist()))
    # THEN what never comes behind a kind does not, and the others come in proportion, but for the
    # cards that are not dealt yet
    assert set(pairs) == {(0, 1), (0, 2), (1, 0), (2, 0), (2, 2)}
    behind_0 = pairs[0, 1] + pairs[0, 2]
    assert abs(pairs[0, 1] - 3 / 4 * behind_0) <= 1
    behind_2 = pairs[2, 0] + pairs[2, 2]
    assert abs(pairs[2, 2] - 9 / 10 * behind_2) <= 1


def test_what_goes_on_does_and_what_resumes_does(tmp_path: Path) -> None:
    # GIVEN runs of a jump and two requests that go on, then one that resumes where the run before
    # ended, on a target with much room
    found = made(
        tmp_path,
        kind("elsewhere", "new", size="4KiB", then="[0, 1, 0, 0]"),
        kind("on", "new", size="8KiB", then="[0, 0, 1, 0]"),
        kind("on", "new", size="16KiB", then="[0, 0, 0, 1]"),
        kind("resumed", "new", size="32KiB", then="[1, 0, 0, 0]"),
        count=4_000,
    )
    start, sectors = found["sector"].astype(np.int64), found["length_sectors"].astype(np.int64)
    begins = dict(zip((8, 16, 32, 64), ("elsewhere", "on", "on", "resumed"), strict=True))
    last = before = -1
    told: Counter[tuple[str, bool]] = Counter()
    for sector, length in zip(start.tolist(), sectors.tolist(), strict=True):
        how = "on" if sector == last else "resumed" if sector == before else "elsewhere"
        told[begins[length], how == begins[length]] += 1
        if how != "on":
            before = last
        last = sector + length
    # THEN all do as they say, but for the very first ones, and what found the pages used
    assert sum(number for (_, is_so), number in told.items() if not is_so) <= 40
    # AND no page was used twice
    pages = np.concatenate([np.arange(s, s + n, 8) for s, n in zip(start, sectors, strict=True)])
    assert len(set(pages.tolist())) == len(pages)


def test_used_pages_lie_as_far_back_as_said(tmp_path: Path) -> None:
    new = kind("elsewhere", "new", then="[1, 1]")
    used = kind("elsewhere", "used", more="distance = { values = [3, 50] }", then="[1, 1]")
    used = used.replace("[3, 50]", "[3, 50], weights = [1, 1]")
    found = made(tmp_path, new, used, count=10_000)
    backs = Counter(recencies((found["sector"] // 8).tolist()))
    # THEN every second page is new, the others are the 3rd or the 50th last one, or nearest to it
    # while there are not so many
    assert backs[0] == pytest.approx(5000, abs=60)
    assert backs[3] == pytest.approx(2500, rel=0.05)
    assert backs[50] == pytest.approx(2500, rel=0.08)
    assert sum(backs[back] for back in (0, 3, 50)) > 9_900


def test_a_used_place_holds_the_request_and_lets_its_run_go_on(tmp_path: Path) -> None:
    # GIVEN new runs of three pages, and used ones of two pages that go on with a new one
    found = made(
        tmp_path,
        kind("elsewhere", "new", size="12KiB", then="[0, 1, 0]"),
        kind(
            "elsewhere", "used", size="8KiB", more='align = "4KiB"\ndistance = 40', then="[0, 0, 1]"
        ),
        kind("on", "new", size="4KiB", then="[1, 0, 0]"),
        count=3_000,
    )
    used: set[int] = set()
    right = 0
    for sector, length in zip(found["sector"].tolist(), found["length_sectors"].tolist(),
                              strict=True):  # fmt: skip
        pages = set(range(sector // 8, (sector + length) // 8))
        if len(pages) == 2:
            right += pages <= used and max(pages) + 1 not in used
        used |= pages
    # THEN nearly all are the last two pages of a run
    assert right > 980


def test_a_circle_goes_round_whatever_lies_between(tmp_path: Path) -> None:
    circle = """[[request]]
share = 0.75
operation = "write"
access = "circular"
size = { values = ["4KiB", "8KiB"], weights = [1, 1] }
circle = { start = "1MiB", size = "130KiB" }
[[request]]
share = 0.25
operation = "read"
access = "random"
size = "4KiB"
"""
    found = requests(profile(tmp_path, HEAD + ARRIVAL + circle), 4_000)
    found = found[found["operation"] == 1]
    expected, at = [], 2048
    for sectors in found["length_sectors"].tolist():
        at = 2048 if at + sectors > 2048 + 260 else at
        expected.append(at)
        at += sectors
    assert found["sector"].tolist() == expected


def test_streams_of_one_region_share_the_pages_they_used(tmp_path: Path) -> None:
    stream = """[[stream]]
arrival = { process = "constant", mean = "1ms" }
[[stream.request]]
share = 1
operation = "read"
access = "following"
begins = "elsewhere"
size = "4KiB"
"""
    text = HEAD + stream + 'pages = "new"\n' + stream + 'pages = "used"\ndistance = 1\n'
    found = requests(profile(tmp_path, text), 1000)
    # THEN the second stream, which uses the last page again, goes where the first one went
    assert found["target"][:4].tolist() == [0, 1, 0, 1]
    assert found["sector"][0::2].tolist() == found["sector"][1::2].tolist()
    # AND no page is new twice
    assert len(set(found["sector"].tolist())) == 500


@pytest.mark.parametrize("sectors", [1, 3, 8, 13])
def test_new_pages_begin_at_multiples_of_align(tmp_path: Path, sectors: int) -> None:
    size = f"{sectors * 5120}"
    new = kind("elsewhere", "new", size=size, more=f'align = "{sectors * 512}"')
    starts = made(tmp_path, new, count=500)["sector"]
    assert not (starts % np.lcm(sectors, 8 if 8 % sectors == 0 else 1)).any()


def test_a_full_region_is_used_anyhow(tmp_path: Path) -> None:
    # GIVEN more new pages than the target has
    found = made(tmp_path, kind("elsewhere", "new"), count=400,
                 head=HEAD.replace("64MiB", "1MiB"))  # fmt: skip
    pages = (found["sector"] // 8).tolist()
    # THEN all are used before any is used again
    assert len(set(pages[:256])) == 256
    assert max(pages) < 256


def used(stack: list[Any], place: Any) -> int:
    """Return how far back a place was used by a stack kept by hand, 0: never; and use it."""
    back = stack[::-1].index(place) + 1 if place in stack else 0
    if back:
        stack.remove(place)
    stack.append(place)
    return back


def test_what_requests_find_is_found_in_stacks_kept_by_hand() -> None:
    random = np.random.default_rng(8)
    runs = np.zeros(2_000, np.dtype(RUN))
    runs["first_sector"] = random.zipf(1.3, 2_000) % 3_000
    runs["sectors"] = random.choice([1, 8, 39], 2_000)
    runs["is_write"] = random.integers(0, 2, 2_000)
    with Territory(1 << 12) as territory:
        parts = [territory.see(part) for part in np.split(runs, [1, 700])]
    pages: list[int] = []
    starts: list[tuple[int, int]] = []
    uses: Counter[tuple[int, int]] = Counter()
    repeats: dict[tuple[int, int], tuple[int, int]] = {}
    found = np.concatenate(parts).tolist()
    for (first, sectors, is_write), (back, often, again, row) in zip(
        runs.tolist(), found, strict=True
    ):
        touched = range(first // 8, (first + sectors - 1) // 8 + 1)
        # The first page that it begins, or the only one.
        begun = next((page for page in touched if page * 8 >= first), touched[0])
        before = pages.copy()
        assert (back, often) == (used(before, begun), uses[begun, is_write])
        for page in touched:
            used(pages, page)
            uses[page, is_write] += 1
        request = (first, is_write)
        earlier = used(starts, request)
        size, count = repeats.get(request, (0, 0))
        assert (again, row) == ((earlier, count) if size == sectors else (0, 0))
        repeats[request] = (sectors, count + 1 if size == sectors else 1)
