"""The capacities at which placements are compared."""

import numpy as np

from tracekit.model.answer import make_grid

BLOCK = 4096


def test_a_small_trace_is_compared_at_every_block() -> None:
    # GIVEN a trace of 7 and 5 blocks, WHEN capacities are chosen
    grid = make_grid([7, 5, 0, 0, 0], [])
    # THEN each block is one, and the headline is a tenth of the footprint, rounded up
    assert grid.fine.tolist() == list(range(13))
    assert grid.fine[grid.shown].tolist() == list(range(13))
    assert grid.fine[grid.headline] == 2


def test_a_large_trace_is_compared_at_about_a_thousand() -> None:
    # GIVEN ten million blocks
    grid = make_grid([7_000_001, 2_999_999, 0, 0, 0], [])
    # THEN the capacities are few, ascending from 0, and have the sizes of the roles among them
    assert 900 <= len(grid.fine) <= 1100
    assert 55 <= len(grid.shown) <= 70
    assert np.all(np.diff(grid.fine) > 0)
    assert {0, 1, 2_999_999, 7_000_001, 10_000_000} <= set(grid.fine[grid.shown].tolist())
    assert grid.fine[grid.headline] == 1_000_000


def test_requested_capacities_are_exact_and_the_first_is_the_headline() -> None:
    # GIVEN capacities within, above and between blocks
    grid = make_grid([5000, 0, 0, 0, 0], [777 * BLOCK, 9000 * BLOCK, 10 * BLOCK + 4095])
    # THEN they are shown, rounded down to blocks
    assert {777, 9000, 10} <= set(grid.fine[grid.shown].tolist())
    assert grid.fine[grid.headline] == 777


def test_a_largest_capacity_ends_the_curves() -> None:
    grid = make_grid([5000, 100, 0, 0, 0], [], max_bytes=300 * BLOCK)
    assert grid.fine[-1] == 300
    assert grid.fine[grid.headline] == 300


def test_nothing_touched_leaves_one_capacity() -> None:
    grid = make_grid([0, 0, 0, 0, 0], [])
    assert (grid.fine.tolist(), grid.shown.tolist(), grid.headline) == ([0], [0], 0)
