"""Which device carries which mount."""

from __future__ import annotations

import os
from pathlib import Path

from tracekit.capture.layout import Mount, by_device, disks_below, read_mounts

TABLE = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 21 7:1 / /mnt/my\\040disk rw - ext4 /dev/loop1 rw
31 21 7:1 /inner /srv rw master:2 propagate_from:1 - ext4 /dev/loop1 rw
40 21 0:45 / /data rw - btrfs /dev/null rw,subvol=/
"""


def test_mounts_are_read_with_their_escapes(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(TABLE)
    mounts = read_mounts(tmp_path / "mountinfo")
    assert mounts[1] == Mount("7,1", "/mnt/my disk", "ext4", "/dev/loop1")
    assert mounts[3] == Mount("0,45", "/data", "btrfs", "/dev/null")


def test_the_first_mount_of_a_device_counts(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(TABLE)
    assert by_device(read_mounts(tmp_path / "mountinfo"))["7,1"].point == "/mnt/my disk"


def test_a_file_in_memory_is_on_no_disk() -> None:
    assert disks_below(Path("/proc"), read_mounts()) == set()


def test_the_disk_of_a_file_is_a_whole_disk() -> None:
    # GIVEN the disk that the kernel says this file is on
    number = os.stat(__file__).st_dev
    disks = disks_below(Path(__file__), read_mounts())
    # THEN a disk with that number, or with a partition of it, is among those found
    if os.major(number) == 0:
        return  # a file system without a device of its own, as in a container
    folder = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    assert disks & {folder.name, folder.parent.name}
