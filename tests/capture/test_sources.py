"""Captures with perf against those of the kernel's tracer, and how they end."""

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
from tracekit.capture import perf
from tracekit.capture.layout import LAYOUT_VERSION, find_disk
from tracekit.capture.session import Options, capture
from tracekit.parse import parse
from tracekit.parse_foreign import import_trace
from tracekit.store import TraceFolder

pytestmark = pytest.mark.root
SAME = (
    *("device", "partition", "sector", "length_bytes", "operation", "process", "pid", "cpu"),
    *("is_sync", "is_meta", "is_fua", "is_preflush", "is_readahead", "error"),
    *("requeue_count", "split_count"),
)
CLOCKS_NS = 500_000
"""The two tracers see an event one after the other; one may be interrupted in between."""


@pytest.fixture(autouse=True, scope="module")
def needs_perf() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if reason := perf.probe():
        pytest.skip(f"perf does not record block events here: {reason}")


@contextmanager
def perf_recording(disk: Disk, folder: Path, *, buffer_kib: int = 4096) -> Iterator[perf.Perf]:
    folder.mkdir()
    source = perf.Perf(find_disk(disk.device), folder, buffer_kib=buffer_kib)
    try:
        source.start()
        yield source
    finally:
        source.close()


def perf_records_of(disk: Disk) -> list[int]:
    """Return the processes of perf that record this disk."""
    number = Path(f"/sys/block/{disk.name}/dev").read_text()
    major, minor = map(int, number.split(":"))
    wanted = f"dev == {major << 20 | minor}"
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"perf", b"record"] and any(wanted.encode() in word for word in words):
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
def test_perf_and_the_tracer_see_the_same_requests(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a fio job that both sources record at once
    subprocess.run(fio_job(disk), check=True)
    os.sync()
    layout = {"layout_version": LAYOUT_VERSION, "capture": {"source": "perf"}}
    with perf_recording(disk, tmp_path / "perf") as source:
        options = Options(command=tuple(fio_job(disk)), source="tracefs-blk")
        captured = capture(disk.device, tmp_path / "blk", options=options)
        recorded = source.stop()
    kept = recorded.keep(tmp_path / "perf", name="perf", layout=layout, compress="zstd")
    assert (kept.files, kept.dropped, captured.kept.overrun) == (("perf.perf.txt.zst",), 0, 0)
    shutil.copy(tmp_path / "blk" / "layout.json", tmp_path / "perf")
    # WHEN both are parsed
    ours = requests_of(parse([tmp_path / "blk"], tmp_path / "parsed-blk")[0], "fio")
    folder, _ = parse([tmp_path / "perf"], tmp_path / "parsed-perf")
    theirs = requests_of(folder, "fio")
    # THEN the requests are the same, apart from bytes of a last sector, which none has
    assert ours.num_rows == theirs.num_rows >= 400
    for name in SAME:
        assert theirs[name].equals(ours[name]), name
    # AND their latencies, as the clocks tell them
    for name in ("issue_ns", "complete_ns"):
        spans = [pc.subtract(rows[name], rows["queue_ns"]) for rows in (ours, theirs)]
        apart = pc.max(pc.abs(pc.subtract(*spans))).as_py()
        assert apart <= CLOCKS_NS, name
    # AND import does as parse does
    imported = import_trace(tmp_path / "perf", tmp_path / "imported")
    both = [pq.read_table(made.table("requests")) for made in (imported, folder)]
    assert both[0].equals(both[1])
    assert imported.info == folder.info


def test_a_capture_with_perf(disk: Disk, tmp_path: Path) -> None:
    # WHEN durable writes are captured with perf
    settings = tracing_settings()
    options = ("-o", str(tmp_path / "trace"), "--source", "perf", "--json")
    done = run_capture(disk.device, *options, "--", *disk.writer(50))
    # THEN it says so, keeps the text and the layout, and leaves nothing behind
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert (result["source"], result["files"]) == ("perf", ["trace.perf.txt"])
    files = sorted(path.name for path in (tmp_path / "trace").iterdir())
    assert files == ["layout.json", "trace.perf.txt"]
    assert tracing_settings() == settings
    assert perf_records_of(disk) == []
    # AND each line is counted
    lines = (tmp_path / "trace" / "trace.perf.txt").read_text().splitlines()
    assert len(lines) == result["records"] > 200
    layout = read_layout(tmp_path / "trace")
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    # AND the requests have the disk's name, their partition and process
    folder, _ = parse([tmp_path / "trace"], tmp_path / "parsed")
    assert folder.info["devices"][0]["device"] == disk.name
    rows = requests_of(folder, "dd")
    assert rows.num_rows >= 50
    assert set(rows["partition"].to_pylist()) == {layout["partitions"][0]["partition"]}


def test_loss_of_perf_is_counted(disk: Disk, tmp_path: Path) -> None:
    # GIVEN the smallest buffer, and a perf that does not read it
    with perf_recording(disk, tmp_path / "perf", buffer_kib=4) as source:
        (pid,) = perf_records_of(disk)
        os.kill(pid, signal.SIGSTOP)
        subprocess.run(disk.writer(200), check=True)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
        subprocess.run(disk.writer(20), check=True)
        recorded = source.stop()
    # WHEN what it recorded is kept
    layout = {"layout_version": LAYOUT_VERSION, "capture": {"source": "perf"}}
    kept = recorded.keep(tmp_path / "perf", name="perf", layout=layout, compress="none")
    # THEN the loss is counted, in the layout and by the parser, once
    assert kept.dropped > 200
    assert read_layout(tmp_path / "perf")["loss"] == {"overrun": 0, "dropped": kept.dropped}
    folder, _ = parse([tmp_path / "perf"], tmp_path / "parsed")
    assert folder.info["loss"]["dropped"] == kept.dropped
    assert "lost_records" in {doubt["code"] for doubt in folder.info["warnings"]}


def started(disk: Disk, tmp_path: Path, seconds: str) -> subprocess.Popen[str]:
    """Start a capture with perf of a command that sleeps, and wait until it does."""
    mark = tmp_path / "mark"
    command = ("sh", "-c", f"touch {mark}; exec sleep {seconds}")
    running = subprocess.Popen(
        [*CAPTURE, disk.device, "-o", str(tmp_path / "trace"), "--source", "perf", "--", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(mark.exists, "the capture did not begin")
    return running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_perf_in_order(disk: Disk, tmp_path: Path, number: signal.Signals) -> None:
    running = started(disk, tmp_path, "3021")
    running.send_signal(number)
    _, talk = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 3
    assert f"ended early by {number.name}" in talk
    assert (tmp_path / "trace" / "trace.perf.txt").exists()
    assert perf_records_of(disk) == []


def test_after_a_kill_perf_ends_and_the_next_capture_cleans_up(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a capture with perf that is killed
    running = started(disk, tmp_path, "3")
    running.kill()
    running.communicate(timeout=TIMEOUT_S)
    # THEN perf ends by itself
    wait_for(lambda: not perf_records_of(disk), "perf went on")
    # AND the next capture removes what is left
    assert list(tmp_path.glob(".trace.*")) != []
    done = run_capture(disk.device, "-o", str(tmp_path / "next"), "--", *disk.writer(5))
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob(".trace.*")) == []


def test_a_perf_that_ends_by_itself_is_an_error(disk: Disk, tmp_path: Path) -> None:
    running = started(disk, tmp_path, "3023")
    (pid,) = perf_records_of(disk)
    os.kill(pid, signal.SIGKILL)
    _, talk = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 1
    assert "perf record ended by itself" in talk
    assert not (tmp_path / "trace").exists()
