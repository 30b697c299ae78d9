"""Names of a btrfs's blocks, against what lies on its devices: each page says whose it is."""

import shutil
import struct
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.three_roles import loop_disk, mounted, run
from tracekit.capture.names import look_before
from tracekit.stack.btrfs import with_lasting
from tracekit.stack.devices import Node, Piece, Stack
from tracekit.stack.file_map import join_walks, table_of
from tracekit.stack.file_walk import Walk
from tracekit.stack.mounts import read_mounts

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
