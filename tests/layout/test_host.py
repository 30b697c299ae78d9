"""The stack of this host: loop disks, against programs that know where things lie on them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.capture.machine import processes
from tests.replay import disk as disks
from tests.replay.failing import failing_file
from tracekit.capture.layout import disks_below
from tracekit.stack.devices import Stack, entries_of
from tracekit.stack.host import devices_of, read_host
from tracekit.stack.mounts import Mount, read_mounts

# It reads all disks, whose requests those that capture them would find.
pytestmark = [pytest.mark.root, pytest.mark.xdist_group("kernel")]
MIB = 1 << 20


def tool(*command: str | Path) -> str:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"needs {command[0]}")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the name of a loop disk with an ext4, and where that is mounted."""
    folder = tmp_path_factory.mktemp("disk")
    point = folder / "fs"
    point.mkdir()
    with (folder / "image").open("wb") as file:
        file.truncate(96 * MIB)
    with disks.loop(folder / "image") as device:
        tool("mkfs.ext4", "-q", "-b", "4096", str(device))
        tool("mount", str(device), point)
        try:
            yield Path(device).name, point
        finally:
            tool("umount", point)


def filled(path: Path, mib: int) -> Path:
    with path.open("ab") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    return path


def sectors_by_filefrag(path: Path, behind: int = 0) -> set[int]:
    """Return the sectors of the disk that hold a file from a sector of it on."""
    line = r"^ *\d+: +(\d+)\.\. *\d+: +(\d+)\.\. *(\d+):"
    found = re.findall(line, tool("filefrag", "-v", "-b512", path), re.MULTILINE)
    rows = (map(int, row) for row in found)
    return {
        first + at
        for logical, first, last in rows
        for at in range(last - first + 1)
        if logical + at >= behind
    }


def sectors(runs: list[tuple[int, int]]) -> set[int]:
    return {sector for first, count in runs for sector in range(first, first + count)}


def places(stack: Stack, disk: str, role: str) -> list[tuple[int, int]]:
    entries = entries_of(stack, [disk])
    return [(one["start_sector"], one["sectors"]) for one in entries if one["role"] == role]


def test_a_swap_file_lies_where_filefrag_says(mounted: tuple[str, Path], tmp_path: Path) -> None:
    # GIVEN a swap file that grew by turns with another, and the line of it in /proc/swaps
    disk, point = mounted
    swap = point / "swap file"
    for _ in range(7):
        filled(point / "beside", 1)
        filled(swap, 1)
    table = tmp_path / "swaps"
    table.write_text(f"Filename Type Size Used Priority\n{point}/swap\\040file file 7164 0 -2\n")
    # WHEN the stack over the disk is read
    stack, contents = read_host([disk], read_mounts(), swaps=table)
    # THEN the file system is fs but for the swap file and the journal
    found = places(stack, disk, "swap")
    assert len(found) > 1
    assert sum(count for _, count in found) == 7 * MIB // 512
    assert sectors(found) == sectors_by_filefrag(swap)
    assert [start for start, _ in places(stack, disk, "fs")] == [0]
    assert places(stack, disk, "journal")
    assert (contents.unread, contents.doubts) == ({}, [])
    # AND without the line it is a file like others
    stack, _ = read_host([disk], read_mounts(), swaps=tmp_path / "none")
    assert places(stack, disk, "swap") == []


def test_a_swap_area_in_a_file_of_a_loop_device_is_followed_down(mounted: tuple[str, Path]) -> None:
    # GIVEN a file with a swap area, behind a loop device that leaves its first MiB out
    disk, point = mounted
    file = filled(point / "inner", 4)
    with file.open("r+b") as opened:
        opened.seek(MIB + 4086)
        opened.write(b"SWAPSPACE2")
        os.fsync(opened.fileno())
    text = tool("losetup", "--find", "--show", "--offset", str(MIB), file)
    try:
        stack, _ = read_host([disk], read_mounts())
        found = places(stack, disk, "swap")
    finally:
        tool("losetup", "-d", text.strip())
    # THEN its sectors are those of the file from the second MiB on
    assert sum(count for _, count in found) == 3 * MIB // 512
    assert sectors(found) == sectors_by_filefrag(file, behind=MIB // 512)


def test_an_overlay_writes_to_the_disk_of_its_upper_folder(
    mounted: tuple[str, Path], tmp_path: Path
) -> None:
    disk, point = mounted
    folders = [point / name for name in ("upper", "work")]
    lower, union = tmp_path / "lower", tmp_path / "union"
    for folder in (*folders, lower, union):
        folder.mkdir()
    options = f"lowerdir={lower},upperdir={folders[0]},workdir={folders[1]}"
    try:
        tool("mount", "-t", "overlay", "overlay", "-o", options, union)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"needs overlayfs: {error.stderr}")
    try:
        assert disk in disks_below(union, read_mounts())
    finally:
        tool("umount", union)


@pytest.mark.alone  # a replay cannot know whether such a loop device is its target
def test_a_server_that_hangs_stops_nobody_else(tmp_path: Path) -> None:
    # GIVEN a loop device over a file whose server has stopped
    with failing_file(tmp_path / "fs") as file, disks.loop(file):
        (server,) = processes(sys.executable, "-m", "tests.replay.failing", str(tmp_path / "fs"))
        os.kill(server, signal.SIGSTOP)
        time.sleep(1.5)  # for so long the kernel knows the file without it
        try:
            # THEN the devices of this host can be listed all the same
            code = "from tracekit.stack import host, mounts; host.read_nodes(mounts.read_mounts())"
            subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
        finally:
            os.kill(server, signal.SIGCONT)


MAKE = {
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-d", "single", "-m", "single", "{0}", "{1}"),
    "ext4 journal": ("mkfs.ext4", "-q", "-b", "4096", "-J", "device={1}", "{0}"),
    "xfs log": ("mkfs.xfs", "-q", "-f", "-l", "logdev={1},size=64m", "{0}"),
}


@pytest.mark.parametrize("kind", MAKE)
def test_a_file_is_on_each_disk_that_its_file_system_writes_to(kind: str, tmp_path: Path) -> None:
    if shutil.which(MAKE[kind][0]) is None:
        pytest.skip(f"needs {MAKE[kind][0]}")
    # GIVEN a file system with a second disk: for more data, for its journal or for its log
    with ExitStack() as undo:
        images = [disks.image(tmp_path / f"{name}.img", mib=400) for name in "ab"]
        both = [str(undo.enter_context(disks.loop(one))) for one in images]
        if kind == "ext4 journal":
            tool("mkfs.ext4", "-q", "-b", "4096", "-O", "journal_dev", both[1])
        tool(*(word.format(*both) for word in MAKE[kind]))
        point = tmp_path / "point"
        point.mkdir()
        options = ("-o", f"logdev={both[1]}") if kind == "xfs log" else ()
        tool("mount", *options, both[0], point)
        try:
            # THEN what is written there comes to both
            found = disks_below(point, read_mounts())
        finally:
            tool("umount", point)
    assert {Path(disk).name for disk in both} <= found


@pytest.mark.parametrize("log", ["internal", "external"])
def test_the_log_of_an_xfs(log: str, tmp_path: Path) -> None:
    # GIVEN an XFS with its log inside, or on a disk beside it
    paths = [tmp_path / name for name in ("fs", "log")]
    for path in paths:
        with path.open("wb") as file:
            file.truncate(320 * MIB)
    with disks.loop(paths[0]) as fs, disks.loop(paths[1]) as other:
        where = ["-l", f"logdev={other},size=64m"] if log == "external" else []
        tool("mkfs.xfs", "-q", *where, str(fs))
        names = [Path(device).name for device in (fs, other)]
        stack, _ = read_host(names, read_mounts())
        found = [places(stack, name, "journal") for name in names]
        if log == "external":
            assert found == [[], [(0, 320 * MIB // 512)]]
            return
        # THEN it is where xfs_db says
        text = tool("xfs_db", "-r", "-c", "sb 0", "-c", "print logstart logblocks", str(fs))
        start, blocks = (int(number) for number in re.findall(r"= (\d+)", text))
        command = f"convert fsblock {start} daddr"
        converted = tool("xfs_db", "-r", "-c", command, str(fs))
        first = re.search(r"\((\d+)\)", converted)
        assert first is not None
        assert found == [[(int(first[1]), blocks * 8)], []]


@pytest.mark.parametrize("kind", ["fuse", "fuse.sshfs", "nfs4", "9p"])
def test_files_that_others_serve_are_not_looked_at(kind: str) -> None:
    # GIVEN a file that its server would have to answer for: this one is not there
    mounts = [Mount("0,1", "/", "ext4", "/dev/sda1"), Mount("0,70", "/far", kind, "host:")]
    # THEN it is on no device of this machine, and nobody was asked; other files are looked at
    assert devices_of(Path("/far/disk.img"), {}, mounts=mounts) == []
    with pytest.raises(FileNotFoundError):
        devices_of(Path("/farther/disk.img"), {}, mounts=mounts)
