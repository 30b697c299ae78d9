"""Columns of requests as accesses to pages, against the obvious loop."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit._native.caches import NEITHER, READ, WRITE, AccessColumns, make_accesses
from tracekit.errors import TracekitError
from tracekit.model.miss_ratio_curve import DEVICE_PAGES, Accesses

NUMBERS = st.one_of(st.integers(-2, 40), st.sampled_from([-(1 << 63), (1 << 57) - 1, 1 << 57]))
LENGTHS = st.one_of(st.integers(-1, 9000), st.sampled_from([(1 << 32) - 1, 1 << 32, (1 << 63) - 1]))
ROW = st.tuples(NUMBERS, LENGTHS, st.integers(0, 1), st.integers(0, 3), st.integers(0, 2))
KINDS = (READ, WRITE, NEITHER, READ)
FIRST_KEYS = (0, 1 << 40)


def columns(rows: list[tuple[int, ...]]) -> AccessColumns:
    """Return rows of sector, length, device, operation and role."""
    table = np.array(rows, np.int64).reshape(-1, 5)
    device, operation, role = (table[:, at].astype(np.int32) for at in (2, 3, 4))
    keys, kinds = np.array(FIRST_KEYS, np.int64), np.array(KINDS, np.uint8)
    roles = np.array([4, 0, 2], np.uint8)
    return AccessColumns(table[:, 0], table[:, 1], device, operation, role, keys, kinds, roles)


@settings(deadline=None)
@given(rows=st.lists(ROW, max_size=20), page_bytes=st.sampled_from([512, 4096, 1 << 20]))
def test_accesses_are_the_pages_that_requests_touch(
    rows: list[tuple[int, ...]], page_bytes: int
) -> None:
    expected, impossible = [], 0
    for sector, length, device, operation, role in rows:
        kind = KINDS[operation]
        if kind == NEITHER:
            continue
        if not (0 <= sector < 1 << 57 and 0 < length < 1 << 32):
            impossible += 1
            continue
        first = sector * 512 // page_bytes
        last = (sector * 512 + length - 1) // page_bytes
        key = FIRST_KEYS[device] + first
        expected.append((key, last - first + 1, kind, (4, 0, 2)[role], 0))
    found, count = make_accesses(columns(rows), page_bytes)
    assert found.tolist() == expected
    assert count == impossible


@pytest.mark.parametrize(
    "row", [(0, 1, 2, 0, 0), (0, 1, -1, 0, 0), (0, 1, 0, 4, 0), (0, 1, 0, 0, 3)]
)
def test_an_index_beyond_its_table_is_refused(row: tuple[int, ...]) -> None:
    with pytest.raises(TracekitError, match="failed"):
        make_accesses(columns([row]), 4096)


def test_devices_are_apart_and_names_may_be_missing(tmp_path: Path) -> None:
    # GIVEN a file whose row groups name the devices in another order, and have nulls
    file = tmp_path / "requests.parquet"
    texts, numbers = ("device", "operation", "role"), ("sector", "length_bytes")
    names = ("device", *numbers, *texts[1:])
    schema = pa.schema([(name, pa.int64() if name in numbers else pa.string()) for name in names])
    groups: list[list[tuple[Any, ...]]] = [
        [("sdb", 8, 4096, "read", "swap"), ("sda", 0, 4096, "write", None)],
        [
            ("sda", 16, 8192, "read", "new"),
            ("sdb", None, 1, "read", "fs"),
            ("sda", 0, 1, None, "fs"),
        ],
    ]
    with pq.ParquetWriter(file, schema) as writer:
        for group in groups:
            table = [dict(zip(schema.names, row, strict=True)) for row in group]
            writer.write_table(pa.Table.from_pylist(table, schema))
    # WHEN they are read
    accesses = Accesses(file, 4096)
    rows = np.concatenate(list(accesses.read()))
    # THEN each device has its own keys, and what has no place is counted
    assert accesses.device_names == ["sdb", "sda"]
    assert rows["key"].tolist() == [1, DEVICE_PAGES, DEVICE_PAGES + 2]
    assert rows[["count", "is_write", "role"]].tolist() == [(1, 0, 2), (1, 1, 4), (2, 0, 4)]
    assert accesses.impossible == 1
