"""Each SQL file is one statement with a header that says the truth."""

from __future__ import annotations

import re

import duckdb
import pytest

from tests.analyzers.folder import OF_EACH
from tests.analyzers.index import FOLDER, INDEX, TITLES, files, index
from tests.analyzers.test_fixtures import QUERIES
from tracekit.errors import InputError, UsageError
from tracekit.query import Query, parse, read
from tracekit.tables import MADE_BY

LIB = [name for name in files() if name.startswith("lib/")]
VIEWS = ("steps", "gaps", "completions", "replay_times")


def described(header: str) -> Query:
    return parse("traffic/some", f"{header}\nselect 1\n")


@pytest.mark.parametrize("name", QUERIES)
def test_is_one_select(name: str) -> None:
    statements = duckdb.extract_statements(read(name).text)
    assert [statement.type.name for statement in statements] == ["SELECT"]
    assert statements[0].named_parameters == {parameter.name for parameter in read(name).parameters}


@pytest.mark.parametrize("name", QUERIES)
def test_ends_with_its_last_step_in_an_order(name: str) -> None:
    text = read(name).text
    last_step = re.findall(r"^(\w+) as \($", text, re.MULTILINE) or re.findall(
        r"^with (\w+) as \($", text, re.MULTILINE
    )
    tail = rf"\)\n\nselect \*\nfrom {last_step[-1]}\n(where .+\n)?order by\s[\w\s,]+\n$"
    assert re.search(tail, text)


@pytest.mark.parametrize("name", QUERIES)
def test_defaults_are_within_their_range(name: str) -> None:
    for parameter in read(name).parameters:
        assert parameter.low <= parameter.default <= parameter.high


@pytest.mark.parametrize("name", QUERIES)
def test_reads_tables_that_a_stage_makes(name: str) -> None:
    assert set(read(name).reads) <= {*MADE_BY, *OF_EACH}
    for table in read(name).reads:
        assert re.search(rf"\b{table}\b|\bsteps\b|\bgaps\b|\breplay_times\b", read(name).text)


def test_every_file_is_run_by_somebody() -> None:
    assert set(files()) == {*QUERIES, *LIB}


def test_table_names_are_unique_and_hide_no_other_table() -> None:
    names = [read(name).table for name in QUERIES]
    assert len(names) == len(set(names))
    assert not {*MADE_BY, *VIEWS, "checks"} & set(names)


def test_folders_are_all_in_the_index() -> None:
    assert {name.partition("/")[0] for name in files()} == set(TITLES)
    assert {place.name for place in FOLDER.iterdir() if place.is_dir()} == set(TITLES)


def test_index_is_what_the_headers_say_now() -> None:
    assert INDEX.read_text() == index(), "run: make docs"


def test_header_goes_on_over_lines_up_to_an_empty_comment() -> None:
    query = described(
        "-- question: How\n-- much?\n-- grain: one row\n-- reads: requests, blocks\n"
        "-- parameter: part_count (parts, 1 to 9, default 4): how\n-- many parts\n"
        "-- column: a, b: both\n--\n-- This is no meaning."
    )
    assert query.question == "How much?"
    assert query.reads == ("requests", "blocks")
    assert query.parameters[0].meaning == "how many parts"
    assert query.values({}) == {"part_count": 4}
    assert query.columns == {"a": "both", "b": "both"}


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("-- grain: one row\n-- reads: requests", "'-- question:' exactly once"),
        ("-- question: a?\n-- question: b?\n-- grain: c\n-- reads: d", "'-- question:' exactly"),
        ("-- question: a?\n-- grain: b\n-- reads: c\n-- parameter: d (e): f", "default 5"),
        ("-- question: a?\n-- grain: b\n-- reads: c\n-- column: d", "the column is not"),
    ],
)
def test_wrong_headers_are_refused(header: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        described(header)


def test_values_out_of_range_and_unknown_names_are_refused() -> None:
    query = read("traffic/throughput")
    with pytest.raises(UsageError, match="window_count is 0 windows"):
        query.values({"window_count": 0})
    with pytest.raises(UsageError, match="no parameter 'window'"):
        query.values({"window": 3})


def test_unknown_file() -> None:
    with pytest.raises(UsageError, match="no analysis 'traffic/nothing'"):
        read("traffic/nothing")
