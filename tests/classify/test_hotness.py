"""Blocks, working sets and temperatures."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.classify.traces import FS, JOURNAL, classified, entry, flush, read, trace, write
from tests.traces import Row, rows_of
from tracekit.arrow import codes, flags, ints, text_column
from tracekit.classify import ClassifyOptions, TemperatureRule, classify, hotness
from tracekit.classify.hotness import MAX_WINDOWS, Windows, choose_windows, count_blocks
from tracekit.errors import UsageError

LAYOUT = [entry(FS), entry(JOURNAL)]


def block(number: int, role: str, **counts: object) -> dict[str, object]:
    once = {"reads": 0, "writes": 1, "sectors": 4, "first_ns": 8, "last_ns": 8}
    share = {"traffic_ratio": 1 / 6, "temperature": "cold"}
    return {"device": "sda", "block": number, "role": role, **once, **share, **counts}


def test_blocks(tmp_path: Path) -> None:
    # GIVEN a block written three times and read once, and a request over two blocks
    rows = [
        write(2048),
        write(2048, queue_ns=5),
        read(2051, length_bytes=512, queue_ns=7),
        write(10244, queue_ns=8),
        write(2048, queue_ns=9),
        flush(queue_ns=10),
        {**write(2048, 4), "operation": "discard", "queue_ns": 11},
        {**write(2048, 4), "operation": "write_zeroes", "queue_ns": 12},
    ]
    folder = trace(tmp_path / "t", rows, LAYOUT)
    # WHEN the hot blocks are those with a fifth of the touches, however even
    result = classify(folder, ClassifyOptions(rule=TemperatureRule(0.2, 0)))
    hot = {"reads": 1, "writes": 3, "sectors": 8, "first_ns": 0, "last_ns": 9}
    assert rows_of(folder.table("blocks")) == [
        block(256, "fs", **hot, traffic_ratio=4 / 6, temperature="hot"),
        block(1280, "journal"),
        block(1281, "journal"),
    ]
    hotness = result["hotness"]
    assert (hotness["blocks"], hotness["touches"], hotness["requests"]) == (3, 6, 5)
    assert hotness["hot_min_touches"] == 4
    assert hotness["roles"]["journal"] == {
        "sectors": 8,
        "blocks": {"hot": 0, "warm": 0, "cold": 2},
        "touches": {"hot": 0, "warm": 0, "cold": 2},
    }


def test_working_set(tmp_path: Path) -> None:
    # GIVEN windows of 10 ns: two blocks, one of them again, a gap, and the journal
    rows = [
        write(2048, queue_ns=1),
        write(2056, queue_ns=2),
        write(2048, queue_ns=3),
        write(2048, queue_ns=12),
        write(10240, 2, queue_ns=35),
    ]
    folder, _ = classified(tmp_path, rows, LAYOUT, window_ns=10)
    # THEN every window has a row for each role that has blocks
    found = [tuple(row.values()) for row in rows_of(folder.table("working_set"))]
    assert found == [
        (0, "fs", 2, 2),
        (0, "journal", 0, 0),
        (10, "fs", 1, 0),
        (10, "journal", 0, 0),
        (20, "fs", 0, 0),
        (20, "journal", 0, 0),
        (30, "fs", 0, 0),
        (30, "journal", 2, 2),
    ]


def test_a_request_without_queue_time_has_that_of_its_first_event(tmp_path: Path) -> None:
    rows = [
        read(2048, queue_ns=None, issue_ns=40, complete_ns=90),
        read(2056, queue_ns=None, complete_ns=70),
        read(2064, queue_ns=None),
    ]
    folder, _ = classified(tmp_path, rows, LAYOUT, window_ns=1000)
    assert [row["first_ns"] for row in rows_of(folder.table("blocks"))] == [40, 70, 70]


@pytest.mark.parametrize("rows", [[], [flush(), flush()]])
def test_an_empty_trace_has_empty_tables(tmp_path: Path, rows: list[Row]) -> None:
    folder, result = classified(tmp_path, rows, LAYOUT)
    assert rows_of(folder.table("blocks")) == []
    assert result["hotness"]["hot_min_touches"] == 2
    if not rows:
        assert rows_of(folder.table("working_set")) == []


def test_impossible_requests_are_reported(tmp_path: Path) -> None:
    rows = [read(1 << 60), read(2048, length_bytes=1 << 40), read(2048)]
    _, result = classified(tmp_path, rows, LAYOUT)
    assert result["hotness"]["blocks"] == 1
    warning = next(w for w in result["warnings"] if w["code"] == "impossible_requests")
    assert warning["message"].endswith("count for no block: 2")


request_lists = st.lists(
    st.tuples(st.integers(0, 60_000), st.integers(1, 90), st.sampled_from(["sda", "sdb"])),
    max_size=300,
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(request_lists)
def test_a_small_budget_changes_nothing_but_the_passes(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int, str]]
) -> None:
    rows = [write(block * 8, blocks, device=device) for block, blocks, device in places]
    folder = trace(tmp_path_factory.mktemp("hot") / "t", rows)
    by_hand = Counter(
        (device, block)
        for first, blocks, device in places
        for block in range(first, first + blocks)
    )
    windows = Windows(10_000_000, 31)
    tight, ample = (
        count_blocks(
            folder.table("requests"), ["sda", "sdb"], windows=windows, budget_bytes=budget_bytes
        )
        for budget_bytes in (1 << 16, 1 << 26)
    )
    with tight.spill, ample.spill:
        found = [record.copy() for records in tight.records() for record in records]
        # THEN both find the same, which is what a count by hand finds
        assert [bytes(record) for record in found] == [
            bytes(record) for records in ample.records() for record in records
        ]
        counted = {(["sda", "sdb"][r["device"]], r["block"]): r["writes"] for r in found}
    assert counted == by_hand
    assert tight.distinct.tolist() == ample.distinct.tolist()
    assert tight.fresh.tolist() == ample.fresh.tolist()
    assert tight.histogram.touches == sum(by_hand.values())
    # AND the budget was kept, which took more than one pass
    assert tight.memory_bytes <= 1 << 16
    assert ample.scans == 1
    assert tight.scans > 1 or len(by_hand) < 2000


def test_shares_are_of_the_whole_trace(tmp_path: Path) -> None:
    folder, _ = classified(tmp_path, [write(0), write(0), read(8), read(16, 4)])
    shares = [row["traffic_ratio"] for row in rows_of(folder.table("blocks"))]
    assert shares == [2 / 7] + [1 / 7] * 5


def test_ranges_that_are_cut_again_stay_in_order(tmp_path: Path) -> None:
    # GIVEN a trace that hides at its beginning how many blocks it has at low addresses
    rows = [write(0)] * 900 + [write(block * 1024) for block in range(1999, 0, -1)]
    folder = trace(tmp_path / "t", rows)
    counts = count_blocks(
        folder.table("requests"), ["sda"], windows=Windows(1 << 30, 3), budget_bytes=1 << 16
    )
    # THEN the blocks come in order, after more passes than the first cut asked for
    with counts.spill:
        blocks = [int(record["block"]) for records in counts.records() for record in records]
    assert blocks == [block * 128 for block in range(2000)]
    assert counts.scans > 4


def test_default_windows_are_round_and_about_two_hundred() -> None:
    assert choose_windows(3_000_000_000) == Windows(20_000_000, 151)
    assert choose_windows(86_400_000_000_000) == Windows(500_000_000_000, 173)
    assert choose_windows(0) == Windows(1, 1)
    assert choose_windows(10, 3) == Windows(3, 4)


def test_too_many_windows_are_rejected() -> None:
    with pytest.raises(UsageError, match=f"more than {MAX_WINDOWS}"):
        choose_windows(MAX_WINDOWS, 1)


@pytest.mark.parametrize(
    ("touches", "rule", "expected"),
    [
        # 100 touches: 40 + 20 carry half of them, 40 alone does not; the mean is 10
        ((40, 20, 12, 12, 8, 2, 2, 2, 1, 1), TemperatureRule(), 20),
        # the two blocks of 12 come together, though one would do
        ((40, 20, 12, 12, 8, 2, 2, 2, 1, 1), TemperatureRule(0.72, 0), 12),
        ((40, 10, 9, 9, 9, 9, 9, 5), TemperatureRule(0.5, 0), 10),  # exactly half is enough
        ((10,) * 50, TemperatureRule(), 20),  # evenly spread traffic has no hot block
        ((10,) * 50, TemperatureRule(hot_factor=0), 10),
        ((1, 1, 1), TemperatureRule(1.0, 0), 2),  # a block touched once is never hot
        ((), TemperatureRule(), 2),
    ],
)
def test_hot_min_touches(touches: tuple[int, ...], rule: TemperatureRule, expected: int) -> None:
    found = hotness.TouchHistogram()
    for value in touches:
        found.add(np.array([value], np.uint64))
    assert found.hot_min_touches(rule) == expected


def test_temperatures() -> None:
    touches = np.array([1, 2, 4, 5, 9], np.uint64)
    names = [hotness.TEMPERATURES[code] for code in hotness.temperature_codes(touches, 5)]
    assert names == ["cold", "warm", "warm", "hot", "hot"]


@pytest.mark.parametrize(
    ("ratio", "factor"), [(0, 2), (1.5, 2), (-1, 2), (float("nan"), 2), (0.5, -1), (0.5, np.inf)]
)
def test_impossible_rules_are_rejected(ratio: float, factor: float) -> None:
    with pytest.raises(UsageError):
        TemperatureRule(ratio, factor)


def test_pieces_of_columns_begin_where_they_say() -> None:
    # GIVEN a piece from the middle of each kind of column, nulls among it
    whole = pa.array([9, 9, 1, None, 3, 9], pa.int64())
    bits = pa.array([True] * 9 + [False, True, False])
    texts = text_column(ints(pa.array([0, 1, 2, 1, 0])), ["a", "bé", "c"])
    assert ints(whole.slice(2, 3), if_null=-1).tolist() == [1, -1, 3]
    assert flags(bits.slice(9)).tolist() == [False, True, False]
    assert texts.slice(1, 3).to_pylist() == ["bé", "c", "bé"]
    assert codes(texts.slice(1, 3), lambda text: len(text or "")).tolist() == [2, 1, 2]


def test_codes_of_missing_texts_and_columns_of_nothing() -> None:
    plain = pa.array(["x", None, "yy"])
    assert codes(plain, lambda text: -1 if text is None else len(text)).tolist() == [1, -1, 2]
    assert ints(pa.array([], pa.int64())).tolist() == []
    assert flags(pa.array([], pa.bool_())).tolist() == []
