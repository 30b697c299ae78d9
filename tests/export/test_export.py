"""`tracekit export`: by hand, what importing it gives, what is left out, and other formats."""

import json
import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import succeed
from tests.decode.block_layer import lines_of, run
from tests.decode.records import pack
from tests.decode.scenes import CARRIER_MERGED
from tests.house.tree import ROOT
from tests.parsed import requests, rows
from tests.replay.trace import trace
from tracekit.errors import InputError, UsageError
from tracekit.formats import ORACLE_RECORD
from tracekit.metadata import Clock
from tracekit.readers.blktrace import parse
from tracekit.readers.importing import import_trace
from tracekit.store import TraceFolder
from tracekit.writers.export import export
from tracekit.writers.oracle import link
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


SAMPLES = ROOT / "sample-traces"

# A read with its partition; a write that two others join, at its end and at its beginning, with a
# closing flush; an empty flush; and what cannot be printed.
FIRST: dict[str, Any] = {"queue_ns": 5, "getrq_ns": 6, "issue_ns": 7, "transfer_ns": 1_000_000_009}
FIRST |= {"complete_ns": 1_000_000_009, "sector": 2056, "operation": "read", "partition": "8,1"}
FIRST |= {"is_readahead": True, "process": "a b", "pid": 12, "cpu": 3, "error": -5}
TARGET: dict[str, Any] = {"queue_ns": 10, "getrq_ns": 11, "insert_ns": 20, "issue_ns": 30}
TARGET |= {"transfer_ns": 40, "complete_ns": 50, "sector": 108, "is_fua": True, "is_sync": True}
TARGET |= {"process": None}
JOINED = {"merged_into": 1, "issue_ns": 30, "transfer_ns": 40, "complete_ns": 40, "is_sync": True}
PRINTED: list[dict[str, Any]] = [
    FIRST,
    TARGET,
    {**JOINED, "queue_ns": 12, "merge_ns": 13, "sector": 116, "length_bytes": 1000},
    {**JOINED, "queue_ns": 14, "merge_ns": 15, "sector": 100},
    {"queue_ns": 60, "getrq_ns": 61, "issue_ns": 62, "complete_ns": 63, "operation": "flush",
     "length_bytes": 0, "is_preflush": True, "device": "b"},
    {"queue_ns": 64, "operation": "other"},
    {"queue_ns": 65, "operation": "read", "length_bytes": 0},
    {"queue_ns": 66, "length_bytes": 1 << 32},
    {"queue_ns": None},
    {"queue_ns": 70, "operation": "write_zeroes", "sector": 8, "complete_ns": 71},
]  # fmt: skip
TEXT = """\
    8,0   3        1     0.000000000 0 P N [tracekit]
    8,0   3        2     0.000000005 12 A RA 2056 + 8 <- (8,1) 0
    8,0   3        3     0.000000005 12 Q RA 2056 + 8 [a b]
    8,0   3        4     0.000000006 12 G RA 2056 + 8 [a b]
    8,0   3        5     0.000000007 12 D RA 2056 + 8 [a b]
    8,0   0        1     0.000000010 1 Q WFS 108 + 8 [(null)]
    8,0   0        2     0.000000011 1 G WFS 108 + 8 [(null)]
    8,0   0        3     0.000000012 1 Q WS 116 + 2 [p]
    8,0   0        4     0.000000013 1 M WS 116 + 2 [p]
    8,0   0        5     0.000000014 1 Q WS 100 + 8 [p]
    8,0   0        6     0.000000015 1 F WS 100 + 8 [p]
    8,0   0        7     0.000000020 1 I WFS 100 + 18 [(null)]
    8,0   0        8     0.000000030 1 D WS 100 + 18 [(null)]
    8,0   0        9     0.000000040 0 C WS 100 + 18 [0]
    8,0   0       10     0.000000050 0 C WS 100 [0]
   8,16   0        1     0.000000060 1 Q FW [p]
   8,16   0        2     0.000000061 1 G FW [p]
   8,16   0        3     0.000000062 1 D FN [p]
   8,16   0        4     0.000000063 0 C W 0 [0]
    8,0   0       11     0.000000070 1 Q W 8 + 8 [p]
    8,0   0       12     0.000000071 0 C W 8 + 8 [0]
    8,0   3        6     1.000000009 0 C RA 2056 + 8 [65531]
"""


def test_by_hand(tmp_path: Path) -> None:
    # GIVEN requests of every sort
    made = trace(tmp_path / "trace", PRINTED)
    # WHEN they are exported
    result = export(made, "blkparse", output=tmp_path / "t.txt")
    # THEN the events stand as written by hand, and the rest is counted
    assert (tmp_path / "t.txt").read_text() == TEXT
    assert (result["requests"], result["written"]) == (10, 6)
    assert result["left_out"] == {"other": 1, "empty": 1, "too_long": 1, "without_a_time": 1}
    assert result["changed"] == {"plain_writes": 1, "rounded_lengths": 1}
    assert result["names"] == {"sda": "8,0", "b": "8,16"}


def test_the_events_by_hand_are_read_back(tmp_path: Path) -> None:
    # GIVEN that text
    (tmp_path / "t.txt").write_text(TEXT)
    # WHEN it is imported THEN the requests are there, merged as they were
    rows = requests(import_trace(tmp_path / "t.txt", tmp_path / "again")).to_pylist()
    found = [(row["queue_ns"], row["merged_into"], row["complete_ns"]) for row in rows]
    assert found == [
        (5, None, 1_000_000_009), (10, None, 50), (12, 1, 40), (14, 1, 40), (60, None, 63),
        (70, None, 71),
    ]  # fmt: skip
    assert (rows[0]["process"], rows[0]["error"], rows[0]["partition"]) == ("a b", -5, "8,1")
    assert (rows[1]["transfer_ns"], rows[1]["is_fua"], rows[1]["process"]) == (40, True, None)


@pytest.mark.parametrize("name", ["browser", "oltp", "video"])
def test_shipped_captures_come_back_whole(name: str, tmp_path: Path) -> None:
    # GIVEN a capture with merges, flushes and partitions
    parsed, _ = parse([SAMPLES / name], tmp_path / "parsed")
    shutil.copy(SAMPLES / name / "layout.json", tmp_path)
    # WHEN it is exported and imported again
    result = export(parsed, "blkparse", output=tmp_path / "t.txt")
    again = import_trace(tmp_path / "t.txt", tmp_path / "again")
    # THEN every column of every request is what it was, and every event has its partner
    assert requests(again).equals(requests(parsed))
    assert (result["left_out"], result["changed"]) == ({}, {})
    assert set(again.content["loss"]["unmatched"].values()) == {0}
    assert again.content["loss"]["lost_records"] == 0
    assert again.content["counts"]["bad_lines"] == 0


def simple_lines(seed: int) -> list[str]:
    """Return what the model of the block layer did, nothing if a request was split or requeued."""
    lines = lines_of(run(seed, steps=60, disks=2, cpus=2))
    return [] if any(line.split()[1] in ("X", "R") for line in lines) else lines


def test_merges_of_merges_come_back(tmp_path: Path) -> None:
    # GIVEN runs of a model of the block layer, in which requests are merged into one another,
    # before they are inserted and after
    runs = [simple_lines(seed) for seed in range(150)]
    chains = apart = 0
    for seed, lines in enumerate([CARRIER_MERGED.strip().splitlines(), *runs]):
        if not lines:
            continue
        (tmp_path / "c.blktrace.0").write_bytes(pack("\n".join(lines)))
        parsed, _ = parse([tmp_path / "c.blktrace.0"], tmp_path / f"parsed{seed}")
        # WHEN each is exported and imported
        result = export(parsed, "blkparse", output=tmp_path / f"{seed}.txt")
        theirs = requests(import_trace(tmp_path / f"{seed}.txt", tmp_path / f"again{seed}"))
        ours = requests(parsed)
        # THEN it is the same, but for requests that completed in parts, which are counted
        changed = result["changed"].get("joint_ends", 0)
        lost = ["transfer_ns", "complete_ns", "depth", "error"] if changed else []
        assert theirs.drop_columns(lost).equals(ours.drop_columns(lost)), seed
        into = ours["merged_into"].to_pylist()
        chains += sum(carrier is not None and into[carrier] is not None for carrier in into)
        apart += changed
    # AND there were merges of requests that carried others, and completions in parts
    assert chains > 0
    assert apart > 0


def test_a_trace_without_events_in_between(tmp_path: Path) -> None:
    # GIVEN a trace of queue and completion times only, in many batches
    rows = many(5000, ("read", "write", "discard"), 100)
    made = trace(tmp_path / "trace", rows, row_group_rows=700)
    # WHEN it is exported and imported THEN times, places and operations are the same
    export(made, "blkparse", output=tmp_path / "t.txt")
    again = import_trace(tmp_path / "t.txt", tmp_path / "again")
    for name in ("queue_ns", "complete_ns", "sector", "length_bytes", "operation", "device"):
        assert requests(again)[name].equals(requests(made)[name]), name


@pytest.mark.parametrize("seed", range(12))
def test_completions_of_one_place_that_are_exchanged_are_counted(tmp_path: Path, seed: int) -> None:
    # GIVEN requests of a few places, many in flight together, all of them issued or none, of which
    # some never complete
    choose, time, rows = random.Random(seed), 0, list[dict[str, Any]]()  # noqa: S311 - test data
    for _ in range(400):
        time += choose.randrange(1, 40)
        issue = time + choose.randrange(1, 30)
        row: dict[str, Any] = {"queue_ns": time, "sector": 8 * choose.randrange(3)}
        row |= {"operation": choose.choice(["read", "write"]), "pid": choose.randrange(2)}
        row["length_bytes"] = choose.choice([4096, 8192])
        if seed % 3 == 0:
            row["issue_ns"] = issue
        if seed % 2 == 0 or choose.random() < 0.95:
            row["complete_ns"] = issue + choose.randrange(1, 200)
        rows.append(row)
    made = trace(tmp_path / "trace", rows, row_group_rows=37)
    # WHEN they are exported and imported
    result = export(made, "blkparse", output=tmp_path / "t.txt")
    again = requests(import_trace(tmp_path / "t.txt", tmp_path / "again"))
    # THEN those that come back with another completion are counted
    ours, theirs = (table["complete_ns"].to_pylist() for table in (requests(made), again))
    count = sum(one != other for one, other in zip(ours, theirs, strict=True))
    assert count > 0
    assert result["changed"].get("exchanged_ends", 0) == count


WALL_NS = 1_763_700_000_123_456_700


def with_clock(path: Path, requests: list[dict[str, Any]], **more: int) -> TraceFolder:
    made = trace(path, requests, **more)
    made.save_info(clock=Clock(base_ns=0, wall_ns=WALL_NS, duration_ns=1))
    return made


def test_msr_by_hand(tmp_path: Path) -> None:
    # GIVEN a trace with a wall clock, of reads and writes and of what MSR has not
    made = with_clock(tmp_path / "trace", ROWS)
    # WHEN it is exported
    result = export(made, "msr", output=tmp_path / "t.csv")
    # THEN times are 100 ns since 1601, and a request without a completion took 0
    assert (tmp_path / "t.csv").read_text() == (
        "134081736001234567,8,0,Read,4096,4096,5000\n"
        "134081736001234597,8,16,Write,512,512,0\n"
        "134081736001234637,8,16,Write,8192,8192,0\n"
    )
    assert result["left_out"] == {"flush": 1, "discard": 1, "empty": 1, "too_long": 1}
    assert result["changed"] == {"no_completion": 2, "guessed_times": 1}
    assert "complete_ns" not in result["unheld"]


def test_an_import_gives_back_what_msr_can_hold(tmp_path: Path) -> None:
    made = with_clock(tmp_path / "trace", many(5000, ("read", "write"), 100), row_group_rows=700)
    result = export(made, "msr", output=tmp_path / "t.csv")
    again = import_trace(tmp_path / "t.csv", tmp_path / "again")
    assert not result["changed"]
    assert again.content["source"]["format"] == "msr"
    assert again.content["clock"]["wall_ns"] == WALL_NS
    assert rows(again) == rows(made)


def test_msr_without_a_wall_clock_is_of_2000(tmp_path: Path) -> None:
    # GIVEN devices that are no host with a number, two of them alike once they are plain
    requests = [{"device": name} for name in ("a b", "a_b", "a_b,0", "x,y,1")]
    result = export(trace(tmp_path / "trace", requests), "msr", output=tmp_path / "t.csv")
    # THEN their names differ, and the time is the first of 2000
    assert list(result["names"].values()) == ["a_b,0", "a_b_2,0", "a_b,1", "x_y,1"]
    assert result["has_wall_clock"] is False
    assert (tmp_path / "t.csv").read_text().startswith("125911584000000000,a_b,0,Write,0,4096,0\n")


def test_oracle_by_hand(tmp_path: Path) -> None:
    # GIVEN a place that is done again, on one device of two
    requests = [
        {"queue_ns": 0, "device": "a", "sector": 8, "operation": "read"},
        {"queue_ns": 1_500_000_000, "device": "b", "sector": 8, "length_bytes": 512},
        {"queue_ns": 2_000_000_000, "device": "a", "sector": 8, "length_bytes": 1024},
        {"queue_ns": 2_000_000_000, "device": "a", "operation": "flush", "length_bytes": 0},
        {"queue_ns": 2_000_000_000, "device": "b", "sector": 8},
    ]
    result = export(trace(tmp_path / "trace", requests), "oracleGeneral", output=tmp_path / "t.bin")
    # THEN b stands behind a, which ends after 16 sectors, and only the last accesses have no next
    expected = [(0, 8, 4096, 2), (1, 24, 512, 3), (2, 8, 1024, -1), (2, 24, 4096, -1)]
    assert (tmp_path / "t.bin").read_bytes() == b"".join(
        struct.pack("<IQIq", *record) for record in expected
    )
    assert result["first_objects"] == {"a": 0, "b": 16}
    assert result["left_out"] == {"flush": 1}
    # AND the second access of either has another size than the first
    assert result["changed"] == {"rounded_times": 1, "changed_objects": 2}
    assert result["unheld"]["operation"] == 4


def test_an_import_gives_back_what_oracle_can_hold(tmp_path: Path) -> None:
    requests = [{**row, "device": "trace"} for row in many(5000, ("read",), 10**9)]
    made = trace(tmp_path / "trace", requests, row_group_rows=700)
    export(made, "oracleGeneral", output=tmp_path / "t.bin")
    again = import_trace(tmp_path / "t.bin", tmp_path / "again")
    assert again.content["source"]["format"] == "oracleGeneral"
    assert rows(again) == [(row[0], None, *row[2:-1], None) for row in rows(made)]


@pytest.mark.parametrize("bucket_rows", [1, 7, 1000])
def test_next_accesses_are_those_of_a_search(tmp_path: Path, bucket_rows: int) -> None:
    # GIVEN accesses to few objects
    pick = random.Random(bucket_rows)  # noqa: S311 - a fixed sequence, no secret
    objects = [pick.randrange(40) for _ in range(300)]
    records = np.zeros(300, ORACLE_RECORD)
    records["object"], records["next"] = objects, -1
    records.tofile(tmp_path / "t.bin")
    # WHEN they are linked in buckets of some size
    link(tmp_path / "t.bin", 300, bucket_rows=bucket_rows)
    # THEN each names the first later one of its object
    found = np.fromfile(tmp_path / "t.bin", ORACLE_RECORD)["next"].tolist()
    assert found == [
        next((later for later in range(now + 1, 300) if objects[later] == objects[now]), -1)
        for now in range(300)
    ]


def test_oracle_has_no_time_beyond_its_seconds(tmp_path: Path) -> None:
    made = trace(tmp_path / "trace", [{"queue_ns": (1 << 32) * 10**9}])
    with pytest.raises(InputError, match=r"4,294,967,296 s is too large"):
        export(made, "oracleGeneral", output=tmp_path / "t.bin")
