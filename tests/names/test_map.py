"""The map of files to blocks: known names, refusals, and what lies on the devices of a btrfs."""

import shutil
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.recipes.three_roles import loop_disk, mounted, run
from tracekit.capture.names import look_before
from tracekit.errors import InputError
from tracekit.metadata import Device
from tracekit.stack.btrfs import with_lasting
from tracekit.stack.devices import Node, Piece, Stack
from tracekit.stack.file_map import given_table, join_walks, read_map, table_of, with_trace_times
from tracekit.stack.file_walk import FileSystem, Walk, walk
from tracekit.stack.mounts import read_mounts

BEGAN_NS = 10**18
BEFORE_NS, AFTER_NS = BEGAN_NS - 10**9, BEGAN_NS + 10**9
DISK = Stack([Node("sda", "8,0", 1 << 20)])
SYSTEMS = [FileSystem("sda", "8,0", ("/a",))]
File = tuple[str, int, int, int, Sequence[tuple[int, int, int]]]
"""Name, inode, birth, change, and extents: place in the file, first sector and sectors."""


def walked(*files: File, is_cut: bool = False) -> Walk:
    found = Walk(began_ns=BEGAN_NS, is_cut=is_cut, folders=["/a"])
    for number, (name, inode, born_ns, changed_ns, extents) in enumerate(files):
        found.folder.append(0)
        found.names += name.encode()
        found.name_ends.append(len(found.names))
        found.system.append(0)
        found.inode.append(inode)
        found.born_ns.append(born_ns)
        found.changed_ns.append(changed_ns)
        for extent in extents:
            found.extents.extend((number, *extent))
    return found


def rows_of(before: Walk | None, after: Walk, stack: Stack = DISK) -> list[tuple[Any, ...]]:
    rows = join_walks(before, after, systems=SYSTEMS)
    table = table_of(stack, SYSTEMS, rows=rows, paths=after.paths(), disks=["sda"])
    columns = ("first_sector", "sectors", "path", "file_sector", "from_ns", "state")
    return [tuple(row[name] for name in columns) for row in table.to_pylist()]


OLD = ("old", 1, BEFORE_NS, BEFORE_NS, [(0, 80, 16)])


def test_names_are_of_files_that_were_there_all_the_time() -> None:
    # GIVEN a file that is not changed, one that is written and grows, and one that is made
    before = walked(OLD, ("data", 2, BEFORE_NS, BEFORE_NS, [(0, 160, 8)]))
    data = ("data", 2, BEFORE_NS, AFTER_NS, [(0, 160, 8), (8, 240, 8)])
    after = walked(OLD, data, ("made", 3, AFTER_NS, AFTER_NS, [(0, 320, 8)]))
    # THEN each has its name, the last one from when it was made
    assert rows_of(before, after) == [
        (80, 16, "/a/old", 0, None, "same"),
        (160, 8, "/a/data", 0, None, "same"),
        (240, 8, "/a/data", 8, None, "grown"),
        (320, 8, "/a/made", 0, AFTER_NS, "new"),
    ]
    # AND without a look before, what changed is not known
    assert [(row[0], row[2], row[5]) for row in rows_of(None, after)] == [
        (80, "/a/old", "same"),
        (160, None, "changed"),
        (240, None, "changed"),
        (320, "/a/made", "new"),
    ]


@pytest.mark.parametrize(
    ("then", "now", "state"),
    [
        (("x", 2, BEFORE_NS, BEFORE_NS, [(0, 160, 8)]), None, "deleted"),
        (
            ("x", 2, BEFORE_NS, BEFORE_NS, [(0, 160, 8)]),
            ("y", 2, BEFORE_NS, AFTER_NS, [(0, 160, 8)]),
            "renamed",
        ),
        (("x", 2, BEFORE_NS, BEFORE_NS, [(0, 160, 8)]), ("x", 2, BEFORE_NS, AFTER_NS, []), "moved"),
        # A file of the same inode that was made later is another one.
        (
            ("x", 2, BEFORE_NS, BEFORE_NS, [(0, 160, 8)]),
            ("x", 2, AFTER_NS, AFTER_NS, [(0, 160, 8)]),
            "reused",
        ),
    ],
    ids=["deleted", "renamed", "moved", "reused"],
)
def test_what_changed_hands_is_not_known(then: File, now: File | None, state: str) -> None:
    before, after = walked(OLD, then), walked(OLD, *([now] if now else []))
    found = rows_of(before, after)
    assert found == [(80, 16, "/a/old", 0, None, "same"), (160, 8, None, None, None, state)]
    # AND where not all files were looked at again, one that is not there may be
    if state == "deleted":
        after.is_cut = True
        assert rows_of(before, after)[1][5] == "unseen"


def test_what_several_files_have_is_not_known() -> None:
    one = ("x", 2, BEFORE_NS, BEFORE_NS, [(0, 160, 16)])
    clone = ("y", 3, BEFORE_NS, BEFORE_NS, [(0, 168, 16)])
    assert rows_of(walked(one, clone), walked(one, clone)) == [
        (160, 8, "/a/x", 0, None, "same"),
        (168, 8, None, None, None, "shared"),
        (176, 8, "/a/y", 8, None, "same"),
    ]


def test_names_go_down_the_stack_of_devices() -> None:
    # GIVEN a partition over two pieces of a disk, the second in front of the first
    part = Node("sda1", "8,1", 200, "part")
    part.pieces = [Piece(0, 100, "sda", 1000), Piece(100, 100, "sda", 0)]
    # AND one striped over two disks in chunks of 8 sectors, of which the traced one is the second
    striped = Node("dm-0", "252,0", 200, "dm")
    striped.pieces = [
        Piece(0, 200, name, 64, 8, 2, place) for place, name in enumerate(("sdb", "sda"))
    ]
    file = ("x", 1, BEFORE_NS, BEFORE_NS, [(0, 92, 20)])
    for node, expected in (
        (part, [(0, 12, "/a/x", 8), (1092, 8, "/a/x", 0)]),
        # Sectors 92 to 95 and 104 to 111 of the volume are chunks 11 and 13.
        (striped, [(64 + 44, 4, "/a/x", 0), (64 + 48, 8, "/a/x", 12)]),
    ):
        stack = Stack([Node("sda", "8,0", 1 << 20), Node("sdb", "8,16", 1 << 20), node])
        systems = [FileSystem(node.name, node.numbers, ("/a",))]
        walk = walked(file)
        rows = join_walks(walk, walk, systems=systems)
        table = table_of(stack, systems, rows=rows, paths=walk.paths(), disks=["sda"])
        keys = ("first_sector", "sectors", "path", "file_sector")
        assert [tuple(row[key] for key in keys) for row in table.to_pylist()] == expected


def test_against_a_list_of_sectors() -> None:
    # GIVEN files at random, that are deleted, made, cut and grow at random
    rng = np.random.default_rng(3)
    for _ in range(30):
        first = rng.permutation(64)[:24]
        old = {int(at): int(rng.integers(1, 6)) for at in first[:16]}
        new = {at: (inode if rng.random() < 0.6 else inode + 50) for at, inode in old.items()}
        new |= {int(at): int(rng.integers(1, 6)) for at in first[16:]}
        new = {at: inode for at, inode in new.items() if rng.random() < 0.8}
        before, after = (_of_blocks(one) for one in (old, new))
        named = {}
        for start, sectors, path, place, _, state in rows_of(before, after):
            for block in range(start // 8, (start + sectors) // 8):
                named[block] = (path, state)
                if path:
                    assert place is not None
        # THEN each block has the name of its file, if nobody else had it before
        for block in {*old, *new}:
            inode, was = new.get(block), old.get(block)
            is_free_before = was is None and (inode in old.values() or (inode or 0) > 50)
            is_known = inode is not None and (was == inode or is_free_before)
            path = f"/a/f{inode}" if is_known else None
            assert named[block][0] == path, (block, was, inode, named[block])


def _of_blocks(owner: dict[int, int]) -> Walk:
    places: dict[int, list[tuple[int, int, int]]] = {}
    for at, inode in sorted(owner.items()):
        runs = places.setdefault(inode, [])
        runs.append((8 * len(runs), 8 * at, 8))
    return walked(
        *(
            (f"f{inode}", inode, AFTER_NS if inode > 50 else BEFORE_NS, AFTER_NS, runs)
            for inode, runs in places.items()
        )
    )


DEVICES = [Device(device="sda", size_sectors=1000)]
GOOD = [("sda", 0, 8, "/x", 0), ("sda", 16, 8, "/y", 0)]


@pytest.fixture
def map_file(tmp_path: Path) -> Path:
    file = tmp_path / "file_extents.parquet"
    pq.write_table(given_table(GOOD), file)
    return file


def changed(file: Path, column: str, values: Sequence[Any]) -> None:
    table = pq.read_table(file)
    place = table.schema.get_field_index(column)
    field = table.schema.field(place)
    array = pa.array(values, field.type if not pa.types.is_dictionary(field.type) else pa.string())
    pq.write_table(table.set_column(place, field, array.cast(field.type)), file)


def test_a_good_map(map_file: Path) -> None:
    assert read_map(map_file, DEVICES).num_rows == 2


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("device", ["sdb", "sdb"], "a map of sdb, and the trace is of sda"),
        ("first_sector", [0, 4], "row 1: overlaps the row before"),
        ("first_sector", [16, 0], "row 1: overlaps the row before, or is not in order"),
        ("first_sector", [0, 995], "row 1: behind the end of the device"),
        ("sectors", [8, 0], "row 1: no piece of a device"),
        ("path", ["/x", None], "row 1: a path without a file that is known"),
    ],
)
def test_a_bad_map(map_file: Path, column: str, values: list[Any], message: str) -> None:
    changed(map_file, column, values)
    with pytest.raises(InputError, match=message):
        read_map(map_file, DEVICES)


def test_a_cut_map(map_file: Path) -> None:
    map_file.write_bytes(map_file.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"file_extents\.parquet"):
        read_map(map_file, DEVICES)


def test_times_are_those_of_the_trace(map_file: Path) -> None:
    changed(map_file, "from_ns", [None, 5_000])
    table = read_map(map_file, DEVICES)
    assert with_trace_times(table, 4_000).column("from_ns").to_pylist() == [None, 1_000]
    # AND without the time of the trace's start, what is known from some time on is not
    assert with_trace_times(table, None).column("path").to_pylist() == ["/x"]


def test_a_file_system_that_is_not_mounted_any_more_was_not_looked_at(tmp_path: Path) -> None:
    # GIVEN a file that was seen before, and a folder of another file system in its place
    before = walked(OLD)
    (tmp_path / "other").write_bytes(bytes(4096))
    systems = [FileSystem("sda", "8,0", (str(tmp_path),))]
    # WHEN it is looked at again
    after = walk(systems, limit_s=60.0)
    # THEN its file is not known, and the other's is none of it
    assert (len(after), after.absent) == (0, {0})
    assert rows_of(before, after) == [(80, 16, None, None, None, "unseen")]


def test_a_look_can_be_saved() -> None:
    before = walked(OLD, ("data", 2, BEFORE_NS, AFTER_NS, [(0, 160, 8), (8, 240, 8)]))
    before.absent = {1}
    data = msgspec.msgpack.encode(before.saved())
    assert Walk.restored(msgspec.msgpack.decode(data)) == before


SIZE_BYTES, PAGE, TAG = 320 << 20, 4096, b"page of a file: "
FILES, PAGES = 20, 100


def written(folder: Path, number: int) -> None:
    pages = (TAG + struct.pack("<QQ", number, place) for place in range(PAGES))
    (folder / f"file{number}").write_bytes(b"".join(page.ljust(PAGE, b".") for page in pages))


def looked(disks: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the pieces of files on the disks by one look at what is mounted, and the notes."""
    found = look_before(disks, read_mounts(), limit_s=60.0)
    assert found.before is not None
    systems, walk = found.before.systems, Walk.restored(found.before.walk)
    rows = join_walks(walk, walk, systems=systems)
    stack = Stack(found.before.nodes)
    table = table_of(stack, systems, rows=rows, paths=walk.paths(), disks=disks)
    pieces: list[dict[str, Any]] = table.to_pylist()
    return pieces, found.notes


def pages_named(pieces: list[dict[str, Any]], devices: dict[str, str]) -> Counter[tuple[str, int]]:
    """Return how often each page of a file has its name, each of which is there on its device."""
    found: Counter[tuple[str, int]] = Counter()
    for piece in pieces:
        with Path(devices[piece["device"]]).open("rb") as disk:
            disk.seek(piece["first_sector"] * 512)
            content = disk.read(piece["sectors"] * 512)
        assert piece["path"] is not None
        for at in range(0, len(content), PAGE):
            number, place = struct.unpack_from("<QQ", content, at + len(TAG))
            assert content[at:].startswith(TAG)
            assert Path(piece["path"]).name == f"file{number}"
            assert piece["file_sector"] + at // 512 == place * PAGE // 512
            found[piece["path"], place] += 1
    return found


@pytest.fixture
def disks(tmp_path: Path) -> Any:
    """Yield a function that makes a btrfs on some disks."""
    if shutil.which("mkfs.btrfs") is None or "btrfs" not in Path("/proc/filesystems").read_text():
        pytest.skip("needs mkfs.btrfs and a kernel with btrfs")
    with ExitStack() as undo:

        def make(count: int, profile: str) -> dict[str, str]:
            paths = [
                undo.enter_context(loop_disk(tmp_path / f"disk{number}.img", SIZE_BYTES))
                for number in range(count)
            ]
            run("mkfs.btrfs", "-q", "-f", "-d", profile, "-m", "single", *paths)
            return {Path(path).name: path for path in paths}

        yield make


@pytest.mark.root
@pytest.mark.parametrize(
    ("profile", "count", "copies"),
    [
        ("single", 1, 1),
        ("single", 2, 1),
        ("dup", 1, 2),
        ("raid0", 2, 1),
        ("raid0", 3, 1),
        ("raid1", 2, 2),
        ("raid1c3", 3, 3),
        ("raid10", 4, 2),
        ("raid5", 3, 0),
    ],
)
def test_each_copy_of_a_page_has_its_name(
    disks: Any, tmp_path: Path, profile: str, count: int, copies: int
) -> None:
    # GIVEN files on a btrfs
    devices = disks(count, profile)
    with mounted(next(iter(devices.values())), tmp_path / "point") as point:
        for number in range(FILES):
            written(point, number)
        run("sync", "-f", str(point))
        pieces, notes = looked([*devices])
    # THEN each copy of each page has its file's name, or none has where there is parity
    named = pages_named(pieces, devices)
    assert set(named.values()) == ({copies} if copies else set())
    assert len(named) == (FILES * PAGES if copies else 0)
    # AND what has none is said
    assert bool(notes) == (not copies)


@pytest.mark.root
def test_one_of_its_disks_alone(disks: Any, tmp_path: Path) -> None:
    # GIVEN files on a btrfs of two disks, one of which is looked at
    devices = disks(2, "raid1")
    one = next(iter(devices))
    with mounted(devices[one], tmp_path / "point") as point:
        for number in range(FILES):
            written(point, number)
        run("sync", "-f", str(point))
        pieces, notes = looked([one])
    # THEN each page has its name there
    assert {*pages_named(pieces, devices).values()} == {1}
    assert ({piece["device"] for piece in pieces}, notes) == ({one}, [])


@pytest.mark.root
def test_subvolumes_are_told_apart_and_snapshots_share(disks: Any, tmp_path: Path) -> None:
    # GIVEN two subvolumes with the same inodes, a snapshot of one, and a mount within one
    devices = disks(1, "single")
    device = next(iter(devices.values()))
    with mounted(device, tmp_path / "point") as point, ExitStack() as undo:
        for name in ("one", "two"):
            run("btrfs", "subvolume", "create", str(point / name))
        (point / "two/inner").mkdir()
        written(point / "one", 1)
        written(point / "two/inner", 2)
        written(point, 3)
        run("sync", "-f", str(point))
        run("btrfs", "subvolume", "snapshot", str(point / "one"), str(point / "copy"))
        for name in ("one", "two", "copy", "inner"):
            place = tmp_path / name
            place.mkdir()
            how: tuple[str, ...] = ("-o", f"subvol={name}", device)
            how = ("--bind", str(point / "two/inner")) if name == "inner" else how
            run("mount", *how, str(place))
            undo.callback(run, "umount", str(place))
        pieces, _ = looked([*devices])
    # THEN each file has its name once, and what the snapshot shares has none
    states = Counter(piece["state"] for piece in pieces)
    assert states.keys() == {"same", "shared"}
    named = pages_named([one for one in pieces if one["path"] is not None], devices)
    assert set(named.values()) == {1}
    assert {path for path, _ in named} == {
        str(tmp_path / "two/inner/file2"),
        str(tmp_path / "point/file3"),
    }


def test_chunks_on_sectors_of_others_are_not_known() -> None:
    # GIVEN chunks of which one went, and one came onto its sectors and one onto free ones
    stays, went = Piece(0, 100, "sda", 1000), Piece(100, 100, "sda", 2000)
    onto, free = Piece(200, 100, "sda", 2050), Piece(300, 100, "sda", 3000)
    striped = Piece(400, 200, "sdb", 1000, 10, 2, 0)
    before = Node("btrfs 0,9", "0,9", 200, "btrfs", pieces=[stays, went])
    after = Node("btrfs 0,9", "0,9", 600, "btrfs", pieces=[stays, onto, free, striped])
    assert with_lasting(before, after).pieces == [stays, free, striped]
    # AND by the sectors that a striped one has on this device: half of its own
    before.pieces = [Piece(0, 50, "sdb", 1100)]
    assert striped in with_lasting(before, after).pieces
    before.pieces = [Piece(0, 50, "sdb", 1099)]
    assert striped not in with_lasting(before, after).pieces
