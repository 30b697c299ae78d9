"""The tiering models: published values, and the models as their definitions read."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulate.tiering_models import STUDY, Latency, Traffic, algorithm_1, dynamic
from tests.simulate.traces import DISK, FLASH, PCM
from tracekit._native.tiering import Migration, Tiering, Windows
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.model import tier_mixes

LATENCY = st.tuples(st.sampled_from([1.0, 5.0, 6.7, 108.0]), st.sampled_from([2.0, 37.1, 128.3]))
AMOUNT = st.tuples(st.integers(0, 4), st.integers(0, 4))
EXTENTS = st.lists(AMOUNT, min_size=1, max_size=14)


# With more than four tiers a mix is not looked up in sums.
TIER_COUNTS = pytest.mark.parametrize("count", [2, 3, 4, 5, 8])


@st.composite
def tier_sets(draw: st.DrawFn, count: int) -> list[Latency]:
    """Draw so many tiers; the last is not always slower in both directions."""
    faster = draw(st.lists(LATENCY, min_size=count - 1, max_size=count - 1))
    return [*faster, draw(st.sampled_from([(5000.0, 5000.0), (100.0, 50.0)]))]


def native(tiers: Sequence[Latency], traffic: Traffic) -> Tiering:
    amounts = np.array([traffic[e] for e in range(len(traffic))], np.int64).reshape(-1, 2)
    return Tiering(np.array(tiers), amounts[:, 0], writes=amounts[:, 1])


@TIER_COUNTS
@settings(deadline=None, max_examples=80)
@given(extents=EXTENTS, data=st.data())
def test_a_mix_is_algorithm_1(
    count: int, extents: list[tuple[int, int]], data: st.DataObject
) -> None:
    # GIVEN some traffic, tiers and capacities
    tiers = data.draw(tier_sets(count), label="tiers")
    traffic = dict(enumerate(extents))
    room = st.integers(0, len(extents) + 1)
    mixes = data.draw(
        st.lists(st.tuples(*[room] * (len(tiers) - 1)), min_size=1, max_size=6), label="mixes"
    )
    with native(tiers, traffic) as model:
        shares = model.mixes(np.array(mixes, np.uint32))
        placed = [model.place(np.array(mix, np.uint32)).tolist() for mix in mixes]
    # THEN each extent is where Algorithm 1 puts it, and each tier has the traffic of its extents
    for mix, found, tier_of in zip(mixes, shares, placed, strict=True):
        expected, _ = algorithm_1(tiers, traffic, mix)
        assert tier_of == [expected[e] for e in range(len(extents))]
        for tier, share in enumerate(found.tolist()):
            own = [traffic[e] for e in traffic if expected[e] == tier]
            assert share == (len(own), sum(r for r, _ in own), sum(w for _, w in own))


@st.composite
def window_sets(draw: st.DrawFn, extents: int) -> list[Traffic]:
    window = st.dictionaries(st.integers(0, extents - 1), AMOUNT, max_size=extents)
    drawn = draw(st.lists(window, min_size=1, max_size=6))
    return [dict(sorted(one.items())) for one in drawn]


def csr(windows: list[Traffic]) -> Windows:
    amounts = [amount for window in windows for amount in window.values()]
    flat = np.array(amounts, np.int64).reshape(-1, 2)
    return Windows(
        first_item=np.cumsum([0, *map(len, windows)]).astype(np.uint64),
        extent=np.array([e for window in windows for e in window], np.uint32),
        reads=flat[:, 0],
        writes=flat[:, 1],
    )


@TIER_COUNTS
@settings(deadline=None, max_examples=100)
@given(extents=st.integers(1, 9), data=st.data())
def test_migration_is_the_plain_simulator(count: int, extents: int, data: st.DataObject) -> None:
    # GIVEN windows of traffic, capacities that hold all extents, and moves for each window
    tiers = data.draw(tier_sets(count), label="tiers")
    windows = data.draw(window_sets(extents), label="windows")
    faster = data.draw(
        st.lists(st.integers(0, 4), min_size=len(tiers) - 1, max_size=len(tiers) - 1)
    )
    spare = data.draw(st.integers(0, 3), label="spare")
    places = [*faster, max(0, extents + spare - sum(faster))]
    moves = data.draw(st.integers(0, 8), label="moves")
    with Migration(
        np.array(tiers), csr(windows), extent_count=extents, window_moves=moves
    ) as model:
        found = model.windows(np.array(places, np.uint32))
        totals = model.totals(np.array([places, places], np.uint32))
    # THEN every window served and moved the same, and the totals are the sums
    expected = dynamic(tiers, windows, extents, mix=(places, moves))
    assert found.tolist() == expected
    assert totals.tolist() == [np.sum(expected, axis=0).tolist()] * 2


def test_a_hot_extent_is_promoted_and_a_cold_one_makes_room() -> None:
    # GIVEN two extents, one of them on flash and the other read, and two moves a window
    windows = csr([{0: (10, 0)}, {0: (10, 0)}])
    with Migration(
        np.array([(108.0, 37.1), (5000.0, 5000.0)]), windows, extent_count=2, window_moves=2
    ) as model:
        # WHEN the slowest tier is filled first, THEN extent 0 is on disk, then on flash
        records = model.windows(np.array([1, 1], np.uint32)).tolist()
    # (of each tier: traffic, then what was promoted and demoted out of it and into it)
    first = [0, 0, 0, 1, 1, 0, 10, 0, 1, 0, 0, 1, 1, 1]
    assert records == [first, [10, *[0] * 13]]


@pytest.mark.parametrize("latency", [float("nan"), float("inf"), -1.0])
def test_impossible_latencies_are_rejected(latency: float) -> None:
    with pytest.raises(TracekitError, match="Invalid argument"):
        native([(latency, 1.0), (5000.0, 5000.0)], {0: (1, 1)})


def test_extents_that_fit_nowhere_and_traffic_beyond_64_bits_are_rejected() -> None:
    one = csr([{0: (1, 0)}])
    with (
        Migration(np.array(STUDY), one, extent_count=3, window_moves=1) as model,
        pytest.raises(TracekitError, match="Invalid argument"),
    ):
        model.totals(np.array([[1, 0, 1]], np.uint32))
    with pytest.raises(InputError, match="64 bits"):
        native(STUDY, {0: (1 << 62, 1 << 62), 1: (1, 0)})


TIERS = [PCM, FLASH, DISK]


def evaluate(
    traffic: list[tuple[int, int]], step_percent: int
) -> tuple[list[list[int]], tier_mixes.Outcome]:
    amounts = np.array(traffic, np.int64)
    mixes = tier_mixes.all_mixes(
        3, step_percent=step_percent, extents=len(traffic), rounding="floor"
    )
    shares = tier_mixes.static_shares(TIERS, amounts[:, 0], writes=amounts[:, 1], mixes=mixes)
    return mixes.shares.tolist(), tier_mixes.static_outcome(TIERS, mixes, shares=shares)


@pytest.mark.parametrize(
    ("read_tib", "written_tib", "all_flash", "all_pcm"),
    [
        (252.7, 45.0, 1713.2, 1661.3),  # retail
        (68.3, 17.5, 1781.8, 1322.7),  # bank
        (144.6, 14.5, 1641.4, 2343.1),  # telecommunication
    ],
)
def test_one_kind_of_device_gives_what_was_published(
    read_tib: float, written_tib: float, all_flash: float, all_pcm: float
) -> None:
    # GIVEN the traffic of a published workload, in bytes
    traffic = [(round(read_tib * 2**40), round(written_tib * 2**40))]
    mixes, found = evaluate(traffic, 50)
    by_mix = {tuple(mix): value for mix, value in zip(mixes, found.iops_per_price, strict=True)}
    # THEN the IOPS for the price are those of the study
    assert by_mix[0, 2, 0] == pytest.approx(all_flash, abs=0.1)
    assert by_mix[2, 0, 0] == pytest.approx(all_pcm, abs=0.1)
    assert by_mix[0, 0, 2] == pytest.approx(200.0, abs=0.1)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=23).filter(
        lambda traffic: any(reads + writes for reads, writes in traffic)
    )
)
def test_every_mix_is_the_nine_steps_one_by_one(traffic: list[tuple[int, int]]) -> None:
    mixes, found = evaluate(traffic, 10)
    assert len(mixes) == 66
    by_extent = dict(enumerate(traffic))
    for number, (pcm, flash, disk) in enumerate(mixes):
        # Steps 1 to 4: place each extent; 5 and 6: mean latency; 7 to 9: IOPS for the price.
        places = [len(traffic) * pcm // 10, len(traffic) * flash // 10]
        tier_of, _ = algorithm_1(STUDY, by_extent, places)
        time_us = sum(
            STUDY[tier_of[e]][0] * reads + STUDY[tier_of[e]][1] * writes
            for e, (reads, writes) in by_extent.items()
        )
        latency_us = time_us / sum(reads + writes for reads, writes in traffic)
        price = (24 * pcm + 6 * flash + disk) / 10
        assert math.isclose(found.latency_us[number], latency_us, rel_tol=1e-12)
        assert math.isclose(found.iops_per_price[number], 1e6 / latency_us / price, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("count", "step_percent", "mixes"), [(2, 4, 26), (4, 10, 286), (5, 20, 126)]
)
def test_mixes_of_n_tiers_are_the_nine_steps(count: int, step_percent: int, mixes: int) -> None:
    # GIVEN 240 extents of skewed traffic, and 2, 4 or 5 tiers (3 are above)
    chance = np.random.default_rng(count)
    reads, writes = chance.zipf(1.6, (2, 240)).clip(max=10**6)
    more = [
        tier_mixes.Tier("ram", 0.1, 0.1, 90.0),
        tier_mixes.Tier("optane", 10.0, 12.0, 40.0),
        PCM,
        FLASH,
    ]
    tiers = [*more[len(more) + 1 - count :], DISK]
    asked = tier_mixes.all_mixes(count, step_percent=step_percent, extents=240, rounding="floor")
    shares = tier_mixes.static_shares(tiers, reads, writes=writes, mixes=asked)
    found = tier_mixes.static_outcome(tiers, asked, shares=shares)
    times = [(tier.read_latency_us, tier.write_latency_us) for tier in tiers]
    traffic = dict(enumerate(zip(reads.tolist(), writes.tolist(), strict=True)))
    assert len(asked.shares) == mixes
    for number, percent in enumerate(asked.shares.tolist()):
        places = [240 * share // asked.parts for share in percent[:-1]]
        tier_of, _ = algorithm_1(times, traffic, places)
        time_us = sum(
            times[tier_of[e]][0] * read + times[tier_of[e]][1] * written
            for e, (read, written) in traffic.items()
        )
        price = (
            sum(share * tier.price_per_gb for share, tier in zip(percent, tiers, strict=True))
            / asked.parts
        )
        iops = 1e6 * (reads.sum() + writes.sum()) / time_us
        assert math.isclose(found.iops_per_price[number], iops / price, rel_tol=1e-12)


def test_steps_of_one_percent_make_5151_mixes_of_three_tiers() -> None:
    mixes = tier_mixes.all_mixes(3, step_percent=1, extents=354, rounding="floor")
    assert len(mixes.shares) == 5151
    assert len(np.unique(mixes.shares, axis=0)) == 5151
    assert (mixes.shares.sum(axis=1) == 100).all()
    assert (mixes.places.sum(axis=1) == 354).all()


def test_two_and_four_tiers() -> None:
    assert tier_mixes.all_mixes(
        2, step_percent=50, extents=9, rounding="floor"
    ).shares.tolist() == [[0, 2], [1, 1], [2, 0]]
    assert len(tier_mixes.all_mixes(4, step_percent=10, extents=9, rounding="floor").shares) == 286


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("floor", [[2, 2, 3], [0, 6, 1]]),
        ("nearest", [[2, 3, 2], [0, 7, 0]]),
        ("ceiling", [[3, 3, 1], [1, 6, 0]]),
        ("largest-remainder", [[2, 3, 2], [0, 7, 0]]),
    ],
)
def test_rounding(rounding: str, expected: list[list[int]]) -> None:
    # GIVEN seven extents, 2.31, 2.59 and 2.1 of them, then 0.07, 6.93 and none
    shares = np.array([[33, 37, 30], [1, 99, 0]])
    assert tier_mixes.places_of(shares, 100, extents=7, rounding=rounding).tolist() == expected


@pytest.mark.parametrize("extents", [1, 7, 22, 354])
def test_the_largest_remainder_is_next_to_each_share_and_buys_nothing_else(extents: int) -> None:
    mixes = tier_mixes.all_mixes(3, step_percent=4, extents=extents, rounding="largest-remainder")
    for shares, places in zip(mixes.shares.tolist(), mixes.places.tolist(), strict=True):
        # THEN extents go, one by one, to the tier that has least of its share
        exact = [share * extents / mixes.parts for share in shares]
        expected = [int(amount) for amount in exact]
        while sum(expected) < extents:
            parts = [round(amount - got, 9) for amount, got in zip(exact, expected, strict=True)]
            expected[parts.index(max(parts))] += 1
        assert places == expected
        assert all(share or not place for share, place in zip(shares, places, strict=True))
    assert (mixes.bought() == mixes.places / extents).all()
    # AND a mix with the first tier has an extent of each of its tiers
    is_held = [
        all(place > 0 for share, place in zip(shares, places, strict=True) if share)
        for shares, places in zip(mixes.shares.tolist(), mixes.places.tolist(), strict=True)
    ]
    values = np.arange(len(is_held), dtype=float)
    for first in (True, False):
        known = [
            at for at, held in enumerate(is_held) if held and (mixes.shares[at, 0] > 0) == first
        ]
        found = mixes.best(values, first=first)
        assert found in known
        assert mixes.places[found].tolist() == mixes.places[known[-1]].tolist()


def test_of_mixes_that_are_the_same_extents_the_nearest_shares_are_named() -> None:
    mixes = tier_mixes.all_mixes(2, step_percent=10, extents=2, rounding="largest-remainder")
    # GIVEN 30 to 70 % are one extent of each tier, and the value is by extents
    values = np.where(mixes.places[:, 0] == 1, 5.0, 1.0)
    assert mixes.shares[mixes.best(values)].tolist() == [5, 5]
    study = tier_mixes.all_mixes(2, step_percent=10, extents=2, rounding="floor")
    assert study.best(np.where(study.places[:, 0] == 1, 5.0, 1.0)) == 5
    assert study.best(np.ones(11), first=True) == 1


def test_ties_of_migration_by_hand() -> None:
    # GIVEN three extents on disk, of which 1 and 2 are read alike, and one place on flash
    windows = csr([{1: (5, 0), 2: (5, 0)}, {0: (1, 0), 1: (10, 0), 2: (100, 0)}])
    tiers = np.array([(108.0, 37.1), (5000.0, 5000.0)])
    with Migration(tiers, windows, extent_count=3, window_moves=1) as model:
        first, second = model.windows(np.array([1, 3], np.uint32))[:, :8].tolist()
    # THEN one is promoted, the lower of both: flash serves its reads of the next window
    assert (first[3], second[0], second[6]) == (1, 10, 101)


def test_no_rounding_needs_more_than_there_is() -> None:
    shares = np.array([[50, 50, 0], [100, 0, 0]])
    assert tier_mixes.places_of(shares, 100, extents=1, rounding="ceiling").tolist() == [
        [1, 0, 0],
        [1, 0, 0],
    ]


def test_too_many_mixes_are_rejected() -> None:
    with pytest.raises(UsageError, match="5 tiers in steps of 1% make 4,598,126 mixes"):
        tier_mixes.all_mixes(5, step_percent=1, extents=10, rounding="floor")
