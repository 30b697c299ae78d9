"""The division of a capacity between roles against trying every division."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.model.placement import best_splits, running_best

CHANGES = st.integers(-50, 20)


def every_division(capacity: int, changes: list[list[int]]) -> int:
    """Try all shares of a capacity, used up or not, and return the least sum."""
    shares = itertools.product(range(capacity + 1), repeat=len(changes))
    return min(
        sum(change[share] for change, share in zip(changes, given_, strict=True))
        for given_ in shares
        if sum(given_) <= capacity
    )


@st.composite
def role_curves(draw: st.DrawFn) -> list[list[int]]:
    count, roles = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    return [[0, *draw(st.lists(CHANGES, min_size=count, max_size=count))] for _ in range(roles)]


@settings(max_examples=200, deadline=None)
@given(role_curves())
def test_no_division_is_better(changes: list[list[int]]) -> None:
    # GIVEN curves that also rise, WHEN the best division is sought at every capacity
    points = np.arange(len(changes[0]))
    splits = best_splits(points, [np.array(change) for change in changes])
    # THEN its time is the least of all divisions
    expected = [every_division(int(capacity), changes) for capacity in points]
    assert splits.change_ps.tolist() == expected
    # AND its shares cost that time and fit
    for index, capacity in enumerate(points):
        shares = splits.blocks[:, index]
        assert shares.sum() <= capacity
        costs = sum(change[share] for change, share in zip(changes, shares, strict=True))
        assert costs == expected[index]


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(1, 30), min_size=1, max_size=6), st.data())
def test_two_roles_on_uneven_points(capacities: set[int], data: st.DataObject) -> None:
    # GIVEN capacities at uneven distances and two curves
    points = np.array([0, *sorted(capacities)])
    draw = st.lists(CHANGES, min_size=len(points), max_size=len(points))
    first, second = np.array(data.draw(draw)), np.array(data.draw(draw))
    # WHEN the best division is sought
    splits = best_splits(points, [first, second])
    # THEN no pair of points that fits is better
    for index, capacity in enumerate(points):
        fitting = [
            first[i] + second[j]
            for i, j in itertools.product(range(len(points)), repeat=2)
            if points[i] + points[j] <= capacity
        ]
        assert splits.change_ps[index] == min(fitting)


def test_running_best_keeps_the_first_of_equals() -> None:
    # GIVEN a curve with a rise and a tie, WHEN its best so far is taken
    least, index = running_best(np.array([0, -5, -3, -5, -9]))
    # THEN more capacity is used only where it pays
    assert least.tolist() == [0, -5, -5, -5, -9]
    assert index.tolist() == [0, 1, 1, 1, 4]
