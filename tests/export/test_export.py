"""`tracekit export`: lines written out by hand, what importing them gives, and what is left out."""

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import succeed
from tests.parsed import rows
from tests.replay.trace import trace
from tracekit.errors import InputError, UsageError
from tracekit.readers.importing import import_trace
from tracekit.writers.export import export
from tracekit.writers.rows import plain_names

ROWS: list[dict[str, Any]] = [
    {"queue_ns": 0, "device": "8,0", "sector": 8, "operation": "read", "complete_ns": 500_000},
    {"queue_ns": 1_999, "device": "8,0", "operation": "flush", "length_bytes": 0, "is_sync": True},
    {"queue_ns": None, "issue_ns": 3_000, "device": "8,16", "sector": 1, "length_bytes": 512},
    {"queue_ns": 4_000, "device": "8,0", "operation": "discard", "role": "fs"},
    {"queue_ns": 5_000, "device": "8,0", "operation": "read", "length_bytes": 0},
    {"queue_ns": 6_000, "device": "8,0", "length_bytes": 1 << 33, "role": "swap"},
    {"queue_ns": 7_000, "device": "8,16", "sector": 16, "length_bytes": 8192, "role": "fs"},
]
FIO_LOG = """\
fio version 3 iolog
0 8,0 add
0 8,0 open
0 8,16 add
0 8,16 open
0 8,0 read 4096 4096
1 8,0 sync 0 0
3 8,16 write 512 512
7 8,16 write 8192 8192
7 8,0 close
7 8,16 close
"""


def many(count: int, operations: tuple[str, ...], unit_ns: int) -> list[dict[str, Any]]:
    """Return rows of which a format with these operations and this unit of time loses nothing."""
    pick = random.Random(7)  # noqa: S311 - a fixed sequence, no secret
    made = []
    time_ns = 0
    for _ in range(count):
        operation = pick.choice(operations)
        is_flush = operation == "flush"
        made.append({
            "queue_ns": time_ns,
            "complete_ns": time_ns + unit_ns * pick.randrange(1, 500),
            "device": pick.choice(("8,0", "259,3")),
            "sector": 0 if is_flush else 8 * pick.randrange(1 << 20),
            "length_bytes": 0 if is_flush else 512 * pick.randrange(1, 256),
            "operation": operation,
        })  # fmt: skip
        time_ns += unit_ns * pick.randrange(0, 900)
    return made


def test_a_fio_log_by_hand(tmp_path: Path) -> None:
    # GIVEN requests that fio can hold, and some that it cannot
    made = trace(tmp_path / "trace", ROWS)
    # WHEN they are exported
    result = export(made, "fio", output=tmp_path / "t.log")
    # THEN the log is as written by hand, and the rest is counted
    assert (tmp_path / "t.log").read_text() == FIO_LOG
    assert (result["requests"], result["written"]) == (7, 4)
    assert result["left_out"] == {"discard": 1, "empty": 1, "too_long": 1}
    assert result["changed"] == {"rounded_times": 1, "guessed_times": 1}
    assert result["unheld"] == {
        "issue_ns": 1, "complete_ns": 1, "is_sync": 1, "process": 7, "pid": 7, "role": 3,
    }  # fmt: skip
    # AND the job makes a file as large as what is done on each device
    job = (tmp_path / "t.log.fio").read_text().splitlines()
    assert "exec_prerun=truncate -s 8589934592 8,0 && truncate -s 16384 8,16" in job
    assert "read_iolog=t.log" in job


def test_an_import_gives_back_what_fio_can_hold(tmp_path: Path) -> None:
    # GIVEN a trace in several row groups, of whole us and of operations that fio has
    requests = many(5000, ("read", "write", "flush"), 1000)
    made = trace(tmp_path / "trace", requests, row_group_rows=700)
    # WHEN it is exported and imported again
    result = export(made, "fio", output=tmp_path / "t.log")
    again = import_trace(tmp_path / "t.log", tmp_path / "again")
    # THEN all but the completions is the same
    assert result["written"] == 5000
    assert not result["left_out"]
    assert not result["changed"]
    assert again.content["source"]["format"] == "fio3"
    assert rows(again) == [(row[0], None, *row[2:]) for row in rows(made)]


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
@pytest.mark.parametrize("has_job", [True, False], ids=["job", "log alone"])
def test_fio_replays_the_export_without_complaint(tmp_path: Path, has_job: bool) -> None:
    # GIVEN an export of a trace on two devices
    made = many(2000, ("read", "write", "flush"), 1000)
    export(trace(tmp_path / "trace", made), "fio", output=tmp_path / "t.log")
    job = tmp_path / "t.log.fio"
    text = job.read_text()
    if has_job:
        # WHEN fio runs the job beside it, through the page cache where a folder has no other
        job.write_text(text.replace("direct=1", "direct=0"))
        words = [job.name]
    else:
        # OR reads the log alone, with files of the sizes that the job makes
        (line,) = [line for line in text.splitlines() if line.startswith("exec_prerun=")]
        for prepare in line.removeprefix("exec_prerun=").split(" && "):
            subprocess.run(prepare.split(), cwd=tmp_path, check=True)
        words = ["--name=x", "--read_iolog=t.log", "--ioengine=psync", "--replay_no_stall=1"]
    command = ["fio", "--output-format=json", "--output=out.json", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    # THEN it says nothing, and has done each request
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = json.loads((tmp_path / "out.json").read_text())["jobs"]
    assert found["error"] == 0
    for name in ("read", "write"):
        wanted = [row["length_bytes"] for row in made if row["operation"] == name]
        assert (found[name]["total_ios"], found[name]["io_bytes"]) == (len(wanted), sum(wanted))
    if has_job:
        assert found["sync"]["total_ios"] == sum(row["operation"] == "flush" for row in made)


def test_no_device_is_called_by_a_path() -> None:
    # GIVEN names of devices as an import may have them, THEN none leaves fio's folder or is twice
    names = ["/dev/sda", "_dev_sda", "..", "a b", "x;rm -rf $HOME", "8,0"]
    assert plain_names(names) == [
        "_dev_sda", "_dev_sda_2", "device", "a_b", "x_rm_-rf__HOME", "8,0",
    ]  # fmt: skip


NONE: list[dict[str, Any]] = []
FLUSH = [{"operation": "flush", "length_bytes": 0}]
OTHERS = [{"operation": "other"}, {"operation": "zone"}]


@pytest.mark.parametrize(
    ("form", "requests", "kinds"),
    [
        ("fio", NONE, ""),
        ("fio", [{"operation": "discard"}], ""),
        ("msr", NONE, ""),
        ("msr", FLUSH, ""),
        ("oracleGeneral", NONE, ""),
        ("oracleGeneral", FLUSH, ""),
        ("blkparse", OTHERS, r" \(1 zone, 1 other\)"),
    ],
)
def test_nothing_to_export_leaves_no_file(
    tmp_path: Path, form: str, requests: list[dict[str, Any]], kinds: str
) -> None:
    made = trace(tmp_path / "trace", requests)
    with pytest.raises(InputError, match=f"no request that {form} can hold{kinds}"):
        export(made, form, output=tmp_path / "t")
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_a_file_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    made = trace(tmp_path / "trace", ROWS)
    (tmp_path / "t.log.fio").write_text("mine")
    with pytest.raises(UsageError, match=r"t\.log\.fio exists already"):
        export(made, "fio", output=tmp_path / "t.log")
    export(made, "fio", output=tmp_path / "t.log", overwrite=True)
    assert (tmp_path / "t.log").read_text() == FIO_LOG


def test_a_job_cannot_name_every_file(tmp_path: Path) -> None:
    made = trace(tmp_path / "trace", ROWS)
    with pytest.raises(UsageError, match="no name for a file of a fio job"):
        export(made, "fio", output=tmp_path / "a b.log")


def test_the_command_reports_what_was_lost(tmp_path: Path) -> None:
    made = trace(tmp_path / "trace", [{**row, "device": "a b"} for row in ROWS])
    words = ("export", made.path, "--format", "fio", "-o", tmp_path / "t.log")
    shown = succeed(*words).stdout
    assert "4 of 7 requests written (fio)" in shown
    assert "1 left out: too long" in shown
    assert "device a b is called a_b" in shown
    assert "role (3)" in shown
    assert json.loads(succeed(*words, "--force", "--json").stdout)["written"] == 4
