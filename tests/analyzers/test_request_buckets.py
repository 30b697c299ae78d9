"""What one pass counts for several analyses, beside the same worked out request by request."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces import Row, write_folder
from tracekit import query
from tracekit._native.log_buckets import NONE, LogBuckets, Streams
from tracekit.request_buckets import GAPS, LEAST_BITS

TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "transfer_ns", "complete_ns")
Buckets = dict[tuple[Any, ...], tuple[int, int, int, int]]


def number_of(value: int, bits: int) -> int:
    """Return the number of a bucket without logarithms."""
    shift = max(0, value.bit_length() - 1 - bits) if value > 0 else 0
    return (shift << bits) + (value >> shift)


def summed(values: list[tuple[tuple[Any, ...], int]], bits: int) -> Buckets:
    """Return count, sum, minimum and maximum by label and bucket."""
    found = defaultdict(list)
    for label, value in values:
        found[(*label, number_of(value, bits))].append(value)
    return {key: (len(of), sum(of), min(of), max(of)) for key, of in found.items()}


def some_requests(seed: int, count: int) -> list[Row]:
    """Return requests in queue order, of which much is missing."""
    pick = random.Random(seed)  # noqa: S311 - a fixed sequence, no secret
    rows, now, end = [], 0, 0
    for _ in range(count):
        now += pick.choice((0, 1, 900, 70_000))
        times = [now]
        for _ in TIMES[1:]:
            times.append(times[-1] + pick.choice((0, 3, 700, 10**6, 10**9)))
        row: Row = dict(zip(TIMES, times, strict=True))
        for name in TIMES:
            if pick.random() < 0.2:
                row[name] = None
        length = pick.choice((0, 512, 4096, 65536))
        sector = end if pick.random() < 0.5 else pick.randrange(1 << 20)
        end = sector + length // 512
        row |= {
            "device": pick.choice(("sda", "sdb")),
            "role": pick.choice(("fs", "journal", "swap")),
            "operation": pick.choice(("read", "write", "flush", "discard", None)),
            "is_preflush": pick.random() < 0.2,
            "merged_into": pick.choice((None, None, 0)),
            "sector": sector,
            "length_bytes": length,
        }
        rows.append(row)
    return rows


def apart(row: Row, first: str, last: str) -> int | None:
    a, b = row[first], row[last]
    return None if a is None or b is None else b - a


def steps_of(row: Row) -> dict[str, int | None]:
    """Return the times of a request's steps, as docs/requests.md defines them."""
    done = "transfer_ns" if row["transfer_ns"] is not None else "complete_ns"
    is_own = row["merged_into"] is None
    return {
        "q2g": apart(row, "queue_ns", "getrq_ns") if is_own else None,
        "g2i": apart(row, "getrq_ns", "insert_ns") if is_own else None,
        "q2m": apart(row, "queue_ns", "merge_ns"),
        "i2d": apart(row, "insert_ns", "issue_ns") if is_own else None,
        "m2d": apart(row, "merge_ns", "issue_ns"),
        "q2d": apart(row, "queue_ns", "issue_ns"),
        "d2c": apart(row, "issue_ns", done),
        "q2c": apart(row, "queue_ns", done),
        "wait": apart(row, "queue_ns", "complete_ns"),
    }


def label_of(row: Row) -> tuple[Any, ...]:
    known = (row["role"], row["operation"], row["is_preflush"])
    return (*known, row["length_bytes"] > 0, row["transfer_ns"] is not None)


def simulated(rows: list[Row]) -> dict[str, Buckets]:
    """Go through the requests one by one."""
    times, gaps, jumps = [], [], []
    before: dict[Any, int] = {}
    ends: dict[Any, int] = {}
    runs: dict[Any, list[int]] = defaultdict(list)
    for row in rows:
        label = label_of(row)
        times += [((*label, step), ns) for step, ns in steps_of(row).items() if ns is not None]
        is_flush = row["operation"] == "flush" or row["is_preflush"]
        takes_part = {"of_data": row["length_bytes"] > 0, "of_flush": is_flush}
        for gap, (_, alike) in GAPS.items():
            key = (gap, *(row[name] for name in alike))
            if row["queue_ns"] is None or not takes_part.get(gap, True):
                continue
            if key in before:
                gaps.append(((*label, gap), row["queue_ns"] - before[key]))
            before[key] = row["queue_ns"]
        if row["length_bytes"] == 0 or row["operation"] not in ("read", "write", None):
            continue
        stream = (row["device"], row["role"], row["operation"])
        jump = row["sector"] - ends[stream] if stream in ends else None
        if jump is not None:
            jumps.append(((*stream, jump < 0), abs(jump)))
        if jump == 0:
            runs[stream][-1] += 1
        else:
            runs[stream].append(1)
        ends[stream] = row["sector"] + row["length_bytes"] // 512
    lengths = [(stream, run) for stream, of in runs.items() for run in of]
    found = zip(LEAST_BITS.items(), (times, gaps, jumps, lengths), strict=True)
    return {name: summed(values, bits) for (name, bits), values in found}


def counted(connection: Any, name: str) -> Buckets:
    """Return the buckets of a table of the pass; the last columns are the bucket's."""
    sums = ("bucket_sum", "bucket_count", "bucket_min", "bucket_max")
    found = {}
    for row in connection.table(name).to_arrow_table().to_pylist():
        total, count, least, most = (int(row.pop(column)) for column in sums)
        key = (*row.values(), number_of(least, LEAST_BITS[name]))
        assert key not in found
        found[key] = (count, total, least, most)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_pass_is_what_each_request_says(seed: int, tmp_path: Path) -> None:
    rows = some_requests(seed, 2000)
    with query.connect(write_folder(tmp_path / "trace", rows)) as connection:
        query.run(connection, "latency/btt")
        # THEN each table has the buckets that a walk over the requests gives
        for name, expected in simulated(rows).items():
            assert counted(connection, name) == expected, name


def test_order_of_requests_is_kept(tmp_path: Path) -> None:
    # GIVEN more requests than a batch and a row group have, of many kinds, each later than the last
    count = 1_500_000
    folder = write_folder(tmp_path / "trace", some_requests(1, 50))
    few = pq.read_table(folder.path / "requests.parquet")
    many = few.take(pa.array(np.arange(count) % len(few)))
    for name, values in (("request_id", np.arange(count)), ("queue_ns", np.arange(count) * 10)):
        place = many.schema.get_field_index(name)
        column = pa.array(values, pa.int64())
        many = many.set_column(place, many.schema.field(name), column)
    pq.write_table(many, folder.path / "requests.parquet")
    # WHEN all processors read it
    with query.connect(folder, memory_mib=4096) as connection:
        query.run(connection, "workload/interarrival_percentiles")
        gaps = connection.table("request_gaps").filter("gap = 'of_role'")
        (found,) = gaps.aggregate("sum(bucket_count), min(bucket_min), max(bucket_max)").fetchall()
    # THEN no gap is longer than the longest row of other roles between two requests
    assert found[0] == count - 3
    assert 10 <= found[1] <= found[2] <= 10 * len(few)


def test_finer_buckets_are_counted_when_wanted(tmp_path: Path) -> None:
    rows = [{"queue_ns": 0, "issue_ns": 0, "complete_ns": 10_000 + ns} for ns in range(16)]
    with query.connect(write_folder(tmp_path / "trace", rows)) as connection:
        coarse, fine = (
            query.run(connection, "latency/distribution", octave_bits=bits).to_pylist()
            for bits in (3, 13)
        )
        coarse_again = query.run(connection, "latency/distribution").to_pylist()
    assert [row["request_count"] for row in coarse if row["step"] == "wait"] == [16]
    assert [row["low_ns"] for row in fine if row["step"] == "wait"] == [*range(10_000, 10_016)]
    assert coarse_again == coarse


def test_other_requests_are_counted_anew(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "trace", some_requests(1, 10))
    with query.connect(folder) as connection:
        query.run(connection, "latency/q2q")
        rows = [{"queue_ns": 0}, {"queue_ns": 7}]
        other = write_folder(tmp_path / "other", rows).path / "requests.parquet"
        query._show_files(connection, "requests", [other])
        (found,) = query.run(connection, "latency/q2q").to_pylist()
    assert (found["request_count"], found["latency_max_ns"]) == (1, 7)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(NONE, 2**63 - 1)), max_size=200),
    st.integers(0, 16),
)
def test_histograms_add_up_exactly(items: list[tuple[int, int]], bits: int) -> None:
    groups, values = (np.array([item[i] for item in items], np.int64) for i in (0, 1))
    with LogBuckets(bits) as buckets:
        for half in (slice(None, 100), slice(100, None)):
            buckets.add(groups[half].astype(np.uint32), values[half], first_group=2)
        rows = buckets.read()
    found = {
        (int(row["group"]), number_of(int(row["min"]), bits)): (
            int(row["count"]),
            (int(row["sum_high"]) << 64) + int(row["sum_low"]),
            int(row["min"]),
            int(row["max"]),
        )
        for row in rows
    }
    expected = summed([((group + 2,), value) for group, value in items if value != NONE], bits)
    assert found == expected


def test_stream_that_there_is_not_is_an_error() -> None:
    with Streams(2) as streams, pytest.raises(Exception, match="streams cannot be followed"):
        streams.distances(np.array([2], np.uint32), np.array([5], np.int64))


def test_word_for_no_value_is_that_of_the_library(tmp_path: Path) -> None:
    with query.empty(near=tmp_path) as connection:
        assert connection.sql("select no_value()").fetchall() == [(NONE,)]
