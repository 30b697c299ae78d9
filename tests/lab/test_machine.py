"""What QEMU is asked for, and how the lab ends when it does not answer."""

import stat
import time
from pathlib import Path

import pytest

from tracekit.errors import TracekitError
from tracekit.lab import machine as lab_machine
from tracekit.lab.image import Image
from tracekit.lab.machine import Machine, start


def machine(folder: Path, *disks: tuple[str, Path]) -> Machine:
    return Machine(Image(folder, ()), "tcg", memory_mib=512, cpus=1, disks=disks)


def fake_qemu(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "bin/qemu-system-x86_64"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_only_image_files_are_used(tmp_path: Path) -> None:
    # GIVEN a block device or what is not there in the place of an image
    for path in (Path("/dev/null"), tmp_path / "nothing"):
        with pytest.raises(TracekitError, match="is not an image file"):
            machine(tmp_path, ("lab-disk0", path)).command(tmp_path / "console")


def test_the_guest_has_no_network_and_cannot_write_what_lasts(tmp_path: Path) -> None:
    image = tmp_path / "a,b.img"
    image.touch()
    command = machine(tmp_path, ("lab-root", image), ("lab-disk0", image)).command(tmp_path / "c")
    assert command[command.index("-nic") + 1] == "none"
    drives = [text for text in command if text.startswith("file=")]
    # A comma in a path is doubled, as QEMU reads it.
    assert [text.partition(",format")[0] for text in drives] == [f"file={tmp_path}/a,,b.img"] * 2
    assert [text.rpartition("readonly=")[2] for text in drives] == ["on", "off"]


def test_a_guest_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_qemu(tmp_path, monkeypatch, f"echo it hangs > {tmp_path}/console; exec sleep 60")
    started_s = time.monotonic()
    with pytest.raises(TracekitError, match=r"did not end within 1 s.*\n  it hangs"):
        start(machine(tmp_path), tmp_path / "console", limit_s=1)
    assert time.monotonic() - started_s < 10


def test_a_guest_that_hangs_before_it_is_up_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a kernel that hangs in its first two starts, and is slow after it came up in its third
    monkeypatch.setattr(lab_machine, "PATIENCE_S", (0.3, 0.3, 3.0))
    begun, console = tmp_path / "begun", tmp_path / "console"
    script = f"echo >> {begun}; [ $(wc -l < {begun}) = 3 ] || exec sleep 60"
    up = f"echo tracekit-lab: up > {console}; sleep 3.5; echo tracekit-lab: done >> {console}"
    fake_qemu(tmp_path, monkeypatch, f"{script}\n{up}")
    # WHEN it is started, THEN it is once more, and left alone once it is up
    said = lab_machine.said_lines(start(machine(tmp_path), console, limit_s=30))
    assert (list(said), begun.read_text()) == (["up", "done"], "\n" * 3)


def test_what_qemu_complains_about_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, monkeypatch, "echo 'cannot set up guest memory' >&2; exit 1")
    with pytest.raises(TracekitError, match="failed: cannot set up guest memory"):
        start(machine(tmp_path), tmp_path / "console", limit_s=10)
