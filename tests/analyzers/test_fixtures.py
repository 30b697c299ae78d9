"""Each query gives what was worked out by hand for its small input, and nothing for no input."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.analyzers.folder import FIXTURES, fixture_parameters, fixture_tables, make, rows_of
from tracekit import query
from tracekit.analyze import ANALYSES, CHECKS
from tracekit.store import TraceFolder

REPLAY = (
    "replay/answered",
    "replay/outcomes",
    "replay/replayed",
    "replay/replayed_distribution",
    "replay/replayed_over_time",
    "replay/traced",
)
FILES = (
    "files/call_distribution",
    *("files/busiest_files", "files/dax_savings", "files/dax_verdicts", "files/file_calls"),
    *("files/file_points", "files/file_processes"),
    "files/replayed_file_calls",
)
SIMULATE = ("traffic/extents", "traffic/left_out")
QUERIES = (*ANALYSES, *CHECKS, *REPLAY, *SIMULATE, *FILES)


def run(folder: TraceFolder, name: str) -> Any:
    with query.connect(folder) as connection:
        return query.run(connection, name, **fixture_parameters(name))


def equals(value: Any, text: str) -> bool:
    if value is None or text == "":
        return value is None and text == ""
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, float):
        return math.isclose(value, float(text), rel_tol=1e-9)
    return str(value) == text


@pytest.mark.parametrize("name", QUERIES)
def test_small_input(name: str, tmp_path: Path) -> None:
    # GIVEN the input of the query's folder
    folder = make(tmp_path / "trace", fixture_tables(name))
    # WHEN the query runs
    found = run(folder, name)
    # THEN each row and column is as in expected.csv, in that order
    expected = rows_of(FIXTURES / name / "expected.csv")
    header = (FIXTURES / name / "expected.csv").read_text().partition("\n")[0]
    assert ",".join(found.schema.names) == header
    assert len(found) == len(expected) > 0
    for found_row, expected_row in zip(found.to_pylist(), expected, strict=True):
        wrong = {key for key, text in expected_row.items() if not equals(found_row[key], text)}
        assert not wrong, f"{found_row} should be {expected_row}"


@pytest.mark.parametrize("name", QUERIES)
def test_no_input(name: str, tmp_path: Path) -> None:
    # GIVEN tables without rows
    empty: dict[str, list[dict[str, str]]] = {table: [] for table in fixture_tables(name)}
    # WHEN the query runs
    found = run(make(tmp_path / "trace", empty), name)
    # THEN it has no rows, and the columns that the header names
    assert len(found) == 0
    assert set(found.schema.names) == set(query.read(name).columns)


def test_every_fixture_belongs_to_a_query() -> None:
    places = {str(file.parent.relative_to(FIXTURES)) for file in FIXTURES.glob("*/*/expected.csv")}
    assert places == set(QUERIES)
