"""Captures in pieces: each whole in itself, together all; the last minutes; a size not passed."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import TRACER, Disk
from tests.decode.records import Event
from tests.recipes.three_roles import loop_disk
from tests.replay.disk import small_file_system
from tracekit.capture import session
from tracekit.capture.live import LiveLine, Watch
from tracekit.capture.pieces import CUTS, Keeping, begin_of_rest
from tracekit.capture.session import CaptureOptions, capture
from tracekit.capture.unfinished import Manifest
from tracekit.layout import CaptureSummary
from tracekit.readers.blktrace import parse

pytestmark = pytest.mark.root


def bursts(disk: Disk, count: int, *, writes: int = 60) -> str:
    """Return a script of bursts of direct writes, each behind the one before it.

    The first pages stay: the signature of the partition's swap area.
    """
    what = f"if=/dev/zero of={disk.device}p3 bs=4k count={writes} oflag=direct conv=notrunc"
    burst = f"dd {what} seek=$((16 + turn * {writes})) status=none; sleep 0.1"
    return f"for turn in $(seq 0 {count - 1}); do {burst}; done"


def places(disk: Disk, capture: Path, folder: Path) -> list[int]:
    """Return the sectors written in the third partition, in the capture's order."""
    if not machine.read_layout(capture)["capture"]["records"]:
        return []  # nothing was written behind the last cut
    trace, _ = parse([capture], folder / f"parsed-{capture.name}")
    loss = trace.content["loss"]
    assert (loss["dropped"], loss["unseen"]["at_least"]) == (0, 0)
    rows = traces.requests(trace)
    first = int(Path(f"/sys/class/block/{disk.name}p3/start").read_text())
    is_direct = [size == 4096 for size in rows["length_bytes"].to_pylist()]
    sectors = [sector - first - 128 for sector in rows["sector"].to_pylist()]
    ours = zip(sectors, is_direct, strict=True)
    return [sector // 8 for sector, is_ours in ours if is_ours and 0 <= sector < 8 * 2048]


def test_pieces_of_a_capture_are_the_whole(disk: Disk, tmp_path: Path) -> None:
    # WHEN a capture is cut every so often
    command = ("sh", "-c", bursts(disk, 8))
    done = disk.capture(tmp_path / "trace", *TRACER, "--rotate", "300ms", command=command)
    # THEN each piece is a capture, and all together have every write once, in order
    pieces = [*sorted(tmp_path.glob("trace-*")), tmp_path / "trace"]
    assert f"{len(pieces) - 1} more: trace-0001" in done.stderr
    assert len(pieces) >= 3
    found = [place for piece in pieces for place in places(disk, piece, tmp_path)]
    assert found == list(range(8 * 60))
    assert not list(tmp_path.glob("*.unfinished"))
    # AND read as one they have what the kernel counted from the first to the last
    loss = parse(pieces, tmp_path / "parsed")[0].content["loss"]["unseen"]
    counted = sum(row["counted"] for row in loss["disks"] if row["kind"] == "write")
    assert (loss["at_least"], loss["not_measured"]) == (0, [])
    assert counted >= 8 * 60


def test_processes_that_ended_before_their_piece_have_names(disk: Disk, tmp_path: Path) -> None:
    # GIVEN programs that run for a moment only, some of them just before a cut
    for turn in range(12):
        (tmp_path / f"reader{turn}").symlink_to(shutil.which("dd") or "dd")
    read = f"if={disk.device}p3 of=/dev/null bs=4k count=20 iflag=direct status=none"
    script = f"for i in $(seq 0 11); do {tmp_path}/reader$i {read}; sleep 0.05; done"
    options = ("--rotate", "200ms", "--names", "0")
    disk.capture(tmp_path / "trace", *TRACER, *options, command=("sh", "-c", script))
    # THEN each is named in its piece
    found = set[str]()
    for piece in (*tmp_path.glob("trace-*"), tmp_path / "trace"):
        found |= {*machine.read_layout(piece)["processes"].values()}
    assert found >= {f"reader{turn}" for turn in range(12)}


def test_the_end_says_what_was_lost_in_all_pieces(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a capture that stands still in its first piece while more happens than fits
    read = f"dd if={disk.device}p3 of=/dev/null bs=512 iflag=direct status=none"
    script = f"kill -STOP $PPID; {read}; {read}; kill -CONT $PPID; sleep 1"
    options = ("--rotate", "500ms", "--buffer", "1MiB", "--names", "0")
    done = disk.capture(tmp_path / "trace", *TRACER, *options, command=("sh", "-c", script))
    # THEN the last line and a note have the loss, which is in the first piece only
    pieces = [tmp_path / "trace-0001", tmp_path / "trace"]
    lost, rest = (machine.read_layout(piece)["loss"]["overrun"] for piece in pieces)
    assert lost > 0
    assert rest == 0
    assert f", {lost:,} lost (tracefs-blk)" in done.stderr
    assert f"{lost:,} records were lost in trace-0001" in done.stderr


@pytest.mark.parametrize("option", ["--rotate", "--last"])
def test_what_a_kill_leaves_of_pieces_is_counted_from_its_own_begin(
    disk: Disk, tmp_path: Path, option: str
) -> None:
    # GIVEN a capture in pieces that is killed, of which the first are written or dropped
    ended = tmp_path / "ended"
    script = f"{bursts(disk, 10)}; kill -9 $PPID; {bursts(disk, 20)}; echo >{ended}"
    disk.capture(
        tmp_path / "trace", *TRACER, option, "300ms", command=("sh", "-c", script), code=-9
    )
    # WHEN it is recovered while writes go on, with a piece of which nobody had begun the files
    done = machine.run_capture("--recover")
    machine.wait_for(ended.exists)
    machine.wait_for(lambda: len([*tmp_path.glob("trace-*.unfinished")]) == 0)
    # THEN nothing of what is not in it is lost in it
    assert f" 0 lost: {tmp_path}/trace" in done.stdout
    pieces = [*sorted(tmp_path.glob("trace-*")), tmp_path / "trace"]
    assert (len(pieces) > 2) == (option == "--rotate")
    for number, given in enumerate((pieces, pieces[-1:])):
        trace, _ = parse(given, tmp_path / f"parsed{number}")
        loss = trace.content["loss"]
        assert (loss["dropped"], loss["unseen"]["at_least"]) == (0, 0)
        assert loss["unseen"]["not_measured"] == []


def test_what_is_left_begins_with_the_first_piece_that_is_whole(tmp_path: Path) -> None:
    # GIVEN what a kill left that came when the first file of a piece was deleted, and of two CPUs
    # one had new files
    for name in ("cpu0.000002", "cpu0.000003", "cpu1.000001", "cpu1.000002"):
        (tmp_path / name).touch()
    with (tmp_path / CUTS).open("w") as file:
        for cut in (1, 2):
            known = {"cut": cut, "before": {"entries": cut}, "begin": ["no reading"], "piece": cut}
            file.write(f"{json.dumps(known)}\n")
    # WHEN a recovery is to know when it began; THEN that is when the second did
    summary = CaptureSummary(source="tracefs-blk")
    left = Manifest(
        output="trace", pid=1, boot_id="", began_ns=0, disks=["sda"], layout={}, summary=summary
    )
    begin_of_rest(tmp_path, left)
    assert left.recorded == {"before": {"entries": 2}, "begin": ["no reading"]}
    assert left.summary.piece == 2


def test_the_newest_pieces_are_kept(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a folder of somebody with the name that the first piece would have
    mine = tmp_path / "trace-0001" / "mine"
    mine.parent.mkdir()
    mine.write_bytes(bytes(1 << 20))
    command = ("sh", "-c", bursts(disk, 8))
    options = ("--rotate", "20KiB", "--max-size", "60KiB")
    disk.capture(tmp_path / "trace", *TRACER, *options, command=command)
    # THEN it stays as it is, and of the pieces the oldest are gone
    assert [*mine.parent.iterdir()] == [mine]
    pieces = sorted(tmp_path.glob("trace-*"))[1:]
    assert pieces[0].name > "trace-0002"
    found = [
        place for one in (*pieces, tmp_path / "trace") for place in places(disk, one, tmp_path)
    ]
    assert found == list(range(8 * 60 - len(found), 8 * 60))


def test_a_capture_ends_at_its_size_and_the_command_does_not(disk: Disk, tmp_path: Path) -> None:
    command = ("sh", "-c", f"{bursts(disk, 6)}; echo >{tmp_path}/whole")
    done = disk.capture(tmp_path / "trace", "--max-size", "40KiB", command=command)
    assert "recording ended at --max-size" in done.stderr
    assert (tmp_path / "whole").exists()
    size = sum(file.stat().st_size for file in (tmp_path / "trace").glob("*.blktrace.*"))
    assert 30 << 10 < size < 80 << 10


def test_the_last_seconds_are_kept_until_they_are_asked_for(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a capture that keeps the last half second
    mark = tmp_path / "mark"
    script = f"{bursts(disk, 12)}; echo >{mark}; sleep 0.6; {bursts(disk, 1)}"
    output, words = tmp_path / "trace", ("--last", "500ms", "--", "sh", "-c", script)
    running = machine.start_capture(disk.device, *TRACER, "-o", output, *words)
    machine.wait_for(mark.exists)
    # WHEN it is asked for that
    running.send_signal(signal.SIGUSR1)
    assert " records in " in running.communicate(timeout=machine.TIMEOUT_S)[1]
    # THEN the piece has what was before that moment, without a gap, and not all
    found = places(disk, tmp_path / "trace-0001", tmp_path)
    assert found == list(range(12 * 60 - len(found), 12 * 60))
    assert 60 <= len(found) < 11 * 60
    # AND the capture has what was before its end
    assert set(places(disk, output, tmp_path)) <= {*range(12 * 60)}


@pytest.mark.parametrize("step", ["read_layout", "look_after"])
def test_to_ask_before_or_behind_the_recording_does_no_harm(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    # GIVEN a step before it records, or between that and writing, in which it is asked
    does, before = getattr(session, step), signal.getsignal(signal.SIGUSR1)

    def asked(*words: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        return does(*words, **options)

    monkeypatch.setattr(session, step, asked)
    # WHEN what was last is kept; THEN it is written, once, and the signal is whose it was
    options = CaptureOptions(command=("sh", "-c", bursts(disk, 1)), keeping=Keeping(last_s=10.0))
    capture([disk.device], tmp_path / "trace", options=options)
    assert places(disk, tmp_path / "trace", tmp_path) == list(range(60))
    assert [one.name for one in tmp_path.glob("trace*")] == ["trace"]
    assert signal.getsignal(signal.SIGUSR1) == before


@pytest.mark.parametrize("words", [("--max-size", "2MiB"), ()], ids=["size", "disk"])
def test_less_is_kept_where_there_is_no_room(
    disk: Disk, tmp_path: Path, words: tuple[str, ...]
) -> None:
    # GIVEN a flight recorder with little room: its own limit, or a small disk
    # AND a buffer with room for a burst of reads, so that a busy machine loses none
    read = f"dd if={disk.device} of=/dev/null bs=512 count=1000 iflag=direct status=none"
    options = (*TRACER, "--buffer", "2MiB", "--last", "10min", *words)
    with small_file_system(tmp_path / "small", mib=16) as small:
        # WHEN it records more than there is room for
        command = ("sh", "-c", f"for i in $(seq 80); do {read}; sleep 0.05; done")
        done = machine.run_capture(disk.device, *options, "-o", small / "trace", "--", *command)
        # THEN it goes on to the end, says what it kept, and has the newest
        assert "there was room for the last" in done.stderr
        assert "nearly full" not in done.stderr
        folder, _ = parse([small / "trace"], tmp_path / "parsed")
        sectors = [row["sector"] for row in traces.requests(folder).to_pylist()]
        assert 100 < len(sectors) < 80 * 1000
        assert sectors[-1] == 999


def test_a_slow_request_asks_for_what_was_before_it(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a threshold that no request passes, and one that each passes
    for slower, pieces in (("10min", 0), ("1ns", 1)):
        output = tmp_path / f"trace{pieces}"
        options, begun_s = ("--last", "10s", "--slower", slower), time.monotonic()
        disk.capture(output, *TRACER, *options, command=("sh", "-c", bursts(disk, 4)))
        # A machine on which the writes take more than a second asks again.
        more = int(time.monotonic() - begun_s) if pieces else 0
        assert pieces <= len(list(tmp_path.glob(f"trace{pieces}-*"))) <= pieces + more
    # THEN it is written at the first, and has it
    assert places(disk, tmp_path / "trace1-0001", tmp_path)[0] == 0


@pytest.fixture
def inner(disk: Disk) -> Iterator[str]:
    """Return a loop device in a file of the disk: it stands still while the disk is frozen."""
    image = disk.point / "inner"
    with loop_disk(image, 8 << 20) as device:
        image.chmod(0o600)
        yield device


def test_a_stall_longer_than_what_is_kept_is_kept_whole(
    disk: Disk, inner: str, tmp_path: Path
) -> None:
    # GIVEN a capture that keeps half a second, and writes of which one takes three times as long
    write = f"dd if=/dev/zero of={inner} bs=4k count=10 oflag=direct conv=notrunc status=none"
    freeze = f"fsfreeze -f {disk.point}; (sleep 1.5; fsfreeze -u {disk.point}) &"
    script = f"{write}; {freeze} {write} seek=10; wait; sleep 0.2"
    options = ("--last", "500ms", "--slower", "1s")
    try:
        machine.run_capture(
            inner, "-o", tmp_path / "trace", *TRACER, *options, "--", "sh", "-c", script
        )
    finally:
        subprocess.run(["fsfreeze", "-u", disk.point], check=False, capture_output=True)
    # THEN the piece has it from its beginning, and what was before
    trace, _ = parse([tmp_path / "trace-0001"], tmp_path / "parsed")
    rows = traces.requests(trace).sort_by("queue_ns").to_pylist()
    rows = [row for row in rows if row["operation"] == "write"]
    slow = [
        row for row in rows if row["complete_ns"] and row["complete_ns"] - row["queue_ns"] > 1e9
    ]
    assert [row["sector"] for row in slow] == [80]
    before = [row["sector"] for row in rows if row["queue_ns"] < slow[0]["queue_ns"]]
    assert before == [8 * place for place in range(10)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rotate", "1h", "--last", "1h"), "--rotate and --last were both given"),
        (("--slower", "1ms"), "--slower writes what --last keeps"),
        (("--last", "1h", "--source", "perf"), "--source perf records as a whole"),
        (("--rotate", "soon"), "--rotate: 'soon' is not a size"),
    ],
)
def test_words_that_cannot_be(
    disk: Disk, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    code, text = machine.rejection(disk.device, "-o", tmp_path / "trace", *words, "--", "true")
    assert (code, message in text) == (2, True), text


def event(action: int, time_ns: int, sector: int) -> bytes:
    who = {"pid": 1, "device": 7 << 20, "cpu": 0}
    return Event(time_ns, 2 << 16 | action, sector, 4096, payload=b"", **who).pack(0)


def test_latencies_are_from_an_issue_to_its_completion() -> None:
    # GIVEN issues (7) and completions (8) of two CPUs, a loss amid them, and one that waits
    watch = Watch()
    watch.see(event(7, 100, 8) + event(1, 101, 16) + b"CPU:0 [LOST 3 EVENTS]\n" + event(7, 150, 16))
    watch.see(event(8, 400, 8) + event(8, 90, 16))
    # THEN a completion belongs to the issue before it, also where the CPUs come one by one
    assert watch.pair() == 300
    watch.see(event(8, 1150, 16))
    assert watch.pair() == 1000
    assert watch.p99_ns() == int(np.percentile([300, 1000], 99))
    assert (watch.pair(), watch.p99_ns()) == (0, None)


def test_requests_of_one_place_end_in_their_order() -> None:
    # GIVEN requests of one place that overlap, one of them requeued, and a completion of none
    watch = Watch()
    watch.see(event(8, 50, 8) + event(7, 100, 8) + event(7, 200, 8) + event(8, 300, 8))
    watch.see(event(7, 350, 8) + event(8, 400, 8) + event(7, 500, 16) + event(6, 600, 16))
    # THEN only the last is open
    assert watch.pair() == 200
    assert watch.oldest_ns == 100
    assert (watch.pair(), watch.oldest_ns) == (0, 350)


def test_a_completion_may_be_seen_before_its_issue_once() -> None:
    watch = Watch()
    watch.see(event(8, 150, 8) + event(8, 160, 16))
    assert (watch.pair(), watch.oldest_ns) == (0, None)
    watch.see(event(7, 100, 8))
    assert watch.pair() == 50
    watch.see(event(7, 155, 16))
    assert (watch.pair(), watch.oldest_ns) == (0, 155)


@pytest.mark.parametrize("keeping", [Keeping(rotate_s=0.3), Keeping(last_s=10.0)])
def test_the_line_of_pieces_has_latencies(disk: Disk, tmp_path: Path, keeping: Keeping) -> None:
    # GIVEN a terminal, and writes that go on for longer than a line waits
    lines: list[str] = []
    options = CaptureOptions(
        command=("sh", "-c", bursts(disk, 20)), keeping=keeping, on_line=lines.append
    )
    capture([disk.device], tmp_path / "trace", options=options)
    # THEN each line has the latency of what was completed since the one before
    assert lines
    assert not any("p99 -" in line for line in lines)


def test_latencies_that_nobody_asks_for_are_not_kept() -> None:
    watch = Watch(keeps_latencies=False)
    watch.see(event(7, 100, 8) + event(8, 400, 8))
    assert (watch.pair(), watch.latencies_ns) == (300, [])


def test_what_cannot_be_known_to_be_open_is_given_up() -> None:
    # GIVEN three issues, and that the kernel had one in flight when the last was issued
    watch = Watch()
    watch.see(event(7, 100, 8) + event(7, 200, 16) + event(7, 300, 24))
    assert watch.pair() == 0
    watch.give_up(1, before_ns=300)
    assert (watch.pair(), watch.oldest_ns) == (0, 200)
    # WHEN records are lost
    watch.see(event(7, 350, 32) + b"CPU:0 [LOST 3 EVENTS]\n" + event(7, 400, 40))
    # THEN what was issued before may have ended
    assert (watch.pair(), watch.oldest_ns) == (0, 400)


def test_the_line_has_rates_latency_and_losses(disk: Disk) -> None:
    watch = Watch()
    line = LiveLine([Path(f"/sys/block/{disk.name}")], watch, lambda: {"overrun": 3})
    assert line.text() is None
    read = f"if={disk.device}p3 of=/dev/null bs=1M count=4 iflag=direct status=none"
    subprocess.run(["dd", *read.split()], check=True)
    watch.see(event(7, 100, 8) + event(8, 1100, 8))
    watch.pair()
    time.sleep(1)
    text = line.text()
    assert text is not None
    rates, mib, latency, lost = text.split(", ")
    assert float(rates.split()[0]) >= 3
    assert 1 < float(mib.split()[0]) <= 4.5
    assert (latency, lost) == ("p99 1 us", "3 lost")
