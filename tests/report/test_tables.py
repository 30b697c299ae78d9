"""Tables as shown and as downloaded."""

import base64

import pandas as pd

from tracekit.report import formatting as fmt

TABLE = pd.DataFrame(
    {
        "role": ["fs", None],
        "request_count": [37087, 2],
        "length_bytes": [4096, 512],
        "latency_p99_ns": [129601.4, None],
        "traffic_ratio": [0.613, 0.387],
        "run_avg_requests": [3638.0, 1.5],
        "depth_max": pd.array([5, None], dtype="Int64"),
    }
)


def test_cells_take_their_unit_from_the_name_of_the_column() -> None:
    shown = fmt.shown(TABLE)
    assert [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in shown.rows] == [
        ["fs", "37,087", "4 KiB", "130 µs", "61.3 %", "3,638", "5"],
        ["–", "2", "512 B", "–", "38.7 %", "1.5", "–"],  # noqa: RUF001
    ]


def test_titles_lose_their_unit_and_keep_name_and_meaning_for_the_tool_tip() -> None:
    shown = fmt.shown(TABLE, meanings={"length_bytes": "bytes of one request"})
    titles = [column.title for column in shown.columns]
    assert titles == [
        "role",
        "request count",
        "length bytes",
        "latency p99",
        "traffic share",
        "run avg requests",
        "depth max",
    ]
    assert shown.columns[2].name == "length_bytes"
    assert shown.columns[2].meaning == "bytes of one request"


def test_text_stands_left_and_numbers_right() -> None:
    assert [column.is_number for column in fmt.shown(TABLE).columns] == [False] + [True] * 6


def test_a_long_table_is_cut_and_says_how_long_it_is() -> None:
    shown = fmt.shown(pd.DataFrame({"block_count": range(5000)}), limit=10)
    assert len(shown.rows) == 10
    assert shown.row_count == 5000


def test_an_empty_table_has_its_columns() -> None:
    shown = fmt.shown(TABLE.head(0))
    assert len(shown.columns) == 7
    assert list(shown.rows) == []


def test_the_csv_holds_the_values_as_they_are() -> None:
    link = fmt.csv_link(pd.DataFrame({"process": ["</script>,x"], "request_count": [4092015]}))
    kind, _, content = link.partition(",")
    assert kind == "data:text/csv;base64"
    assert base64.b64decode(content) == b'process,request_count\n"</script>,x",4092015\n'


def test_a_csv_that_is_too_large_is_not_embedded() -> None:
    rows = fmt.CSV_LIMIT_BYTES // 2
    assert fmt.csv_link(pd.DataFrame({"a": [1] * rows})) == ""


def test_largest_passes_over_missing_values() -> None:
    table = pd.DataFrame({"name": ["a", "b", "c"], "depth_max": [2, None, 7]})
    assert fmt.largest(table, "depth_max")["name"] == "c"
