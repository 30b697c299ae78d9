"""However a capture ends, the machine is as it was before."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.capture import machine
from tests.capture.machine import TRACER, Disk
from tracekit.capture import programs

pytestmark = pytest.mark.root


def started(disk: Disk, output: Path, *rest: str) -> subprocess.Popen[str]:
    running = machine.start_capture(disk.device, *TRACER, "-o", output, *rest)
    machine.wait_until_tracing(disk)
    return running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(disk: Disk, tmp_path: Path, number: signal.Signals) -> None:
    # GIVEN a capture of a command that sleeps
    seconds = f"3{number:03}"
    running = started(disk, tmp_path / "trace", "--", "sleep", seconds)
    # WHEN it gets a signal
    code, _, messages = machine.stop(running, number)
    # THEN what was captured is kept, reported as partial, and the command is gone
    assert (code, f"ended early by {number.name}" in messages) == (3, True)
    assert machine.read_layout(tmp_path / "trace")["loss"] == {"overrun": 0, "dropped": 0}
    assert machine.processes("sleep", seconds) == []


def test_a_signal_is_the_normal_end_without_a_command(disk: Disk, tmp_path: Path) -> None:
    code, out, messages = machine.stop(started(disk, tmp_path / "trace"), signal.SIGINT)
    assert (code, messages) == (0, "")
    assert "0 lost" in out


def test_after_a_kill_the_next_capture_cleans_up(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a capture that was killed, so that the machine is left as it was then
    running = started(disk, tmp_path / "killed", "--", "sleep", "3009")
    running.kill()
    running.wait(timeout=machine.TIMEOUT_S)
    for pid in machine.processes("sleep", "3009"):
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=machine.TIMEOUT_S)
    assert machine.tracing_settings()["current_tracer"] == "blk"
    assert list(tmp_path.glob(".killed.*")) != []
    # WHEN the next one starts
    done = disk.capture(tmp_path / "next", command=disk.writer(5))
    # THEN it says that it cleaned up, works, and gives back what was before the first
    assert "gave back the kernel settings of a capture that was killed" in done.stderr
    assert list(tmp_path.glob(".killed.*")) == []
    assert (tmp_path / "next" / "layout.json").exists()


def test_a_disk_that_goes_away(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a loop device that its command reads, detaches and removes
    device, script = machine.vanishing_disk(tmp_path)
    assert device != disk.device
    # WHEN that is captured
    output = tmp_path / "trace"
    done = machine.run_capture(device, *TRACER, "-o", output, "--", "sh", "-c", script)
    # THEN what was recorded is kept with the layout of before, which is reported
    assert f"{device} went away during the capture" in done.stderr
    assert machine.read_layout(output)["devices"][0]["device"] == Path(device).name
    assert machine.read_layout(output)["capture"]["records"] >= 20


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--source", "tracefs-blk"), "/trace: No space left on device"),
        (("--source", "perf"), "no space is left on the file system of"),
        (("--files",), "less than 4 MiB are left for the capture"),
    ],
    ids=("tracefs-blk", "perf", "files"),
)
def test_a_full_disk(disk: Disk, tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    if "perf" in options and (why := programs.probe_perf()):
        pytest.skip(why)
    # GIVEN a small file system for the output, and a command of many requests
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", small], check=True)
    reader = ("dd", f"if={disk.device}", "of=/dev/null", "bs=512", "count=30000", "iflag=direct")
    try:
        words = options if "--files" in options else (disk.device, *options)
        done = machine.run_capture(
            *words, "-o", small / "trace", "--", *reader, "status=none", code=1
        )
        # THEN one line says so, and nothing is left
        assert reason in done.stderr
        assert "free some space" in done.stderr
        assert done.stderr.count("\n") == 2
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_command_that_fails_is_reported_and_the_capture_kept(disk: Disk, tmp_path: Path) -> None:
    done = disk.capture(tmp_path / "trace", command=("sh", "-c", "exit 7"), code=3)
    assert "the command failed with status 7" in done.stderr
    assert (tmp_path / "trace" / "layout.json").exists()


def test_a_stubborn_command_is_ended(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a command that ignores SIGTERM
    stubborn = "trap '' TERM; sleep 3011 & wait; wait"
    running = started(disk, tmp_path / "trace", "--", "sh", "-c", stubborn)
    time.sleep(0.3)
    # WHEN the capture is to stop, THEN the whole group is gone
    assert machine.stop(running, signal.SIGTERM)[0] == 3
    assert machine.processes("sleep", "3011") == []
