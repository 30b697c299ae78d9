"""The native tiering models beside the same models as their definitions read."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulate.tiering_models import STUDY, Latency, Traffic, algorithm_1, dynamic
from tracekit._native.tiering import Migration, Tiering, Windows
from tracekit.errors import InputError, TracekitError

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
def test_any_mix_equals_algorithm_1(
    count: int, extents: list[tuple[int, int]], data: st.DataObject
) -> None:
    # GIVEN some traffic, tiers and capacities
    tiers = data.draw(tier_sets(count), label="tiers")
    traffic = dict(enumerate(extents))
    room = st.integers(0, len(extents) + 1)
    mixes = data.draw(
        st.lists(st.tuples(*[room] * (len(tiers) - 1)), min_size=1, max_size=6), label="mixes"
    )
    # WHEN the native model places them
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
def test_migration_equals_the_plain_simulator(
    count: int, extents: int, data: st.DataObject
) -> None:
    # GIVEN windows of traffic, capacities that hold all extents, and moves for each window
    tiers = data.draw(tier_sets(count), label="tiers")
    windows = data.draw(window_sets(extents), label="windows")
    faster = data.draw(
        st.lists(st.integers(0, 4), min_size=len(tiers) - 1, max_size=len(tiers) - 1)
    )
    spare = data.draw(st.integers(0, 3), label="spare")
    places = [*faster, max(0, extents + spare - sum(faster))]
    moves = data.draw(st.integers(0, 8), label="moves")
    # WHEN both run them
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


def test_extents_that_fit_nowhere_are_refused() -> None:
    windows = csr([{0: (1, 0)}])
    with (
        Migration(np.array(STUDY), windows, extent_count=3, window_moves=1) as model,
        pytest.raises(TracekitError, match="Invalid argument"),
    ):
        model.totals(np.array([[1, 0, 1]], np.uint32))


@pytest.mark.parametrize("latency", [float("nan"), float("inf"), -1.0])
def test_impossible_latencies_are_refused(latency: float) -> None:
    with pytest.raises(TracekitError, match="Invalid argument"):
        native([(latency, 1.0), (5000.0, 5000.0)], {0: (1, 1)})


def test_traffic_beyond_64_bits_is_refused() -> None:
    with pytest.raises(InputError, match="64 bits"):
        native(STUDY, {0: (1 << 62, 1 << 62), 1: (1, 0)})
