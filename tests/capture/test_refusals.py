"""What a capture refuses, before it touches anything."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.capture.machine import (
    CAPTURE,
    TIMEOUT_S,
    TRACER,
    Disk,
    run_capture,
    tracing_settings,
    wait_until_tracing,
)
from tracekit.capture.session import CaptureOptions, capture
from tracekit.capture.tracefs import mounted_folder
from tracekit.errors import TracekitError

pytestmark = pytest.mark.root


@contextmanager
def tracing_file(name: str, value: str, back: str) -> Iterator[None]:
    """Set a file of tracefs, as another user of the tracer would."""
    folder = mounted_folder()
    assert folder is not None
    (folder / name).write_text(value)
    try:
        yield
    finally:
        (folder / name).write_text(back)


def assert_refused(disk: Disk, output: Path, *, code: int, message: str) -> None:
    source = ("--source", "tracefs-blk")
    done = run_capture(disk.device, "-o", str(output), *source, "--", "true")
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 2  # what is wrong, and what to do
    assert not output.exists()


def test_another_tracer(disk: Disk, tmp_path: Path) -> None:
    with tracing_file("current_tracer", "blk", "nop"):
        settings = tracing_settings()
        assert_refused(disk, tmp_path / "trace", code=1, message="current_tracer is 'blk'")
        assert tracing_settings() == settings


def test_trace_events_that_would_mix_in(disk: Disk, tmp_path: Path) -> None:
    with tracing_file("set_event", "block:block_rq_issue", ""):
        assert_refused(disk, tmp_path / "trace", code=1, message="1 trace events are enabled")


def test_a_device_that_is_traced_already(disk: Disk, tmp_path: Path) -> None:
    enable = Path(f"/sys/block/{disk.name}/trace/enable")
    enable.write_text("1")
    try:
        assert_refused(disk, tmp_path / "trace", code=1, message="is being traced already")
        assert enable.read_text().strip() == "1"
    finally:
        enable.write_text("0")


def test_output_on_the_traced_disk(disk: Disk) -> None:
    assert_refused(
        disk,
        disk.point / "new" / "trace",
        code=2,
        message=f"is on the traced disk {disk.name}",
    )


def test_output_on_a_loop_device_above_the_traced_disk(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a file system in a file on the traced disk
    image = disk.point / "inner.img"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    inner = tmp_path / "inner"
    inner.mkdir()
    subprocess.run(["mount", "-o", "loop", image, inner], check=True)
    try:
        # THEN an output there is refused as well
        assert_refused(disk, inner / "trace", code=2, message="is on the traced disk")
    finally:
        subprocess.run(["umount", inner], check=True)
        image.unlink()


def test_output_that_exists(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    done = run_capture(disk.device, "-o", str(tmp_path / "trace"), "--", "true")
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert list((tmp_path / "trace").iterdir()) == []


def test_a_partition_names_its_disk(disk: Disk, tmp_path: Path) -> None:
    done = run_capture(f"{disk.device}p1", "-o", str(tmp_path / "trace"), "--", "true")
    assert done.returncode == 2
    assert f"{disk.device}p1 is a partition" in done.stderr
    assert f"trace the whole disk, {disk.device}" in done.stderr


def test_what_is_no_block_device(tmp_path: Path) -> None:
    done = run_capture("/dev/null", "-o", str(tmp_path / "trace"), "--", "true")
    assert done.returncode == 2
    assert "/dev/null is not a block device" in done.stderr


def test_a_command_and_a_time(disk: Disk, tmp_path: Path) -> None:
    output = str(tmp_path / "trace")
    done = run_capture(disk.device, "-o", output, "--duration", "1s", "--", "true")
    assert done.returncode == 2
    assert "--duration and a command were both given" in done.stderr


@pytest.mark.parametrize(
    ("time", "complaint"),
    [("1x", "'1x' is not a time"), ("-1", "'-1' is not a time"), ("1ms", "'1ms' is too short")],
)
def test_a_time_that_is_none(disk: Disk, tmp_path: Path, time: str, complaint: str) -> None:
    done = run_capture(disk.device, "-o", str(tmp_path / "trace"), "--duration", time)
    assert done.returncode == 2
    assert f"--duration: {complaint}" in done.stderr
    assert done.stderr.count("\n") == 2


def test_a_second_capture_at_the_same_time(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a capture that runs
    first = subprocess.Popen([*CAPTURE, disk.device, *TRACER, "-o", str(tmp_path / "first")])
    wait_until_tracing(disk)
    try:
        # THEN another is refused, by the name of the first
        assert_refused(
            disk,
            tmp_path / "second",
            code=1,
            message=f"another capture is running (pid {first.pid})",
        )
    finally:
        first.terminate()
        assert first.wait(timeout=TIMEOUT_S) == 0


def test_who_is_not_root(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TracekitError, match="needs root"):
        capture([disk.device], tmp_path / "trace", options=CaptureOptions(command=("true",)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "option",
    [("--source", "perf"), ("--compress", "xz"), ("--buffer", "32MiB")],
    ids=lambda one: one[0],
)
def test_options_of_block_events_with_files(tmp_path: Path, option: tuple[str, str]) -> None:
    done = run_capture("--files", *option, "-o", str(tmp_path / "trace"), "--", "true")
    assert done.returncode == 2
    assert f"{option[0]} is of block events" in done.stderr
    assert list(tmp_path.iterdir()) == []
