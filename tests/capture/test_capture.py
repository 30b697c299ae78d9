"""Captures from end to end: of a loop disk, against what the kernel and blkparse say; sources."""

import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import TRACER, Disk, Record
from tests.recipes.three_roles import loop_disk, mounted
from tracekit.capture import blktrace, bpf, layout, programs
from tracekit.capture.layout import find_disk
from tracekit.capture.session import NAMES, CaptureOptions, Choice, capture, choose
from tracekit.capture.tracefs import tracefs_folder
from tracekit.doctor import chosen
from tracekit.errors import TracekitError, UsageError
from tracekit.readers.blktrace import parse

pytestmark = pytest.mark.root
READ, WRITE, NOTIFY = 1, 2, 0x400
QUEUED, ALLOCATED = 1, 4


def all_records(folder: Path) -> list[Record]:
    return [
        record
        for path in sorted(folder.glob("*.blktrace.*"))
        for record in machine.records_of(path.read_bytes())
    ]


def disk_counters(disk: Disk) -> tuple[int, int]:
    """Return the reads and the writes that the kernel counted as completed."""
    return counters_of(Path(f"/sys/block/{disk.name}/stat").read_text())


def counters_of(line: str) -> tuple[int, int]:
    fields = line.split()
    return int(fields[0]), int(fields[4])


def test_records_agree_with_the_kernel(disk: Disk, tmp_path: Path) -> None:
    # GIVEN the disk's counters outside and inside of the capture
    os.sync()
    inner = tmp_path / "counters"
    look = f"cat /sys/block/{disk.name}/stat >> {inner}"
    outer_before = disk_counters(disk)
    # WHEN 200 durable writes are captured
    script = f"{look}; {shlex.join(disk.writer(200))}; {look}"
    command = ("sh", "-c", script)
    done = disk.capture(tmp_path / "trace", *TRACER, "--json", command=command)
    outer_after = disk_counters(disk)
    # THEN nothing is lost
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert (result["overrun"], result["dropped"], result["foreign_bytes"]) == (0, 0, 0)
    # AND the requests allocated (G) are those that the kernel counted as completed: not fewer than
    # while the writer ran, not more than before the capture began until it was over
    records = all_records(tmp_path / "trace")
    allocated = [record.category for record in records if record.action == ALLOCATED]
    inner_before, inner_after = (counters_of(line) for line in inner.read_text().splitlines())
    for bit, place in ((READ, 0), (WRITE, 1)):
        traced = sum(category & bit > 0 for category in allocated)
        assert inner_after[place] - inner_before[place] <= traced
        assert traced <= outer_after[place] - outer_before[place]
    assert inner_after[1] - inner_before[1] >= 200
    # AND the records counted are those in the files
    assert sum(record.category & NOTIFY == 0 for record in records) == result["records"]


def test_files_are_as_blktrace_writes_them(disk: Disk, tmp_path: Path) -> None:
    # WHEN durable writes are captured
    before_ns = time.time_ns()
    disk.capture(tmp_path / "trace", command=disk.writer(50))
    # THEN each file holds its CPU's records only, numbered from 1, in the order of time
    files = sorted((tmp_path / "trace").glob("trace.blktrace.*"))
    for path in files:
        records = machine.without_messages(machine.records_of(path.read_bytes()))
        assert {record.cpu for record in records} <= {int(path.suffix[1:])}
        assert [record.sequence for record in records] == list(range(1, len(records) + 1))
        times = [record.time_ns for record in records]
        assert times == sorted(times)
    assert [path.suffix for path in files] == [f".{cpu}" for cpu in range(len(files))]
    # AND the first begins with the wall clock, then names
    notes = [record for record in all_records(tmp_path / "trace") if record.category & NOTIFY]
    seconds = int.from_bytes(notes[0].payload[:4], "little")
    assert abs(seconds - before_ns // 10**9) <= 60
    assert b"dd" in {note.payload.rstrip(b"\0") for note in notes[1:]}


@pytest.mark.skipif(shutil.which("blkparse") is None, reason="needs blkparse")
def test_blkparse_accepts_every_record_and_knows_the_names(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a capture
    folder = tmp_path / "trace"
    result = json.loads(disk.capture(folder, "--json", command=disk.writer(50)).stdout)
    # WHEN blkparse reads it
    parsed = subprocess.run(
        ["blkparse", "-i", "trace", "-f", "%a %C\n"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    # THEN it counts the same records, misses none and names the writer
    entries = result["records"] + parsed.stdout.count(" m   N cgroup ")
    assert f"Events (trace): {entries} entries" in parsed.stdout
    assert "Skips: 0 forward" in parsed.stdout
    assert "Q dd\n" in parsed.stdout
    assert "has error cpu" not in parsed.stderr


def test_layout_knows_the_three_roles(disk: Disk, tmp_path: Path) -> None:
    # WHEN a disk of three partitions is captured
    disk.capture(tmp_path / "trace", command=disk.writer(20))
    layout = machine.read_layout(tmp_path / "trace")
    # THEN each has its role, its place and its evidence
    fs, journal, swap = layout["partitions"]
    assert (fs["name"], fs["role"]) == (f"{disk.name}p1", "fs")
    assert (fs["start_sector"], fs["sectors"]) == (2048, 64 * 2048)
    assert (fs["filesystem"], fs["mount"]) == ("ext4", str(disk.point))
    assert (journal["role"], journal["start_sector"]) == ("journal", 65 * 2048)
    assert journal["uuid"] == fs["journal_uuid"]
    assert journal["evidence"] == (
        f"external journal of {disk.name}p1, journal UUID {fs['journal_uuid']}"
    )
    assert (swap["role"], swap["start_sector"], swap["sectors"]) == ("swap", 73 * 2048, 8 * 2048)
    assert swap["evidence"].endswith("not in use")
    # AND the disk and the processes are described
    assert layout["devices"][0]["device"] == disk.name
    assert layout["devices"][0]["size_sectors"] == 82 * 2048
    assert layout["kernel"] == os.uname().release
    assert "dd" in layout["processes"].values()
    assert any(name.startswith("jbd2/") for name in layout["processes"].values())
    assert layout["loss"] == {"overrun": 0, "dropped": 0}
    assert layout["capture"]["own_requests"] == 0


def test_partition_numbers_are_those_of_the_remap_records(disk: Disk, tmp_path: Path) -> None:
    disk.capture(tmp_path / "trace", command=disk.writer(20))
    layout = machine.read_layout(tmp_path / "trace")
    # GIVEN the partitions that remap records (A) name in their payload
    named = set()
    for record in all_records(tmp_path / "trace"):
        if record.action == 15:
            number = int.from_bytes(record.payload[:4], "big")
            named.add(f"{number >> 20},{number & 0xFFFFF}")
    # THEN these are the file system and the journal of the layout
    assert named == {part["partition"] for part in layout["partitions"][:2]}


def test_compressed_files_hold_the_same_kind_of_records(disk: Disk, tmp_path: Path) -> None:
    for compress, suffix in (("xz", ".xz"), ("zstd", ".zst")):
        folder = tmp_path / compress
        disk.capture(folder, "--compress", compress, command=disk.writer(20))
        files = sorted(folder.glob(f"{compress}.blktrace.*{suffix}"))
        assert files
        data = b""
        for path in files:
            if compress == "xz":
                data += lzma.decompress(path.read_bytes())
            else:
                with pa.CompressedInputStream(str(path), "zstd") as stream:
                    data += stream.read()
        assert len(machine.records_of(data)) > machine.read_layout(folder)["capture"]["records"] > 0


@pytest.mark.parametrize("time", ["0.5s", "500ms"])
def test_for_a_time_without_a_command(disk: Disk, tmp_path: Path, time: str) -> None:
    # WHEN nothing happens on the disk for half a second
    done = machine.run_capture(disk.device, "-o", tmp_path / "trace", "--duration", time, "--json")
    # THEN the capture ends by itself and is empty or nearly so
    assert 400_000_000 < json.loads(done.stdout)["duration_ns"] < 3_000_000_000
    assert (tmp_path / "trace" / "layout.json").exists()


def test_what_the_command_prints_does_not_mix_with_json(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a command that prints
    command = ("echo", "hello")
    # THEN with --json it is on stderr, and else alone where the command put it
    done = disk.capture(tmp_path / "a", *TRACER, "--json", command=command)
    assert json.loads(done.stdout)["output"] == str(tmp_path / "a")
    assert done.stderr == "hello\n"
    done = disk.capture(tmp_path / "b", command=command)
    assert done.stdout == "hello\n"
    assert " records in " in done.stderr


@pytest.mark.usefixtures("disk")  # which skips where nothing can be traced
def test_an_internal_journal_is_found_by_its_extents(tmp_path: Path) -> None:
    # GIVEN an ext4 on a whole disk, with its journal inside
    with loop_disk(tmp_path / "disk.img", 64 << 20) as device:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        with mounted(device, tmp_path / "fs") as point:
            inner = Disk(device, point)
            inner.capture(tmp_path / "trace", command=inner.writer(30))
    # THEN the layout has the file system and the journal's place in it
    layout = machine.read_layout(tmp_path / "trace")
    fs, *pieces = layout["partitions"]
    assert (fs["role"], fs["start_sector"], fs["sectors"]) == ("fs", 0, 64 * 2048)
    assert {piece["role"] for piece in pieces} == {"journal"}
    # AND what jbd2 writes is there, and what the writer writes is not
    names = layout["processes"]
    places = {"jbd2": 0, "dd": 0}
    for record in all_records(tmp_path / "trace"):
        name = names.get(str(record.pid), "")
        if record.action != QUEUED or not record.category & WRITE or not record.length_bytes:
            continue
        is_inside = any(
            piece["start_sector"] <= record.sector < piece["start_sector"] + piece["sectors"]
            for piece in pieces
        )
        kind = "jbd2" if name.startswith("jbd2/") else "dd"
        assert is_inside == (kind == "jbd2")
        places[kind] += 1
    assert min(places.values()) >= 30


def test_loss_is_measured_and_leaves_a_gap(disk: Disk, tmp_path: Path) -> None:
    # GIVEN the smallest buffer, and nobody who reads it for a second
    options = CaptureOptions(command=tuple(disk.writer(400)), buffer_kib=8, poll_s=1.0)
    # WHEN more is written than fits
    captured = capture([disk.device], tmp_path / "trace", options=options)
    # THEN the loss is counted
    lost = captured.kept.overrun
    assert lost > 0
    assert machine.read_layout(tmp_path / "trace")["loss"] == {"overrun": lost, "dropped": 0}
    # AND the gaps in the sequence numbers are just as large
    gaps = 0
    for path in (tmp_path / "trace").glob("*.blktrace.*"):
        records = machine.without_messages(machine.records_of(path.read_bytes()))
        numbers = [record.sequence for record in records]
        gaps += numbers[-1] - len(numbers) if numbers else 0
    assert gaps == lost


def test_where_the_tracer_is_in_use_another_source_is_taken_and_said(
    disk: Disk, tmp_path: Path
) -> None:
    if reason := programs.probe_perf():
        pytest.skip(f"perf does not record block events here: {reason}")
    # GIVEN a tracer that something else uses
    with machine.setting(tracefs_folder() / "current_tracer", "blk", "nop"):
        # WHEN a capture chooses by itself
        done = disk.capture(tmp_path / "trace", command=disk.writer(5))
        finding = chosen()
    # THEN it takes the next one and says why, as doctor does
    source = "perf" if bpf.why_not() else "bpf"
    assert f"captured with {source}, because tracefs-blk does not work here" in done.stderr
    assert "current_tracer is 'blk'" in done.stderr
    assert machine.read_layout(tmp_path / "trace")["capture"]["source"] == source
    assert finding.status == "limited"
    assert f"captured with {source}" in finding.detail


def test_the_best_source_is_blktrace_then_the_tracer(disk: Disk) -> None:
    # GIVEN what blktrace says when it is asked by name
    folder = find_disk(disk.device)
    reason = blktrace.why_not(folder)
    # THEN it is the best, and else the kernel's tracer, with the reason
    found = choose(None, tracefs=tracefs_folder(), disks=[folder])
    refused = {"blktrace": reason} if reason else {}
    assert found == Choice("tracefs-blk" if reason else "blktrace", refused)


def test_a_source_that_is_not_known_or_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="known are blktrace, tracefs-blk, bpf, perf"):
        choose("strace", tracefs=tmp_path)
    # GIVEN a kernel without the tracer, no perf, and a tracekit built without BPF
    monkeypatch.setattr(bpf, "is_built", lambda: False)
    (tmp_path / "available_tracers").write_text("function nop\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    # THEN each reason is told
    reasons = (
        "blktrace: blktrace is not installed .*; tracefs-blk: this kernel has no tracer blk .*;"
    )
    reasons += " perf: perf is not installed"
    with pytest.raises(TracekitError, match=reasons):
        choose(None, tracefs=tmp_path)


@pytest.mark.parametrize("source", NAMES)
def test_what_tracing_costs_is_measured(disk: Disk, tmp_path: Path, source: str) -> None:
    machine.skip_unless_it_works(source, disk)
    # GIVEN a command that records how often it ran
    command = ("sh", "-c", f"echo run >>{tmp_path}/runs; sleep 0.3")
    # WHEN it is captured with --untraced
    options = ("--source", source, "--untraced", "--json")
    done = disk.capture(tmp_path / "trace", *options, command=command)
    # THEN it ran twice, and both times and their ratio are reported and kept
    assert (tmp_path / "runs").read_text() == "run\n" * 2
    cost = json.loads(done.stdout)["overhead"]
    assert min(cost["traced_ns"], cost["untraced_ns"]) >= 300_000_000
    assert cost["ratio"] == pytest.approx(cost["traced_ns"] / cost["untraced_ns"], abs=1e-4)
    assert machine.read_layout(tmp_path / "trace")["capture"]["overhead"] == cost


def test_untraced_needs_a_command_that_works(disk: Disk, tmp_path: Path) -> None:
    command = ("sh", "-c", "exit 4")
    done = disk.capture(tmp_path / "trace", "--untraced", command=command, code=1)
    assert "the untraced run failed with status 4" in done.stderr
    assert list(tmp_path.iterdir()) == []


CONTROL = Path("/sys/class/zram-control")


@pytest.fixture
def memory_disk() -> Iterator[Disk]:
    """Make a disk of 16 MiB of compressed memory."""
    machine.skip_unless_it_can_trace()
    if not CONTROL.is_dir():
        pytest.skip("needs zram")
    number = (CONTROL / "hot_add").read_text().strip()
    folder = Path(f"/sys/block/zram{number}")
    try:
        (folder / "disksize").write_text(str(16 << 20))
        yield Disk(f"/dev/zram{number}", folder)
    finally:
        machine.wait_for(lambda: not folder.is_dir() or is_removed(folder, number))


def is_removed(folder: Path, number: str) -> bool:
    try:
        (folder / "reset").write_text("1")
        (CONTROL / "hot_remove").write_text(number)
    except OSError:  # udev may still look at what is on it
        return False
    return True


@pytest.mark.xdist_group("kernel")
@pytest.mark.parametrize("source", ["tracefs-blk", "bpf"])
def test_requests_of_a_disk_without_a_queue_are_never_issued(
    memory_disk: Disk, tmp_path: Path, source: str
) -> None:
    if source == "bpf" and (why := bpf.why_not()):
        pytest.skip(f"bpf does not record block events here: {why}")
    load = ["dd", "if=/dev/zero", f"of={memory_disk.device}", "bs=4k", "count=100", "oflag=direct"]
    # WHEN a load on it is captured
    with machine.tracer_turn():
        memory_disk.capture(tmp_path / "c", "--source", source, command=load)
    # THEN the layout says that nothing schedules its requests
    assert machine.read_layout(tmp_path / "c")["devices"][0]["scheduler"] == "none"
    # AND all of them are in the trace, queued and completed
    table = traces.requests(parse([tmp_path / "c"], tmp_path / "trace")[0])
    rows = table.filter(pc.field("process") == "dd")
    assert rows["sector"].to_pylist() == [8 * number for number in range(100)]
    assert rows["complete_ns"].null_count == 0
    assert rows["issue_ns"].null_count == 100


def test_a_swap_file_that_comes_and_goes_is_swap_where_it_lay(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a file that is switched on while a capture records, then off, and deleted
    if shutil.which("filefrag") is None:
        pytest.skip("needs filefrag")
    table, swap, places = tmp_path / "swaps", disk.point / "swap", tmp_path / "places"
    table.write_text("Filename Type Size Used Priority\n")
    monkeypatch.setattr(layout, "SWAPS", table)
    script = (
        f"dd if=/dev/urandom of={swap} bs=1M count=2 conv=fsync status=none"
        f" && filefrag -v -b512 {swap} >{places} && echo '{swap} file 2044 0 -2' >>{table}"
        f" && sleep 2 && sed -i 2d {table} && rm {swap} && sync"
    )
    options = CaptureOptions(command=("sh", "-c", script))
    # WHEN the capture has ended
    capture([disk.device], tmp_path / "capture", options=options)
    # THEN its layout has the file where filefrag saw it
    content = machine.read_layout(tmp_path / "capture")
    start = int(Path(f"/sys/class/block/{disk.name}p1/start").read_text())
    rows = re.findall(r"^ *\d+: +\d+\.\. *\d+: +(\d+)\.\. *(\d+):", places.read_text(), re.M)
    pieces = [one for one in content["partitions"] if one["name"].endswith(":" + str(swap))]
    assert sorted((one["start_sector"], one["sectors"]) for one in pieces) == sorted(
        (start + int(first), int(last) - int(first) + 1) for first, last in rows
    )
    assert all(one["evidence"].startswith(f"swap file {swap} in use until") for one in pieces)
    # AND says that it was switched off
    (doubt,) = content["doubts"]
    assert f"{swap}: the swap file was switched off during the capture" in doubt
    assert "in its 4,096 sectors" in doubt
