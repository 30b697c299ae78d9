"""The kernel against a count by hand, one request and one block at a time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit._native import hotness as native
from tracekit.errors import TracekitError

WINDOW_NS = 100
WINDOWS = 10
ROLES = 3

Row = tuple[int, int, int, int, int, int]  # device, sector, bytes, time, operation, role

rows = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 65535]),
        st.one_of(
            st.integers(0, 4096),
            st.sampled_from([-1, 1 << 40, (1 << 57) - 8, (1 << 57) - 1, 1 << 57, 1 << 62]),
        ),
        st.one_of(st.integers(0, 5000), st.sampled_from([-1, 300_000, 1 << 32, 1 << 62])),
        st.one_of(st.integers(-50, 1500), st.just(native.NO_TIME)),
        st.sampled_from([native.READ, native.WRITE, native.IGNORED]),
        st.integers(0, ROLES - 1),
    ),
    max_size=60,
)


def batch(table: list[Row]) -> native.Requests:
    columns = np.array(table, np.int64).reshape(-1, 6).T
    return native.Requests(
        device=columns[0].astype(np.uint16),
        sector=columns[1],
        length_bytes=columns[2],
        time_ns=columns[3],
        operation=columns[4].astype(np.uint8),
        role=columns[5].astype(np.uint8),
    )


def sparse(count: int) -> native.Requests:
    """Return reads of one block in each 640."""
    table = batch([(0, 0, 4096, 0, native.READ, 0)] * count)
    return native.Requests(**{**vars(table), "sector": np.arange(count, dtype=np.int64) * 8 * 640})


def counter(budget_bytes: int = 1 << 24) -> native.Hotness:
    return native.Hotness(budget_bytes, window_ns=WINDOW_NS, window_count=WINDOWS, role_count=ROLES)


class ByHand:
    """What the kernel must find, in dictionaries and sets."""

    def __init__(self, table: list[Row]) -> None:
        self.blocks: dict[tuple[int, int], dict[str, Any]] = {}
        self.distinct = np.zeros((WINDOWS, ROLES), np.uint64)
        self.fresh = np.zeros((WINDOWS, ROLES), np.uint64)
        self.requests = self.impossible = 0
        self.clock_ns = 0
        self.seen: set[tuple[int, int, int]] = set()
        for row in table:
            self.add(*row)

    def add(self, *row: int) -> None:
        device, sector, length, time_ns, operation, role = row
        if operation == native.IGNORED:
            return
        sectors = -(-length // 512)
        possible = sector >= 0 and 0 < length < 1 << 32 and sector + sectors <= 1 << 57
        self.requests += possible
        self.impossible += not possible
        if not possible:
            return
        time_ns = self.clock_ns if time_ns == native.NO_TIME else time_ns
        self.clock_ns = max(self.clock_ns, time_ns)
        window = min(self.clock_ns // WINDOW_NS, WINDOWS - 1)
        touched: dict[int, set[int]] = {}
        for place in range(sector, sector + sectors):
            touched.setdefault(place // 8, set()).add(place % 8)
        for block, parts in touched.items():
            self.touch((device, block), parts, (time_ns, window, operation, role))

    def touch(self, key: tuple[int, int], parts: set[int], how: tuple[int, int, int, int]) -> None:
        time_ns, window, operation, role = how
        new = {"times": [], "reads": 0, "writes": 0, "sectors": set(), "role": role, "roles": set()}
        block = self.blocks.setdefault(key, new)
        self.fresh[window, block["role"]] += block is new
        self.distinct[window, block["role"]] += (*key, window) not in self.seen
        self.seen.add((*key, window))
        block["times"].append(time_ns)
        block["reads"] += operation == native.READ
        block["writes"] += operation == native.WRITE
        block["sectors"] |= parts
        block["roles"].add(role)

    def records(self) -> list[tuple[int, ...]]:
        return [
            (
                *key,
                found["reads"],
                found["writes"],
                min(found["times"]),
                max(found["times"]),
                len(found["sectors"]),
                found["role"],
            )
            for key, found in sorted(self.blocks.items())
        ]


def exported(kernel: native.Hotness, capacity: int = 64) -> list[tuple[int, ...]]:
    names = ["device", "block", "reads", "writes", "first_ns", "last_ns", "sectors", "role"]
    return [
        tuple(int(record[name]) for name in names)
        for records in kernel.export(capacity)
        for record in records
    ]


@settings(deadline=None)
@given(rows)
def test_counts_what_a_count_by_hand_counts(table: list[Row]) -> None:
    by_hand = ByHand(table)
    with counter() as kernel:
        kernel.add(batch(table))
        totals = kernel.totals()
        distinct, fresh = kernel.windows()
        records = exported(kernel)
    assert records == by_hand.records()
    assert distinct.tolist() == by_hand.distinct.tolist()
    assert fresh.tolist() == by_hand.fresh.tolist()
    assert (totals.requests, totals.impossible) == (by_hand.requests, by_hand.impossible)
    assert totals.blocks == len(by_hand.blocks)
    assert totals.touches == sum(record[2] + record[3] for record in records)
    assert totals.mixed_blocks == sum(len(b["roles"]) > 1 for b in by_hand.blocks.values())
    assert totals.clock_ns == by_hand.clock_ns


@settings(deadline=None)
@given(rows, st.lists(st.tuples(st.sampled_from([0, 1, 65535]), st.integers(0, 600)), max_size=4))
def test_ranges_add_up(table: list[Row], cuts: list[tuple[int, int]]) -> None:
    firsts = [0, *sorted({native.key_of(device, block) for device, block in cuts} - {0})]
    lasts = [*(first - 1 for first in firsts[1:]), native.ALL_KEYS[1]]
    records: list[tuple[int, ...]] = []
    distinct = np.zeros((WINDOWS, ROLES), np.uint64)
    with counter() as kernel:
        for first, last in zip(firsts, lasts, strict=True):
            kernel.start(first, last)
            kernel.add(batch(table))
            distinct += kernel.windows()[0]
            records += exported(kernel)
    by_hand = ByHand(table)
    assert records == by_hand.records()
    assert distinct.tolist() == by_hand.distinct.tolist()


def test_a_long_request_over_many_leaves() -> None:
    # GIVEN 1,000,000 bytes from sector 5: parts of a block at both ends
    with counter() as kernel:
        kernel.add(batch([(0, 5, 1_000_000, 7, native.READ, 1)]))
        records = exported(kernel)
    # THEN 245 blocks are touched, the first in 3 sectors and the last in 7
    assert len(records) == 245
    assert records[0] == (0, 0, 1, 0, 7, 7, 3, 1)
    assert records[1] == (0, 1, 1, 0, 7, 7, 8, 1)
    assert records[-1] == (0, 244, 1, 0, 7, 7, 7, 1)


def test_memory_stays_within_the_budget() -> None:
    # GIVEN 100,000 blocks apart from each other, and 1 MiB
    table = sparse(100_000)
    with counter(1 << 20) as kernel:
        with pytest.raises(native.BudgetUsedUpError) as full:
            kernel.add(table)
        # THEN it stops within the budget, after at least 9,000 of them (at most 116 bytes each)
        assert 9_000 < full.value.done < 20_000
        assert kernel.totals().memory_bytes <= 1 << 20
        # AND the cuts that it offers part what it found into equal ranges
        blocks = [key * 64 for key in kernel.cuts(4)]
        found = full.value.done * 640
        assert [round(block / found, 2) for block in blocks] == [0.25, 0.5, 0.75]


def test_blocks_are_found_again_however_many_there_are() -> None:
    # GIVEN 20,000 blocks in as many leaves, so that the map has grown several times
    table = sparse(20_000)
    with counter() as kernel:
        kernel.add(table)
        kernel.add(table)
        records = exported(kernel, 4096)
    assert [(record[1], record[2]) for record in records] == [(n * 640, 2) for n in range(20_000)]


def test_roles_that_share_a_block_are_counted() -> None:
    # GIVEN a block touched for two roles and another for one, twice
    rows: list[Row] = [(0, 0, 4096, 0, 0, 2), (0, 0, 4096, 0, 0, 1)]
    rows += [(0, 8, 4096, 0, 0, 1), (0, 8, 4096, 0, 0, 1)]
    with counter() as kernel:
        kernel.add(batch(rows))
        # THEN one is mixed, and the role of the first request stays
        assert kernel.totals().mixed_blocks == 1
        assert [record[-1] for record in exported(kernel)] == [2, 1]


def test_leaves_that_grew_leave_their_room_to_others() -> None:
    # GIVEN 1,000 leaves that grow from 1 block to 33, one leaf after the other
    rows: list[Row] = [
        (0, (leaf * 64 + block) * 8, 4096, 0, native.READ, 0)
        for leaf in range(1000)
        for block in range(33)
    ]
    with counter() as kernel:
        kernel.add(batch(rows))
        memory = kernel.totals().memory_bytes
    # THEN they take 64 rows each, and not also the 63 of all the sizes before
    assert memory < 1000 * (64 * 40 + 16) * 1.1


def test_dense_blocks_take_less_than_fifty_bytes() -> None:
    # GIVEN a megablock read from one end to the other
    with counter(64 << 20) as kernel:
        for start in range(0, 1 << 20, 1 << 10):
            kernel.add(batch([(0, start * 8, 4096 << 10, 0, native.READ, 0)]))
        totals = kernel.totals()
    # THEN a block takes its 40 bytes and a share of its leaf and of the map
    assert totals.blocks == 1 << 20
    assert totals.memory_bytes < 50 * (1 << 20)


def test_more_cuts_than_leaves_are_not_invented() -> None:
    with counter() as kernel:
        kernel.add(batch([(0, 0, 4096, 0, 0, 0), (3, 8 << 20, 4096, 0, 0, 0)]))
        assert kernel.cuts(10) == [native.key_of(3, 1 << 20)]


def test_a_range_of_nothing_is_empty() -> None:
    with counter() as kernel:
        kernel.add(batch([]))
        assert kernel.totals() == native.Totals(0, 0, 0, 0, 0, kernel.totals().memory_bytes, 0)
        assert exported(kernel) == []


@pytest.mark.parametrize(
    ("budget_bytes", "window_ns", "window_count"), [(65535, 1, 1), (1 << 20, 0, 1), (1 << 20, 1, 0)]
)
def test_bad_settings_are_rejected(budget_bytes: int, window_ns: int, window_count: int) -> None:
    with pytest.raises(TracekitError, match="cannot count block accesses"):
        native.Hotness(budget_bytes, window_ns=window_ns, window_count=window_count, role_count=1)


def test_bad_columns_are_rejected() -> None:
    table = batch([(0, 0, 4096, 0, native.READ, 0)])
    with counter() as kernel:
        with pytest.raises(ValueError, match="differ in length"):
            kernel.add(native.Requests(**{**vars(table), "sector": np.zeros(2, np.int64)}))
        with pytest.raises(TracekitError, match="Invalid argument"):
            kernel.add(batch([(0, 0, 4096, 0, native.READ, ROLES)]))
