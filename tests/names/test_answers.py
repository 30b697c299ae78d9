"""Which files are logs of databases, and what the map of files is used for: units, scripts."""

import json
import re
from pathlib import Path

import pytest

import tracekit as tk
from tests.command_line import invoke, refused, succeed
from tests.recommend.test_units import WORDS, time_ns
from tests.recommend.traces import BLOCK
from tests.simulate.placement_models import Request, write_trace
from tests.traces import disk, partition, rows_of, written
from tracekit.errors import InputError, UsageError
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


SECTORS = 64 << 11
LOG = "log of postgresql in /srv/pg/pg_wal"
WAL, TABLE, COLD = "/srv/pg/pg_wal/0001", "/srv/pg/base/1", "/srv/pg/base/2"
PIECES = [
    ("sda", 0, 32, WAL, 0),
    ("sda", 64, 32, TABLE, 0),
    ("sda", 128, 800, COLD, 0),
    ("sda", 1024, 8, "/srv/top", 0),
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of a database whose log is written most."""
    requests = [Request("fs", 8 * (number % 4)) for number in range(40)]
    requests += [Request("fs", 64 + 8 * (number % 4)) for number in range(8)]
    layout = [partition("sda", 1, "fs", range(SECTORS), mount="/srv")]
    info = {
        "layout": layout,
        "devices": [disk("sda", SECTORS)],
        "counts": {"requests": len(requests)},
    }
    info |= {"clock": {"base_ns": 0, "wall_ns": None, "duration_ns": 10**9}}
    folder = write_trace(tmp_path / "trace", requests, **info)
    table = with_logs(given_table(PIECES), load_rules())
    write_table(folder / "file_extents.parquet", table)
    return folder


def units(folder: Path, kind: str, *words: str) -> dict[str, dict[str, object]]:
    succeed("recommend", folder, *WORDS, "--unit", kind, "--capacity", "9MiB", *words)
    return {row["name"]: row for row in rows_of(folder / "simulations/units.parquet")}


def test_the_report_shows_the_hottest_files(trace: Path, tmp_path: Path) -> None:
    # WHEN the trace is analyzed and reported
    succeed("classify", trace)
    succeed("analyze", trace)
    succeed("report", trace, "-o", tmp_path / "page.html")
    # THEN the page has the files and directories, with the log's name
    page = (tmp_path / "page.html").read_text()
    section = page[page.index('<section id="files_of_blocks"') :]
    section = section[: section.index("</section>")]
    for name in (WAL, TABLE, "/srv/pg/pg_wal", "postgresql"):
        assert name in section


def test_units_are_of_the_map(trace: Path) -> None:
    # WHEN files are asked for, without a table by hand
    found = units(trace, "file")
    assert {name: row["bytes"] for name, row in found.items()} == {WAL: 4 * BLOCK, TABLE: 4 * BLOCK}
    assert found[WAL]["is_placed"]
    # THEN directories have the size of all their files, touched or not
    found = units(trace, "directory")
    sizes = {name: row["bytes"] for name, row in found.items()}
    assert sizes == {"/srv/pg/pg_wal/": 4 * BLOCK, "/srv/pg/base/": 104 * BLOCK}


def test_the_log_is_a_role_that_can_be_placed(trace: Path) -> None:
    found = units(trace, "role")
    assert found[LOG]["is_placed"]
    assert not found["fs"]["is_placed"]
    assert (found[LOG]["blocks"], found["fs"]["blocks"]) == (4, 4)
    # THEN the script moves the directory that holds nothing else
    script = trace.parent / "carry.sh"
    units(trace, "role", "--script", str(script), "--force")
    assert "apply_move /srv/pg/pg_wal pg_wal" in script.read_text()
    # AND alone it is placed and moved in the same way
    found = units(trace, "log", "--script", str(script), "--force")
    assert [(name, row["unit"]) for name, row in found.items()] == [(LOG, "log")]
    assert "apply_move /srv/pg/pg_wal pg_wal" in script.read_text()


def test_logs_alone_take_what_the_model_says(tmp_path: Path) -> None:
    # GIVEN two logs with a part of the journal each, and the rest of the journal for a table
    places = {WAL: (0, 1, 2, 3), "/srv/etcd/member/wal/0.wal": (16, 17), TABLE: (8, 9)}
    pieces = [("sda", 8 * one[0], 8 * len(one), path, 0) for path, one in places.items()]
    commits = dict(zip(places, (4001, 4002, 4003), strict=True))
    requests = []
    for number in range(30):
        for path in (WAL, TABLE) if number % 2 else places:
            requests.append(Request("fs", 8 * places[path][number % len(places[path])]))
            requests.append(Request("journal", 8 * commits[path]))
    folder = write_trace(tmp_path / "trace", requests)
    write_table(folder / "file_extents.parquet", with_logs(given_table(pieces), load_rules()))
    # WHEN only one of the logs fits
    words = ("--unit", "log", "--capacity", f"{(8 << 20) + 6 * BLOCK}B", "--json")
    found = json.loads(succeed("recommend", folder, *WORDS, *words).stdout)["units"]
    # THEN the best one is placed, as an independent model has it, with its own commits
    times = {
        path: time_ns(requests, {("sda", block) for block in (*blocks, commits[path])})
        for path, blocks in places.items()
        if path != TABLE
    }
    assert [one["name"] for one in found["placed"]] == [LOG]
    assert times[WAL] == min(times.values()) < found["base_elapsed_ns"] == time_ns(requests, set())
    assert found["elapsed_ns"] == times[WAL]
    assert (found["unit_count"], found["along_bytes"]) == (2, BLOCK)


def test_each_database_has_a_log_of_its_own(trace: Path) -> None:
    # GIVEN two clusters of one database, and another whose log has several directories
    first, second, *parts = ("/srv/a/pg_wal/1", "/srv/b/pg_wal/1", "/k/x-0/1.log", "/k/x-1/1.log")
    others = [part.replace("log", "index") for part in parts]
    paths = enumerate([*parts, *others], 8)
    pieces = [
        ("sda", 8 * number, 8, path, 0) for number, path in (*enumerate([first, second]), *paths)
    ]
    write_table(trace / "file_extents.parquet", with_logs(given_table(pieces), load_rules()))
    # WHEN there is space for two blocks with a file system of their own
    script = trace.parent / "carry.sh"
    words = ("--capacity", f"{(8 << 20) + 2 * BLOCK}B", "--script", str(script), "--force")
    found = units(trace, "log", *words)
    # THEN each is a unit, and only the directory of the one that is placed is moved
    logs = {"postgresql in /srv/a/pg_wal": 1, "postgresql in /srv/b/pg_wal": 1, "kafka in /k": 2}
    assert {name: row["blocks"] for name, row in found.items()} == {
        f"log of {name}": blocks for name, blocks in logs.items()
    }
    placed = [str(row["name"]).rpartition(" ")[2] for row in found.values() if row["is_placed"]]
    moves = re.findall(r"apply_move (/\S+)", script.read_text())
    assert placed == moves
    assert moves in (["/srv/a/pg_wal"], ["/srv/b/pg_wal"])


def test_logs_are_refused_where_no_file_is_one(trace: Path) -> None:
    words = ("recommend", trace, *WORDS, "--unit", "log")
    write_table(trace / "file_extents.parquet", given_table(PIECES))
    refused(invoke(*words), "no file of the trace's map is a log", error=UsageError)
    (trace / "file_extents.parquet").unlink()
    refused(invoke(*words), "classify --names", error=UsageError)
    refused(invoke(*words, "--files", "x"), "--files is for", error=UsageError)
    refused(invoke(*words[:-1], "log=3"), "--unit log=3: only extent has a size", error=UsageError)


def test_a_log_among_other_files_is_by_hand(trace: Path) -> None:
    pieces = [*PIECES, ("sda", 2048, 8, "/srv/pg/pg_wal/deeper/notes", 0)]
    write_table(trace / "file_extents.parquet", with_logs(given_table(pieces), load_rules()))
    script = trace.parent / "carry.sh"
    units(trace, "role", "--script", str(script), "--force")
    text = script.read_text()
    assert "apply_move /srv" not in text
    assert "initdb --waldir" in text
    assert WAL in text


def test_a_mount_point_is_no_unit(trace: Path) -> None:
    pieces = [("sda", 0, 32, "/srv/a", 0), ("sda", 64, 32, "/srv/b", 0)]
    write_table(trace / "file_extents.parquet", given_table(pieces))
    assert set(units(trace, "directory")) == {"/srv/a", "/srv/b"}


def test_an_anonymous_trace_has_no_names(trace: Path) -> None:
    output = trace.parent / "anonymous"
    succeed("anonymize", trace, "-o", output)
    content = (output / "file_extents.parquet").read_bytes()
    for word in (b"pg_wal", b"base", b"srv", b"0001"):
        assert word not in content
    # THEN what was touched has files as before, with hashes for names, also after classify
    tk.open(output).classify()
    rows = rows_of(output / "file_extents.parquet")
    assert {row["sectors"] for row in rows} == {32}
    assert {row["log"] for row in rows} == {None, "postgresql"}
    paths = [row["path"].split("/") for row in rows]
    assert [len(path) for path in paths] == [5, 5]
    assert paths[0][1:3] == paths[1][1:3]
    # AND each request has the file that it had
    statement = (
        "select path, count(*) from files_of_requests where path is not null group by 1 order by 2"
    )
    counts = [row[1] for row in tk.open(output).sql(statement).fetchall()]
    assert counts == [8, 40]
