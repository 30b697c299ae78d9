"""Records go into files whose blocks are there before: what a full disk and a slow reader cost."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture import machine
from tests.capture.machine import TRACER, Disk
from tests.replay.disk import fill, small_file_system
from tracekit.capture.spool import READ_BYTES, STEPS_BYTES, Spool
from tracekit.capture.tracefs import online_cpus
from tracekit.capture.unfinished import space_check
from tracekit.errors import TracekitError
from tracekit.readers.blktrace import parse

pytestmark = pytest.mark.root
SMALL_MIB = 2


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a file system of its own."""
    with small_file_system(tmp_path / "small", mib=SMALL_MIB) as folder:
        yield folder


def test_no_more_is_taken_than_finds_space_twice(small: Path, tmp_path: Path) -> None:
    # GIVEN more to read at once than a small disk has space for, and for the files made of it
    backlog = os.urandom(SMALL_MIB << 20)
    (tmp_path / "backlog").write_bytes(backlog)
    check = space_check(small, 1.0)
    spool = Spool(small / "cpu0.1", lambda _: check(spool.allocated_bytes))
    # WHEN it is taken
    with (
        (tmp_path / "backlog").open("rb") as pipe,
        pytest.raises(TracekitError, match="nearly full"),
    ):
        spool.fill(pipe.fileno())
    taken = spool.close().read_bytes()
    # THEN a part is, from the begin on, and the rest of the disk takes a copy of that
    assert len(taken) >= len(backlog) // 4
    assert taken == backlog[: len(taken)]
    (small / "copy").write_bytes(taken)


def test_a_disk_that_fills_up_has_space_for_the_first_records(small: Path, tmp_path: Path) -> None:
    # GIVEN a spool, and a disk that somebody else fills before anything is recorded
    spool = Spool(small / "cpu0.1")
    fill(small / "filler")
    records = os.urandom(READ_BYTES)
    (tmp_path / "records").write_bytes(records)
    # WHEN something comes
    with (tmp_path / "records").open("rb") as pipe:
        spool.fill(pipe.fileno())
    # THEN it is taken, and a spool that has no space at all leaves no file
    with pytest.raises(OSError, match="No space"):
        Spool(small / "cpu1.1")
    assert spool.close().read_bytes() == records
    assert not (small / "cpu1.1").exists()


def test_a_nearly_full_disk_after_a_pause(disk: Disk, small: Path, tmp_path: Path) -> None:
    # GIVEN a capture that stands still while a command fills the kernel's buffers
    begun, mark = tmp_path / "begun", tmp_path / "mark"
    read = f"dd if={disk.device} of=/dev/null bs=512 count=30000 iflag=direct status=none"
    script = f"echo >{begun}; sleep 0.5; {read}; echo >{mark}; sleep 0.5; {read}"
    options = ("--buffer", "1MiB", "-o", small / "trace", "--", "sh", "-c", script)
    running = machine.start_capture(disk.device, *TRACER, *options)
    machine.wait_for(begun.exists)
    running.send_signal(signal.SIGSTOP)
    machine.wait_for(mark.exists)
    # WHEN it goes on, and would take more at once than its disk has space for
    running.send_signal(signal.SIGCONT)
    _, messages = running.communicate(timeout=machine.TIMEOUT_S)
    # THEN the command runs to its end, a part is kept, and it is said of what time all is there
    assert "all until then is kept" in messages
    assert [path.name for path in small.iterdir()] == ["trace"], messages
    layout = machine.read_layout(small / "trace")
    assert layout["capture"]["records"] > 100
    assert layout["loss"]["dropped"] > 1000
    assert "all is recorded of the first " in messages
    folder, _ = parse([small / "trace"], tmp_path / "parsed")
    lost = [one for one in folder.content["warnings"] if one["code"] == "lost_records"]
    assert (
        f", behind the first {layout['loss']['whole_ns'] / 1e9:,.3f} s, of some"
        in lost[0]["message"]
    )


@pytest.mark.skipif(len(online_cpus()) < 2, reason="needs two CPUs")
def test_the_last_space_is_shared(disk: Disk, small: Path, tmp_path: Path) -> None:
    # GIVEN a capture that stands still while as much happens on two CPUs
    begun, mark = tmp_path / "begun", tmp_path / "mark"
    first, second = online_cpus()[:2]
    read = f"dd if={disk.device} of=/dev/null bs=512 count=12000 iflag=direct status=none"
    both = f"taskset -c {first} {read} & taskset -c {second} {read} & wait"
    options = ("--buffer", "8MiB", "-o", small / "trace", "--", "sh", "-c")
    script = f"echo >{begun}; sleep 0.5; {both}; echo >{mark}; sleep 0.5"
    running = machine.start_capture(disk.device, *TRACER, *options, script)
    machine.wait_for(begun.exists)
    running.send_signal(signal.SIGSTOP)
    machine.wait_for(mark.exists)
    # WHEN it goes on, and has space for a part
    running.send_signal(signal.SIGCONT)
    _, messages = running.communicate(timeout=machine.TIMEOUT_S)
    assert "nearly full" in messages
    # THEN the two have as much of it, but for a step of the allocation
    files = [small / f"trace/trace.blktrace.{cpu}" for cpu in (first, second)]
    sizes = [file.stat().st_size for file in files]
    assert abs(sizes[0] - sizes[1]) <= 2 * READ_BYTES + STEPS_BYTES[1], sizes
    # AND all of the time that is named is there, of both
    whole_ns = machine.read_layout(small / "trace")["loss"]["whole_ns"]
    found = [machine.records_of(file.read_bytes()) for file in files]
    begin = min(one.time_ns for records in found for one in records)
    ends = sorted(records[-1].time_ns - begin for records in found)
    assert ends[0] == whole_ns
