"""blktrace(8) as a source: what it says where relay files are refused, and what a kill leaves."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.capture.machine import Disk, read_layout, run_capture
from tracekit.capture import blktrace, kernel_state
from tracekit.capture.kernel_state import STATE_FOLDER
from tracekit.capture.layout import find_disk

pytestmark = pytest.mark.root
BLKTRACESETUP = 0xC0481273


def is_traced(disk: Disk) -> bool:
    return Path(f"/sys/block/{disk.name}/trace/enable").read_text().strip() == "1"


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


def test_where_relay_files_are_refused_it_says_so(disk: Disk, tmp_path: Path) -> None:
    reason = blktrace.why_not(find_disk(disk.device))
    if reason is None:
        pytest.skip("blktrace works here: the lab's tests capture with it")
    debugfs = kernel_state.mounted_debugfs()
    # WHEN it is asked for by name
    asked = ("--source", "blktrace", "--", "true")
    done = run_capture(disk.device, "-o", str(tmp_path / "trace"), *asked)
    # THEN the reason is told, and nothing is left
    assert done.returncode == 1
    assert f"block events cannot be captured: blktrace: {reason}" in done.stderr
    assert done.stderr.count("\n") == 2
    assert list(tmp_path.iterdir()) == []
    assert not is_traced(disk)
    assert kernel_state.mounted_debugfs() == debugfs
    # WHEN the source is left to the capture, THEN another is taken and named with the reason
    done = run_capture(disk.device, "-o", str(tmp_path / "trace"), "--", *disk.writer(5))
    assert done.returncode == 0
    assert done.stderr.startswith("captured with ")
    assert f"because blktrace does not work here: {reason}\n" in done.stderr
    assert read_layout(tmp_path / "trace")["capture"]["source"] != "blktrace"


def test_reasons(disk: Disk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = find_disk(disk.device)
    with trace_set_up(disk):
        assert blktrace.why_not(folder) == f"{disk.name} is being traced already"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert blktrace.why_not(None) == "blktrace is not installed (Debian: blktrace)"


def test_a_trace_that_a_kill_left_is_ended_by_the_next_capture(disk: Disk, tmp_path: Path) -> None:
    with trace_set_up(disk):
        # GIVEN the state file of a capture with blktrace, killed with its blktrace
        STATE_FOLDER.mkdir(exist_ok=True)
        state = {"changed": [], "held": [["trace", disk.device]], "leftover": None}
        (STATE_FOLDER / "state.json").write_text(json.dumps(state))
        assert is_traced(disk)
        # WHEN the next one begins
        done = run_capture(disk.device, "-o", str(tmp_path / "trace"), "--", *disk.writer(5))
        # THEN it has ended the trace, and works
        assert done.returncode == 0, done.stderr
        assert "gave back the kernel settings of a capture that was killed" in done.stderr
        assert not is_traced(disk)


def test_a_trace_of_a_blktrace_that_lives_is_left_alone(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_state, "PATIENCE_S", 0.2)
    # GIVEN a process that looks like a blktrace of this disk
    other = subprocess.Popen(
        ["blktrace", "-c", "read end", disk.device], executable="/bin/sh", stdin=subprocess.PIPE
    )
    with trace_set_up(disk):
        end_s = time.monotonic() + 5
        while kernel_state.tracers(disk.device) != [other.pid]:
            assert time.monotonic() < end_s
        # THEN the trace is not ended while it lives
        kernel_state.tear_down(disk.device)
        assert is_traced(disk)
        other.communicate(b"\n")
        kernel_state.tear_down(disk.device)
        assert not is_traced(disk)


def test_of_a_disk_that_went_away_nothing_is_to_be_ended() -> None:
    with pytest.raises(FileNotFoundError):
        kernel_state.tear_down("/dev/no-such-disk")
