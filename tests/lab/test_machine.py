"""What --disk and --pmem mean, what QEMU is asked for, and how the lab ends without an answer."""

import stat
import time
from pathlib import Path

import pytest

from tracekit.errors import TracekitError, UsageError
from tracekit.lab import machine as lab_machine
from tracekit.lab.image import Image
from tracekit.lab.machine import Disk, Machine, Part, dax_start_mib, parse_disks, start


def test_parts_of_one_latency_share_a_disk() -> None:
    # GIVEN three roles, two of the same latency
    disks = parse_disks(["fs=2GiB", "journal=256MiB:108us", "swap=512M"])
    # THEN there are two disks, in the order of their first parts
    assert disks == [
        Disk((Part("fs", 2048, 0), Part("swap", 512, 0))),
        Disk((Part("journal", 256, 108_000),)),
    ]
    # AND each has a MiB at both ends for the partition table
    assert [disk.mib for disk in disks] == [2562, 258]
    assert [disk.latency_ns for disk in disks] == [0, 108_000]


def test_parts_of_another_depth_are_on_another_disk() -> None:
    # GIVEN two parts of one latency, one of which serves one request at a time
    disks = parse_disks(["fs=1G:5ms:1", "journal=64M:5ms"])
    # THEN there are two disks; without a depth it is that of the kernel's driver
    assert [(disk.latency_ns, disk.depth) for disk in disks] == [(5_000_000, 1), (5_000_000, 64)]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["fs"], "'fs' is no disk"),
        (["data=1G"], "'data=1G' is no disk"),
        (["fs=1G", "fs=2G"], "fs is given twice"),
        (["journal=64M"], "a journal without a file system"),
        (["fs=1G", "journal=1M"], "journal of 1M: from 4 MiB"),
        (["fs=0"], "fs of 0: from 16 MiB"),
        (["fs=1G:"], "'' is not a time"),
        (["fs=1G:0us"], "a latency of 0us"),
        (["fs=1G:2s"], "a latency of 2s"),
        (["fs=1G:fast"], "'fast' is not a time"),
        (["fs=1G:5ms:"], "a depth of ''"),
        (["fs=1G:5ms:0"], "a depth of '0'"),
        (["fs=1G:5ms:1025"], "a depth of '1025'"),
        (["fs=1G:5ms:+1"], "a depth of '\\+1'"),
        (["fs=/dev/sda"], "'/dev/sda' is not a size"),
        (["fs=16T"], "fs of 16T: from 16 MiB to 4 TiB"),
    ],
)
def test_what_is_no_disk_is_named(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_disks(texts)


@pytest.mark.parametrize(
    ("dax_mib", "memory_mib", "start_mib"),
    [(256, 1024, 512), (1024, 768, 512), (1025, 2304, 4096), (8192, 4096, 4096)],
)
def test_persistent_memory_lies_in_one_piece_of_real_memory(
    dax_mib: int, memory_mib: int, start_mib: int
) -> None:
    # WHEN it is placed
    assert dax_start_mib(dax_mib, memory_mib) == start_mib
    # THEN it is inside of what q35 has there: all below 4 GiB, or 2 GiB and the rest above
    total_mib = dax_mib + memory_mib
    is_split = total_mib >= 2816
    end_below_mib = 2048 if is_split else total_mib
    end_mib = end_below_mib if start_mib < 4096 else 4096 + total_mib - 2048
    assert start_mib + dax_mib + 256 <= end_mib


@pytest.mark.parametrize(("dax_mib", "memory_mib"), [(256, 512), (2048, 1024)])
def test_persistent_memory_that_does_not_fit_is_refused(dax_mib: int, memory_mib: int) -> None:
    with pytest.raises(UsageError, match=f"--pmem of {dax_mib} MiB does not fit"):
        dax_start_mib(dax_mib, memory_mib)


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
    monkeypatch.setattr(lab_machine, "PATIENCE_S", (0.2, 0.2, 2.0))
    begun, console = tmp_path / "begun", tmp_path / "console"
    script = f"echo >> {begun}; [ $(wc -l < {begun}) = 3 ] || exec sleep 60"
    up = f"echo tracekit-lab: up > {console}; sleep 2.5; echo tracekit-lab: done >> {console}"
    fake_qemu(tmp_path, monkeypatch, f"{script}\n{up}")
    # WHEN it is started, THEN it is once more, and left alone once it is up
    said = lab_machine.said_lines(start(machine(tmp_path), console, limit_s=30))
    assert (list(said), begun.read_text()) == (["up", "done"], "\n" * 3)


def test_what_qemu_complains_about_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, monkeypatch, "echo 'cannot set up guest memory' >&2; exit 1")
    with pytest.raises(TracekitError, match="failed: cannot set up guest memory"):
        start(machine(tmp_path), tmp_path / "console", limit_s=10)
