import numpy as np
import pytest

from tracekit.classify import hotness
from tracekit.errors import UsageError


def histogram(*touches: int) -> hotness.TouchHistogram:
    result = hotness.TouchHistogram()
    for value in touches:
        result.add(np.array([value], np.uint64))
    return result


def test_the_fewest_blocks_that_carry_half_of_the_touches_are_hot() -> None:
    # GIVEN 100 touches: 40 + 20 carry half of them, 40 alone does not; the mean is 10
    found = histogram(40, 20, 12, 12, 8, 2, 2, 2, 1, 1)
    # WHEN and THEN
    assert found.hot_min_touches(hotness.TemperatureRule()) == 20
    # AND with three quarters, the two blocks of 12 come together, though one would do
    assert found.hot_min_touches(hotness.TemperatureRule(0.72, 0)) == 12


def test_exactly_half_is_enough() -> None:
    found = histogram(40, 10, 9, 9, 9, 9, 9, 5)
    assert found.hot_min_touches(hotness.TemperatureRule(0.5, 0)) == 10


def test_evenly_spread_traffic_has_no_hot_block() -> None:
    found = histogram(*[10] * 50)
    assert found.hot_min_touches(hotness.TemperatureRule()) == 20
    assert found.hot_min_touches(hotness.TemperatureRule(hot_factor=0)) == 10


def test_a_block_touched_once_is_never_hot() -> None:
    assert histogram(1, 1, 1).hot_min_touches(hotness.TemperatureRule(1.0, 0)) == 2


def test_a_trace_without_blocks_has_a_threshold_too() -> None:
    assert hotness.TouchHistogram().hot_min_touches(hotness.TemperatureRule()) == 2


def test_temperatures() -> None:
    touches = np.array([1, 2, 4, 5, 9], np.uint64)
    names = [hotness.TEMPERATURES[code] for code in hotness.temperature_codes(touches, 5)]
    assert names == ["cold", "warm", "warm", "hot", "hot"]


@pytest.mark.parametrize(
    ("ratio", "factor"), [(0, 2), (1.5, 2), (-1, 2), (float("nan"), 2), (0.5, -1), (0.5, np.inf)]
)
def test_impossible_rules_are_refused(ratio: float, factor: float) -> None:
    with pytest.raises(UsageError):
        hotness.TemperatureRule(ratio, factor)
