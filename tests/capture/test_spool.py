"""Records go into files whose blocks are there before: what a full disk and a slow reader cost."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture import machine
from tests.capture.machine import TRACER, Disk
from tracekit.capture.spool import READ_BYTES, Spool
from tracekit.capture.unfinished import space_check
from tracekit.errors import TracekitError

pytestmark = pytest.mark.root
SMALL_BYTES = 2 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a file system of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", folder], check=True
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_no_more_is_taken_than_finds_space_twice(small: Path, tmp_path: Path) -> None:
    # GIVEN more to read at once than a small disk has space for, and for the files made of it
    backlog = os.urandom(SMALL_BYTES)
    (tmp_path / "backlog").write_bytes(backlog)
    check = space_check(small, 1.0)
    spool = Spool(small / "cpu0.1", lambda: check(spool.allocated_bytes))
    # WHEN it is taken
    with (
        (tmp_path / "backlog").open("rb") as pipe,
        pytest.raises(TracekitError, match="nearly full"),
    ):
        spool.fill(pipe.fileno())
    taken = spool.close().read_bytes()
    # THEN a part is, from the begin on, and the rest of the disk takes a copy of that
    assert len(taken) >= SMALL_BYTES // 4
    assert taken == backlog[: len(taken)]
    (small / "copy").write_bytes(taken)


def test_a_disk_that_fills_up_has_space_for_the_first_records(small: Path, tmp_path: Path) -> None:
    # GIVEN a spool, and a disk that somebody else fills before anything is recorded
    spool = Spool(small / "cpu0.1")
    fill = ["dd", "if=/dev/zero", f"of={small}/filler", "bs=4k"]
    assert subprocess.run(fill, stderr=subprocess.DEVNULL, check=False).returncode == 1
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
    # THEN the command runs to its end, and a part is kept: perhaps of one CPU alone
    assert "all until then is kept" in messages
    assert [path.name for path in small.iterdir()] == ["trace"], messages
    assert machine.read_layout(small / "trace")["capture"]["records"] > 100
