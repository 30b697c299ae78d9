"""Which placements a thread walks: all of them once, whatever the number of threads."""

from pathlib import Path

import numpy as np
import pytest

from tests.simulate.placement_traces import write_trace
from tests.simulate.test_placement import as_issued
from tests.simulate.test_placement_walk import HEAD, TWO, walked
from tracekit._native.placement import SCENARIO
from tracekit.model.event_simulation import nested_chains, thread_partition


def scenarios(*rows: tuple[int, tuple[int, int]]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return placements of an order and of limits of the first two roles."""
    found = np.zeros(len(rows), np.dtype(SCENARIO))
    for index, (order, limit) in enumerate(rows):
        found[index] = (order, (*limit, 0, 0, 0))
    return found


ROWS = ((0, (0, 0)), (0, (1, 0)), (0, (0, 1)), (0, (2, 1)), (1, (1, 1)), (1, (2, 0)), (2, (3, 3)))


def test_a_chain_holds_what_grows() -> None:
    assert nested_chains(scenarios(*ROWS)) == [[0, 1, 3], [2], [4], [5], [6]]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_every_placement_is_walked_and_the_base_by_each(threads: int, is_open: bool) -> None:
    shares = thread_partition(scenarios(*ROWS), threads, is_open=is_open)
    assert 1 <= len(shares) <= threads
    assert {index for share in shares for index in share.tolist()} == set(range(len(ROWS)))
    for share in shares:
        assert share.tolist() == sorted({0, *share.tolist()})
    assert sum(len(share) for share in shares) <= len(ROWS) + len(shares)


@pytest.mark.parametrize("is_open", [False, True])
def test_the_number_of_threads_changes_nothing(
    is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a trace with merged requests, walked on one thread and on five
    queued, _ = as_issued(7, 15)
    folder = write_trace(tmp_path, queued)
    found = []
    for count in (1, 5):
        monkeypatch.setattr("os.sched_getaffinity", lambda _pid, n=count: set(range(n)))
        found.append(walked(folder, (HEAD, TWO), is_issued=True, is_open=is_open))
    one, five = found
    # THEN every time of every placement is the same, and what was counted
    assert one.base_ps.tolist() == five.base_ps.tolist()
    assert one.totals == five.totals
    assert one.order_counts == five.order_counts
    for key, timed in one.simulated.items():
        assert timed.service_ps.tolist() == five.simulated[key].service_ps.tolist()
        assert timed.compared_ps.tolist() == five.simulated[key].compared_ps.tolist()
