"""A user's statement can read the trace's tables, and do nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analyzers.folder import make
from tracekit import query
from tracekit.errors import TracekitError, UsageError
from tracekit.store import TraceFolder

REQUESTS = [{"queue_ns": "0", "role": "fs"}, {"queue_ns": "5", "role": "journal"}]
NAMES = ["plain", "it's", 'a "b" c', "[ab]", "a*b?", "äö", "x{y,z}", "two  spaces"]


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    return make(tmp_path / "it's [a] trace", {"requests": REQUESTS})


@pytest.fixture
def connection(folder: TraceFolder) -> Iterator[Any]:
    with query.connect_locked(folder, memory_mib=128) as locked:
        yield locked


def files(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def filled(text: str, folder: TraceFolder) -> str:
    """Put the paths of a trace folder and of what is outside into a statement."""
    for name, path in (("{folder}", folder.path), ("{outside}", folder.path.parent)):
        text = text.replace(name, str(path).replace("'", "''"))
    return text


def rows(connection: Any, text: str) -> list[dict[str, Any]]:
    return [row for batch in query.ask(connection, text).batches for row in batch.to_pylist()]


@pytest.mark.parametrize("name", NAMES)
def test_any_trace_name_can_be_read(name: str, tmp_path: Path) -> None:
    # GIVEN a trace whose name is a pattern or has quotes, and one that the pattern matches
    make(tmp_path / "a", {"requests": []})
    make(tmp_path / "aXbY", {"requests": []})
    folder = make(tmp_path / name, {"requests": REQUESTS})
    with query.connect_locked(folder, memory_mib=128) as connection:
        found = rows(connection, "select count(*) as n from requests")
    assert found == [{"n": 2}]


@pytest.mark.parametrize(
    "text",
    [
        "select role from requests order by role",
        "from requests select role order by role;",
        "with roles as (select role from requests) select * from roles order by role",
        "(select role from requests) order by role",
        "-- a comment\nselect role from requests order by role",
        "select distinct role from steps right join requests using (role) order by role",
    ],
)
def test_reading_is_possible(connection: Any, text: str) -> None:
    assert rows(connection, text) == [{"role": "fs"}, {"role": "journal"}]


@pytest.mark.parametrize(
    "text",
    [
        "values (1), (2)",
        "describe requests",
        "show tables",
        "summarize requests",
        "explain select * from requests",
        "explain analyze select * from requests",
        "EXPLAIN (format json) select * from requests",
        "pivot requests on role in ('fs', 'journal') using count(*)",
    ],
)
def test_other_statements_that_read_are_possible(connection: Any, text: str) -> None:
    assert rows(connection, text)


@pytest.mark.parametrize(
    "text",
    [
        "copy requests to '{folder}/stolen.csv'",
        "copy (select 1) to '{folder}/requests.parquet'",
        "COPY requests TO '{outside}/stolen.csv'",
        "explain analyze copy (select 1) to '{folder}/requests.parquet'",
        "explain /* x */ analyze copy (select 1) to '{folder}/requests.parquet'",
        "explain -- x\nanalyze copy (select 1) to '{folder}/requests.parquet'",
        "export database '{outside}/all'",
        "attach '{outside}/new.db'",
        "attach ':memory:' as other",
        "install httpfs",
        "load httpfs",
        "set threads = 1",
        "set enable_external_access = true",
        "reset enable_external_access",
        "set lock_configuration = false",
        "pragma enable_profiling",
        "pragma database_list",
        "call pragma_version()",
        "create table stolen as select * from requests",
        "create macro f() as 1",
        "create or replace view requests as select 1",
        "drop view requests",
        "insert into requests values (1)",
        "delete from requests",
        "update requests set role = 'fs'",
        "prepare p as select 1",
        "begin",
        "checkpoint",
        "vacuum",
        "use memory",
        "select 1; select 2",
        "select 1; copy requests to '{folder}/stolen.csv'",
        "",
        ";",
        "-- only a comment",
        "selec 1",
        "select nothing from requests",
    ],
)
def test_other_statements_are_rejected(connection: Any, folder: TraceFolder, text: str) -> None:
    outside = folder.path.parent
    before = files(outside)
    with pytest.raises(UsageError):
        rows(connection, filled(text, folder))
    assert files(outside) == before
    assert rows(connection, "select count(*) as n from requests") == [{"n": 2}]


@pytest.mark.parametrize(
    "text",
    [
        "select * from read_text('/etc/passwd')",
        "select * from read_csv('/etc/passwd')",
        "select * from read_blob('/etc/*')",
        "select * from glob('/etc/*')",
        "select * from sniff_csv('/etc/passwd')",
        "select * from read_text('{folder}/trace.json')",
        "select * from read_parquet('{folder}/../other/requests.parquet')",
        "select * from '/etc/passwd'",
        "select * from query('select * from read_text(''/etc/passwd'')')",
        "select * from 'https://localhost/data.parquet'",
        "select getenv('HOME')",
        "with x as (insert into requests values (1) returning *) select * from x",
    ],
)
def test_no_other_file_can_be_read(connection: Any, folder: TraceFolder, text: str) -> None:
    make(folder.path.parent / "other", {"requests": REQUESTS})
    with pytest.raises(TracekitError):
        rows(connection, filled(text, folder))


def test_lock_holds_without_our_own_check(connection: Any, folder: TraceFolder) -> None:
    # GIVEN the database itself, as if our check of statements had let something through
    before = files(folder.path.parent)
    for text in (
        f"copy (select 1) to '{folder.path.parent}/stolen.csv'",
        "set enable_external_access = true",
        f"attach '{folder.path.parent}/new.db'",
    ):
        with pytest.raises(Exception, match=r"disabled|locked"):
            connection.execute(text)
    assert files(folder.path.parent) == before


def test_failure_while_rows_come_is_ours(connection: Any) -> None:
    with pytest.raises(UsageError, match="Conversion Error"):
        rows(connection, "select cast(role as integer) as number from requests")


def test_sort_beyond_the_memory_spills_and_goes_away(tmp_path: Path) -> None:
    # GIVEN a database of 64 MiB
    folder = make(tmp_path / "trace", {"requests": REQUESTS})
    with query.connect_locked(folder, memory_mib=64) as connection:
        # WHEN 8 million numbers, four times the memory, are sorted with a payload
        found = rows(
            connection,
            "select max(place) as n from (select row_number() over (order by hash(range)) as place,"
            " range, range as again, range as third from range(8000000)) where range >= 0",
        )
    # THEN it succeeds on disk, and the disk is given back
    assert found == [{"n": 8_000_000}]
    del connection
    assert [file.name for file in tmp_path.iterdir()] == ["trace"]


def test_too_little_memory_says_what_to_do(tmp_path: Path) -> None:
    folder = make(tmp_path / "trace", {"requests": REQUESTS})
    with (
        query.connect_locked(folder, memory_mib=64) as connection,
        pytest.raises(TracekitError, match="does not fit") as caught,
    ):
        rows(connection, "select len(list(range)) as n from range(100000000)")
    assert caught.value.hint == "give it more with --memory"
