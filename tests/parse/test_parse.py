"""`tracekit parse` from files to a trace folder."""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests import parsed as traces
from tests.command_line import succeed
from tests.decode import scenes
from tests.decode.records import Event, pack, pack_events
from tests.parse.captures import LAYOUT, capture
from tests.parsed import COMPRESSORS
from tracekit.readers.blktrace import ParseOptions, parse
from tracekit.readers.files import default_output
from tracekit.tables import REQUESTS


def test_folder_with_layout(tmp_path: Path) -> None:
    # GIVEN a folder with files of two CPUs and a layout.json
    source = capture(tmp_path / "capture")

    # WHEN it is parsed
    folder, _ = parse([source], tmp_path / "trace")

    # THEN the row has the names of the layout
    (row,) = traces.requests(folder).to_pylist()
    assert (row["device"], row["process"], row["partition"]) == ("loop0", "writer", "259,0")
    assert row["complete_ns"] == 100


def test_what_the_layout_leaves_open_is_a_warning(tmp_path: Path) -> None:
    # GIVEN a capture that could not read what a disk holds
    source = capture(tmp_path / "capture")
    said = "loop0: its content cannot be read: Operation not permitted"
    (source / "layout.json").write_text(json.dumps(LAYOUT | {"doubts": [said]}))
    info = parse([source], tmp_path / "trace")[0].content
    told = {one["code"]: one["message"] for one in info["warnings"]}
    assert told["open_layout"] == f"the layout leaves open: {said}"


def test_trace_json_says_where_it_is_from_and_what_is_in_it(tmp_path: Path) -> None:
    source = capture(tmp_path / "capture")
    info = parse([source], tmp_path / "trace")[0].content
    files = [(name, (source / name).read_bytes()) for name in ("c.blktrace.0", "c.blktrace.1")]
    assert info["source"] == {
        "format": "blktrace v7",
        "kernel": "6.18",
        "files": [
            {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files
        ],
    }
    assert info["clock"] == {"base_ns": 100, "wall_ns": None, "duration_ns": 100}
    (device,) = info["devices"]
    assert device == {**LAYOUT["devices"][0], "logical_sector_bytes": None, "rotational": None}
    (partition,) = info["layout"]
    assert partition == LAYOUT["partitions"][0]
    assert info["counts"]["actions"] == {"Q": 1, "C": 1, "A": 1}
    assert (info["counts"]["records"], info["counts"]["requests"]) == (3, 1)
    assert info["loss"]["dropped"] == 7
    assert [warning["code"] for warning in info["warnings"]] == ["lost_records"]


def test_table_has_the_schema_of_the_contract(tmp_path: Path) -> None:
    folder, _ = parse([capture(tmp_path / "capture")], tmp_path / "trace")
    assert pq.read_schema(folder.table("requests")).equals(REQUESTS, check_metadata=True)


def test_a_folder_of_a_version_without_control_groups_can_be_used(tmp_path: Path) -> None:
    # GIVEN a folder whose table lacks the column
    folder, _ = parse([capture(tmp_path / "capture")], tmp_path / "trace")
    table = pq.read_table(folder.table("requests"))
    pq.write_table(table.drop_columns(["cgroup"]), folder.table("requests"))
    # THEN each command that reads all columns finds that nothing is known of them
    for words in (("classify",), ("analyze",), ("anonymize", "-o", tmp_path / "other")):
        succeed(words[0], folder.path, *words[1:])
    succeed("export", folder.path, "-o", tmp_path / "x.txt", "--format", "blkparse")
    shown = succeed("sql", folder.path, "select distinct cgroup from requests", "--format", "csv")
    assert shown.output.split() == ["cgroup", '""']
    assert not folder.table("findings/cgroups").exists()
    other = pq.read_table(tmp_path / "other" / "requests.parquet")
    assert other["cgroup"].null_count == other.num_rows == table.num_rows


def test_control_groups_have_a_table_and_a_section(tmp_path: Path) -> None:
    # GIVEN a capture of two control groups, one of which has markup for a path
    place = tmp_path / "capture"
    place.mkdir()
    lines = (f"{10 * at} Q W {8 * at}+8 cgroup={5 + at % 2}" for at in range(20))
    (place / "a.blktrace.0").write_bytes(pack("\n".join(lines)))
    (place / "layout.json").write_text(json.dumps(LAYOUT | {"cgroups": {"5": "/<b>5</b>"}}))
    folder, _ = parse([place], tmp_path / "trace")
    # WHEN it is analyzed and reported by default
    for command in ("classify", "analyze"):
        succeed(command, folder.path)
    succeed("report", folder.path, "-o", tmp_path / "report.html")
    # THEN the groups have their table and their section, and the path is text
    table = pq.read_table(folder.table("findings/cgroups")).to_pylist()
    assert [(row["cgroup"], row["request_count"]) for row in table] == [
        ("#6", 10),
        ("/<b>5</b>", 10),
    ]
    page = (tmp_path / "report.html").read_text()
    assert '<section id="cgroups"' in page
    assert "<b>5</b>" not in page


@pytest.mark.parametrize("name", sorted(COMPRESSORS))
def test_compression_is_known_by_content(tmp_path: Path, name: str) -> None:
    # GIVEN a compressed file whose name does not say so
    plain = pack(scenes.BACK_MERGE)
    stored = COMPRESSORS[name](plain)
    (tmp_path / "x").write_bytes(stored)

    # WHEN it is parsed
    folder, _ = parse([tmp_path / "x"], tmp_path / "trace")

    # THEN the rows are there and the hash is of the stored file
    assert len(traces.rows(folder)) == 3
    assert folder.content["source"]["files"] == [
        {"name": "x", "bytes": len(stored), "sha256": hashlib.sha256(stored).hexdigest()}
    ]


def test_pipe(tmp_path: Path) -> None:
    # GIVEN a named pipe that somebody writes a compressed trace into
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    stored = gzip.compress(pack(scenes.BACK_MERGE))
    writer = threading.Thread(target=lambda: pipe.write_bytes(stored))
    writer.start()
    # WHEN it is parsed
    folder, _ = parse([pipe], tmp_path / "trace")
    writer.join()
    # THEN nothing is missing
    assert len(traces.rows(folder)) == 3
    assert folder.content["source"]["files"][0]["sha256"] == hashlib.sha256(stored).hexdigest()


def test_sfdisk_dump_as_layout(tmp_path: Path) -> None:
    # GIVEN a dump, which has no device numbers, and a trace of one device
    (tmp_path / "x").write_bytes(pack(scenes.REMAP))
    (tmp_path / "dump").write_text(
        "label: gpt\ndevice: /dev/sdb\nunit: sectors\nsector-size: 512\n\n"
        "/dev/sdb1 : start=   2048, size=  8000, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4\n"
        "/dev/sdb2 : start=  10048, size=   800, type=0657FD6D-A4AB-43C4-84E5-0933C84B4F4F\n"
    )
    folder, _ = parse(
        [tmp_path / "x"], tmp_path / "trace", options=ParseOptions(layout_file=tmp_path / "dump")
    )
    # THEN the entries are of the trace's device, and the guess is recorded
    assert [
        (entry["device"], entry["name"], entry["start_sector"], entry["sectors"], entry["role"])
        for entry in folder.content["layout"]
    ] == [("7,0", "sdb1", 2048, 8000, "unknown"), ("7,0", "sdb2", 10048, 800, "swap")]
    assert folder.content["inferences"] == [
        {
            "what": "device sdb of the layout",
            "value": "7,0",
            "evidence": "the layout has no device numbers, and both have one device",
        }
    ]


def test_names_of_many_processes_over_many_batches(tmp_path: Path) -> None:
    # GIVEN 200,000 requests whose processes appear one after the other
    events = []
    for place in range(200_000):
        if place % 1000 == 0:
            name = f"p{place // 1000}".encode()
            events.append(Event(place, 1 << 26, pid=place // 1000, payload=name))
        events.append(
            Event(place, 1 | 1 << 16, sector=place * 8, length_bytes=4096, pid=place // 1000)
        )
    (tmp_path / "x").write_bytes(pack_events(events))
    # WHEN they are parsed, in several batches of growing dictionaries
    folder, tally = parse([tmp_path / "x"], tmp_path / "trace")
    # THEN each row has its own
    names = traces.requests(folder)["process"].to_pylist()
    assert names == [f"p{place // 1000}" for place in range(200_000)]
    assert tally.rows["read"] == 200_000


def reads(count: int) -> np.ndarray[Any, Any]:
    """Return `count` queued reads, one every nanosecond, each at its own place."""
    names = ("magic", "sequence", "time_ns", "sector", "bytes", "action", "rest")
    kinds = ("<u4", "<u4", "<u8", "<u8", "<u4", "<u4", "V16")
    records = np.zeros(count, dtype=list(zip(names, kinds, strict=True)))
    records["magic"], records["bytes"], records["action"] = 0x65617407, 4096, 1 | 1 << 16
    records["time_ns"] = np.arange(count)
    records["sequence"] = np.arange(1, count + 1)
    records["sector"] = np.arange(count) * 8
    return records


def test_requests_that_never_complete_leave_a_full_window(tmp_path: Path) -> None:
    # GIVEN more open requests than the decoder keeps, of which the first completes too late
    count = 983_041 + 5
    records = reads(count + 2)
    records["action"][count:] = 8 | 1 << 16
    records["sector"][count:] = 0, (count - 1) * 8
    (tmp_path / "x").write_bytes(records.tobytes())
    folder, _ = parse([tmp_path / "x"], tmp_path / "trace")
    # THEN all are rows, the oldest were given up, and that is reported
    loss = folder.content["loss"]
    assert folder.content["counts"]["requests"] == count
    assert loss["window_full"] == 6
    assert (loss["unmatched"]["queue"], loss["unmatched"]["complete"]) == (count - 1, 1)
    assert "window_full" in traces.warnings(folder)


def test_a_merge_target_that_is_given_up_ends_what_was_merged_into_it(tmp_path: Path) -> None:
    # GIVEN a request that completes, and behind it more open ones than the decoder keeps, of which
    # the second was merged into the first
    count = 983_041 + 3
    opened = reads(count)
    records = np.concatenate([opened[-1:], opened[-1:], opened[:2], opened[1:2], opened[2:]])
    records["time_ns"], records["sequence"] = np.arange(count + 3), np.arange(1, count + 4)
    records["action"][[1, 4]] = 8 | 1 << 16, 2 | 1 << 16
    (tmp_path / "x").write_bytes(records.tobytes())
    folder, _ = parse([tmp_path / "x"], tmp_path / "trace")
    # THEN both end together: three of the four rows that leave the window had to be given up
    loss = folder.content["loss"]
    assert loss["window_full"] == 3
    assert loss["unmatched"]["queue"] == count
    table = traces.requests(folder)
    assert table["merged_into"].to_pylist()[:4] == [None, None, 1, None]
    assert table["complete_ns"].null_count == count


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tracekit", "parse", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
    )


def test_command_reads_standard_input_and_prints_json(tmp_path: Path) -> None:
    done = run("-", "-o", str(tmp_path / "trace"), "--json", stdin=pack(scenes.BACK_MERGE))
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result["operations"]["write"] == {"requests": 3, "bytes": 12288}
    assert result["source"]["files"][0]["name"] == "-"


def test_command_counts_losses_and_warns(tmp_path: Path) -> None:
    done = run(str(capture(tmp_path / "capture")), "-o", str(tmp_path / "trace"))
    assert done.returncode == 0
    assert b"  0 records lost, 7 dropped, 0 events unmatched\n" in done.stdout
    assert b"warning: 0 records are missing" in done.stderr


def test_ctrl_c_ends_a_parse_that_waits_for_its_pipe(tmp_path: Path) -> None:
    # GIVEN a parse whose standard input stays open and silent after the first records
    command = [sys.executable, "-m", "tracekit", "parse", "-", "-o", str(tmp_path / "trace")]
    # Tests that run in the background of a shell have inherited that the signal is ignored.
    command = ["env", "--default-signal=INT", *command]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(pack(scenes.BACK_MERGE))
        process.stdin.flush()
        while not list(tmp_path.glob(".trace.*")):
            assert process.poll() is None
        # WHEN it is interrupted
        process.send_signal(signal.SIGINT)
        # THEN it ends and leaves nothing
        assert process.wait(timeout=20) != 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("first", "name"),
    [
        ("data/oltp.blktrace.0.xz", "oltp-trace"),
        ("data/run.bin", "run-trace"),
        ("captures", "captures-trace"),
        ("-", "trace"),
    ],
)
def test_default_output_is_named_after_the_input(first: str, name: str) -> None:
    assert default_output([Path(first)]) == Path(name)


def test_files_of_cpus_that_are_missing_are_named(tmp_path: Path) -> None:
    # GIVEN files of some CPUs only, one of which had nothing to do
    whole = capture(tmp_path / "capture")
    one = next(path for path in whole.iterdir() if ".blktrace." in path.name)
    for cpu, data in (("1", one.read_bytes()), ("2", b""), ("4", b"")):
        (tmp_path / f"x.blktrace.{cpu}").write_bytes(data)
    # THEN the others are named, but not those that nobody can know of
    files = [tmp_path / f"x.blktrace.{cpu}" for cpu in (1, 2, 4)]
    said = traces.warnings(parse(files, tmp_path / "out")[0])["absent_files"]
    assert said.startswith("x.blktrace.0, x.blktrace.3 are not among the files")
    assert "absent_files" not in traces.warnings(parse([whole], tmp_path / "whole")[0])
