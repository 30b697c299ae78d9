"""What the tables promise, and how they are stored."""

import gc
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.simulate.placement_models import Request, write_trace
from tests.traces import json_of, written
from tracekit import query
from tracekit.errors import InputError
from tracekit.metadata import read_object
from tracekit.report.page import report
from tracekit.store import TraceFolder, write_table
from tracekit.tables import COMPLETIONS, ROW_GROUP_ROWS


def with_column(file: Path, name: str, values: pa.Array) -> None:
    """Replace a column of a table."""
    table = pq.read_table(file)
    pq.write_table(table.set_column(table.schema.names.index(name), name, values), file)


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    return TraceFolder(write_trace(tmp_path, [Request("fs", 0)]))


DAMAGE: dict[str, tuple[Any, str]] = {
    "cut": (lambda f: f.write_bytes(f.read_bytes()[:-9]), "is not a readable Parquet file"),
    "empty": (lambda f: f.write_bytes(b""), "is not a readable Parquet file"),
    "foreign": (lambda f: pq.write_table(pa.table({"a": [1]}), f), "lacks the columns request_id"),
    "type": (lambda f: with_column(f, "sector", pa.array(["0"])), "sector is string, not int64"),
    "plain": (lambda f: with_column(f, "role", pa.array(["fs"])), "role is string, not dictionary"),
    "null": (lambda f: with_column(f, "sector", pa.nulls(1, pa.int64())), "sector has nulls"),
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_damaged_table_is_named_before_any_use(folder: TraceFolder, damage: str) -> None:
    spoil, message = DAMAGE[damage]
    spoil(folder.table("requests"))
    with pytest.raises(InputError, match=rf"requests\.parquet.* {message}") as caught:
        folder.require("requests", made_by="parse")
    assert caught.value.hint == "parse the capture again"
    with pytest.raises(InputError, match=message):
        query.connect(folder)


def test_a_damaged_page_is_an_error_of_the_analysis(tmp_path: Path) -> None:
    # GIVEN requests whose footer is whole and whose pages are not
    requests = [Request("fs", place * 8) for place in range(500)]
    folder = TraceFolder(write_trace(tmp_path, requests))
    file = folder.table("requests")
    data = bytearray(file.read_bytes())
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[4:end] = bytes(255 - byte for byte in data[4:end])
    file.write_bytes(data)
    # WHEN an analysis runs, THEN it says which, and that the tables are damaged
    with (
        query.connect(folder) as connection,
        pytest.raises(InputError, match=r"^traffic/totals cannot be worked out"),
    ):
        query.run(connection, "traffic/totals")


def test_a_finding_that_is_no_table_is_named(tmp_path: Path, folder: TraceFolder) -> None:
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings" / "mine.parquet").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"findings/mine\.parquet: .*too small"):
        query.connect(folder)


def test_a_report_names_the_foreign_table(tmp_path: Path, folder: TraceFolder) -> None:
    (tmp_path / "findings").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "findings" / "totals.parquet")
    with pytest.raises(InputError, match=r"totals\.parquet has no column role, ") as caught:
        report(folder, tmp_path / "report.html")
    assert caught.value.hint == f"run: tracekit analyze {tmp_path}"
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("name", ["recommendation.json", "replays/a/summary.json"])
def test_a_report_names_an_empty_summary(tmp_path: Path, folder: TraceFolder, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    pq.write_table(COMPLETIONS.empty_table(), tmp_path / "replays.parquet")
    if file.parent != tmp_path:
        (tmp_path / "replays.parquet").rename(file.with_name("completions.parquet"))
    with pytest.raises(InputError, match=rf"{name} has no "):
        report(folder, tmp_path / "report.html")


def test_what_a_killed_query_left_is_removed(tmp_path: Path) -> None:
    folder = TraceFolder(write_trace(tmp_path / "t", [Request("fs", 0)]))
    left = tmp_path / ".t.duckdb.tracekit-1-00000000"
    left.mkdir()
    with query.connect(folder):
        assert not left.exists()
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


INFO: dict[str, tuple[dict[str, Any], str]] = {
    "layout": ({"layout": 3}, "layout cannot be 3"),
    "entry": ({"layout": [None]}, "layout: entry 0 cannot be None"),
    "sectors": (
        {"layout": [{"device": "sda", "start_sector": 1 << 63, "sectors": 1}]},
        "layout, entry 0: start_sector cannot be 9223372036854775808",
    ),
    "warning": ({"warnings": [{"code": "x", "message": 5}]}, "warnings, entry 0: message cannot"),
    "size": ({"devices": [{"device": "a", "size_sectors": "1"}]}, "size_sectors cannot be '1'"),
    "clock": ({"clock": []}, r"clock cannot be \[\]"),
    "schema": ({"schema": "2"}, "has schema '2', this tracekit .* reads 1"),
}


@pytest.mark.parametrize("name", sorted(INFO))
def test_trace_json_with_a_wrong_value_is_rejected(tmp_path: Path, name: str) -> None:
    changes, message = INFO[name]
    file = write_trace(tmp_path, [Request("fs", 0)]) / "trace.json"
    file.write_text(json.dumps({**json_of(file), **changes}))
    with pytest.raises(InputError, match=rf"trace\.json.* {message}"):
        TraceFolder(tmp_path)


TEXTS = {
    "[]": "no object",
    '{"a": NaN}': "NaN is no number",
    '{"a": 1e999}': "1e999 is too large",
    '{"a": "\\ud800"}': "not UTF-8",
    '{"a": ' * 100_000: "nested too deeply",
    "{": "not valid JSON",
}


@pytest.mark.parametrize("text", TEXTS, ids=TEXTS.values())
def test_json_that_no_later_file_could_hold(tmp_path: Path, text: str) -> None:
    file = written(tmp_path / "x.json", text)
    with pytest.raises(InputError, match=TEXTS[text]):
        read_object(file, hint="")


def test_the_hint_for_a_missing_table_can_be_typed(tmp_path: Path) -> None:
    folder = TraceFolder(write_trace(tmp_path / "a trace; $(x)", [Request("fs", 0)]))
    with pytest.raises(InputError) as caught:
        folder.require("simulations/placement", made_by="recommend")
    assert caught.value.hint == f"run: tracekit recommend '{tmp_path}/a trace; $(x)'"


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
    file, given = tmp_path / "a.parquet", table()
    write_table(file, given)
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


def test_row_groups_share_columns_of_one_value(tmp_path: Path) -> None:
    # GIVEN three row groups; some columns have one value, some another one in the last group
    rows = 2 * ROW_GROUP_ROWS + 99_999
    last = np.arange(rows) >= 2 * ROW_GROUP_ROWS
    words = pa.array(["null", "b", "c"])
    columns = {
        "time": pa.array(np.arange(rows)),
        "missing": pa.nulls(rows, pa.int64()),
        "late": pa.array(np.full(rows, 7), mask=~last),
        "cpu": pa.array(np.where(last, 3, 0).astype(np.int32)),
        "is_sync": pa.array(last),
        "is_meta": pa.array(np.zeros(rows, bool)),
        "role": pa.DictionaryArray.from_arrays(pa.array(last.astype(np.int32)), words),
        "kind": pa.DictionaryArray.from_arrays(pa.array(np.full(rows, 2, np.int32)), words),
    }
    given = pa.table(columns)
    # WHEN they are written THEN two readers find the rows, and the statistics of each group
    write_table(file := tmp_path / "a.parquet", given)
    assert pq.read_table(file).equals(given)
    kinds = "count(late), sum(cpu), sum(is_sync::int), sum(is_meta::int), min(role), max(role)"
    with duckdb.connect() as database:
        found = database.read_parquet(str(file)).aggregate(f"sum(time), count(missing), {kinds}")
        assert found.fetchall() == [
            (rows * (rows - 1) // 2, 0, 99_999, 299_997, 99_999, 0, "b", "null")
        ]
    groups = [pq.read_metadata(file).row_group(at).to_dict() for at in range(3)]
    assert [one["num_rows"] for one in groups] == [ROW_GROUP_ROWS, ROW_GROUP_ROWS, 99_999]
    stats = [{c["path_in_schema"]: c["statistics"] for c in one["columns"]} for one in groups]
    assert [one["cpu"]["max"] for one in stats] == [0, 0, 3]
    assert [one["late"]["null_count"] for one in stats] == [ROW_GROUP_ROWS, ROW_GROUP_ROWS, 0]
    # AND a column of one value was encoded once: a group's are the bytes of the other's
    data = file.read_bytes()
    spans = [[(c["data_page_offset"], c) for c in one["columns"]] for one in groups[:2]]
    for (first, column), (second, _) in zip(*spans, strict=True):
        if column["path_in_schema"] != "time":
            size = column["total_compressed_size"] // 2
            assert data[first : first + size] == data[second : second + size]


def test_encodings_are_those_of_all_readers(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    write_table(file, table())
    columns = {
        column["path_in_schema"]: column
        for column in pq.ParquetFile(file).metadata.row_group(0).to_dict()["columns"]
    }
    # THEN places are differences, small numbers plain, words by dictionary, and nothing is newer
    assert "DELTA_BINARY_PACKED" in columns["time"]["encodings"]
    assert set(columns["pid"]["encodings"]) <= {"PLAIN", "RLE"}
    assert "RLE_DICTIONARY" in columns["role"]["encodings"]
    known = {"PLAIN", "RLE", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"}
    assert {name for column in columns.values() for name in column["encodings"]} <= known
    # AND numbers have extremes, by which readers pass over row groups
    extremes, times = columns["time"]["statistics"], table()["time"].to_pylist()
    assert (extremes["min"], extremes["max"]) == (times[0], times[-1])
    assert columns["role"]["statistics"] is None


def test_pages_are_large(tmp_path: Path) -> None:
    # GIVEN the same number throughout, whose pages a reader would open for nothing
    file = tmp_path / "a.parquet"
    write_table(file, pa.table({"error": pa.array(np.zeros(ROWS, np.int64))}))
    # THEN it is nearly nothing: 300,000 rows in pages of 20,000 would be some 1500 bytes
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert group.column(0).total_compressed_size < 600
