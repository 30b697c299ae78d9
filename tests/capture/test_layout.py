"""What lies where: mounts and their disks, and partitions by the programs that made them."""

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.replay import disk as disks
from tests.replay.failing import SIZE_BYTES, failing_file
from tracekit.capture.layout import disks_below, find_disk, read_again, read_layout
from tracekit.layout import read_layout as read_file
from tracekit.stack.mounts import Mount, by_device, read_mounts
from tracekit.stack.signatures import Signature, read_signature

TABLE = """\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 21 7:1 / /mnt/my\\040disk rw - ext4 /dev/loop1 rw
31 21 7:1 /inner /srv rw master:2 propagate_from:1 - ext4 /dev/loop1 rw
40 21 0:45 / /data rw - btrfs /dev/null rw,subvol=/
"""


def test_mounts_are_read_with_their_escapes_and_the_first_of_a_device_counts(
    tmp_path: Path,
) -> None:
    (tmp_path / "mountinfo").write_text(TABLE)
    mounts = read_mounts(tmp_path / "mountinfo")
    assert mounts[1] == Mount("7,1", "/mnt/my disk", "ext4", "/dev/loop1", "rw")
    assert mounts[3] == Mount("0,45", "/data", "btrfs", "/dev/null", "rw,subvol=/")
    assert by_device(mounts)["7,1"].point == "/mnt/my disk"


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


def tool(*command: str | Path) -> str:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"needs {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def image(folder: Path, mib: int) -> Path:
    path = folder / "image"
    with path.open("wb") as file:
        file.truncate(mib << 20)
    return path


def from_dumpe2fs(path: Path, key: str) -> str:
    found = re.search(rf"^{key}: +(\S+)$", tool("dumpe2fs", "-h", path), re.MULTILINE)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize("block_bytes", ["1024", "4096"])
def test_ext4_and_where_its_journal_lies(tmp_path: Path, block_bytes: str) -> None:
    # GIVEN an ext4 with its journal inside
    path = image(tmp_path, 64)
    tool("mkfs.ext4", "-q", "-b", block_bytes, path)
    # WHEN its signature is read
    found = read_signature(path)
    # THEN it is what dumpe2fs and debugfs say
    assert found is not None
    assert (found.kind, found.journal_uuid) == ("ext4", None)
    assert found.uuid == from_dumpe2fs(path, "Filesystem UUID")
    sectors = int(block_bytes) // 512
    extents = re.findall(r"\(\d+-\d+\):(\d+)-(\d+)", tool("debugfs", "-R", "stat <8>", path))
    assert extents
    assert list(found.journal_extents) == [
        (int(first) * sectors, (int(last) - int(first) + 1) * sectors) for first, last in extents
    ]


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("ext4", ("mkfs.ext4", "-q", "-O", "^has_journal")),
        ("jbd", ("mkfs.ext4", "-q", "-O", "journal_dev", "-b", "4096")),
        ("swap", ("mkswap",)),
    ],
)
def test_no_journal_an_external_journal_and_swap(
    tmp_path: Path, kind: str, command: tuple[str, ...]
) -> None:
    path = image(tmp_path, 16)
    tool(*command, path)
    if kind == "swap":
        uuid = tool("blkid", "-p", "-s", "UUID", "-o", "value", path).strip()
    else:
        uuid = from_dumpe2fs(path, "Filesystem UUID")
    assert read_signature(path) == Signature(kind, uuid)


def test_a_journal_in_many_pieces(tmp_path: Path) -> None:
    # GIVEN a journal inode whose extent tree has a level below its root, at block 3
    path = image(tmp_path, 1)
    root = b"\x0a\xf3\x01\x00\x04\x00\x01\x00" + bytes(4)
    root += bytes(4) + (3).to_bytes(4, "little") + bytes(4)
    leaf = b"\x0a\xf3\x02\x00\x54\x00\x00\x00" + bytes(4)
    leaf += bytes(4) + (16).to_bytes(2, "little") + bytes(2) + (40).to_bytes(4, "little")
    # the second piece is marked as not yet written, which its length says
    leaf += bytes(4) + (32768 + 8).to_bytes(2, "little") + bytes(2) + (90).to_bytes(4, "little")
    block = bytearray(1024)
    block[0x38:0x3A] = (0xEF53).to_bytes(2, "little")
    block[0x18] = 2
    block[0x5C] = 4
    block[0xFD] = 1
    block[0x10C : 0x10C + len(root)] = root
    with path.open("r+b") as file:
        file.seek(1024)
        file.write(block)
        file.seek(3 * 4096)
        file.write(leaf)
    # THEN the pieces of the lower level are found
    found = read_signature(path)
    assert found is not None
    assert found.journal_extents == ((40 * 8, 16 * 8), (90 * 8, 8 * 8))


@pytest.mark.parametrize("content", [b"", b"x" * 100, bytes(8192)])
def test_nothing_known(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(content)
    assert read_signature(path) is None


@pytest.mark.root
def test_a_disk_is_found_by_a_node_of_another_name(tmp_path: Path) -> None:
    # GIVEN a node as device mapper makes them in /dev/mapper where no udev is
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    with disks.loop(tmp_path / "a") as device:
        node = tmp_path / "volume"
        os.mknod(node, 0o600 | stat.S_IFBLK, device.stat().st_rdev)
        assert find_disk(str(node)) == find_disk(str(device)) == Path("/sys/block") / device.name


def test_what_is_not_known_of_a_disk_that_went_away_is_that_of_before(tmp_path: Path) -> None:
    unread = {"sdq": ["sdq: a", "sdq1: b"], "sdqq": ["sdqq: d"]}
    before = {"devices": [{"device": "sdq"}], "partitions": [], "unread": unread}
    now, gone = read_again(before, [tmp_path / "sdq"], mounts=[])
    assert (now["unread"], gone) == ({"sdq": unread["sdq"]}, ["sdq"])
    # AND whoever reads it has it among all that is not known
    file = tmp_path / "layout.json"
    file.write_text(json.dumps(now | {"devices": []}))
    assert read_file(file).doubts == unread["sdq"]


@pytest.mark.root
def test_a_disk_that_cannot_be_read_keeps_what_was_read_before(tmp_path: Path) -> None:
    # GIVEN a loop device that cannot be read, as between its detachment and its removal
    faults = {"bad_from": 0, "bad_end": SIZE_BYTES, "is_cached": 1}
    with failing_file(tmp_path / "fs", **faults) as bad, disks.loop(bad) as device:
        disk = find_disk(str(device))
        # WHEN it is read, THEN its layout says why, and another reading changes nothing
        now = read_layout([disk], [])
        assert read_again(now, [disk], mounts=[]) == (now, [])
        # AND what was read before it went away is kept
        (entry,) = now["partitions"]
        before = now | {"partitions": [entry | {"role": "swap", "evidence": "a signature"}]}
        assert read_again(before, [disk], mounts=[]) == (before, [disk.name])
    evidence = "no mount, and its content cannot be read: Input/output error"
    assert (entry["role"], entry["evidence"]) == ("unknown", evidence)
    # AND so it is when it has no bytes, and when it is gone
    detached = tmp_path / disk.name
    assert read_again(before, [detached], mounts=[]) == (before, [disk.name])
    detached.mkdir()
    (detached / "size").write_text("0\n")
    assert read_again(before, [detached], mounts=[]) == (before, [disk.name])
