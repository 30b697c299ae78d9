"""`tracekit analyze`, and its table `btt` against btt itself."""

import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.analyzers.folder import FIXTURES, make
from tests.command_line import invoke, refused
from tests.decode.records import pack
from tests.traces import rows_of
from tracekit import query
from tracekit.analyze import ANALYSES, OF_CGROUPS, OF_FILES, analyze
from tracekit.errors import InputError, UsageError
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder

command = partial(invoke, "analyze")
REQUESTS = [
    {"queue_ns": "0", "issue_ns": "10", "transfer_ns": "30", "complete_ns": "30", "sector": "0"},
    {"queue_ns": "5", "issue_ns": "20", "transfer_ns": "45", "complete_ns": "45", "sector": "8"},
]
BLOCKS = [{"block": "0", "reads": "0", "writes": "1"}, {"block": "1", "reads": "0", "writes": "1"}]
WORKING_SET = [{"window_ns": "0", "role": "fs", "distinct_blocks": "2", "new_blocks": "2"}]
VOLUMES = [{"writes": "2"}]
INTERVALS = [{"kind": "arrival", "low_ns": "5", "high_ns": "6", "interval_count": "1"}]
OF_REQUESTS = tuple(name for name in ANALYSES if name not in (*OF_FILES, *OF_CGROUPS))


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    # A name that is a pattern to DuckDB, with a neighbour that the pattern would match.
    make(tmp_path / "t", {"requests": []})
    tables = {"requests": REQUESTS, "blocks": BLOCKS, "working_set": WORKING_SET}
    of_volumes = {"volumes": VOLUMES, "intervals": INTERVALS}
    return make(tmp_path / "[st] it's", tables | of_volumes)


def test_all_tables_are_written(folder: TraceFolder) -> None:
    analysis = analyze(folder)
    tables = {file.stem for file in (folder.path / "findings").iterdir()}
    assert tables == {name.partition("/")[2] for name in OF_REQUESTS} | {"checks"}
    assert analysis.failures == ()
    assert pq.read_table(folder.table("findings/checks")).num_rows == 0


def test_tables_say_where_they_come_from(folder: TraceFolder) -> None:
    analyze(folder, only=["throughput"], parameters={"window_count": 3})
    schema = pq.read_schema(folder.table("findings/throughput"))
    assert schema.metadata[b"query"] == b"traffic/throughput"
    assert json.loads(schema.metadata[b"parameters"]) == {"window_count": 3}
    assert schema.field("request_bytes").metadata[b"meaning"] == b"bytes of these requests"


def test_findings_change_as_a_whole(folder: TraceFolder) -> None:
    # GIVEN findings, and what somebody has put beside them
    findings = folder.path / "findings"
    analyze(folder, only=["throughput"], parameters={"window_count": 3})
    (findings / "own").mkdir()
    (findings / "own/note.txt").write_text("mine")
    (findings / "link").symlink_to("own/note.txt")
    before = {path: path.read_bytes() for path in findings.rglob("*") if path.is_file()}

    def stop(_name: str, number: int, _total: int) -> None:
        if number == 6:
            raise KeyboardInterrupt

    # WHEN the analyses are stopped after six of them, THEN nothing has changed
    with pytest.raises(KeyboardInterrupt):
        analyze(folder, on_start=stop)
    assert {path: path.read_bytes() for path in findings.rglob("*") if path.is_file()} == before
    # WHEN others run, THEN those that did not are there still
    analyze(folder, only=["totals"])
    kept = {path: path.read_bytes() for path in findings.rglob("*") if path.is_file()}
    assert kept == before | {findings / "totals.parquet": kept[findings / "totals.parquet"]}
    assert (findings / "link").is_symlink()
    assert not [path.name for path in folder.path.iterdir() if path.name.startswith(".")]


def test_a_signal_ends_a_query_that_runs(
    folder: TraceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a query that takes minutes WHEN Ctrl-C comes while it runs THEN it ends at once
    text = "select count(*) from range(100_000_000_000) where hash(range) = 7"
    slow = replace(query.read("traffic/totals"), text=text)
    timer = threading.Timer(1, os.kill, [os.getpid(), signal.SIGINT])
    begin = time.monotonic()
    with query.connect(folder) as connection:
        monkeypatch.setattr(query, "read", lambda _name: slow)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            query.run(connection, "traffic/totals")
    assert time.monotonic() - begin < 30


def test_running_twice_gives_the_same_bytes(folder: TraceFolder) -> None:
    analyze(folder)
    first = {file: file.read_bytes() for file in (folder.path / "findings").iterdir()}
    analyze(folder)
    assert {file: file.read_bytes() for file in (folder.path / "findings").iterdir()} == first


def test_nothing_is_left_beside_the_trace(folder: TraceFolder) -> None:
    before = set(folder.path.parent.iterdir())
    analyze(folder)
    assert set(folder.path.parent.iterdir()) == before


def test_broken_promise_is_a_failure_and_a_row(tmp_path: Path) -> None:
    # GIVEN a request that completes before it was queued, and a touch that blocks do not have
    requests = [{**REQUESTS[0], "complete_ns": "-1", "transfer_ns": ""}, REQUESTS[1]]
    tables = {"requests": requests, "blocks": BLOCKS[:1], "working_set": WORKING_SET}
    folder = make(tmp_path / "trace", tables)
    analysis = analyze(folder)
    # THEN the checks name both, and so does their table
    found = {failure.name: failure.failing_count for failure in analysis.failures}
    assert found == {"checks/time_order": 1, "checks/block_touches": 1, "checks/new_blocks": 1}
    rows = rows_of(folder.table("findings/checks"))
    assert {row["name"] for row in rows} == set(found)


def test_missing_table_names_its_command_and_writes_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "trace", {"requests": REQUESTS})
    with pytest.raises(InputError, match="no table 'blocks'") as caught:
        analyze(folder)
    assert caught.value.hint == f"run: tracekit classify {folder.path}"
    assert not (folder.path / "findings").exists()


def test_queries_that_need_only_requests_run_before_classify(tmp_path: Path) -> None:
    folder = make(tmp_path / "trace", {"requests": REQUESTS})
    analysis = analyze(folder, only=["btt", "traffic/sizes"])
    assert [finding.table for finding in analysis.findings] == ["btt", "sizes"]


@pytest.mark.parametrize(
    ("only", "parameters", "complaint"),
    [
        (["nothing"], {}, "there is no analysis 'nothing'"),
        (["btt"], {"window_count": 3}, "none of these analyses has a parameter 'window_count'"),
        (["throughput"], {"window_count": 0}, "window_count is 0 windows"),
    ],
)
def test_wrong_use(
    folder: TraceFolder, only: list[str], parameters: dict[str, int], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        analyze(folder, only=only, parameters=parameters)
    assert not (folder.path / "findings").exists()


def test_command_prints_a_digest(folder: TraceFolder) -> None:
    result = command(folder.path)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["fs", "2", "0.0", "0.0", "0", "0.0"]
    assert lines[4].split() == ["fs", "write", "2", "0.0", "0.0", "0.0"]
    assert lines[-1].startswith(f"{len(OF_REQUESTS)} tables in {folder.path / 'findings'}")


def test_command_prints_json(folder: TraceFolder) -> None:
    result = json.loads(command(folder.path, "--json").stdout)
    assert [finding["name"] for finding in result["findings"]] == list(OF_REQUESTS)
    assert result["totals"][0]["write_bytes"] == 8192
    assert result["failures"] == []


def test_tables_of_an_earlier_version_leave_out_what_needs_others(folder: TraceFolder) -> None:
    # GIVEN a trace that was classified before there were intervals
    folder.table("intervals").unlink()
    result = command(folder.path)
    # THEN the rest is found, and one line says what is not, and what to do
    assert result.exit_code == 0
    assert not folder.has("findings/access_times")
    assert folder.has("findings/activity")
    (warning,) = result.stderr.splitlines()
    assert "left out: volume/volume_totals, volume/access_times; run: tracekit classify" in warning


def test_command_lists_the_analyses() -> None:
    text = command("--list").stdout
    assert all(f"{name}: " in text for name in ANALYSES)
    assert "    window_count=200 windows, 1 to 10000: equal parts of the trace" in text
    listed = json.loads(command("--list", "--json").stdout)
    assert [entry["name"] for entry in listed] == list(ANALYSES)


@pytest.mark.parametrize("text", ["window_count", "window_count=many", "=", "window_count=1.5"])
def test_wrong_parameter_text(folder: TraceFolder, text: str) -> None:
    refused(command(folder.path, "--param", text))


SAMPLE = FIXTURES.parents[1] / "sample-traces" / "oltp"
LINE = re.compile(r"^(\w2\w)\s+(\d+\.\d{9})\s+(\d+\.\d{9})\s+(\d+\.\d{9})\s+(\d+)$", re.MULTILINE)


BTT_IS_HERE = pytest.mark.skipif(
    not (shutil.which("btt") and shutil.which("blkparse")), reason="btt is not installed: blktrace"
)
# On each of two disks two reads; btt wants whole microseconds to print them exactly.
TWO_DISKS = "\n".join(
    f"{time_us * 1000} {action} R {sector}+8 dev={disk}"
    for time_us, action, sector, disk in (
        (1000, "Q", 1000, "8,0"),
        (1100, "Q", 1000, "8,16"),
        (1110, "D", 1000, "8,0"),
        (1130, "D", 1000, "8,16"),
        (2000, "C", 1000, "8,0"),
        (2100, "C", 1000, "8,16"),
        (3000, "Q", 2000, "8,0"),
        (3030, "D", 2000, "8,0"),
        (3500, "Q", 2000, "8,16"),
        (3530, "D", 2000, "8,16"),
        (4000, "C", 2000, "8,0"),
        (4600, "C", 2000, "8,16"),
    )
)


def real_btt(folder: Path, name: str) -> dict[str, list[int]]:
    """Return N, and min, avg and max in nanoseconds, of each line of btt's first table."""
    merge = ["blkparse", "-i", name, "-d", "merged", "-O", "-q"]
    subprocess.run(merge, cwd=folder, check=True, capture_output=True)
    shown = subprocess.check_output(["btt", "-i", "merged"], cwd=folder, text=True)
    table = shown.partition("Device Overhead")[0]
    return {
        step.lower(): [int(count), *(int(text.replace(".", "")) for text in times)]
        for step, *times, count in LINE.findall(table)
    }


@BTT_IS_HERE
def test_table_is_that_of_btt(tmp_path: Path) -> None:
    # GIVEN what btt says of the sample capture
    for file in SAMPLE.glob("*.xz"):
        (tmp_path / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
    expected = real_btt(tmp_path, "oltp")
    assert set(expected) == {"q2q", "q2g", "g2i", "q2m", "i2d", "m2d", "d2c", "q2c"}
    folder, _tally = parse([SAMPLE], tmp_path / "trace")
    with query.connect(folder) as connection:
        rows = query.run(connection, "latency/btt").to_pylist()
    # THEN number, least and most agree to the nanosecond, and the mean as far as btt prints it
    assert [row["step"] for row in rows] == ["q2q", "q2g", "g2i", "q2m", "i2d", "m2d", "d2c", "q2c"]
    for row in rows:
        count, least, mean, most = expected[row["step"]]
        found = (row["request_count"], row["latency_min_ns"], row["latency_max_ns"])
        assert found == (count, least, most), row["step"]
        assert abs(row["latency_avg_ns"] - mean) <= 1, row["step"]


@BTT_IS_HERE
def test_q2q_is_over_all_devices(tmp_path: Path) -> None:
    # GIVEN what btt says of reads on two disks that take turns
    capture = tmp_path / "two.blktrace.0"
    capture.write_bytes(pack(TWO_DISKS))
    assert real_btt(tmp_path, "two")["q2q"] == [3, 100_000, 833_333, 1_900_000]
    folder, _tally = parse([capture], tmp_path / "trace")
    with query.connect(folder) as connection:
        (q2q, *_) = query.run(connection, "latency/btt").to_pylist()
    # THEN the gaps between the disks count as well
    found = (q2q["step"], q2q["request_count"], q2q["latency_min_ns"], q2q["latency_max_ns"])
    assert found == ("q2q", 3, 100_000, 1_900_000)
