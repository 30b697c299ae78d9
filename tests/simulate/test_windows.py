"""How a trace is cut into windows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.simulate.placement_traces import write_trace
from tests.simulate.test_sensitivity import MS, requests
from tracekit.errors import UsageError
from tracekit.model.windows import Cut, Cutter, Window, choose_cut, windows
from tracekit.store import TraceFolder
from tracekit.units import HOUR_NS


def test_requests_without_time_are_in_no_window_and_counted(tmp_path: Path) -> None:
    timed = [*requests()[:10], replace(requests()[10], queue_ns=None, issue_ns=None)]
    timed.append(replace(requests()[11], queue_ns=None, issue_ns=11 * MS))
    folder = TraceFolder(write_trace(tmp_path / "t", timed))
    with windows(folder, Cut(length_ns=4 * MS)) as (parts, timeless):
        assert timeless == 1
        assert [part.requests for part, _ in parts] == [4, 4, 3]
        assert sum(pq.read_metadata(table).num_rows for _, table in parts) == 11
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize(
    ("duration_ns", "asked", "expected"),
    [
        (24 * HOUR_NS, None, Cut(length_ns=HOUR_NS)),
        (3 * HOUR_NS, None, Cut(length_ns=HOUR_NS)),
        (336 * HOUR_NS, None, Cut(length_ns=2 * HOUR_NS)),
        (3 * HOUR_NS - 1, None, Cut(requests=30)),
        (0, None, Cut(requests=30)),
        (1000, "300ns", Cut(length_ns=300)),
        (1000, "7", Cut(requests=35)),
        (24 * HOUR_NS, "240", Cut(requests=1)),
        (24 * HOUR_NS, "1", Cut(requests=240)),
    ],
)
def test_windows_are_hours_or_an_eighth_of_the_requests(
    duration_ns: int, asked: str | None, expected: Cut, tmp_path: Path
) -> None:
    clock = {"duration_ns": duration_ns, "wall_ns": None}
    folder = TraceFolder(write_trace(tmp_path / "t", requests(), clock=clock))
    if expected.requests == 1:
        with pytest.raises(UsageError, match="between 1 and 168"):
            choose_cut(folder, asked)
    else:
        assert choose_cut(folder, asked) == expected


def test_an_early_row_stays_in_the_window_of_the_row_before() -> None:
    # GIVEN rows at 0, 9, 3 and 12 ns, and one without a time, in windows of 4 ns, in two batches
    cutter = Cutter(Cut(length_ns=4))
    first = list(cutter.parts(np.array([0, 9, 3, -1], np.int64)))
    then = list(cutter.parts(np.array([2, 12], np.int64)))
    assert (first, then) == ([(0, 0, 1), (2, 1, 3)], [(2, 0, 1), (3, 1, 2)])
    assert cutter.timeless == 1
    assert cutter.window(2) == Window(3, 8, 12, 3)
