"""What a capture rejects, before it touches anything."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.capture import machine
from tests.capture.machine import NONE, TRACER, Disk
from tests.replay.disk import call, image, loop, mounted
from tracekit.capture.session import CaptureOptions, capture
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError

pytestmark = pytest.mark.root


def check(disk: Disk, output: Path, *, code: int, message: str) -> None:
    """Check that a capture of the disk is rejected, and changes and leaves nothing."""
    settings = machine.tracing_settings()
    found, text = machine.rejection(disk.device, "-o", output, *TRACER, "--", *NONE)
    assert (found, message in text) == (code, True), text
    assert not text.endswith("\n")  # a hint says what to do
    assert not output.exists()
    assert machine.tracing_settings() == settings


WORDS: dict[str, tuple[str, str]] = {
    "{disk}p1 -o {out} -- true": ("{disk}p1 is a partition", "trace the whole disk, {disk}"),
    "/dev/null -o {out} -- true": ("/dev/null is not a block device", ""),
    "{disk} {disk}p1 -o {out} -- true": ("{disk}p1 is a partition", ""),
    "{disk} true -o {out}": ("true is not a block device", "put a command after --"),
    "{disk} -o {out} --duration 1s -- true": ("--duration and a command were both given", ""),
    "{disk} -o {out} --duration 1x": ("--duration: '1x' is not a time", ""),
    "{disk} -o {out} --duration -1": ("--duration: '-1' is not a time", ""),
    "{disk} -o {out} --duration 1ms": ("--duration: '1ms' is too short", ""),
    "{disk} -o {out} --untraced --duration 1s": ("--untraced needs a command", ""),
    "{disk} -o {out} --user root --duration 1s": ("--user needs a command", ""),
}


@pytest.mark.parametrize("words", WORDS)
def test_words_that_cannot_be(disk: Disk, tmp_path: Path, words: str) -> None:
    names: dict[str, Any] = {"disk": disk.device, "out": tmp_path / "trace"}
    code, text = machine.rejection(*words.format(**names).split())
    assert code == 2
    assert not text.endswith("\n")
    for message in WORDS[words]:
        assert message.format(**names) in text
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_cannot_start_leaves_nothing(disk: Disk, tmp_path: Path) -> None:
    code, text = machine.rejection(disk.device, "-o", tmp_path / "trace", "--", "no-such-program")
    assert code == 2
    assert "no-such-program: cannot be started: No such file or directory" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "value", "back", "message"),
    [
        ("current_tracer", "blk", "nop", "current_tracer is 'blk'"),
        ("set_event", "block:block_rq_issue", "", "1 trace events are enabled"),
    ],
)
def test_a_tracer_in_use(
    disk: Disk, tmp_path: Path, file: str, value: str, back: str, message: str
) -> None:
    with machine.setting(tracefs_folder() / file, value, back):
        check(disk, tmp_path / "trace", code=1, message=message)


def test_a_device_that_is_traced_already(disk: Disk, tmp_path: Path) -> None:
    with machine.setting(disk.switch, "1", "0"):
        check(disk, tmp_path / "trace", code=1, message="is being traced already")
        assert disk.is_traced()


def test_output_on_the_traced_disk(disk: Disk) -> None:
    message = f"is on the traced disk {disk.name}"
    check(disk, disk.point / "new" / "trace", code=2, message=message)


def test_output_on_a_loop_device_above_the_traced_disk(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a file system in a file on the traced disk
    file = image(disk.point / "inner.img")
    call("mkfs.ext4", "-q", file)
    with mounted(file, tmp_path / "inner", "-o", "loop") as inner:
        # THEN an output there is rejected as well
        check(disk, inner / "trace", code=2, message="is on the traced disk")
    file.unlink()


def test_output_on_an_overlay_above_the_traced_disk(disk: Disk, tmp_path: Path) -> None:
    # GIVEN an overlay, as that of a container, whose upper folder is on the traced disk
    (tmp_path / "lower").mkdir()

    def overlay(name: str, writes: Path) -> AbstractContextManager[Path]:
        for folder in ("upper", "work"):
            (writes / folder).mkdir(exist_ok=True)
        where = f"lowerdir={tmp_path}/lower,upperdir={writes}/upper,workdir={writes}/work"
        return mounted(Path("overlay"), tmp_path / name, "-t", "overlay", "-o", where)

    # THEN an output there is rejected, and one on an overlay elsewhere is not
    with overlay("merged", disk.point) as merged:
        check(disk, merged / "trace", code=2, message="is on the traced disk")
    with overlay("other", tmp_path) as merged:
        disk.capture(merged / "trace", command=disk.writer(3))


@pytest.mark.usefixtures("disk")
def test_output_on_a_file_system_whose_journal_is_on_the_traced_disk(tmp_path: Path) -> None:
    # GIVEN an ext4 elsewhere with its journal on a disk
    with loop(image(tmp_path / "fs.img")) as base, loop(image(tmp_path / "log.img")) as log:
        make = ("mkfs.ext4", "-q", "-b", "4096")
        call(*make, "-O", "journal_dev", log)
        call(*make, "-J", f"device={log}", base)
        with mounted(base, tmp_path / "fs") as point:
            # THEN a capture of that disk is not written there
            message = f"is on the traced disk {Path(log).name}"
            check(Disk(str(log), point), point / "trace", code=2, message=message)


def test_output_that_exists(disk: Disk, tmp_path: Path) -> None:
    code, text = machine.rejection(disk.device, "-o", tmp_path, "--", *NONE)
    assert (code, "exists already" in text) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_second_capture_at_the_same_time(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a capture that runs
    first = machine.start_capture(disk.device, *TRACER, "-o", tmp_path / "first")
    machine.wait_until_tracing(disk)
    try:
        # THEN another is rejected, by the name of the first
        message = f"another capture is running (pid {first.pid})"
        check(disk, tmp_path / "second", code=1, message=message)
    finally:
        assert machine.stop(first, 15)[0] == 0


def test_who_is_not_root(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TracekitError, match="needs root"):
        capture([disk.device], tmp_path / "trace", options=CaptureOptions(command=NONE))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "option", [("--compress", "xz"), ("--buffer", "32MiB")], ids=lambda one: one[0]
)
def test_options_of_block_events_with_files(tmp_path: Path, option: tuple[str, str]) -> None:
    code, text = machine.rejection("--files", *option, "-o", tmp_path / "trace", "--", *NONE)
    assert (code, f"{option[0]} is of block events" in text) == (2, True)
    assert list(tmp_path.iterdir()) == []
