"""`tracekit parse` from files to a trace folder: of one, of pieces, and attempts with EAGAIN."""

import gzip
import hashlib
import json
import os
import random
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
from tests.decode import block_layer, scenes
from tests.decode.records import Event, pack, pack_events
from tests.parse.captures import LAYOUT, capture
from tests.parsed import COMPRESSORS, requests
from tracekit._native.decode import Decoder
from tracekit.errors import InputError
from tracekit.readers import blktrace
from tracekit.readers.blktrace import ParseOptions, parse
from tracekit.readers.files import default_output
from tracekit.store import TraceFolder
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


MS = 1_000_000


def read_at(at_ms: int, pid: int) -> str:
    """Return the events of a read that completes at a time."""
    at_ns = at_ms * MS
    times = ((at_ns - 2000, "Q"), (at_ns - 1000, "D"), (at_ns, "C"))
    return "\n".join(f"{time} {action} R {at_ms * 8}+8 pid={pid}" for time, action in times)


def piece(folder: Path, number: int, *, reads: int, **layout: Any) -> Path:
    """Write a piece of a second with so many reads; the kernel counts 10, and one at the cut."""
    folder.mkdir()
    first_ms = number * 1000
    lines = [read_at(first_ms + 100 + turn, pid=number) for turn in range(reads)]
    (folder / "c.blktrace.0").write_bytes(pack("\n".join(lines)))
    ends = {"begin": (50, 0), "end": (900, 10)}
    counters = {
        name: {
            "before_ns": (first_ms + at_ms) * MS,
            "after_ns": (first_ms + at_ms) * MS + 1000,
            "completed": {"read": 11 * number + count},
        }
        for name, (at_ms, count) in ends.items()
    }
    content = {
        "layout_version": 1,
        "devices": [{"device": "loop0", "major": 7, "minor": 0}],
        "processes": {str(number): f"program{number}"},
        "cgroups": {str(number): f"/group{number}"},
        "loss": {"overrun": number, "dropped": 10 * number},
        "counters": [{"device": "loop0", **counters}],
        "capture": {"source": "tracefs-blk", "own_pid": 7, "piece": number},
    }
    (folder / "layout.json").write_text(json.dumps(content | layout))
    return folder


def joined(tmp_path: Path, *pieces: Path) -> TraceFolder:
    return parse(pieces, tmp_path / "trace")[0]


def not_measured(folder: TraceFolder) -> list[str]:
    return [one["why"] for one in folder.content["loss"]["unseen"]["not_measured"]]


def test_pieces_have_what_each_of_them_knows(tmp_path: Path) -> None:
    # GIVEN three pieces with 11, 8 and 10 reads, where the kernel counted 11 from one to the next
    pieces = [piece(tmp_path / f"p{n}", n, reads=reads) for n, reads in ((1, 11), (2, 8), (3, 10))]
    # WHEN they are read as one, the last one first
    found = joined(tmp_path, *reversed(pieces))
    # THEN the kernel's count is of all, and so are the losses and the names
    (row,) = found.content["loss"]["unseen"]["disks"]
    assert (row["counted"], row["recorded"], row["at_least"]) == (32, 29, 3)
    assert found.content["loss"]["dropped"] == 1 + 2 + 3 + 10 * (1 + 2 + 3)
    names = set(traces.requests(found)["process"].to_pylist())
    assert names == {"program1", "program2", "program3"}


def test_a_name_that_one_piece_knows_is_known_in_all(tmp_path: Path) -> None:
    first = piece(tmp_path / "p1", 1, reads=10, processes={})
    second = piece(tmp_path / "p2", 2, reads=10, processes={"1": "late", "2": "other"})
    found = joined(tmp_path, first, second)
    assert set(traces.requests(found)["process"].to_pylist()) == {"late", "other"}


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"capture": {"own_pid": 7, "piece": 3}}, "not all pieces of one recording, in a row"),
        ({"capture": {"own_pid": 8, "piece": 2}}, "not all pieces of one recording, in a row"),
        ({"capture": {}}, "not all pieces of one recording, in a row"),
        ({"counters": []}, "has no counters of it"),
        ({"counters": [{"device": "loop0", "why_not": "it went away"}]}, "it went away"),
    ],
)
def test_without_a_row_of_counters_what_is_missing_is_not_known(
    tmp_path: Path, second: dict[str, Any], why: str
) -> None:
    pieces = piece(tmp_path / "p1", 1, reads=11), piece(tmp_path / "p2", 2, reads=8, **second)
    (found,) = not_measured(joined(tmp_path, *pieces))
    assert why in found


def test_counters_that_went_back_are_of_another_boot(tmp_path: Path) -> None:
    pieces = piece(tmp_path / "p1", 1, reads=11), piece(tmp_path / "p2", 2, reads=8)
    file = pieces[0] / "layout.json"
    file.write_text(file.read_text().replace('"read": 21', '"read": 210'))
    assert not_measured(joined(tmp_path, *pieces)) == ["its counters went back between two pieces"]


def test_a_time_from_which_records_found_no_space_counts_from_the_first(tmp_path: Path) -> None:
    loss = {"overrun": 0, "dropped": 5, "whole_ns": 200 * MS}
    pieces = piece(tmp_path / "p1", 1, reads=11), piece(tmp_path / "p2", 2, reads=8, loss=loss)
    message = traces.warnings(joined(tmp_path, *pieces))["lost_records"]
    assert "behind the first 1.200 s, of some CPUs" in message


ATTEMPT = "{0} Q R 77777+8 pid=9 dev={1}\n{0} C R 77777+8 error=-11 dev={1}"


def with_attempts(lines: list[str], chosen: random.Random) -> list[str]:
    """Return the events with attempts between them, at the time of the one before."""
    found = []
    for line in lines:
        time, device = line.split()[0], line.rpartition("dev=")[2].split()[0]
        count = chosen.choice((0, 0, 1, 3))
        found += [line, *ATTEMPT.format(time, device).splitlines() * count]
    return found


def parsed(folder: Path, lines: list[str], **options: Any) -> tuple[list[dict[str, Any]], int]:
    folder.mkdir()
    (folder / "c.blktrace.0").write_bytes(pack("\n".join(lines)))
    trace, _ = parse([folder], folder / "trace", options=ParseOptions(**options))
    return requests(trace).to_pylist(), trace.info.count("refused")


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_without_the_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # GIVEN what a model of the block layer did, merges among it, and the same with attempts
    lines = block_layer.lines_of(block_layer.run(seed, steps=2000, disks=2, cpus=1))
    attempts = with_attempts(lines, random.Random(seed))  # noqa: S311
    # (in batches of some rows, where merge targets are in earlier ones)
    batches = Decoder.batches
    monkeypatch.setattr(
        Decoder,
        "batches",
        lambda self: (batch.slice(at, 7) for batch in batches(self)
                      for at in range(0, len(batch), 7)),
    )  # fmt: skip
    monkeypatch.setattr(blktrace, "MERGE_REACH", 900)
    plain, none = parsed(tmp_path / "plain", lines)
    # WHEN they are parsed THEN nothing but their count differs
    rows, count = parsed(tmp_path / "attempts", attempts)
    assert (none, count) == (0, (len(attempts) - len(lines)) // 2)
    assert rows == plain
    assert sum(row["merged_into"] is not None for row in rows) > 20
    # AND a replay's own record keeps them
    kept, _ = parsed(tmp_path / "kept", attempts, keeps_refused=True)
    assert len(kept) == len(rows) + count


def test_what_failed_with_a_request_is_a_row(tmp_path: Path) -> None:
    lines = ["1 Q R 8+8", "2 G R 8+8", "3 D R 8+8", "4 C R 8+8 error=-11"]
    rows, count = parsed(tmp_path / "issued", lines)
    assert ([row["error"] for row in rows], count) == ([-11], 0)
    rows, count = parsed(tmp_path / "other", ["1 Q R 8+8", "4 C R 8+8 error=-5"])
    assert ([row["error"] for row in rows], count) == ([-5], 0)


def test_nothing_but_attempts_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of a queued or issued request"):
        parsed(tmp_path / "one", ATTEMPT.format(5, "7,0").splitlines())
