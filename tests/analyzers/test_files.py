"""Each SQL file is one statement with a header that says the truth."""

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
STEP = re.compile(r"^(?: {4})?(?:with )?(\w+) as (?:(?:not )?materialized )?\($", re.MULTILINE)


def described(header: str) -> Query:
    return parse("traffic/some", f"{header}\nselect 1\n")


def statement(name: str) -> str:
    """Return the text of a file below its header."""
    return re.sub(r"^--.*\n", "", read(name).text, flags=re.MULTILINE)


def words(name: str) -> set[str]:
    """Return the words of a file, and of the macros and views that it uses."""
    found = set(re.findall(r"\w+", statement(name)))
    used = [other for other in LIB if other != name and read(other).table in found]
    return found.union(*(words(other) for other in used))


def test_each_is_one_select_of_its_parameters() -> None:
    wrong = []
    for name in QUERIES:
        statements = duckdb.extract_statements(read(name).text)
        parameters = {parameter.name for parameter in read(name).parameters}
        if [found.type.name for found in statements] != ["SELECT"]:
            wrong.append(f"{name} is not one SELECT")
        elif statements[0].named_parameters != parameters:
            wrong.append(f"{name} takes {statements[0].named_parameters}, not {parameters}")
    assert wrong == []


def test_each_ends_with_its_last_step_in_an_order() -> None:
    tail = r"\)\n\nselect \*\nfrom {}\n(where .+\n)?order by\s[\w\s,]+\n$"
    wrong = [
        name
        for name in QUERIES
        if not re.search(tail.format(STEP.findall(read(name).text)[-1]), read(name).text)
    ]
    assert wrong == []


def test_no_step_is_unused() -> None:
    # GIVEN all steps, THEN another step or a macro names each; sqlfluff does not see the macros
    unused = [
        f"{name}: {step}"
        for name in files()
        for step in STEP.findall(read(name).text)
        if len(re.findall(rf"\b{step}\b", statement(name))) < 2
    ]
    assert unused == []


def test_defaults_are_within_their_range() -> None:
    wrong = [
        f"{name}: {parameter.name}"
        for name in QUERIES
        for parameter in read(name).parameters
        if not parameter.low <= parameter.default <= parameter.high
    ]
    assert wrong == []


def test_each_reads_the_tables_of_its_header_and_a_stage_makes_them() -> None:
    wrong = [
        f"{name}: {table}"
        for name in QUERIES
        for table in read(name).reads
        if table not in {*MADE_BY, *OF_EACH} or table not in words(name)
    ]
    assert wrong == []


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
