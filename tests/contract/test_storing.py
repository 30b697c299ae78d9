"""How tables are stored: small, in few pages, and by encodings that other readers know."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.store import write_table

ROWS = 300_000


def table() -> pa.Table:
    """Return rows of all types that tables have, with nulls in some."""
    pick = np.random.default_rng(1)
    numbers = pick.integers(0, 1 << 40, ROWS)
    columns = {
        "time": pa.array(np.sort(numbers)),
        "pid": pa.array(pick.integers(0, 9, ROWS).astype(np.int32), mask=numbers % 7 == 0),
        "share": pa.array(pick.random(ROWS)),
        "is_sync": pa.array(numbers % 3 == 0),
        "role": pa.array(np.array(["fs", "swap"])[numbers % 2]).dictionary_encode(),
        "place": pa.array(numbers, mask=numbers % 5 == 0),
    }
    return pa.table(columns)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    # GIVEN a table, WHEN it is written
    file, given = tmp_path / "a.parquet", table()
    write_table(file, given)
    # THEN Arrow reads the same, and DuckDB the same sums
    assert pq.read_table(file).equals(given)
    sums = "sum(time), sum(pid), count(pid), sum(place), sum(is_sync::int), count(*)"
    with duckdb.connect() as database:
        database.register("given", given)
        database.register("stored", database.read_parquet(str(file)))
        mine, theirs = (
            database.table(name).aggregate(f"role, {sums}", "role").order("role").fetchall()
            for name in ("given", "stored")
        )
    assert len(mine) == len(("fs", "swap"))
    assert mine == theirs


def test_encodings_are_those_of_all_readers(tmp_path: Path) -> None:
    # GIVEN a table that was written, WHEN one looks at how
    file = tmp_path / "a.parquet"
    write_table(file, table())
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = {
        column.path_in_schema: column for column in map(group.column, range(group.num_columns))
    }
    # THEN places are differences, small numbers plain, words by dictionary, and nothing is newer
    assert "DELTA_BINARY_PACKED" in columns["time"].encodings
    assert set(columns["pid"].encodings) <= {"PLAIN", "RLE"}
    assert "RLE_DICTIONARY" in columns["role"].encodings
    known = {"PLAIN", "RLE", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"}
    assert {name for column in columns.values() for name in column.encodings} <= known
    # AND numbers have extremes, by which readers pass over row groups
    extremes = columns["time"].statistics
    assert (extremes.min, extremes.max) == (
        pq.read_table(file)["time"][0].as_py(),
        pq.read_table(file)["time"][-1].as_py(),
    )
    assert columns["role"].statistics is None


def test_pages_are_large(tmp_path: Path) -> None:
    # GIVEN the same number throughout, whose pages a reader would open for nothing
    file = tmp_path / "a.parquet"
    write_table(file, pa.table({"error": pa.array(np.zeros(ROWS, np.int64))}))
    # THEN it is nearly nothing: 300,000 rows in pages of 20,000 would be some 1500 bytes
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert group.column(0).total_compressed_size < 600
