"""Whether a capture was long enough: growth, extrapolation and what is said of it."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.recommend.test_fitted_base import NAMES, SAMPLES
from tests.traces import filled
from tracekit.classify import ClassifyOptions, classify
from tracekit.model.footprint_growth import footprint, known_accesses
from tracekit.readers.blktrace import parse
from tracekit.tables import BLOCKS

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
    found = footprint(blocks_of([(0, 1), (0, 2)], tmp_path / "b"), BLOCK)
    assert (found.verdict, found.doubled) == ("unknown", None)
    assert found.sentences == ["whether the capture is long enough cannot be said: it has no times"]
