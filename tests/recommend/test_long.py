"""Long traces: whether a capture was long enough, samples for placements, savings in parts."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from tests.recommend.test_best_placement import PAIRS, chance, every_best, traced
from tests.recommend.test_fitted_base import NAMES, SAMPLES
from tests.traces import filled
from tracekit import arrow
from tracekit.classify import ClassifyOptions, classify
from tracekit.model import timed_requests
from tracekit.model.answer import Recommendation, charged_trace
from tracekit.model.best_long import Weights, find_long, top
from tracekit.model.best_placement import read_best, time_ps
from tracekit.model.footprint_growth import footprint, known_accesses
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import to_ns
from tracekit.model.recommend import RecommendOptions, check_answer, recommend
from tracekit.model.run_sample import LongTrace
from tracekit.model.timed_requests import Runs
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder
from tracekit.tables import BLOCKS


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


def test_the_sample_feels_as_long_as_the_trace(both: tuple[Recommendation, Recommendation]) -> None:
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


SECOND, BLOCK = 10**9, 4096
Touches = list[tuple[int, int]]
"""Time in ns and block."""


def blocks_of(touches: Touches, path: Path) -> Path:
    """Write the blocks that are touched, as classify does."""
    found: dict[int, dict[str, Any]] = {}
    for time_ns, block in touches:
        new = {"device": "sda", "block": block, "role": "fs", "writes": 0, "first_ns": time_ns}
        row = found.setdefault(block, new)
        row |= {"writes": row["writes"] + 1, "last_ns": time_ns}
    rows = [found[block] for block in sorted(found)]
    pq.write_table(filled(BLOCKS, rows, sectors=8, temperature="hot"), path)
    return path


def random_touches(blocks: int, touches: int, seed: int) -> Touches:
    """Touch some of so many blocks at random, in a minute."""
    chosen = np.random.default_rng(seed).integers(0, blocks, touches).tolist()
    return [(number * 60 * SECOND // touches, block) for number, block in enumerate(chosen)]


def a_log(touches: int) -> Touches:
    """Append to a log: each block once, at the same pace, in a minute."""
    return [(number * 60 * SECOND // touches, number) for number in range(touches)]


def test_a_small_working_set_is_seen_whole(tmp_path: Path) -> None:
    # GIVEN 1,000 blocks of which each was touched 50 times
    found = footprint(blocks_of(random_touches(1000, 50_000, 1), tmp_path / "b"), 100 * BLOCK)
    assert (found.verdict, found.touched_bytes) == ("enough", 1000 * BLOCK)
    assert found.doubled is not None
    assert found.doubled.low_bytes == found.doubled.high_bytes == 1000 * BLOCK
    assert (found.growth_bytes_per_min, found.capture_longer_ns) == (0, None)
    assert found.known_access_ratio == 1
    assert found.sentences == [
        "The capture is long enough: it touched 3.91 MiB in 60 s, and twice as long would touch"
        " 3.91 MiB (3.91 MiB to 3.91 MiB)."
    ]
    # AND more NVM than that does nothing, which is said first
    more = footprint(tmp_path / "b", 80_000 * BLOCK)
    assert more.verdict == "enough"
    assert more.sentences[0].startswith(
        "The capacity, 312 MiB, is 80 times what the trace touched (3.91 MiB in 60 s): "
    )


def test_a_log_grows_as_long_as_it_is_watched(tmp_path: Path) -> None:
    # GIVEN 16,000 blocks, each touched once, in a minute
    found = footprint(blocks_of(a_log(16_000), tmp_path / "b"), 64_000 * BLOCK)
    assert found.verdict == "growing"
    # THEN twice as long has twice as many, and four times as many need three minutes more
    assert found.doubled is not None
    assert found.doubled.bytes == pytest.approx(32_000 * BLOCK, rel=0.01)
    assert found.growth_bytes_per_min == pytest.approx(16_000 * BLOCK, rel=0.01)
    assert found.capture_longer_ns == pytest.approx([180 * SECOND] * 2, rel=0.02)
    assert found.known_access_ratio == 0
    assert "is 4 times what the trace touched (62.5 MiB in 60 s)" in found.sentences[0]
    assert "growing by 62.5 MiB a minute at its end" in found.sentences[1]
    assert "until the capacity is touched, capture 180 s" in found.sentences[1].replace(
        "3 min 0 s", "180 s"
    )


@pytest.mark.parametrize("touches", [2000, 6000, 12_000])
def test_random_touches_are_extrapolated_as_they_are(touches: int, tmp_path: Path) -> None:
    # GIVEN touches of 10,000 blocks at random, of which 1 - exp(-n / 10,000) are touched by n
    blocks = 10_000
    found = footprint(blocks_of(random_touches(blocks, touches, 7), tmp_path / "b"), BLOCK)
    doubled = blocks * (1 - math.exp(-2 * touches / blocks)) * BLOCK
    assert found.doubled is not None
    assert found.doubled.low_bytes <= doubled <= found.doubled.high_bytes
    assert found.verdict == "growing"
    # AND the share of accesses that find a block touched before is that of the blocks touched
    known = found.touched_bytes / blocks / BLOCK
    assert found.known_access_ratio == pytest.approx(known, abs=0.03)


@pytest.mark.parametrize(
    ("power", "error"), [(0.3, 0.081), (0.5, 0.086), (0.8, 0.047), (1.5, -0.151), (2.0, -0.312)]
)
def test_growth_by_a_known_law_is_in_the_range(power: float, error: float, tmp_path: Path) -> None:
    # GIVEN blocks of which t ** power are touched by the time t, each once
    times = (np.arange(1, 20_001) / 20_000) ** (1 / power) * 60 * SECOND
    touches = [(int(time), block) for block, time in enumerate(times)]
    found = footprint(blocks_of(touches, tmp_path / "b"), BLOCK)
    doubled = 20_000 * 2**power * BLOCK
    # THEN twice as long is in the range, and the estimate is off by the law's bend
    assert found.doubled is not None
    assert found.doubled.low_bytes <= doubled <= found.doubled.high_bytes
    assert found.doubled.bytes / doubled - 1 == pytest.approx(error, abs=0.005)
    assert found.verdict == "growing"
    # AND the pace at the end is that of the last quarter
    pace = 20_000 * 4 * (1 - 0.75**power) * BLOCK
    assert found.growth_bytes_per_min == pytest.approx(pace, rel=0.01)


def test_the_share_of_known_accesses_is_that_of_the_formula() -> None:
    # GIVEN the counts of Chao & Jost (2012), equation 4a: n = 10, f1 = 3, f2 = 2
    accesses = np.array([1, 1, 1, 2, 2, 3], np.int64)
    expected = 1 - 3 / 10 * (9 * 3 / (9 * 3 + 2 * 2))
    assert known_accesses(accesses) == pytest.approx(expected)
    assert known_accesses(np.array([2, 2], np.int64)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_first_half_of_a_sample_covers_the_whole(name: str, tmp_path: Path) -> None:
    folder, _ = parse([SAMPLES / name], tmp_path / "trace")
    classify(folder, ClassifyOptions())
    columns = ("first_ns", "last_ns", "reads", "writes")
    table = pq.read_table(folder.table("blocks"))
    half_ns = table["last_ns"].to_numpy().max() // 2
    first_ns = table["first_ns"].to_numpy()
    # GIVEN what was touched in the first half of the time; the last touch ends it
    half = table.filter(first_ns <= half_ns).select(columns).to_pydict()
    half["last_ns"] = [min(int(time), int(half_ns)) for time in half["last_ns"]]
    rows = [dict(zip(half, row, strict=True)) for row in zip(*half.values(), strict=True)]
    table = filled(BLOCKS, rows, device="sda", role="fs", sectors=8, temperature="hot")
    pq.write_table(table, tmp_path / "half")
    found = footprint(tmp_path / "half", BLOCK)
    # THEN what the whole trace touched is in the range
    assert found.doubled is not None
    assert found.doubled.low_bytes <= len(first_ns) * BLOCK <= found.doubled.high_bytes
    # AND the estimate is that growth goes on as in the last 16 of 64 windows of the half
    late = sum(min(time * 64 // half_ns, 63) >= 48 for time in half["first_ns"])
    assert found.doubled.bytes == (len(rows) + 4 * late) * BLOCK
    # AND a half is not called enough of which the other half touched a tenth more
    if len(first_ns) > 1.1 * len(rows):
        assert found.verdict == "growing"


def test_a_trace_without_times_has_no_verdict(tmp_path: Path) -> None:
    found = footprint(blocks_of([(0, one) for one in range(64)], tmp_path / "b"), BLOCK)
    assert (found.verdict, found.doubled) == ("unknown", None)
    assert found.sentences == ["whether the capture is long enough cannot be said: it has no times"]


def test_few_blocks_have_no_verdict(tmp_path: Path) -> None:
    found = footprint(blocks_of([(5, 1)], tmp_path / "b"), BLOCK)
    assert found.sentences == [
        "whether the capture is long enough cannot be said: it touched 1 block, and 64 are needed"
    ]
