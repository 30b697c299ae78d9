"""The source bpf: the same requests as the kernel's tracer, records put in order, files damaged."""

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import Disk
from tests.capture.test_accounted import TURNS, mixed
from tests.capture.test_sources import CLOCKS_NS, kept_in, recording, requests_of
from tracekit.capture import bpf, session
from tracekit.capture.bpf import FIELDS, HEADER_BYTES, SIGN, Records
from tracekit.capture.layout import LAYOUT_VERSION
from tracekit.capture.recording import CaptureFolder, NothingRecordedError
from tracekit.capture.session import KNOWN, CaptureOptions, capture, choose
from tracekit.errors import InputError, TracekitError
from tracekit.layout import CaptureSummary
from tracekit.readers.blktrace import parse

NS = ("getrq_ns", "insert_ns", "merge_ns", "issue_ns", "transfer_ns", "complete_ns")
DEVICE = 7 << 20


def every_sort(disk: Disk) -> str:
    """Return a script of splits, requeues, merges, flushes, FUA, discards and reads."""
    limit = f"/sys/block/{disk.name}/queue/max_sectors_kb"
    big = f"{disk.point}/big bs=3M count=4 oflag=direct conv=notrunc status=none"
    split = f"echo 64 >{limit}; dd if=/dev/zero of={big}; echo 1280 >{limit}"
    read = f"dd if={disk.point}/big of=/dev/null bs=1M iflag=direct status=none"
    return f"{split}; {read}; {mixed(disk)}"


def run_script(text: str) -> None:
    subprocess.run(["sh", "-c", text], check=True)


def both(disk: Disk, folder: Path) -> tuple[Path, Path]:
    """Capture with the tracer and with BPF at once; return the folders of the two."""
    folder.mkdir()
    with recording("bpf", disk, folder / "bpf") as running:
        options = CaptureOptions(work=lambda _: run_script(every_sort(disk)), source="tracefs-blk")
        capture([disk.device], folder / "blk", options=options)
        recorded = running.stop()
    recorded.write(kept_in(disk, folder / "bpf", "bpf"))
    shutil.copy(folder / "blk/layout.json", folder / "bpf")
    return folder / "blk", folder / "bpf"


def differences(ours: pa.Table, theirs: pa.Table) -> list[str]:
    """Return the columns that differ; `depth` depends on the order of what is simultaneous."""
    if ours.num_rows != theirs.num_rows:
        return [f"{ours.num_rows} rows, {theirs.num_rows}"]
    names = set(ours.column_names) - {*NS, "queue_ns", "depth", "queue_depth"}
    wrong = [name for name in names if not ours[name].equals(theirs[name])]
    for name in NS:
        # As far from the queueing.
        spans = [pc.subtract(rows[name], rows["queue_ns"]) for rows in (ours, theirs)]
        is_far = pc.max(pc.abs(pc.subtract(*spans))).as_py() > CLOCKS_NS
        if ours[name].null_count != theirs[name].null_count or is_far:
            wrong.append(name)
    return wrong


@pytest.mark.root
@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_every_sort_of_request_is_that_of_the_tracer(disk: Disk, tmp_path: Path) -> None:
    if reason := bpf.why_not():
        pytest.skip(reason)
    # GIVEN requests of every sort, which both record at once
    # (again, where somebody else was at work while only one recorded)
    for turn in range(TURNS):
        folders = [parse([one], one / "parsed")[0] for one in both(disk, tmp_path / str(turn))]
        theirs, ours = map(traces.requests, folders)
        wrong = differences(ours, theirs)
        loss = folders[1].content["loss"]
        counted = {row["counted"] == row["recorded"] for row in loss["unseen"]["disks"]}
        losses = (loss["sequence_gaps"], loss["unseen"]["at_most"], counted)
        if not wrong and losses == (0, 0, {True}):
            break
    # THEN their tables are the same
    assert wrong == []
    # AND the kernel's own counters agree: nothing is lost
    assert losses == (0, 0, {True})
    # AND there were such requests
    assert ours.num_rows > 300
    for name in ("split_count", "merged_into", "is_fua", "is_preflush"):
        assert pc.any(pc.greater(pc.fill_null(ours[name].cast("int64"), 0), 0)).as_py(), name


@pytest.mark.root
@pytest.mark.skipif(shutil.which("blkparse") is None, reason="needs blkparse")
def test_blkparse_reads_it(disk: Disk, tmp_path: Path) -> None:
    machine.skip_unless_it_works("bpf", disk)
    disk.capture(tmp_path / "trace", "--source", "bpf", command=disk.writer(50))
    folder, tally = parse([tmp_path / "trace"], tmp_path / "parsed")
    text = subprocess.run(
        ["blkparse", "-i", "trace", "-q", "-f", "%a %C\n"],
        cwd=tmp_path / "trace",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert text.splitlines().count("Q dd") == 50
    assert sum(line.startswith("Q ") for line in text.splitlines()) == sum(tally.rows.values())
    # What the file system itself has in flight at the end is known, and has no completion.
    written = requests_of(folder, "dd")
    assert (written.num_rows, written["complete_ns"].null_count) == (50, 0)


def recorded(*rows: dict[str, Any], types: str | None = None) -> bytes:
    """Return a recording of these records, as the program writes it."""
    layout = np.dtype([(name, type_of(name)) for name in FIELDS])
    found = np.zeros(len(rows), layout)
    for at, row in enumerate(rows):
        for name, value in ({"device": DEVICE, "comm": b"app"} | row).items():
            found[name][at] = value
    header = SIGN + " ".join(f"{types or type_of(name)} {name}" for name in FIELDS).encode() + b"\n"
    return header.ljust(HEADER_BYTES, b"\0") + found.tobytes()


def type_of(name: str) -> str:
    if name == "comm":
        return "S16"
    kinds = {"_ns": "u8", "sector": "u8", "cgroup": "u8", "category": "u2", "_cpu": "u2"}
    found = next((kind for end, kind in kinds.items() if name.endswith(end)), "u4")
    return "i4" if name == "error" else found


def written(folder: Path, data: bytes, **more: Any) -> tuple[CaptureFolder, Any]:
    (folder / "spool").write_bytes(data)
    disk = {"device": "loop0", "major": 7, "minor": 0}
    layout = {"layout_version": LAYOUT_VERSION, "devices": [disk], **more}
    target = CaptureFolder(folder, "trace", layout, CaptureSummary(source="bpf"))
    return target, Records(folder / "spool", 0, frozenset({77})).write(target)


def request(queue_ns: int, complete_ns: int, **more: Any) -> dict[str, Any]:
    times = {"queue_ns": queue_ns, "issue_ns": queue_ns + 1, "complete_ns": complete_ns}
    return {**times, "thread": 5, "process": 5, **more}


def test_events_are_in_the_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a request that begins first and ends last, in blocks of one record
    monkeypatch.setattr(bpf, "BLOCK_RECORDS", 1)
    lost = {"kind": 4, "sector": 9, "from_sector": 2, "device": 0}
    rows = (request(30, 40), request(50, 60, process=77), request(10, 90, queue_cpu=1), lost)
    _, kept = written(tmp_path, recorded(*rows))
    # THEN each CPU's file is in order, and what was lost and our own is counted
    assert (kept.records, kept.dropped, kept.missed_at_most, kept.own_requests) == (9, 9, 2, 1)
    assert kept.files == ("trace.blktrace.0", "trace.blktrace.1")
    files = [machine.records_of((tmp_path / name).read_bytes()) for name in kept.files]
    events = [[one for one in file if not one.category & machine.NOTIFY] for file in files]
    assert [one.time_ns for one in events[0]] == [11, 30, 31, 40, 50, 51, 60, 90]
    assert [one.sequence for one in events[0]] == list(range(1, 9))
    assert [(one.time_ns, one.pid) for one in events[1]] == [(10, 5)]


@pytest.mark.parametrize(
    ("in_flight", "counted", "missed"), [(0, 2, 3), (1, 2, 2), (9, 2, 0), (9, 20, 18), (0, 4, 3)]
)
def test_requests_that_are_not_seen_to_end_are_told(
    tmp_path: Path, in_flight: int, counted: int, missed: int
) -> None:
    # GIVEN requests that were issued and never end, one of them after the counters were read
    opened = [request(at, 0, getrq_ns=at) for at in (10, 20, 30, 95)]
    ended = [request(40, 50, getrq_ns=40), {"issue_ns": 41}, {"complete_ns": 45}]
    merged = request(60, 0, getrq_ns=60, merge_ns=61, issue_ns=0)
    refused = request(70, 71, issue_ns=0, error=-11)
    # AND counters of the disk, with two requests that records have and some that they have not
    begin = {"before_ns": 5, "after_ns": 6, "in_flight": 0, "completed": {"read": 7, "flush": 1}}
    completed = {"read": 7 + counted, "flush": 9}
    end = {"before_ns": 90, "after_ns": 91, "in_flight": in_flight, "completed": completed}
    counters = [{"device": "loop0", "begin": begin, "end": end}]
    # THEN those are told that the kernel did not count as in flight, or that it counted more
    _, kept = written(tmp_path, recorded(*opened, *ended, merged, refused), counters=counters)
    assert kept.missed_at_most == missed


def test_a_flush_that_was_moved_before_the_disk_is_at_its_begin(tmp_path: Path) -> None:
    rows = [request(10, 20, sector=2**64 - 18432), request(30, 40, sector=8, bytes=4096)]
    written(tmp_path, recorded(*rows))
    found = machine.records_of((tmp_path / "trace.blktrace.0").read_bytes())
    queued = [one for one in found if not one.category & machine.NOTIFY and one.time_ns in (10, 30)]
    assert [one.sector for one in queued] == [0, 8]


def test_a_thread_has_the_name_of_the_time(tmp_path: Path) -> None:
    rows = [request(time, time + 5, comm=name) for time, name in ((10, b"sh"), (20, b"fio"))]
    written(tmp_path, recorded(*rows, request(30, 35, comm=b"fio")))
    found = machine.records_of((tmp_path / "trace.blktrace.0").read_bytes())
    names = [(one.time_ns, one.payload.rstrip(b"\0")) for one in found if one.category == 0x400]
    assert [one for one in names if one[1].isalpha()] == [(10, b"sh"), (20, b"fio")]
    assert json.loads((tmp_path / "layout.json").read_text())["processes"]["5"] == "fio"


@pytest.mark.parametrize(("status", "code"), [(0, 0), (10, 5), (3, 28), (200, 5), (-11, 11)])
def test_an_error_is_an_errno(tmp_path: Path, status: int, code: int) -> None:
    (tmp_path / "trace").mkdir()
    target, _ = written(tmp_path / "trace", recorded(request(10, 20, error=status, category=1)))
    (tmp_path / "trace/spool").unlink()
    folder, _ = parse([target.path], tmp_path / "parsed")
    assert traces.requests(folder)["error"].to_pylist() == [-code]


def test_damage_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(NothingRecordedError):
        written(tmp_path, recorded()[:-1])
    # An idle disk is no damage
    assert written(tmp_path, recorded())[1].files == ("trace.blktrace.0",)
    for damaged in (b"x" * 5000, recorded(request(1, 2), types="u9"),
                    recorded(request(1, 2)).replace(b"u8 queue_ns", b"O8 queue_ns"),
                    recorded(request(1, 2, queue_cpu=65535))):  # fmt: skip
        with pytest.raises(InputError):
            written(tmp_path, damaged)


def test_no_damage_is_a_traceback(tmp_path: Path) -> None:
    whole, rng = recorded(*(request(at, at + 50) for at in range(1, 40))), random.Random(7)  # noqa: S311 - no secret
    ends = []
    for _ in range(300):
        data = bytearray(whole[: rng.choice([len(whole), rng.randrange(len(whole))])])
        for _ in range(rng.randrange(1, 30)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            ends.append(written(tmp_path, bytes(data))[1].records)
        except TracekitError as error:
            ends.append(str(error))
    # THEN some is read, and some is rejected with a reason
    assert {type(end) for end in ends} == {int, str}


def test_without_the_program_another_source_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_NATIVE_DIR", str(tmp_path))
    why = "built without BPF: clang, libbpf or libelf was missing"
    assert bpf.why_not() == why
    with pytest.raises(TracekitError, match=why):
        choose("bpf", tracefs=tmp_path)
    # AND it is no source that others are taken in place of
    monkeypatch.setattr(session, "KNOWN", {"bpf": KNOWN["bpf"]})
    monkeypatch.setattr(session, "NAMES", ("bpf",))
    with pytest.raises(TracekitError, match=r"cannot be captured: $"):
        choose(None, tracefs=tmp_path)
