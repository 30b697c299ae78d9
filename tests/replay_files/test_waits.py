"""Who waits for whom: against the order itself, over random uses of shared things."""

import numpy as np
import pytest

from tracekit.replay.captured import Uses, lanes, waits


@pytest.mark.parametrize("seed", range(30))
def test_what_shares_a_thing_keeps_its_order(seed: int) -> None:
    # GIVEN 60 operations of 4 lanes, one after the other, on 5 things, some of which they change
    chance = np.random.default_rng(seed)
    count = 60
    lane = chance.integers(0, 4, count)
    uses = chance.integers(0, count, 90), chance.integers(0, 5, 90), chance.random(90) < 0.3
    time = np.arange(count, dtype=np.int64)
    # WHEN the waits are worked out
    first, second = waits(Uses(*uses), lane, start_ns=time, end_ns=time)
    # THEN by these and by the order within lanes ...
    behind = np.zeros((count, count), bool)
    behind[first, second] = True
    behind |= (lane[:, None] == lane[None, :]) & (time[:, None] > time[None, :])
    for middle in range(count):
        behind |= behind[:, middle, None] & behind[None, middle, :]
    # ... each pair on one thing, of which one changes it, is in its order
    row, thing, is_change = uses
    for i in range(90):
        for j in range(90):
            if thing[i] == thing[j] and row[i] < row[j] and (is_change[i] or is_change[j]):
                assert behind[row[j], row[i]]
    # AND nothing waits for what is of its own lane or comes later
    assert (lane[first] != lane[second]).all()
    assert (second < first).all()


def test_what_overlapped_does_not_wait() -> None:
    lane = np.array([0, 1])
    change = Uses(np.array([0, 1]), np.array([7, 7]), np.array([True, False]))
    start = np.array([0, 5], np.int64)
    assert len(waits(change, lane, start_ns=start, end_ns=np.array([6, 9], np.int64))[0]) == 0
    assert len(waits(change, lane, start_ns=start, end_ns=np.array([5, 9], np.int64))[0]) == 1


def test_threads_that_follow_each_other_share_a_lane() -> None:
    # GIVEN thread 5 beside 6, then 7 after 6 has ended, and 8 at the same time as both
    tid = np.array([5, 6, 6, 7, 8, 5], np.int64)
    start = np.array([0, 1, 2, 10, 11, 20], np.int64)
    found = lanes(tid, start_ns=start, end_ns=start + 3)
    assert found.tolist() == [0, 1, 1, 1, 2, 0]
