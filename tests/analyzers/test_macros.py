"""The log-linear buckets, and percentiles from them, against plain Python."""

import math
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.analyzers.folder import make
from tracekit import query
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES


def bucket_of(value: int, bits: int) -> int:
    """Count the bucket without logarithms: shift until `bits` + 1 bits are left."""
    shift = max(0, value.bit_length() - 1 - bits)
    return (shift << bits) + (value >> shift)


def buckets(values: list[int], bits: int) -> list[tuple[int, int, int]]:
    with query.empty(near=Path.cwd() / "macros") as connection:
        connection.register("samples", pa.table({"value": pa.array(values, pa.int64())}))
        relation = connection.sql(
            "select log_bucket(value, $bits) as bucket, log_bucket_low(bucket, $bits),"
            " log_bucket_low(bucket + 1, $bits) from samples",
            params={"bits": bits},
        )
        return [(bucket, low, high) for bucket, low, high in relation.fetchall()]


# Each example opens a database, whose time says nothing on a busy machine.
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**61), min_size=1, max_size=50), st.integers(0, 10))
def test_bucket_holds_its_value(values: list[int], bits: int) -> None:
    for value, (bucket, low, high) in zip(values, buckets(values, bits), strict=True):
        assert bucket == bucket_of(value, bits)
        assert low <= value < high
        assert high - low <= max(1, low >> bits)


def test_bounds_of_octaves() -> None:
    # Doubles round 2^k - 1 up to 2^k from k = 49 on; the bucket must not notice.
    values = [2**k + step for k in range(2, 62) for step in (-1, 0, 1)]
    assert [found[0] for found in buckets(values, 7)] == [bucket_of(value, 7) for value in values]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_percentiles_are_within_a_bucket_of_the_exact_rank(seed: int, tmp_path: Path) -> None:
    # GIVEN 3,000 requests with service times over six decades
    generator = random.Random(seed)  # noqa: S311 - no secret
    times = [int(10 ** generator.uniform(1, 7)) for _ in range(3000)]
    rows = [
        {"queue_ns": "0", "issue_ns": "0", "transfer_ns": str(time), "complete_ns": str(time)}
        for time in times
    ]
    # WHEN their latencies are summed up
    with query.connect(make(tmp_path / "trace", {"requests": rows})) as connection:
        table = query.run(connection, "latency/latency").to_pylist()
    found = next(row for row in table if row["step"] == "d2c")
    # THEN minimum, maximum and mean are exact and percentiles less than 1/128 above the rank
    times.sort()
    assert (found["latency_min_ns"], found["latency_max_ns"]) == (times[0], times[-1])
    assert math.isclose(found["latency_avg_ns"], sum(times) / len(times))
    for name, ratio in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        exact = times[math.ceil(ratio * len(times)) - 1]
        assert exact <= found[f"latency_{name}_ns"] <= exact * (1 + 1 / 128)


def test_sizes_are_those_of_the_tables() -> None:
    with query.empty(near=Path.cwd() / "macros") as connection:
        found = connection.sql("select sector_bytes(), block_bytes()").fetchall()
    assert found == [(SECTOR_BYTES, BLOCK_BYTES)]


def test_half_intervals_are_those_of_students_t(tmp_path: Path) -> None:
    # GIVEN a database of a sweep, WHEN it is asked for the width, THEN it is that of scipy
    with query.connect(make(tmp_path / "trace", {"file_runs": []})) as connection:
        rows = connection.sql("select range, t95(range) from range(-1, 1003)").fetchall()
    found = dict(rows)
    assert (found[-1], found[0]) == (None, None)
    for freedom in range(1, 1001):
        assert math.isclose(found[freedom], stats.t.ppf(0.975, freedom), rel_tol=1e-12), freedom
    assert found[1002] == found[1000]
