"""ZFS pools: by `zpool status`, and by labels that blkid reads as well."""

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import invoke
from tracekit.layout import read_layout
from tracekit.stack.signatures import read_signature
from tracekit.stack.zfs import CACHE, DATA, LOG, SPECIAL, Label, PoolPart, read_label, read_status

# As zpool status of OpenZFS 2.2 prints it.
STATUS = """  pool: tank
 state: ONLINE
  scan: scrub repaired 0B in 00:00:01 with 0 errors on Sun Nov  8 00:24:02 2026
config:

\tNAME                STATE     READ WRITE CKSUM
\ttank                ONLINE       0     0     0
\t  mirror-0          ONLINE       0     0     0
\t    /dev/sda1       ONLINE       0     0     0
\t    /dev/sdb1       ONLINE       0     0     0
\tspecial\t
\t  /dev/sdc1         ONLINE       0     0     0
\tlogs\t
\t  mirror-2          ONLINE       0     0     0
\t    /dev/sdc2       ONLINE       0     0     0
\tcache
\t  /dev/sdc3         ONLINE       0     0     0
\tspares
\t  /dev/sdd          AVAIL

errors: No known data errors

  pool: the other one
 state: ONLINE
config:

\tNAME         STATE     READ WRITE CKSUM
\tthe other one  ONLINE       0     0     0
\t  /dev/sde   ONLINE       0     0     0
"""


def test_the_devices_of_a_status_have_their_part() -> None:
    found = {name: (part.pool, part.kind) for name, part in read_status(STATUS)}
    assert found == {
        "/dev/sda1": ("tank", DATA),
        "/dev/sdb1": ("tank", DATA),
        "/dev/sdc1": ("tank", SPECIAL),
        "/dev/sdc2": ("tank", LOG),
        "/dev/sdc3": ("tank", CACHE),
        "/dev/sdd": ("tank", CACHE),
        "/dev/sde": ("the other one", DATA),
    }


def disk(name: str, *parts: str) -> dict[str, Any]:
    number = 16 * (ord(name[2]) - ord("a"))
    known = {"fstype": "zfs_member", "label": "tank", "uuid": "7"}
    children = [
        {"name": f"{name}{part}", "maj:min": f"8:{number + int(part)}", "size": 1 << 28}
        | {"type": "part", "start": 2048 + (int(part) - 1) * (1 << 19), **known}
        for part in parts
    ]
    size = {"name": name, "maj:min": f"8:{number}", "size": 1 << 30, "type": "disk"}
    return {**size, "children": children} if parts else {**size, **known}


@pytest.mark.parametrize("has_status", [True, False])
def test_a_pool_of_another_host_has_its_log(tmp_path: Path, has_status: bool) -> None:
    disks = [disk("sda", "1"), disk("sdb", "1"), disk("sdc", "1", "2", "3"), disk("sdd")]
    texts = {
        "lsblk": json.dumps({"blockdevices": [*disks, disk("sde")]}),
        "findmnt": json.dumps(
            {"filesystems": [{"target": "/tank", "source": "tank/home", "fstype": "zfs"}]}
        ),
        **({"zpool": STATUS} if has_status else {}),
    }
    words: list[str | Path] = []
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        words += ["--text", tmp_path / name]
    done = invoke("layout", *words, "-o", tmp_path / "layout.json")
    assert done.exit_code == 0, done.output
    layout = read_layout(tmp_path / "layout.json").partitions
    found = {str(one.name): (one.role, one.filesystem, one.mount) for one in layout}
    # THEN each device is what it is of the pool, or it is said what is missing
    if has_status:
        assert done.stderr == ""
        assert found["sda1"] == found["sdc1"] == ("fs", "zfs", "/tank")
        assert found["sdc2"] == ("journal", "zfs", "/tank")
        assert found["sdc3"] == found["sdd"] == ("other", "zfs", "/tank")
        assert found["sde"] == ("fs", "zfs", None)
    else:
        assert found["sdc2"][0] == "unknown"
        said = "which part of a ZFS pool sdc2 is, is not known: add `zpool status -LP`"
        assert said in done.stderr


def xdr(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data + bytes(-len(data) % 4)


def pair(name: str, value: Any) -> bytes:
    kinds = {int: 8, str: 9, dict: 19}
    body = xdr(name) + struct.pack(">ii", kinds[type(value)], 1)
    if isinstance(value, int):
        body += struct.pack(">Q", value)
    elif isinstance(value, str):
        body += xdr(value)
    else:
        body += pairs(value)
    return struct.pack(">ii", len(body) + 8, len(body) + 8) + body


def pairs(values: dict[str, Any]) -> bytes:
    body = b"".join(pair(name, value) for name, value in values.items())
    return struct.pack(">ii", 0, 1) + body + bytes(8)


def labelled(file: Path, values: dict[str, Any]) -> Path:
    """Write a disk of 64 MiB with the four labels of a device, and their uberblocks."""
    label = bytearray(256 << 10)
    content = b"\1\1\0\0" + pairs(values)
    label[16 << 10 : (16 << 10) + len(content)] = content
    for place in range(128):
        at = (128 << 10) + place * 1024
        label[at : at + 40] = struct.pack("<QQQQQ", 0x00BAB10C, 5000, 9 + place, 7, 1_700_000_000)
    size = 64 << 20
    with file.open("wb") as out:
        out.truncate(size)
        for at in (0, 256 << 10, size - (512 << 10), size - (256 << 10)):
            out.seek(at)
            out.write(label)
    return file


MEMBER = {"version": 5000, "name": "tank", "state": 0, "txg": 4, "pool_guid": 1234567890123456789}


@pytest.mark.parametrize(
    ("tree", "kind"),
    [
        ({"type": "disk", "id": 0}, DATA),
        ({"type": "disk", "is_log": 1}, LOG),
        ({"type": "disk", "alloc_bias": "log"}, LOG),
        ({"type": "disk", "alloc_bias": "special"}, SPECIAL),
        ({"type": "disk", "alloc_bias": "dedup"}, SPECIAL),
    ],
)
def test_a_label_says_what_the_device_is(tree: dict[str, Any], kind: str, tmp_path: Path) -> None:
    file = labelled(tmp_path / "disk", {**MEMBER, "guid": 42, "vdev_tree": tree})
    found = read_signature(file)
    assert found is not None
    assert (found.kind, found.uuid) == ("zfs_member", str(MEMBER["pool_guid"]))
    assert found.pool_part == PoolPart("tank", kind)
    # AND blkid reads the same pool in it
    if blkid := shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin"):
        words = [blkid, "-p", "-o", "export", str(file)]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        lines = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
        assert (lines["TYPE"], lines["LABEL"]) == ("zfs_member", "tank")
        assert (lines["UUID"], lines["UUID_SUB"]) == (found.uuid, "42")


def test_what_is_no_label_is_none(tmp_path: Path) -> None:
    file = labelled(tmp_path / "disk", {"version": 5000, "state": 4, "guid": 9})
    first = file.read_bytes()[: 128 << 10]
    assert read_label(first) == Label("", 0, CACHE)
    # AND cut, or with sizes that lead out of it or nowhere, it is none
    assert read_label(first[: 100 << 10]) is None
    for at in range(16 << 10, (16 << 10) + 64):
        for byte in (0, 0x7F, 0xFF):
            damaged = bytearray(first)
            damaged[at] = byte
            assert read_label(bytes(damaged)) in (None, Label("", 0, CACHE))
