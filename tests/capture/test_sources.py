"""Captures with perf, BPF and blktrace against the kernel's tracer, and how they end."""

import fcntl
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import NOTIFY, Disk
from tests.replay.disk import image, loop
from tracekit._native import program_path
from tracekit.capture import blktrace, bpf, kernel_state, session
from tracekit.capture.bpf import Bpf
from tracekit.capture.layout import LAYOUT_VERSION, find_disk, read_layout
from tracekit.capture.programs import Perf, Program, probe_perf
from tracekit.capture.recording import CaptureFolder
from tracekit.capture.session import CaptureOptions, capture
from tracekit.errors import TracekitError
from tracekit.layout import CaptureSummary
from tracekit.readers.blktrace import parse
from tracekit.readers.importing import import_trace
from tracekit.stack.mounts import read_mounts
from tracekit.store import TraceFolder

pytestmark = pytest.mark.root
SAME = (
    *("device", "partition", "sector", "length_bytes", "operation", "process", "pid", "cpu"),
    *("is_sync", "is_meta", "is_fua", "is_preflush", "is_readahead", "error"),
    *("requeue_count", "split_count"),
)
CLOCKS_NS = 500_000
"""The two tracers see an event one after the other; one may be interrupted in between."""


SOURCES: dict[str, type[Perf | Bpf]] = {"perf": Perf, "bpf": Bpf}
PROBES = {"perf": probe_perf, "bpf": bpf.why_not}
LEAST_BUFFER_KIB = {"perf": 4, "bpf": 32}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    """Return the name of each source that runs a program, where that works."""
    name = str(request.param)
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if reason := PROBES[name]():
        pytest.skip(f"{name} does not record block events here: {reason}")
    return name


@contextmanager
def recording(
    source: str, disk: Disk, folder: Path, *, buffer_kib: int = 4096
) -> Iterator[Perf | Bpf]:
    folder.mkdir()
    running = SOURCES[source]([find_disk(disk.device)], folder, buffer_kib=buffer_kib)
    try:
        running.start()
        yield running
    finally:
        running.close()


def programs(source: str) -> list[int]:
    """Return the processes of a source that record as a capture does.

    A child of one is left out: it bears its parent's words until it runs a command of its own.
    """
    words = {"perf": ("perf", "record", "-q"), "bpf": (str(program_path(bpf.PROGRAM)),)}
    found = machine.processes(*words[source])
    return [pid for pid in found if machine.parent_of(pid) not in found]


def files_of(source: str, name: str, suffix: str = "") -> list[str]:
    """Return the files in which a source's records are kept."""
    if source == "perf":
        return [f"{name}.perf.txt{suffix}"]
    return [f"{name}.blktrace.{cpu}{suffix}" for cpu in range(os.cpu_count() or 1)]


def devices_of(disk: Disk) -> list[dict[str, Any]]:
    major, minor = (find_disk(disk.device) / "dev").read_text().split(":")
    return [{"device": disk.name, "major": int(major), "minor": int(minor)}]


def kept_in(disk: Disk, folder: Path, source: str, compress: str = "none") -> CaptureFolder:
    """Return the folder in which a program's records are kept."""
    layout = {"layout_version": LAYOUT_VERSION, "devices": devices_of(disk)}
    summary = CaptureSummary(source=source)
    return CaptureFolder(folder, folder.name, layout, summary, compress)


def requests_of(folder: TraceFolder, process: str) -> Any:
    return traces.requests(folder).filter(pc.field("process") == process)


def fio_job(disk: Disk) -> list[str]:
    file = ("--name=job", f"--filename={disk.point}/job", "--size=8M", "--overwrite=1")
    flow = ("--rw=randrw", "--bsrange=4k-16k", "--direct=1", "--number_ios=400", "--fsync=16")
    return ["fio", *file, *flow, "--randseed=7", "--output-format=terse", "--output=/dev/null"]


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_a_program_and_the_tracer_see_the_same_requests(
    disk: Disk, tmp_path: Path, source: str
) -> None:
    # GIVEN a fio job that both sources record at once
    subprocess.run(fio_job(disk), check=True)
    os.sync()
    with recording(source, disk, tmp_path / "text") as running:
        options = CaptureOptions(command=tuple(fio_job(disk)), source="tracefs-blk")
        captured = capture([disk.device], tmp_path / "blk", options=options)
        recorded = running.stop()
    kept = recorded.write(kept_in(disk, tmp_path / "text", source, "zstd"))
    assert set(kept.files) <= set(files_of(source, "text", ".zst"))
    assert (kept.dropped, captured.kept.overrun) == (0, 0)
    shutil.copy(tmp_path / "blk" / "layout.json", tmp_path / "text")
    # WHEN both are parsed
    ours = requests_of(parse([tmp_path / "blk"], tmp_path / "parsed-blk")[0], "fio")
    folder, _ = parse([tmp_path / "text"], tmp_path / "parsed-text")
    theirs = requests_of(folder, "fio")
    # THEN the requests are the same, apart from bytes of a last sector, which none has
    assert ours.num_rows == theirs.num_rows >= 400
    # and from completions that the kernel hides from a program beside another tracer
    for name in (*SAME, *(("cgroup",) if source == "bpf" else ())):
        assert theirs[name].equals(ours[name]), name
    # AND their latencies, as the clocks tell them
    for name in ("issue_ns", "complete_ns"):
        spans = [pc.subtract(rows[name], rows["queue_ns"]) for rows in (ours, theirs)]
        apart = pc.max(pc.abs(pc.subtract(*spans))).as_py()
        assert apart <= CLOCKS_NS, name
    # AND of a text import does as parse does
    if source == "perf":
        imported = import_trace(tmp_path / "text", tmp_path / "imported")
        assert traces.requests(imported).equals(traces.requests(folder))
        assert replace(imported.info, made_by="parse") == folder.info


def count_of(source: str, data: bytes) -> int:
    """Return how many records of the kernel are in the files of a capture."""
    if source == "perf":
        return data.count(b"\n")
    return sum(not one.category & machine.NOTIFY for one in machine.records_of(data))


def test_a_capture_with_a_program(disk: Disk, tmp_path: Path, source: str) -> None:
    # WHEN durable writes are captured with it
    options = ("--source", source, "--json")
    done = disk.capture(tmp_path / "trace", *options, command=disk.writer(50))
    # THEN it says so, keeps the records and the layout, and leaves nothing behind
    result = json.loads(done.stdout)
    note = f"up to {result['missed_at_most']:,} events" if result["missed_at_most"] else ""
    assert done.stderr[: len(note) or None] == note
    assert result["source"] == source
    assert set(result["files"]) <= set(files_of(source, "trace"))
    files = sorted(path.name for path in (tmp_path / "trace").iterdir())
    assert files == ["file_extents.parquet", "layout.json", *result["files"]]
    assert programs(source) == []
    # AND each record is counted
    data = b"".join((tmp_path / "trace" / name).read_bytes() for name in result["files"])
    assert count_of(source, data) == result["records"] > 200
    layout = machine.read_layout(tmp_path / "trace")
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    # AND the requests have the disk's name, their partition and process
    folder, _ = parse([tmp_path / "trace"], tmp_path / "parsed")
    assert folder.content["devices"][0]["device"] == disk.name
    rows = requests_of(folder, "dd")
    assert rows.num_rows >= 50
    # AND it sees all completions, or says how many it has not seen
    unseen = folder.content["loss"]["unseen"]
    assert rows["complete_ns"].null_count <= unseen["at_most"]
    assert unseen["not_measured"] == []
    assert set(rows["partition"].to_pylist()) == {layout["partitions"][0]["partition"]}


def test_loss_is_counted(disk: Disk, tmp_path: Path, source: str) -> None:
    # GIVEN the smallest buffer, and a program that does not read it
    with recording(source, disk, tmp_path / "text", buffer_kib=LEAST_BUFFER_KIB[source]) as running:
        (pid,) = programs(source)
        os.kill(pid, signal.SIGSTOP)
        subprocess.run(disk.writer(600), check=True)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
        subprocess.run(disk.writer(20), check=True)
        recorded = running.stop()
    # WHEN what it recorded is kept
    kept = recorded.write(kept_in(disk, tmp_path / "text", source))
    # THEN the loss is counted, in the layout and by the parser, once
    assert kept.dropped > 200
    assert machine.read_layout(tmp_path / "text")["loss"] == {"overrun": 0, "dropped": kept.dropped}
    folder, _ = parse([tmp_path / "text"], tmp_path / "parsed")
    assert folder.content["loss"]["dropped"] == kept.dropped
    assert "lost_records" in traces.warnings(folder)


def started(disk: Disk, tmp_path: Path, seconds: str, source: str) -> subprocess.Popen[str]:
    """Start a capture of a command that sleeps, and wait until it does."""
    mark = tmp_path / "mark"
    write = shlex.join(disk.writer(5))
    command = ("sh", "-c", f"{write}; touch {mark}; exec sleep {seconds}")
    output = ("-o", tmp_path / "trace")
    running = machine.start_capture(disk.device, *output, "--source", source, "--", *command)
    machine.wait_for(mark.exists)
    return running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(
    disk: Disk, tmp_path: Path, number: signal.Signals, source: str
) -> None:
    code, _, messages = machine.stop(started(disk, tmp_path, "3021", source), number)
    assert (code, f"ended early by {number.name}" in messages) == (128 + number, True)
    assert (tmp_path / "trace" / files_of(source, "trace")[0]).exists()
    assert programs(source) == []


def test_after_a_kill_it_ends_and_the_next_capture_cleans_up(
    disk: Disk, tmp_path: Path, source: str
) -> None:
    # GIVEN a capture that is killed
    running = started(disk, tmp_path, "3", source)
    running.kill()
    running.communicate(timeout=machine.TIMEOUT_S)
    # THEN its program ends by itself
    machine.wait_for(lambda: not programs(source))
    # AND the next capture finishes what is left
    assert (tmp_path / "trace.unfinished").is_dir()
    done = disk.capture(tmp_path / "next", command=disk.writer(5))
    assert f"lost: {tmp_path}/trace" in done.stderr
    assert (tmp_path / "trace" / files_of(source, "trace")[0]).exists()
    assert not (tmp_path / "trace.unfinished").exists()


def test_a_program_that_ends_by_itself_hurts_no_command(
    disk: Disk, tmp_path: Path, source: str
) -> None:
    running = started(disk, tmp_path, "3", source)
    (pid,) = programs(source)
    os.kill(pid, signal.SIGKILL)
    _, talk = running.communicate(timeout=machine.TIMEOUT_S)
    # THEN the command runs on to its end, and it is said that the record is not whole
    assert running.returncode in (1, 3)
    assert "ended by itself" in talk


BLKTRACESETUP = 0xC0481273


@contextmanager
def trace_set_up(disk: Disk) -> Iterator[None]:
    """Set up a trace of blktrace(8) in the kernel, as a killed blktrace leaves it."""
    device = os.open(disk.device, os.O_RDONLY)
    try:
        fcntl.ioctl(device, BLKTRACESETUP, struct.pack("@32sHIIQQI4x", b"", 7, 4096, 2, 0, 0, 0))
        yield
    finally:
        kernel_state.end_trace(device)
        os.close(device)


def test_a_blktrace_without_rights_is_reported(disk: Disk, tmp_path: Path) -> None:
    reason = blktrace.why_not(find_disk(disk.device))
    if reason is None:
        pytest.skip("blktrace works here: the lab's tests capture with it")
    debugfs = kernel_state.mounted_debugfs()
    # WHEN it is chosen by name
    output = ("-o", tmp_path / "trace")
    code, text = machine.rejection(disk.device, *output, "--source", "blktrace", "--", "true")
    # THEN the reason is reported, and nothing is left
    assert (code, f"block events cannot be captured: blktrace: {reason}" in text) == (1, True)
    assert list(tmp_path.iterdir()) == []
    assert not disk.is_traced()
    assert kernel_state.mounted_debugfs() == debugfs
    # WHEN the source is left to the capture, THEN another is taken
    disk.capture(tmp_path / "trace", command=disk.writer(5))
    assert machine.read_layout(tmp_path / "trace")["capture"]["source"] != "blktrace"


def test_why_blktrace_does_not_work(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = find_disk(disk.device)
    with trace_set_up(disk):
        assert blktrace.why_not(folder) == f"{disk.name} is being traced already"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert blktrace.why_not(None) == "blktrace is not installed (Debian: blktrace)"


def test_a_trace_that_a_kill_left_is_ended_by_the_next_capture(disk: Disk, tmp_path: Path) -> None:
    with trace_set_up(disk):
        # GIVEN the state file of a capture with blktrace, killed with its blktrace
        kernel_state.STATE_FOLDER.mkdir(exist_ok=True)
        state = {"changed": [], "held": [["trace", disk.device]], "leftover": None}
        (kernel_state.STATE_FOLDER / "state.json").write_text(json.dumps(state))
        assert disk.is_traced()
        # WHEN the next one begins
        done = disk.capture(tmp_path / "trace", command=disk.writer(5))
        # THEN it has ended the trace, and works
        assert "gave back the kernel settings of a capture that was killed" in done.stderr
        assert not disk.is_traced()


def test_a_trace_of_a_blktrace_that_lives_is_left_alone(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_state, "PATIENCE_S", 0.2)
    # GIVEN a process that looks like a blktrace of this disk
    other = subprocess.Popen(
        ["blktrace", "-c", "read end", disk.device], executable="/bin/sh", stdin=subprocess.PIPE
    )
    with trace_set_up(disk):
        machine.wait_for(lambda: kernel_state.tracers(disk.device) == [other.pid])
        # THEN the trace is not ended while it lives
        kernel_state.tear_down(disk.device)
        assert disk.is_traced()
        other.communicate(b"\n")
        kernel_state.tear_down(disk.device)
        assert not disk.is_traced()


def test_of_a_disk_that_went_away_nothing_is_to_be_ended() -> None:
    with pytest.raises(FileNotFoundError):
        kernel_state.tear_down("/dev/no-such-disk")


def test_a_program_that_was_killed_is_not_said_to_have_failed(tmp_path: Path) -> None:
    # GIVEN a program that somebody kills just before it is asked to end
    program = Program("sleeper", tmp_path / "log", remedy="none")
    program.start(["sh", "-c", "read x; echo yes; exec sleep 60"])
    running = program.check()
    running.kill()
    running.wait()
    # THEN it is said, as when that is seen before
    with pytest.raises(TracekitError, match=r"^sleeper ended by itself: by SIGKILL$"):
        program.stop()
    with pytest.raises(TracekitError, match=r"^sleeper ended by itself: by SIGKILL$"):
        program.check()
    program.close()


def test_devices_above_that_somebody_traces_are_left_to_them(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN two devices that lead to the disk, of which somebody traces one
    with loop(image(tmp_path / "theirs")) as theirs, loop(image(tmp_path / "free")) as free:
        layout = read_layout([find_disk(disk.device)], read_mounts())
        enables = [find_disk(str(one)) / "trace/enable" for one in (theirs, free)]
        above = [
            {"device": one.name, "major": 7, "minor": int(one.name.removeprefix("loop"))}
            for one in (theirs, free)
        ]
        layout["above"] = {"devices": [], "partitions": [], "between": above}
        monkeypatch.setattr(session, "read_layout", lambda *_, **__: layout)
        monkeypatch.setattr(session, "read_again", lambda *_, **__: (layout, []))
        # WHEN the disk is captured
        read = "dd of=/dev/null bs=4k count=50 iflag=direct status=none"
        reads = "; ".join(f"{read} if={one}" for one in (theirs, free, disk.device))
        words = ("sh", "-c", f"cat {enables[0]} {enables[1]} >{tmp_path}/during; {reads}")
        options = CaptureOptions(command=words, source="tracefs-blk")
        with machine.setting(enables[0], "1", "0"):
            done = capture([disk.device], tmp_path / "trace", options=options)
            # THEN theirs goes on, which is said, and the free one was traced meanwhile
            assert [one.read_text() for one in enables] == ["1\n", "0\n"]
    assert (tmp_path / "during").read_text() == "1\n1\n"
    (note,) = done.notes
    assert note.startswith(f"{theirs.name} is being traced already; remaps there are not followed")
    # AND the records of these devices are neither in the files nor in the counts
    files = (tmp_path / "trace").glob("*.blktrace.*")
    records = [one for path in files for one in machine.records_of(path.read_bytes())]
    kept = machine.read_layout(tmp_path / "trace")
    assert kept["loss"]["dropped"] == 0
    assert kept["capture"]["records"] == sum(not one.category & NOTIFY for one in records) > 200
    # AND a source that does not record such devices says so
    options = CaptureOptions(command=("true",), source="perf")
    (note,) = capture([disk.device], tmp_path / "text", options=options).notes
    assert note.startswith(f"perf records nothing of {theirs.name}, {free.name}, as tracefs-blk")
