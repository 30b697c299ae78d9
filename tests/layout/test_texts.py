"""Layouts from texts of another host, and the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import invoke, refused
from tracekit.capture.layout import describe_texts
from tracekit.errors import InputError
from tracekit.layout import read_layout

LSBLK = {
    "blockdevices": [
        {
            "name": "sda",
            "kname": "sda",
            "maj:min": "8:0",
            "size": 1 << 30,
            "type": "disk",
            "log-sec": 512,
            "rota": True,
            "sched": "none",
            "children": [
                {
                    "name": "sda1",
                    "kname": "sda1",
                    "maj:min": "8:1",
                    "size": 64 << 20,
                    "type": "part",
                    "start": 2048,
                    "fstype": "xfs",
                    "uuid": "x-1",
                    "mountpoints": ["/boot"],
                },
                {
                    "name": "sda2",
                    "kname": "sda2",
                    "maj:min": "8:2",
                    "size": 512 << 20,
                    "type": "part",
                    "start": 133120,
                    "fstype": "crypto_LUKS",
                    "uuid": "l-1",
                    "children": [
                        {
                            "name": "luks",
                            "kname": "dm-0",
                            "maj:min": "253:0",
                            "size": 496 << 20,
                            "type": "crypt",
                            "fstype": "LVM2_member",
                            "children": [
                                {
                                    "name": "vg-root",
                                    "kname": "dm-1",
                                    "maj:min": "253:1",
                                    "size": 256 << 20,
                                    "type": "lvm",
                                    "fstype": "ext4",
                                    "uuid": "e-1",
                                    "mountpoints": ["/"],
                                },
                                {
                                    "name": "vg-swap",
                                    "kname": "dm-2",
                                    "maj:min": "253:2",
                                    "size": 64 << 20,
                                    "type": "lvm",
                                    "fstype": "swap",
                                    "mountpoints": ["[SWAP]"],
                                },
                            ],
                        }
                    ],
                },
            ],
        }
    ]
}
SEGMENTS = [
    ("root", "0S", "262144S", "/dev/mapper/luks(0)"),
    ("root", "262144S", "262144S", "/dev/mapper/luks(48)"),
    ("swap", "0S", "131072S", "/dev/mapper/luks(32)"),
]
REPORTS = {
    "pvs": {"pv_name": "/dev/mapper/luks", "pe_start": "2048S", "vg_extent_size": "8192S"},
    "lvs": [
        {"lv_name": name, "vg_name": "vg", "segtype": "linear"}
        | {"seg_start": start, "seg_size": size, "devices": devices}
        for name, start, size, devices in SEGMENTS
    ],
}
TEXTS = {
    "lsblk": json.dumps(LSBLK),
    "pvs": json.dumps({"report": [{"pv": [REPORTS["pvs"]]}]}),
    "lvs": json.dumps({"report": [{"seg": REPORTS["lvs"]}]}),
    "findmnt": json.dumps(
        {
            "filesystems": [
                {"target": "/", "source": "/dev/mapper/vg-root", "fstype": "ext4"}
                | {"children": [{"target": "/boot", "source": "/dev/sda1", "fstype": "xfs"}]}
            ]
        }
    ),
    "swaps": "Filename Type Size Used Priority\n/dev/dm-2 partition 65532 0 -2\n"
    "/swap\\040file file 4092 0 -3\n",
    "filefrag": "Filesystem type is: ef53\nFile size of /swap file is 4194304 (1024 blocks of 4096"
    " bytes)\n ext: logical_offset: physical_offset: length: expected: flags:\n"
    "   0:        0..     511:      16384..     16895:    512:             last,eof\n"
    "   1:      512..    1023:      40000..     40511:    512:      16896: last,eof\n",
    "dumpe2fs": "Filesystem UUID:          e-1\nBlock size:               4096\n"
    "Journal inode:            8\nTotal journal size:       16M\n",
    "vg-root=debugfs": "Inode: 8   Type: regular\nEXTENTS:\n(0-4095):1024-5119\n",
    "xfs_info": "meta-data=/dev/sda1 isize=512    agcount=4, agsize=4096 blks\n"
    "         = crc=1        finobt=1, sparse=1, rmapbt=0\n         = reflink=1 bigtime=0\n"
    "log      =internal log           bsize=4096   blocks=1368, version=2\n",
}
LUKS_AT = 133120 + 32768
ROOT_AT = LUKS_AT + 2048
REGIONS = [
    ("sda1", 2048, 131072, "fs"),
    ("sda1 log", 2048 + 8 * (2 * 4096 + 6), 8 * 1368, "journal"),
    ("sda2", 133120, 1048576, "other"),
    ("luks", LUKS_AT, 1015808, "other"),
    ("vg-root", ROOT_AT, 262144, "fs"),
    ("vg-root", ROOT_AT + 48 * 8192, 262144, "fs"),
    ("vg-root journal", ROOT_AT + 8192, 32768, "journal"),
    ("vg-root:/swap file", ROOT_AT + 16384 * 8, 4096, "swap"),
    # the second piece lies in the second segment of the volume
    ("vg-root:/swap file", ROOT_AT + 48 * 8192 + 40000 * 8 - 262144, 4096, "swap"),
    ("vg-swap", ROOT_AT + 32 * 8192, 131072, "swap"),
]


def words(folder: Path, *left_out: str) -> list[str]:
    """Write the texts; return the options that name them."""
    found = []
    for name, text in TEXTS.items():
        device, equals, file = name.rpartition("=")
        path = folder / file
        path.write_text(text)
        if name not in left_out:
            found += ["--text", f"{device}{equals}{path}"]
    return found


def test_texts_of_another_host_make_a_layout(tmp_path: Path) -> None:
    # WHEN a layout is made of texts of a disk with LVM on LUKS, THEN all is in its place
    output = tmp_path / "layout.json"
    found = invoke("layout", *words(tmp_path), "-o", output)
    assert (found.exit_code, found.stderr) == (0, "")
    layout = read_layout(output)
    assert [
        (entry.name, entry.start_sector, entry.sectors, entry.role) for entry in layout.partitions
    ] == REGIONS
    (device,) = layout.devices
    assert (device.device, device.major, device.size_sectors) == ("sda", 8, 2097152)
    # AND the tree shows what lies on what, with evidence
    lines = [line[:36].rstrip() for line in found.stdout.splitlines()]
    assert lines == [
        "sda",
        "├─sda1",
        "│ └─sda1 log",
        "└─sda2",
        "  └─luks (dm-0, crypt)",
        "    ├─vg-root (dm-1, lvm)",
        "    │ ├─vg-root journal",
        "    │ └─vg-root:/swap file",
        "    └─vg-swap (dm-2, lvm)",
    ]
    assert "from xfs_info, assumed to be where mkfs.xfs puts it" in found.stdout
    assert "4 MiB  swap     swap file /swap file in use" in found.stdout
    # AND a file that is there stays
    refused(invoke("layout", *words(tmp_path), "-o", output))


def test_a_table_of_partitions_may_come_first() -> None:
    # GIVEN a disk whose name has a folder, in texts of two programs
    part = {"name": "cciss/c0d0p1", "maj:min": "104:1", "size": 4 << 20, "type": "part"}
    part |= {"kname": "cciss!c0d0p1", "fstype": "swap", "mountpoints": ["[SWAP]"]}
    disk = {"name": "cciss/c0d0", "maj:min": "104:0", "size": 64 << 20, "type": "disk"}
    disk |= {"kname": "cciss!c0d0"}
    lsblk = json.dumps({"blockdevices": [disk | {"children": [part]}]})
    table = "device: /dev/cciss/c0d0\n\n/dev/cciss/c0d0p1 : start=2048, size=8192\n"
    # THEN in any order the disk has its number and its size, and the partition its role
    for texts in ({"lsblk": lsblk, "sfdisk": table}, {"sfdisk": table, "lsblk": lsblk}):
        layout = describe_texts(texts, ["/dev/./cciss/c0d0"]).layout
        (device,), (entry,) = layout["devices"], layout["partitions"]
        assert (device["device"], device["major"]) == ("cciss/c0d0", 104)
        assert device["size_sectors"] == 131072
        assert (entry["device"], entry["start_sector"], entry["role"]) == (
            "cciss/c0d0",
            2048,
            "swap",
        )


def test_a_second_text_of_fewer_columns_takes_nothing_away() -> None:
    # GIVEN all columns of a disk, and three of them
    few = json.loads(json.dumps(LSBLK))
    (disk,) = few["blockdevices"]
    for one in (disk, *disk["children"]):
        for key in one.keys() - {"name", "size", "fstype", "children"}:
            del one[key]
    disk["children"][1].pop("children")
    # THEN the layout is that of all columns, in any order
    all_columns, few_columns = json.dumps(LSBLK), json.dumps(few)
    expected = describe_texts({"all": all_columns}).layout
    assert [one["partition"] for one in expected["partitions"]][:1] == ["8,1"]
    for texts in ((all_columns, few_columns), (few_columns, all_columns)):
        assert describe_texts(dict(zip("ab", texts, strict=True))).layout == expected


def test_a_volume_is_known_by_its_path(tmp_path: Path) -> None:
    # GIVEN a host without udev: lsblk does not say what is on a volume, blkid does by its path
    volume = {"name": "a--b-c", "kname": "dm-0", "maj:min": "253:0", "size": 16 << 20}
    disk = {"name": "sda", "maj:min": "8:0", "size": 32 << 20, "type": "disk", "children": [volume]}
    texts = {
        "lsblk": json.dumps({"blockdevices": [disk]}),
        "table": "a--b-c: 0 32768 linear 8:0 2048\n",
        "blkid": '/dev/a-b/c: UUID="e-1" BLOCK_SIZE="4096" TYPE="ext4"\n',
        "dumpe2fs": TEXTS["dumpe2fs"],
        "dm-0=debugfs": "Inode: 8   Type: regular\nEXTENTS:\n(0-15):64-79\n",
    }
    options: dict[str, list[str]] = {}
    for name, text in texts.items():
        device, equals, file = name.rpartition("=")
        (tmp_path / file).write_text(text)
        options[file] = ["--text", f"{device}{equals}{tmp_path / file}"]
    # THEN its journal is in its place
    output = tmp_path / "layout.json"
    invoke("layout", *(word for one in options.values() for word in one), "-o", output)
    found = [(one.name, one.start_sector, one.sectors) for one in read_layout(output).partitions]
    assert ("a--b-c journal", 2048 + 512, 128) in found
    # AND without blkid it is said what is missing
    del options["blkid"]
    without = invoke("layout", *(word for one in options.values() for word in one))
    said = "dm-0: its journal is left out: add `blkid`, which says what it is"
    assert said in without.stderr


@pytest.mark.parametrize(
    ("left_out", "doubt"),
    [
        ("vg-root=debugfs", "dm-1 has a journal inside, 16M: `debugfs -R 'stat <8>' /dev/dm-1`"),
        (
            "filefrag",
            "where the swap file /swap file lies is not known: add `filefrag -v '/swap file'`",
        ),
        ("lvs", "where the blocks of vg-root lie on dm-0 is not known: add `dmsetup table`"),
        ("pvs", "where the blocks of vg-swap lie on dm-0 is not known: add `dmsetup table`"),
    ],
)
def test_what_the_texts_leave_open_is_said(left_out: str, doubt: str, tmp_path: Path) -> None:
    found = invoke("layout", *words(tmp_path, left_out))
    assert found.exit_code == 0
    assert doubt in found.stderr


XFS = """meta-data=/dev/sda1              isize=512    agcount={groups}, agsize=131072 blks
         =                       sectsz={sector}   attr=2, projid32bit=1
         =                       crc=1        finobt=1, sparse=1, rmapbt=0
         =                       reflink=1    bigtime=1 inobtcount=1 nrext64=0
data     =                       bsize=4096   blocks=524288, imaxpct=25
         =                       sunit=0      swidth=0 blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=16384, version=2
         =                       sectsz=512   sunit=0 blks, lazy-count=1
realtime =none                   extsz=4096   blocks=0, rtextents=0
"""
SUPER_BLOCK = """blocksize = 4096
agblocks = 131072
agblklog = 17
logstart = 262150
logblocks = 16384
"""
MADE_AT = 2048 + 8 * (2 * 131072 + 6)
"""As mkfs.xfs of xfsprogs 6.1 puts it on 2 GiB."""


@pytest.mark.parametrize(
    ("text", "more", "log", "doubt"),
    [
        (XFS.format(groups=4, sector=512), "", MADE_AT, ""),
        (XFS.format(groups=4, sector=4096), "", MADE_AT, "begins is assumed, some sectors more"),
        # one that has grown, as those of cloud images
        (XFS.format(groups=40, sector=512), "", None, "the log of sda1 (xfs) lies is not known"),
        (XFS.format(groups=40, sector=512), SUPER_BLOCK, MADE_AT, ""),
        (XFS.format(groups=4, sector=4096), SUPER_BLOCK, MADE_AT, ""),
        ("", SUPER_BLOCK, MADE_AT, ""),
    ],
)
def test_the_log_of_an_xfs_is_where_its_super_block_says(
    text: str, more: str, log: int | None, doubt: str, tmp_path: Path
) -> None:
    part = PART | {"fstype": "xfs", "uuid": "x", "size": 4 << 30}
    asked = of_parts(tmp_path, part, more=more)
    if text:
        (tmp_path / "info").write_text(text)
        asked += ["--text", tmp_path / "info"]
    done = invoke(*asked, "-o", tmp_path / "layout.json")
    assert done.exit_code == 0
    found = read_layout(tmp_path / "layout.json").partitions
    assert [one.start_sector for one in found if one.role == "journal"] == ([log] if log else [])
    assert (doubt in done.stderr) if doubt else (done.stderr == "")


def test_the_log_of_an_xfs_may_be_on_a_device_that_no_text_names(tmp_path: Path) -> None:
    text = XFS.format(groups=4, sector=512).replace(
        "log      =internal log ", "log      =external     "
    )
    parts = [PART | {"fstype": "xfs", "uuid": "x"}]
    done = invoke(*of_parts(tmp_path, *parts, more=text))
    assert "on which device the log of sda1 (xfs) is, is not known: add `findmnt" in done.stderr


def test_where_volumes_may_lie_no_role_is_certain(tmp_path: Path) -> None:
    # GIVEN volumes of which nobody says where they lie on what they share
    output = tmp_path / "layout.json"
    assert invoke("layout", *words(tmp_path, "lvs"), "-o", output).exit_code == 0
    found = [one for one in read_layout(output).partitions if "order that is" in str(one.evidence)]
    # AND the layout keeps what it does not know
    assert any("where the blocks of vg-swap lie" in one for one in read_layout(output).doubts)
    # THEN what is of a file system or of swap is neither
    assert {one.role for one in found} == {"unknown"}
    assert len(found) == 2
    assert all("other volumes may lie there" in str(one.evidence) for one in found)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("vg-root: 0 262144 linear 8:99\n", "the line of vg-root is not whole: linear 8:99"),
        ("vg-root: 0 262144 linear 8:99 2048\n", "vg-root lies on 8:99, which lsblk does not"),
    ],
)
def test_a_table_of_another_machine_or_half_of_one_is_told(
    table: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "dm").write_text(table)
    done = invoke("layout", *words(tmp_path, "lvs"), "--text", tmp_path / "dm")
    told = done.stderr if done.exit_code == 0 else str(done.exception)
    assert said in told
    assert (done.exit_code != 0) == ("not whole" in said)


def test_thin_volumes_lie_somewhere_in_their_pool(tmp_path: Path) -> None:
    # GIVEN texts of two thin volumes, whose places only their pool's metadata have
    thin = [
        {"name": f"vg-{name}", "kname": f"dm-{number}", "maj:min": f"253:{number}", "size": 8 << 20}
        | {"type": "lvm", "fstype": kind, "mountpoint": point}
        for number, (name, kind, point) in enumerate([("a", "vfat", "/a"), ("b", "swap", "[SWAP]")])
    ]
    pool = {"name": "vg-pool", "kname": "dm-9", "maj:min": "253:9", "size": 12 << 20}
    disk = DISK | {"children": [pool | {"type": "lvm", "children": thin}]}
    (tmp_path / "lsblk").write_text(json.dumps({"blockdevices": [disk]}))
    (tmp_path / "table").write_text(
        "vg-pool: 0 24576 thin-pool 8:9 8:0 128 0 0\n"
        "vg-a: 0 16384 thin 253:9 1\nvg-b: 0 16384 thin 253:9 2\n"
    )
    words = ("--text", tmp_path / "lsblk", "--text", tmp_path / "table")
    # THEN neither has a role that is certain, and both are told
    found = invoke("layout", *words, "-o", tmp_path / "layout.json")
    entries = read_layout(tmp_path / "layout.json").partitions
    assert {one.role for one in entries} == {"other", "unknown"}
    for name in "ab":
        assert f"where the blocks of vg-{name} lie on vg-pool is not known: what" in found.stderr


DISK = {"name": "sda", "maj:min": "8:0", "size": 8 << 30, "type": "disk"}
PART = {"name": "sda1", "maj:min": "8:1", "size": 64 << 20, "type": "part", "start": 2048}


def of_parts(tmp_path: Path, *parts: dict[str, Any], more: str = "") -> list[str | Path]:
    """Return the words for a layout of a disk with partitions, and of another text."""
    (tmp_path / "lsblk").write_text(json.dumps({"blockdevices": [DISK | {"children": parts}]}))
    (tmp_path / "more").write_text(more)
    words: list[str | Path] = ["layout", "--text", tmp_path / "lsblk"]
    return [*words, "--text", f"sda1={tmp_path / 'more'}"] if more else words


@pytest.mark.parametrize(
    ("part", "doubt"),
    [
        ({"fstype": "ext4", "uuid": "e"}, "whether sda1 (ext4) has a journal inside, and where"),
        ({"fstype": None, "mountpoint": "/"}, "which file system sda1 holds is not known: add"),
        ({"fstype": "vfat", "uuid": "v"}, ""),
        ({"fstype": "xfs", "uuid": "x"}, "the log of sda1 (xfs) lies is not known: add `xfs_info"),
    ],
)
def test_a_journal_that_no_text_tells_of_is_said(
    tmp_path: Path, part: dict[str, Any], doubt: str
) -> None:
    # GIVEN a file system of which only lsblk tells
    found = invoke(*of_parts(tmp_path, PART | part))
    # THEN it is said that its journal's requests would count as the file system's
    assert doubt in found.stderr
    assert bool(found.stderr) == bool(doubt)


def test_what_nobody_looked_at_is_not_said_to_be_empty(tmp_path: Path) -> None:
    found = invoke(*of_parts(tmp_path, PART))
    assert "unknown  no mount, and no text says what it holds" in found.stdout


def test_a_partition_without_a_begin_is_refused(tmp_path: Path) -> None:
    # GIVEN what lsblk -J -b prints, without -O
    part = {name: value for name, value in PART.items() if name != "start"}
    refused(invoke(*of_parts(tmp_path, part)), "where sda1 begins on sda", error=InputError)


def test_the_size_of_blocks_is_that_of_the_journal(tmp_path: Path) -> None:
    # GIVEN an ext4 of 1 KiB blocks, as small ones have, and no text of dumpe2fs
    inode = "Inode: 8   Type: regular\nUser: 0 Size: 16384\nEXTENTS:\n(0-15):64-79\n"
    words = of_parts(tmp_path, PART | {"fstype": "ext4", "uuid": "e"}, more=inode)
    found = invoke(*words, "-o", tmp_path / "layout.json")
    assert found.exit_code == 0
    (journal,) = (
        one for one in read_layout(tmp_path / "layout.json").partitions if one.role == "journal"
    )
    assert (journal.start_sector, journal.sectors) == (2048 + 128, 32)


def test_paths_to_one_disk_are_each_the_disk(tmp_path: Path) -> None:
    # GIVEN a disk by two paths, and what is mounted on their multipath device
    top = {"name": "mpatha", "kname": "dm-0", "maj:min": "253:0", "size": 1 << 30, "type": "mpath"}
    top |= {"fstype": "vfat", "uuid": "v", "mountpoint": "/mnt"}
    paths = [DISK | {"name": name, "children": [top]} for name in ("sda", "sdb")]
    (tmp_path / "lsblk").write_text(json.dumps({"blockdevices": paths}))
    found = invoke("layout", "--text", tmp_path / "lsblk", "-o", tmp_path / "layout.json")
    # THEN each path has it, and nothing is left open
    assert found.stderr == ""
    entries = read_layout(tmp_path / "layout.json").partitions
    assert {one.device for one in entries if one.role == "fs"} == {"sda", "sdb"}


EXAMINED = """/dev/{name}:
          Magic : a92b4efc
        Version : {version}
     Raid Level : {level}
   Raid Devices : 2
 Avail Dev Size : {size} sectors (8.00 MiB 8.39 MB)
{offset}
{moving}
         Layout : {layout}
     Chunk Size : 64K
   Device Role : Active device {slot}
   Array State : AA ('A' == active, '.' == missing, 'R' == replacing)
"""
DETAIL = """/dev/md0:
           Version : {version}
        Raid Level : {level}
      Raid Devices : 2
            Layout : {layout}
        Chunk Size : 64K
    Number   Major   Minor   RaidDevice State
       0       8       16        0      active sync   /dev/sdb
       2       8        0        1      active sync   /dev/sda
"""
MDSTAT = """Personalities : [raid1] [raid0]
md0 : active {level} sda[2] sdb[0]
      8192 blocks{version} [2/2] [UU]
"""
OFFSET = "    Data Offset : 2048 sectors"
BOTH = {"sda": [(0, 16384)], "sdb": [(0, 16384)]}


def moved(places: dict[str, list[tuple[int, int]]]) -> dict[str, list[tuple[int, int]]]:
    return {name: [(2048 + at, count) for at, count in extents] for name, extents in places.items()}


def examined(level: str, sizes: tuple[int, int], **more: str) -> str:
    """Return the text of two members; sdb is the first one."""
    words = {"version": "1.2", "layout": "-", "moving": "", "offset": OFFSET} | more
    return "".join(
        EXAMINED.format(name=name, slot=slot, size=size, level=level, **words)
        for slot, (name, size) in enumerate(zip(("sdb", "sda"), sizes, strict=True))
    )


@pytest.mark.parametrize(
    ("text", "sectors", "places"),
    [
        (MDSTAT.format(level="raid1", version=" super 1.0"), 16384, BOTH),
        (MDSTAT.format(level="raid1", version=""), 16384, BOTH),
        (MDSTAT.format(level="raid1", version=" super 1.2"), 16384, None),
        (MDSTAT.format(level="raid0", version=" super 1.0"), 32768, None),
        (DETAIL.format(level="raid1", version="1.0", layout="-"), 16384, BOTH),
        (DETAIL.format(level="raid5", version="1.0", layout="left-symmetric"), 16384, BOTH),
        (DETAIL.format(level="raid1", version="1.2", layout="-"), 16384, None),
        (DETAIL.format(level="raid0", version="1.0", layout="original"), 32768, None),
        (examined("raid1", (16384, 16384)), 16384, moved(BOTH)),
        (examined("raid5", (16384, 16384)), 16384, moved(BOTH)),
        (
            examined("raid5", (16384, 16384)).replace("Active device 1", "spare"),
            16384,
            moved({"sda": [], "sdb": BOTH["sdb"]}),
        ),
        (examined("raid0", (16384, 16384)), 32768, moved(BOTH)),
        (
            examined("linear", (16384, 8192)),
            24576,
            moved({"sda": [(0, 8192)], "sdb": [(0, 16384)]}),
        ),
        (examined("linear", (16384, 8192)), 20000, None),
        (examined("raid10", (16384, 16384), layout="near=2"), 16384, moved(BOTH)),
        (examined("raid10", (16384, 16384), layout="far=2"), 16384, None),
        (examined("raid5", (16384, 16384), moving="  Delta Devices : 1 (2->3)"), 16384, None),
        ("", 16384, None),
    ],
)
def test_an_array_lies_where_texts_determine_it(
    text: str, sectors: int, places: dict[str, list[tuple[int, int]]] | None, tmp_path: Path
) -> None:
    # GIVEN an ext4 on an array of two disks, and a text of it
    array = {"name": "md0", "maj:min": "9:0", "size": 512 * sectors, "type": "raid"}
    array |= {"fstype": "vfat", "uuid": "v", "mountpoint": "/mnt"}
    (tmp_path / "lsblk").write_text(
        json.dumps({"blockdevices": [DISK | {"name": n, "children": [array]} for n in BOTH]})
    )
    (tmp_path / "md").write_text(text)
    words = ("layout", "--text", tmp_path / "lsblk", "--text", tmp_path / "md")
    found = invoke(*words, "-o", tmp_path / "layout.json")
    assert found.exit_code == 0, found.stderr
    entries = [
        one for one in read_layout(tmp_path / "layout.json").partitions if one.name != one.device
    ]
    # THEN it is where that says, or somewhere on the disks, with what to add
    known = [one for one in entries if "order that is not" not in str(one.evidence)]
    assert {
        name: [(one.start_sector, one.sectors) for one in known if one.device == name]
        for name in BOTH
    } == (places or {"sda": [], "sdb": []})
    said = "where the blocks of md0 lie on sda, sdb is not known: "
    assert (said in found.stderr) == (len(known) < len(entries)) == (places is None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a letter\n", "not a text that is known"),
        ('{"blockdevices": [{"name": "sda", "size": "1G"}]}', "which is rounded"),
        ('{"blockdevices": [{"size": 4096}]}', "not as its program prints it"),
        ('{"blockdevices": []}', "the texts name no disk"),
        ("Inode: 8   Type: regular\nEXTENTS:\n(0-1):2-3\n", "names no device"),
        ("meta-data=/dev/sda1 agcount=4\n", "xfs_info"),
        ("logstart = 5\n", "xfs_db names no device"),
        ('{"blockdevices": [', "not as its program prints it"),
        ("", "the texts name no disk"),
        ("\xe9 no UTF-8", "not a text that is known"),
    ],
)
def test_texts_that_are_none_are_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text(text, encoding="latin-1")
    refused(invoke("layout", "--text", file), message, error=InputError)
