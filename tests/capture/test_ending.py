"""However a capture ends, the machine is as it was before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.capture.machine import (
    CAPTURE,
    TIMEOUT_S,
    TRACER,
    Disk,
    read_layout,
    run_capture,
    tracing_settings,
    wait_until_tracing,
)
from tracekit.capture import programs

pytestmark = pytest.mark.root


def start_capture(disk: Disk, output: Path, *rest: str) -> subprocess.Popen[str]:
    running = subprocess.Popen(
        [*CAPTURE, disk.device, *TRACER, "-o", str(output), *rest],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_tracing(disk)
    return running


def sleepers(seconds: str) -> list[int]:
    """Return the processes that run `sleep` for just so long."""
    command = f"sleep\0{seconds}\0".encode()
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if _read(path) == command
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(disk: Disk, tmp_path: Path, number: signal.Signals) -> None:
    # GIVEN a capture of a command that sleeps
    settings = tracing_settings()
    seconds = f"3{number:03}"
    running = start_capture(disk, tmp_path / "trace", "--", "sleep", seconds)
    # WHEN it is told to stop
    running.send_signal(number)
    _, talk = running.communicate(timeout=TIMEOUT_S)
    # THEN what was captured is kept, said to be partial, and the command is gone
    assert running.returncode == 3
    assert f"ended early by {number.name}" in talk
    assert read_layout(tmp_path / "trace")["loss"] == {"overrun": 0, "dropped": 0}
    assert sleepers(seconds) == []
    # AND the settings are given back
    assert tracing_settings() == settings


def test_a_signal_is_the_normal_end_without_a_command(disk: Disk, tmp_path: Path) -> None:
    running = start_capture(disk, tmp_path / "trace")
    running.send_signal(signal.SIGINT)
    out, talk = running.communicate(timeout=TIMEOUT_S)
    assert (running.returncode, talk) == (0, "")
    assert "0 lost" in out


def test_after_a_kill_the_next_capture_cleans_up(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a capture that was killed, so that the machine is left as it was then
    settings = tracing_settings()
    running = start_capture(disk, tmp_path / "killed", "--", "sleep", "3009")
    running.kill()
    running.wait(timeout=TIMEOUT_S)
    for pid in sleepers("3009"):
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=TIMEOUT_S)
    assert tracing_settings()["current_tracer"] == "blk"
    assert list(tmp_path.glob(".killed.*")) != []
    # WHEN the next one starts
    done = run_capture(disk.device, "-o", str(tmp_path / "next"), "--", *disk.writer(5))
    # THEN it says that it cleaned up, works, and gives back what was before the first
    assert done.returncode == 0, done.stderr
    assert "gave back the kernel settings of a capture that was killed" in done.stderr
    assert tracing_settings() == settings
    assert list(tmp_path.glob(".killed.*")) == []
    assert (tmp_path / "next" / "layout.json").exists()


def test_a_disk_that_goes_away(disk: Disk, tmp_path: Path) -> None:
    settings = tracing_settings()
    # GIVEN a loop device that its command reads, detaches and removes
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    made = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True)
    device = made.stdout.decode().strip()
    assert device != disk.device
    remove = f"import fcntl; fcntl.ioctl(open('/dev/loop-control'), 0x4C81, {device[9:]})"
    read = f"dd if={device} of=/dev/null bs=4k count=5 iflag=direct status=none"
    script = f'{read}; losetup -d {device}; sleep 0.5; {sys.executable} -c "{remove}"'
    # WHEN that is captured
    output = tmp_path / "trace"
    done = run_capture(device, *TRACER, "-o", str(output), "--", "sh", "-c", script)
    # THEN what was recorded is kept with the layout of before, which is said
    assert done.returncode == 0, done.stderr
    assert f"{device} went away during the capture" in done.stderr
    assert read_layout(output)["devices"][0]["device"] == Path(device).name
    assert read_layout(output)["capture"]["records"] >= 20
    assert tracing_settings() == settings


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
    settings = tracing_settings()
    if "perf" in options and (why := programs.probe_perf()):
        pytest.skip(why)
    # GIVEN a small file system for the output, and a command of many requests
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", small], check=True)
    reader = ("dd", f"if={disk.device}", "of=/dev/null", "bs=512", "count=30000", "iflag=direct")
    try:
        words = options if "--files" in options else (disk.device, *options)
        done = run_capture(*words, "-o", str(small / "trace"), "--", *reader, "status=none")
        # THEN one line says so, and nothing is left
        assert done.returncode == 1
        assert reason in done.stderr
        assert "free some space" in done.stderr
        assert done.stderr.count("\n") == 2
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)
    assert tracing_settings() == settings


def test_a_command_that_cannot_start_leaves_nothing(disk: Disk, tmp_path: Path) -> None:
    settings = tracing_settings()
    done = run_capture(disk.device, "-o", str(tmp_path / "trace"), "--", "no-such-program")
    assert done.returncode == 2
    assert "no-such-program: cannot be started: No such file or directory" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert tracing_settings() == settings


def test_a_command_that_fails_is_told_and_the_capture_kept(disk: Disk, tmp_path: Path) -> None:
    done = run_capture(disk.device, "-o", str(tmp_path / "trace"), "--", "sh", "-c", "exit 7")
    assert done.returncode == 3
    assert "the command failed with status 7" in done.stderr
    assert (tmp_path / "trace" / "layout.json").exists()


def test_a_stubborn_command_is_ended(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a command that does not heed SIGTERM
    stubborn = "trap '' TERM; sleep 3011 & wait; wait"
    running = start_capture(disk, tmp_path / "trace", "--", "sh", "-c", stubborn)
    time.sleep(0.3)
    # WHEN the capture is told to stop
    running.terminate()
    running.communicate(timeout=TIMEOUT_S)
    # THEN the whole group is gone
    assert running.returncode == 3
    assert sleepers("3011") == []
