"""Which files are logs of databases: the rules that are shipped, and those of a user."""

from pathlib import Path

import pytest

from tests.command_line import invoke, refused
from tests.simulate.placement_models import Request, write_trace
from tests.traces import disk, rows_of, written
from tracekit.errors import InputError
from tracekit.model.database_logs import load_rules, with_logs
from tracekit.model.file_extents import read_logs
from tracekit.stack.file_map import given_table
from tracekit.store import write_table

LOGS = {
    "/var/lib/postgresql/15/main/pg_wal/000000010000000000000001": "postgresql",
    "/var/lib/mysql/ib_logfile0": "innodb",
    "/var/lib/mysql/#innodb_redo/#ib_redo17": "innodb",
    "/srv/rocks/000012.log": "rocksdb",
    "/var/lib/etcd/member/wal/0000000000000000-0000000000000000.wal": "etcd",
    "/kafka/events-0/00000000000000000000.log": "kafka",
    "/srv/me/places.sqlite-wal": "sqlite",
    "/srv/me/cookies.db-journal": "sqlite",
    "/data/db/journal/WiredTigerLog.0000000001": "mongodb",
}
OTHERS = (
    *("/var/lib/postgresql/15/main/base/1/1259", "/var/lib/mysql/ibdata1", "/srv/rocks/000011.sst"),
    *("/srv/rocks/CURRENT", "/srv/rocks/MANIFEST-000004", "/srv/other/000012.log"),
    *("/kafka/events-0/00000000000000000000.index", "/srv/me/places.sqlite", "/srv/me/no-wal"),
    *("/srv/me/cookies.db", "/var/log/syslog", "/x/pg_wal", "/x/xib_logfile0"),
)


def logs_of(paths: list[str], given: Path | None = None) -> dict[str, str]:
    pieces = [("sda", 8 * number, 8, path, 0) for number, path in enumerate(paths)]
    rows = with_logs(given_table(pieces), load_rules(given)).to_pylist()
    return {row["path"]: row["log"] for row in rows if row["log"]}


def test_logs_are_known_by_their_paths() -> None:
    assert logs_of([*LOGS, *OTHERS]) == LOGS


def test_a_user_adds_and_replaces_rules(tmp_path: Path) -> None:
    rules = '[mine]\nfiles = ["redo-*.bin"]\n[sqlite]\nfiles = ["*.wal2"]\n'
    file = written(tmp_path / "rules.toml", rules)
    assert logs_of([*LOGS, "/x/redo-1.bin", "/x/a.wal2"], file) == {
        **{
            path: log
            for path, log in LOGS.items()
            if log != "sqlite" and log not in ("rocksdb", "kafka")
        },
        "/x/redo-1.bin": "mine",
        "/x/a.wal2": "sqlite",
    }


def test_a_database_has_one_log(tmp_path: Path) -> None:
    # GIVEN rules of a user for what no shipped one knows, or what lies deeper than it says
    rules = """
        [mydb]
        files = ["log/*/[0-9]*"]
        [postgresql]
        files = ["pg_wal/*", "pg_wal/archive_status/*"]
    """
    units = {
        "/my/log/a/1": "log of mydb in /my/log",
        "/my/log/b/1": "log of mydb in /my/log",
        "/db1/pg_wal/1": "log of postgresql in /db1/pg_wal",
        "/db1/pg_wal/archive_status/2": "log of postgresql in /db1/pg_wal",
        "/db2/pg_wal/1": "log of postgresql in /db2/pg_wal",
        "/my/ib_logfile0": "log of innodb in /my",
        "/my/#innodb_redo/#ib_redo1": "log of innodb in /my",
    }
    pieces = [("sda", 8 * number, 8, path, 0) for number, path in enumerate(units)]
    given = load_rules(written(tmp_path / "rules.toml", rules))
    write_table(tmp_path / "map.parquet", with_logs(given_table(pieces), given))
    # THEN each database is one unit, though the shipped rules are all that is known later
    assert [one.path for one in read_logs(tmp_path / "map.parquet")] == [*units.values()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[mine]\nfile = ["x"]', "unknown key 'file'"),
        ("[mine]\nbeside = []", "missing required field `files`"),
        ("[mine]\nfiles = []", "files are no patterns"),
        ('mine = "x"', "no rule"),
        ('[Mine]\nfiles = ["x"]', "no rule"),
        ("[mine", "is not valid TOML"),
    ],
)
def test_bad_rules(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path / "rules.toml", text)
    with pytest.raises(InputError, match=message):
        load_rules(file)


def test_a_map_by_hand(tmp_path: Path) -> None:
    # GIVEN a table of extents as filefrag has them
    folder = write_trace(tmp_path / "trace", [Request("fs", 8)], devices=[disk("sda", 4096)])
    head = "path,device,first_sector,sectors\n"
    lines = "/d/a.db-wal,sda,8,8\n/d/a.db,sda,32,8\n/d/a.db-wal,sda,0,8\n"
    table = written(tmp_path / "files.csv", head + lines)
    result = invoke("classify", folder, "--names", table)
    assert result.exit_code == 0, result.output
    rows = rows_of(folder / "file_extents.parquet")
    keys = ("first_sector", "path", "file_sector", "state", "log")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        (0, "/d/a.db-wal", 8, "given", "sqlite"),
        (8, "/d/a.db-wal", 0, "given", "sqlite"),
        (32, "/d/a.db", 0, "given", None),
    ]
    # AND one of another disk, or with files over each other, is refused
    written(table, f"{head}/x,sdb,0,8\n")
    refused(invoke("classify", folder, "--names", table), "no row is of a device", error=InputError)
    written(table, f"{head}/x,sda,0,8\n/y,sda,4,8\n")
    refused(invoke("classify", folder, "--names", table), "which /x has too", error=InputError)
