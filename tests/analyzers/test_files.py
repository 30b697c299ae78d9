"""Each SQL file is one statement with a true header, and gives what was worked out by hand."""

import math
import random
import re
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.analyzers.folder import (
    FIXTURES,
    OF_EACH,
    csv_rows,
    fixture_parameters,
    fixture_tables,
    make,
    set_database,
)
from tests.analyzers.index import FOLDER, INDEX, TITLES, files, index
from tests.house.tree import files as source_files
from tracekit import query, replay_buckets, request_buckets
from tracekit.errors import InputError, UsageError
from tracekit.fleet.set_tables import MADE, OF_VOLUMES
from tracekit.query import Query, parse, read
from tracekit.store import TraceFolder
from tracekit.tables import MADE_BY
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

QUERIES = tuple(name for name in files() if not name.startswith("lib/"))


def run(folder: TraceFolder, name: str) -> Any:
    with query.connect(folder) as connection:
        return query.run(connection, name, **fixture_parameters(name))


def found_in(tables: dict[str, list[dict[str, str]]], name: str, path: Path) -> Any:
    """Run a query on a trace folder, or a trace set, with these tables."""
    if not name.startswith("set/"):
        return run(make(path, tables), name)
    with set_database(tables) as connection:
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
    found = found_in(fixture_tables(name), name, tmp_path / "trace")
    # THEN each row and column is as in expected.csv, in that order
    expected = csv_rows(FIXTURES / name / "expected.csv")
    header = (FIXTURES / name / "expected.csv").read_text().partition("\n")[0]
    assert ",".join(found.schema.names) == header
    assert len(found) == len(expected) > 0
    for found_row, expected_row in zip(found.to_pylist(), expected, strict=True):
        wrong = {key for key, text in expected_row.items() if not equals(found_row[key], text)}
        assert not wrong, f"{found_row} should be {expected_row}"


@pytest.mark.parametrize("name", QUERIES)
def test_no_input(name: str, tmp_path: Path) -> None:
    empty: dict[str, list[dict[str, str]]] = {table: [] for table in fixture_tables(name)}
    found = found_in(empty, name, tmp_path / "trace")
    # THEN it has no rows, and the columns that the header names
    assert len(found) == 0
    assert set(found.schema.names) == set(query.read(name).columns)


def test_every_fixture_belongs_to_a_query() -> None:
    places = {str(file.parent.relative_to(FIXTURES)) for file in FIXTURES.glob("*/*/expected.csv")}
    assert places == set(QUERIES)


LIB = [name for name in files() if name.startswith("lib/")]
VIEWS = ("steps", "gaps", "completions", "replay_times")
PASSES = {
    "lib/rows_to_count": request_buckets.LEAST_BITS,
    "lib/replayed_rows_to_count": replay_buckets.LEAST_BITS,
}
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
    used += [rows for rows, tables in PASSES.items() if {*tables} & {*read(name).counted}]
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
    # (sqlfluff does not see that macros use them)
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
        if table not in {*MADE_BY, *OF_EACH, *OF_VOLUMES, *MADE} or table not in words(name)
    ]
    assert wrong == []


def test_each_names_what_one_pass_counts_for_it() -> None:
    wrong = [
        name
        for name in QUERIES
        if {*read(name).counted}
        != {*chain(*PASSES.values())} & {*re.findall(r"\w+", statement(name))}
    ]
    assert wrong == []


def test_every_file_is_run_by_somebody() -> None:
    source = "".join(path.read_text() for path in source_files("*.py", under="tracekit"))
    assert [name for name in QUERIES if f'"{name}"' not in source] == []


def test_table_names_are_unique_and_hide_no_other_table() -> None:
    names = [read(name).table for name in QUERIES]
    assert len(names) == len(set(names))
    assert not {*MADE_BY, *VIEWS, "checks"} & set(names)


def test_the_index_has_all_folders_and_what_the_headers_say() -> None:
    assert {name.partition("/")[0] for name in files()} == set(TITLES)
    assert {place.name for place in FOLDER.iterdir() if place.is_dir()} == set(TITLES)
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
def test_wrong_headers_are_rejected(header: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        described(header)


def test_values_out_of_range_and_unknown_names_are_rejected() -> None:
    query = read("traffic/throughput")
    with pytest.raises(UsageError, match="window_count is 0 windows"):
        query.values({"window_count": 0})
    with pytest.raises(UsageError, match="no parameter 'window'"):
        query.values({"window": 3})
    with pytest.raises(UsageError, match="no analysis 'traffic/nothing'"):
        read("traffic/nothing")


def bucket_of(value: int, bits: int) -> int:
    """Count the bucket without logarithms: shift until `bits` + 1 bits are left."""
    shift = max(0, value.bit_length() - 1 - bits)
    return (shift << bits) + (value >> shift)


def buckets(values: list[int], bits: int) -> list[tuple[int, int, int]]:
    with query.empty(near=Path.cwd() / "macros") as connection:
        connection.register("samples", pa.table({"value": pa.array(values, pa.int64())}))
        relation = connection.sql(
            "select log_bucket(value, $bits) as bucket, log_bucket_low(bucket, $bits),"
            " log_bucket_low(bucket + 1, $bits) from samples",
            params={"bits": bits},
        )
        return [(bucket, low, high) for bucket, low, high in relation.fetchall()]


# Each example opens a database, whose time says nothing on a busy machine.
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**61), min_size=1, max_size=50), st.integers(0, 10))
def test_bucket_holds_its_value(values: list[int], bits: int) -> None:
    for value, (bucket, low, high) in zip(values, buckets(values, bits), strict=True):
        assert bucket == bucket_of(value, bits)
        assert low <= value < high
        assert high - low <= max(1, low >> bits)


def test_bounds_of_octaves() -> None:
    # Doubles round 2^k - 1 up to 2^k from k = 49 on; the bucket must not notice.
    values = [2**k + step for k in range(2, 62) for step in (-1, 0, 1)]
    assert [found[0] for found in buckets(values, 7)] == [bucket_of(value, 7) for value in values]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_percentiles_are_within_a_bucket_of_the_exact_rank(seed: int, tmp_path: Path) -> None:
    # GIVEN 3,000 requests with service times over six decades
    generator = random.Random(seed)  # noqa: S311 - no secret
    times = [int(10 ** generator.uniform(1, 7)) for _ in range(3000)]
    rows = [
        {"queue_ns": "0", "issue_ns": "0", "transfer_ns": str(time), "complete_ns": str(time)}
        for time in times
    ]
    with query.connect(make(tmp_path / "trace", {"requests": rows})) as connection:
        table = query.run(connection, "latency/latency").to_pylist()
    found = next(row for row in table if row["step"] == "d2c")
    # THEN minimum, maximum and mean are exact and percentiles less than 1/128 above the rank
    times.sort()
    assert (found["latency_min_ns"], found["latency_max_ns"]) == (times[0], times[-1])
    assert math.isclose(found["latency_avg_ns"], sum(times) / len(times))
    for name, ratio in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        exact = times[math.ceil(ratio * len(times)) - 1]
        assert exact <= found[f"latency_{name}_ns"] <= exact * (1 + 1 / 128)


def test_sizes_are_those_of_the_tables() -> None:
    with query.empty(near=Path.cwd() / "macros") as connection:
        found = connection.sql("select sector_bytes(), block_bytes()").fetchall()
    assert found == [(SECTOR_BYTES, BLOCK_BYTES)]


def test_half_intervals_are_those_of_students_t(tmp_path: Path) -> None:
    with query.connect(make(tmp_path / "trace", {"file_runs": []})) as connection:
        rows = connection.sql("select range, t95(range) from range(-1, 1003)").fetchall()
    found = dict(rows)
    assert (found[-1], found[0]) == (None, None)
    for freedom in range(1, 1001):
        assert math.isclose(found[freedom], stats.t.ppf(0.975, freedom), rel_tol=1e-12), freedom
    assert found[1002] == found[1000]
