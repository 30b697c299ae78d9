"""Captures with perf and bpftrace against those of the kernel's tracer, and how they end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.capture.machine import (
    CAPTURE,
    TIMEOUT_S,
    Disk,
    read_layout,
    run_capture,
    tracing_settings,
)
from tracekit.capture.layout import LAYOUT_VERSION, find_disk
from tracekit.capture.programs import (
    Bpftrace,
    Lines,
    Perf,
    missed_runs,
    probe_bpftrace,
    probe_perf,
    script,
)
from tracekit.capture.recording import CaptureFolder
from tracekit.capture.session import CaptureOptions, capture
from tracekit.layout import CaptureSummary
from tracekit.readers.blktrace import parse
from tracekit.readers.importing import import_trace
from tracekit.store import TraceFolder

pytestmark = pytest.mark.root
SAME = (
    *("device", "partition", "sector", "length_bytes", "operation", "process", "pid", "cpu"),
    *("is_sync", "is_meta", "is_fua", "is_preflush", "is_readahead", "error"),
    *("requeue_count", "split_count"),
)
CLOCKS_NS = 500_000
"""The two tracers see an event one after the other; one may be interrupted in between."""


SOURCES: dict[str, type[Perf | Bpftrace]] = {"perf": Perf, "bpftrace": Bpftrace}
PROBES = {"perf": probe_perf, "bpftrace": probe_bpftrace}


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
) -> Iterator[Perf | Bpftrace]:
    folder.mkdir()
    running = SOURCES[source]([find_disk(disk.device)], folder, buffer_kib=buffer_kib)
    try:
        running.start()
        yield running
    finally:
        running.close()


def programs(source: str) -> list[int]:
    """Return the processes of perf or bpftrace that record as a capture does."""
    begins = {"perf": [b"perf", b"record", b"-q"], "bpftrace": [b"bpftrace", b"-B", b"full"]}
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:3] == begins[source]:
            found.append(int(path.parent.name))
    return found


def wait_for(condition: Callable[[], Any], what: str) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.02)


def requests_of(folder: TraceFolder, process: str) -> Any:
    rows = pq.read_table(folder.table("requests"))
    words = [pa.types.is_dictionary(field.type) for field in rows.schema]
    columns = [
        column.cast(pa.string()) if is_word else column
        for column, is_word in zip(rows.columns, words, strict=True)
    ]
    rows = pa.table(columns, names=rows.column_names)
    return rows.filter(pc.equal(rows["process"], process))


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
    layout, summary = {"layout_version": LAYOUT_VERSION}, CaptureSummary(source=source)
    with recording(source, disk, tmp_path / "text") as running:
        options = CaptureOptions(command=tuple(fio_job(disk)), source="tracefs-blk")
        captured = capture([disk.device], tmp_path / "blk", options=options)
        recorded = running.stop()
    kept = recorded.write(CaptureFolder(tmp_path / "text", "text", layout, summary, "zstd"))
    assert (kept.files, kept.dropped, captured.kept.overrun) == (("text.perf.txt.zst",), 0, 0)
    shutil.copy(tmp_path / "blk" / "layout.json", tmp_path / "text")
    # WHEN both are parsed
    ours = requests_of(parse([tmp_path / "blk"], tmp_path / "parsed-blk")[0], "fio")
    folder, _ = parse([tmp_path / "text"], tmp_path / "parsed-text")
    theirs = requests_of(folder, "fio")
    # THEN the requests are the same, apart from bytes of a last sector, which none has
    assert ours.num_rows == theirs.num_rows >= 400
    # and from completions that the kernel hides from a program beside another tracer
    for name in SAME:
        assert theirs[name].equals(ours[name]), name
    # AND their latencies, as the clocks tell them
    for name in ("issue_ns", "complete_ns"):
        spans = [pc.subtract(rows[name], rows["queue_ns"]) for rows in (ours, theirs)]
        apart = pc.max(pc.abs(pc.subtract(*spans))).as_py()
        assert apart <= CLOCKS_NS, name
    # AND import does as parse does
    imported = import_trace(tmp_path / "text", tmp_path / "imported")
    both = [pq.read_table(made.table("requests")) for made in (imported, folder)]
    assert both[0].equals(both[1])
    assert imported.info == folder.info


def test_a_capture_with_a_program(disk: Disk, tmp_path: Path, source: str) -> None:
    # WHEN durable writes are captured with it
    settings = tracing_settings()
    options = ("-o", str(tmp_path / "trace"), "--source", source, "--json")
    done = run_capture(disk.device, *options, "--", *disk.writer(50))
    # THEN it says so, keeps the text and the layout, and leaves nothing behind
    result = json.loads(done.stdout)
    note = f"up to {result['missed_at_most']:,} events" if result["missed_at_most"] else ""
    assert (done.returncode, done.stderr[: len(note) or None]) == (0, note)
    assert (result["source"], result["files"]) == (source, ["trace.perf.txt"])
    files = sorted(path.name for path in (tmp_path / "trace").iterdir())
    assert files == ["layout.json", "trace.perf.txt"]
    assert tracing_settings() == settings
    assert programs(source) == []
    # AND each line is counted
    lines = (tmp_path / "trace" / "trace.perf.txt").read_text().splitlines()
    assert len(lines) == result["records"] > 200
    layout = read_layout(tmp_path / "trace")
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
    with recording(source, disk, tmp_path / "text", buffer_kib=4) as running:
        (pid,) = programs(source)
        os.kill(pid, signal.SIGSTOP)
        subprocess.run(disk.writer(200), check=True)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
        subprocess.run(disk.writer(20), check=True)
        recorded = running.stop()
    # WHEN what it recorded is kept
    layout, summary = {"layout_version": LAYOUT_VERSION}, CaptureSummary(source=source)
    kept = recorded.write(CaptureFolder(tmp_path / "text", "text", layout, summary, "none"))
    # THEN the loss is counted, in the layout and by the parser, once
    assert kept.dropped > 200
    assert read_layout(tmp_path / "text")["loss"] == {"overrun": 0, "dropped": kept.dropped}
    folder, _ = parse([tmp_path / "text"], tmp_path / "parsed")
    assert folder.content["loss"]["dropped"] == kept.dropped
    assert "lost_records" in {doubt["code"] for doubt in folder.content["warnings"]}


def started(disk: Disk, tmp_path: Path, seconds: str, source: str) -> subprocess.Popen[str]:
    """Start a capture of a command that sleeps, and wait until it does."""
    mark = tmp_path / "mark"
    command = ("sh", "-c", f"touch {mark}; exec sleep {seconds}")
    running = subprocess.Popen(
        [*CAPTURE, disk.device, "-o", str(tmp_path / "trace"), "--source", source, "--", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(mark.exists, "the capture did not begin")
    return running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(
    disk: Disk, tmp_path: Path, number: signal.Signals, source: str
) -> None:
    running = started(disk, tmp_path, "3021", source)
    running.send_signal(number)
    _, talk = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 3
    assert f"ended early by {number.name}" in talk
    assert (tmp_path / "trace" / "trace.perf.txt").exists()
    assert programs(source) == []


def test_after_a_kill_it_ends_and_the_next_capture_cleans_up(
    disk: Disk, tmp_path: Path, source: str
) -> None:
    # GIVEN a capture that is killed
    running = started(disk, tmp_path, "3", source)
    running.kill()
    running.communicate(timeout=TIMEOUT_S)
    # THEN its program ends by itself
    wait_for(lambda: not programs(source), "the program went on")
    # AND the next capture removes what is left
    assert list(tmp_path.glob(".trace.*")) != []
    done = run_capture(disk.device, "-o", str(tmp_path / "next"), "--", *disk.writer(5))
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob(".trace.*")) == []


def test_a_program_that_ends_by_itself_is_an_error(disk: Disk, tmp_path: Path, source: str) -> None:
    running = started(disk, tmp_path, "3023", source)
    (pid,) = programs(source)
    os.kill(pid, signal.SIGKILL)
    _, talk = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 1
    assert f"{source} " in talk
    assert "ended by itself" in talk
    assert not (tmp_path / "trace").exists()


def test_bpftrace_counts_what_the_kernel_passed_over(tmp_path: Path) -> None:
    # GIVEN the descriptors of two BPF programs and of a file
    (tmp_path / "3").write_text("pos:\t0\nprog_id:\t7\nrecursion_misses:\t12\n")
    (tmp_path / "4").write_text("pos:\t0\nprog_id:\t8\nrecursion_misses:\t30\n")
    (tmp_path / "5").write_text("pos:\t0\nflags:\t02\n")
    assert missed_runs(tmp_path) == 42


def test_lines_of_bpftrace_are_put_in_order_and_the_rest_is_counted(tmp_path: Path) -> None:
    # GIVEN what bpftrace writes: CPU by CPU, with words of its own, and one line that is damaged
    lines = [f"{time_ns:020}a b {time_ns} [000] 0.{time_ns:09}: x\n" for time_ns in (30, 10, 20)]
    text, log = tmp_path / "text", tmp_path / "log"
    text.write_text("Attaching 12 probes...\n" + "".join(lines) + "\n\nLost 5 events\nbad\n")
    log.touch()
    layout, summary = {"layout_version": LAYOUT_VERSION}, CaptureSummary(source="bpftrace")
    # WHEN it is kept
    found = Lines(text, log, missed_at_most=2)
    kept = found.write(CaptureFolder(tmp_path, "a", layout, summary, "none"))
    # THEN the lines are in the order of time, without their keys, and the loss stands behind
    assert (tmp_path / "a.perf.txt").read_text() == (
        "a b 10 [000] 0.000000010: x\na b 20 [000] 0.000000020: x\na b 30 [000] 0.000000030: x\n"
        "[LOST 5 EVENTS] by bpftrace\n"
    )
    assert (kept.records, kept.dropped, kept.foreign_bytes, kept.missed_at_most) == (3, 5, 4, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.perf.txt", "layout.json"]


@pytest.mark.parametrize("events", [["bio_queue"], ["rq_issue", "rq_complete"]])
def test_the_program_for_bpftrace_looks_at_the_disk_and_its_partitions(events: list[str]) -> None:
    text = script([7 << 20, 7 << 20 | 1], events)
    heads = [line.partition(" {")[0] for line in text.splitlines()]
    ours = "/args->dev == 7340032 || args->dev == 7340033/"
    assert heads == [f"tracepoint:block:block_{event} {ours}" for event in events]
