"""Long traces: a sample for many placements, and savings in parts, against the whole trace."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tests.recommend.test_best_placement import PAIRS, chance, every_best, traced
from tests.recommend.test_fitted_base import SAMPLES
from tracekit import arrow
from tracekit.classify import ClassifyOptions, classify
from tracekit.model import timed_requests
from tracekit.model.answer import Recommendation, charged_trace
from tracekit.model.best_long import Weights, find_long, top
from tracekit.model.best_placement import read_best, time_ps
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import to_ns
from tracekit.model.recommend import RecommendOptions, check_answer, recommend
from tracekit.model.run_sample import LongTrace
from tracekit.model.timed_requests import Runs
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder


@pytest.fixture(scope="module")
def oltp(tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    """The sample OLTP, classified."""
    folder, _ = parse([SAMPLES / "oltp"], tmp_path_factory.mktemp("long") / "oltp")
    classify(folder, ClassifyOptions())
    return folder


@pytest.fixture
def both(
    oltp: TraceFolder, monkeypatch: pytest.MonkeyPatch
) -> tuple[Recommendation, Recommendation]:
    """What is recommended for all requests, and as for a long trace.

    Batches have 1000 rows, of which runs of 250 are in the sample.
    """
    for module in (arrow, timed_requests):
        monkeypatch.setattr(module, "BATCH_ROWS", 1000)
    for name, value in (("WHOLE_ROWS", 4000), ("SAMPLE_ROWS", 5000), ("LEAST_RUN", 250)):
        monkeypatch.setattr(timed_requests, name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timed_requests, "WHOLE_ROWS", 1 << 30)
        whole = recommend(oltp, RecommendOptions())
    return whole, recommend(oltp, RecommendOptions())


@pytest.mark.parametrize(
    ("rows", "count", "length"),
    [(1 << 19, 2, 1 << 18), ((1 << 19) + 1, 3, 87381), (20_000_000, 64, 4096), (1 << 30, 64, 4096)],
)
def test_a_sample_has_runs_spread_evenly(rows: int, count: int, length: int) -> None:
    runs = Runs.of(rows)
    chosen = [number for number in range(runs.batches) if runs.has(number)]
    assert (len(chosen), runs.length) == (count, length)
    gaps = np.diff(chosen)
    assert gaps.max() - gaps.min() <= 1


def test_the_answer_is_that_of_all_requests(
    oltp: TraceFolder, both: tuple[Recommendation, Recommendation]
) -> None:
    whole, long = both
    # THEN what was charged is that of all requests, and the base takes what it took when traced
    for role, totals in whole.roles.items():
        found = replace(long.roles[role], base_elapsed_ns=totals.base_elapsed_ns)
        assert found == totals
    assert long.left_out == whole.left_out
    assert long.answer.base_elapsed_ns == pytest.approx(long.base.busy_ns, rel=1e-5)
    # AND the answer's time is exact, whatever the sample said
    trace = charged_trace(oltp, long)
    alone_ps, placed_ps = placement_ps(trace, long.answer.blocks, coverage=long.coverage)
    assert long.answer.base_elapsed_ns == to_ns(alone_ps)
    assert long.answer.elapsed_ns == to_ns(placed_ps)
    # AND the answer is hardly worse than the one of all requests
    assert long.answer.elapsed_ns <= 1.02 * whole.answer.elapsed_ns
    assert "This time is of all requests; other placements" in long.headline[0]
    check_answer(oltp, long, answer=long.answer)
    # AND changed devices change it as they change that of all
    parts = [one.gain_range.parameter for one in both if one.gain_range is not None]
    (low, high), (whole_low, whole_high) = [
        (one.low.gain_ratio, one.high.gain_ratio) for one in reversed(parts) if one is not None
    ]
    assert (low, high) == pytest.approx((whole_low, whole_high), abs=0.05)


def test_the_sample_feels_as_long_as_the_trace(
    both: tuple[Recommendation, Recommendation],
) -> None:
    whole, long = (one.predictions for one in both)
    assert whole is not None
    assert long is not None
    assert (whole.is_whole, long.is_whole) == (True, False)
    for loop in ("open", "closed"):
        ratio = (
            getattr(long, loop).base.elapsed_ns.value / getattr(whole, loop).base.elapsed_ns.value
        )
        assert 0.8 < ratio < 1.25


def test_blocks_by_parts_are_near_those_of_the_whole(
    oltp: TraceFolder, both: tuple[Recommendation, Recommendation]
) -> None:
    whole, long = (one.best_placement for one in both)
    assert whole is not None
    assert long is not None
    # THEN no time is below the other's bound, and little is lost
    assert long.answer.bound_ns is not None
    assert whole.answer.bound_ns is not None
    assert long.answer.bound_ns <= whole.answer.elapsed_ns
    assert whole.answer.bound_ns <= long.answer.elapsed_ns <= 1.1 * whole.answer.elapsed_ns
    assert long.answer.elapsed_ns <= both[1].answer.elapsed_ns
    trace = charged_trace(oltp, both[1])
    assert to_ns(time_ps(trace, read_best(oltp, trace.touched))[1]) == long.answer.elapsed_ns


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("number", range(8))
def test_no_placement_is_below_the_bound_of_parts(
    tmp_path: Path, kind: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a small trace in parts of ten requests, and the least time of each number of blocks
    requests = chance(number)
    trace = LongTrace(**vars(traced(tmp_path / "trace", requests, PAIRS[kind])))
    least = list(every_best(requests, trace))
    monkeypatch.setattr(arrow, "BATCH_ROWS", 5)
    for capacity, best_ps in enumerate(least):
        found = find_long(trace, capacity, rivals=[])
        # THEN what is found fits, takes what it says, and nothing is below the bound
        assert int(found.on_nvm.sum()) <= capacity
        assert found.elapsed_ps == time_ps(trace, found.on_nvm)[1] >= best_ps
        assert found.bound_ps is not None
        assert found.bound_ps <= best_ps
    # AND with everything on the base device the bound is near, but for the ends of parts
    assert Weights.of(trace).constant_ps <= least[0]


@pytest.mark.parametrize("capacity", [0, 1, 3, 5, 6, 9])
def test_the_largest_values_come_first(capacity: int) -> None:
    values = np.array([1.0, 3.0, -1.0, 3.0, 0.0, np.inf, 1.0, -2.0, 2.0])
    order = sorted(np.flatnonzero(values >= 0), key=lambda one: (-values[one], one))
    assert np.flatnonzero(top(values, capacity)).tolist() == sorted(order[:capacity])


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("unit", ["role", "extent=4MiB"])
def test_units_are_chosen_by_the_sample_and_timed_on_all_requests(
    unit: str, oltp: TraceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = RecommendOptions(unit=unit, capacities_bytes=(20 << 20,))
    long = recommend(oltp, options).units
    monkeypatch.setattr(timed_requests, "WHOLE_ROWS", 1 << 30)
    whole = recommend(oltp, options).units
    assert long is not None
    assert whole is not None
    # THEN the same are placed, with the same time
    assert [one.name for one in long.placed] == [one.name for one in whole.placed] != []
    assert long.elapsed_ns == pytest.approx(whole.elapsed_ns, rel=0.01)
    assert long.taken_bytes == whole.taken_bytes <= 20 << 20
