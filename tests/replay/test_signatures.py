"""What a target may hold: signatures at their places, libblkid beside our table, its own images."""

import lzma
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replay.disk import call, image, unchanged
from tests.replay.failing import failing_file
from tests.replay.program import (
    PERIOD_BYTES,
    WRITES,
    Ran,
    Replay,
    command,
    pattern,
    play,
    record,
    run,
    write_plan,
)
from tracekit.plans.block_plan import WRITE

IMAGES = "TRACEKIT_BLKID_IMAGES"
"""Names a folder with tests/ts/blkid/images-* of util-linux, which are not ours to keep here."""
SIZE = 16 << 20
KIB = 1024
ZFS_PAIR = struct.pack(">II", 32, 7) + b"version\0"
SLOT = 128 * KIB
SIGNATURES = [
    *(("swap", page - 10, b"SWAPSPACE2") for page in (4096, 8192, 16384, 32768, 65536)),
    ("xfs", 0, b"XFSB"), ("xfs_log", 5 * 512, b"\xfe\xed\xba\xbe"), ("btrfs", 65600, b"_BHRfS_M"),
    ("lvm", 512, b"LABELONE"), ("lvm", 1536, b"LABELONE"), ("luks", 0, b"LUKS\xba\xbe"),
    ("luks", 16384, b"SKUL\xba\xbe"), ("luks", 4 << 20, b"SKUL\xba\xbe"),
    ("gpt", 512, b"EFI PART"), ("gpt", -512, b"EFI PART"), ("mbr", 510, b"\x55\xaa"),
    ("jfs", 32768, b"JFS1"), ("reiserfs", 65588, b"ReIsEr2Fs"), ("apfs", 32, b"NXSB"),
    ("udf", 32769, b"BEA01"), ("bluestore", 0, b"bluestore block device"),
    ("stratis", 4612, b"!Stra0tis\x86\xff\x02^Arh"), ("vmdk", 0, b"KDMV"),
    ("md", 0, b"\xfc\x4e\x2b\xa9"), ("md", 4096, b"\xfc\x4e\x2b\xa9"),
    ("md", -8192, b"\xfc\x4e\x2b\xa9"), ("md", -65536, b"\xfc\x4e\x2b\xa9"),
    # A young pool has its configuration and few transactions; all labels but one may be gone.
    *(("zfs", label + 16 * KIB + 16, ZFS_PAIR) for label in (0, SLOT * 2, -SLOT * 4, -SLOT * 2)),
    ("zfs", SLOT, struct.pack("<Q", 0xBAB10C)),
    ("zfs", SLOT + 77 * KIB, struct.pack("<Q", 0xBAB10C)),
    ("zfs", SLOT * 2 - KIB, struct.pack(">Q", 0xBAB10C)),
    ("zfs", -SLOT * 2 + SLOT + 5 * KIB, struct.pack("<Q", 0xBAB10C)),
    *(("drbd", -4096 + 60, b"\x83\x74\x02" + bytes([last])) for last in b"\x6b\x6c\x6d"),
    ("vmfs", 1 << 20, b"\x0d\xd0\x01\xc0"), ("vmfs", 2 << 20, b"\x5e\xf1\xab\x2f"),
    *(
        ("ufs", block * KIB + 1372, struct.pack(f"{order}I", magic))
        for block in (0, 8, 64, 256)
        for magic, order in ((0x00011954, "<"), (0x19540119, ">"), (0x05231994, "<"))
    ),
    ("hfs", 1024, b"BD"), ("hfsplus", 1024, b"H+\0\x04"), ("vxfs", 1024, b"\xf5\xfc\x01\xa5"),
    ("vxfs", 8192, b"\xa5\x01\xfc\xf5"), ("zonefs", 0, b"SFOZ"), ("ubi", 0, b"UBI#"),
    ("ubifs", 0, b"\x31\x18\x10\x06"), ("minix", 1040, b"\x13\x8f"),
    ("cramfs", 0, b"\x28\xcd\x3d\x45"),
    ("ddf", -512, b"\xde\x11" * 2), ("isw", -1024, b"Intel Raid ISM Cfg Sig. 1.2"),
    ("adaptec_raid", -512, b"\x37\xfc\x4d\x1e"), ("nvidia_raid", -1024, b"NVIDIA  "),
    *(("promise_fasttrack_raid", -512 * n, b"Promise Technology, Inc.") for n in (16, 63, 3087)),
    ("silicon_medley_raid", -512 + 96, b"\0\0\0\x2f"), ("via_raid", -512, b"\x55\xaa"),
    ("lsi_mega_raid", -512, b"$XIDE$"), ("jmicron_raid", -512, b"JM"),
    ("hpt45x_raid", -11 * 512, b"\xf3\x16\x78\x5a"),
    ("hpt37x_raid", 9 * 512 + 32, b"\xf0\x16\x78\x5a"),
    ("sun", 508, b"\xda\xbe"), ("sgi", 0, b"\x0b\xe5\xa9\x41"), ("bsd", 512, b"\x57\x45\x56\x82"),
    ("atari", 454, b"\x01RAW"), ("atari", 454 + 36, b"\x81GEM"), ("mac", 0, b"ER"),
    ("dasd", 8192, "VOL1".encode("cp037")), ("dasd", 1024, "LNX1".encode("cp037")),
    ("bcachefs", 4120, bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef")),
]  # fmt: skip
"""Names, places (from the end where negative) and bytes, as the formats' documentation has them."""
Signature = tuple[str, int, bytes]


def _overwrite(path: Path, signatures: list[Signature]) -> None:
    with path.open("r+b") as file:
        for _, offset, magic in signatures:
            file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
            file.write(magic)


def _rounds() -> Iterator[list[Signature]]:
    """Yield sets in which each name comes once and no bytes are in the way of others."""
    left = list(SIGNATURES)
    while left:
        chosen: list[Signature] = []
        for signature in left:
            name, offset, magic = signature
            start = offset % SIZE
            is_apart = all(
                other != name
                and not (start < at % SIZE + len(bytes_) and at % SIZE < start + len(magic))
                for other, at, bytes_ in chosen
            )
            # A log of XFS is not shown beside its file system.
            if is_apart and not (
                name.startswith("xfs") and any("xfs" in other[0] for other in chosen)
            ):
                chosen.append(signature)
        yield chosen
        left = [signature for signature in left if signature not in chosen]


ROUNDS = list(_rounds())


@pytest.mark.parametrize(
    "signatures", ROUNDS, ids=lambda chosen: f"{chosen[0][0]}+{len(chosen) - 1}"
)
def test_signatures_refuse(replay: Replay, tmp_path: Path, signatures: list[Signature]) -> None:
    precious = image(tmp_path / "precious")
    _overwrite(precious, signatures)
    names = {name for name, _, _ in signatures}
    with unchanged(precious):
        ran = replay(WRITES, confirmed=precious)
        ran.refused("it holds ")
        held = ran.messages.partition("it holds ")[2].partition(";")[0].split(" and ")
        assert names - {*held} == set()
        # libblkid may say more of several at once, our table says no more.
        assert {*held} - names <= {"ambivalent"}
        # AND all but one of them named is not enough
        last = held[-1]
        named = [name for name in held if name != last]
        replay(WRITES, confirmed=precious, overwrite_signature=named).refused(f"it holds {last};")
    assert replay(WRITES, confirmed=precious, overwrite_signature=held).code == 0


def test_what_a_replay_writes_is_no_signature(replay: Replay, tmp_path: Path) -> None:
    # GIVEN a target whose every byte a replay wrote
    target = tmp_path / "full"
    target.write_bytes(pattern(0, PERIOD_BYTES).tobytes() * 16)
    # THEN it can be written again
    assert replay(WRITES, confirmed=target).counts["done"] == 3


def _without_blkid(plan: Path, target: Path) -> Ran:
    """Replay where blkid(8) cannot be started."""
    script = 'mount --bind /dev/null "$(readlink -f /usr/sbin/blkid)" && exec "$0" "$@"'
    return play(plan, ["unshare", "--mount", "sh", "-c", script, *command(plan, confirmed=target)])


def test_libblkid_is_asked_where_it_is(replay: Replay, tmp_path: Path) -> None:
    # GIVEN a file whose two superblocks exclude each other for libblkid
    target = image(tmp_path / "t")
    call("mkfs.ext4", "-q", "-F", target)
    _overwrite(target, [("squashfs", 0, b"hsqs"), ("", 28, struct.pack("<HH", 4, 0))])
    with unchanged(target):
        replay(WRITES, confirmed=target).refused("it holds ext and squashfs and ambivalent;")
    # AND it is asked again for what was named
    names = ["ext", "squashfs", "ambivalent"]
    assert replay(WRITES, confirmed=target, overwrite_signature=names).target["is_probed"]


@pytest.mark.root
def test_without_libblkid_the_table_does(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", WRITES)
    target = image(tmp_path / "t")
    ran = _without_blkid(plan, target)
    assert (ran.code, ran.target["is_probed"]) == (0, False)
    call("mkfs.ext4", "-q", "-F", image(target))
    with unchanged(target):
        _without_blkid(plan, target).refused("it holds ext;")


FAILED = "blkid(8) failed on it"


@pytest.mark.root
@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("exit 1", FAILED),
        ("echo cannot read it >&2; exit 2", FAILED),
        ("echo TYPE=ext4; kill -9 $$", FAILED),
        ("echo cannot decide >&2; exit 8", "it holds ambivalent;"),
        ("echo TYPE=crypto_LUKS; echo PTTYPE=dos", "it holds luks and mbr;"),
        ("echo LABEL=TYPE=xfs; echo TYPE=LVM2_member", "it holds lvm;"),
        ("echo 'TYPE=New FS+'", "it holds new_fs_;"),
    ],
)
def test_what_libblkid_says_or_cannot_say_refuses(tmp_path: Path, says: str, words: str) -> None:
    # GIVEN a blkid(8) that says what our table does not, or fails
    plan, target = write_plan(tmp_path / "a.plan", WRITES), image(tmp_path / "t")
    program = tmp_path / "blkid"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    script = 'mount --bind "$0" "$(readlink -f /usr/sbin/blkid)" && exec "$@"'
    line = ["unshare", "--mount", "sh", "-c", script, str(program)]
    with unchanged(target):
        play(plan, [*line, *command(plan, confirmed=target)]).refused(words)


def test_what_ends_before_its_size_is_refused(replay: Replay, tmp_path: Path) -> None:
    # GIVEN a file that became shorter than it was when its size was asked for
    with failing_file(tmp_path / "place", ends_bytes=1 << 19) as target:
        replay(WRITES, confirmed=target).refused("cannot look for signatures: No data available")


def test_all_of_libblkids_own_images_are_refused(tmp_path: Path) -> None:
    folder = os.environ.get(IMAGES)
    if not folder:
        pytest.skip(f"set {IMAGES} to tests/ts/blkid of the sources of util-linux")
    packed = sorted(Path(folder).rglob("*.img.xz"))
    assert len(packed) >= 138
    plan = write_plan(tmp_path / "a.plan", [record(WRITE, 0, 1)])
    written = []
    for path in packed:
        target = tmp_path / "image"
        # Mostly zeroes: what is not zero alone takes space.
        target.write_bytes(lzma.decompress(path.read_bytes()))
        ways = [run(plan, confirmed=target, dry_run=True)]
        ways += [_without_blkid(plan, target)] if os.geteuid() == 0 else []
        written += [path.name for ran in ways if "it holds " not in ran.messages]
    assert written == []
