"""Where sectors of a device lie on those below it: against each sector followed by itself."""

from collections.abc import Callable
from itertools import combinations

import pytest

from tracekit.stack.device_mapper import map_target, raid_pieces, read_tables
from tracekit.stack.devices import Beside, Node, Piece, Stack, Use, entries_of
from tracekit.stack.md import Array, Member, map_array

CHUNK, SIZE = 4, 60
Place = tuple[int, int]
"""Number of a member, and a sector on it."""


def stripe(sector: int, members: int) -> list[Place]:
    chunk, rest = divmod(sector, CHUNK)
    return [(chunk % members, chunk // members * CHUNK + rest)]


def raid5(sector: int, members: int) -> list[Place]:
    """Return where md's left-symmetric layout has a sector."""
    chunk, rest = divmod(sector, CHUNK)
    row, place = divmod(chunk, members - 1)
    parity = members - 1 - row % members
    return [((parity + 1 + place) % members, row * CHUNK + rest)]


def near2(sector: int, members: int) -> list[Place]:
    chunk, rest = divmod(sector, CHUNK)
    return [((2 * chunk + n) % members, (2 * chunk + n) // members * CHUNK + rest) for n in (0, 1)]


def mirror(sector: int, members: int) -> list[Place]:
    return [(member, sector) for member in range(members)]


@pytest.mark.parametrize(
    ("level", "members", "copies", "follow", "is_exact"),
    [
        (0, 3, 1, stripe, True),
        (1, 2, 1, mirror, True),
        (5, 4, 1, raid5, False),
        (10, 4, 2, near2, False),
        (10, 3, 2, near2, False),
    ],
)
def test_a_range_lies_where_its_sectors_lie(
    level: int, members: int, copies: int, follow: Callable[[int, int], list[Place]], is_exact: bool
) -> None:
    below = [(str(number), 100 * number) for number in range(members)]
    pieces = raid_pieces(SIZE, below, level=level, chunk=CHUNK, copies=copies)
    node = Node("md0", "9,0", SIZE, pieces=pieces)
    for first, end in combinations(range(SIZE + 1), 2):
        places = [place for sector in range(first, end) for place in follow(sector, members)]
        found = {name: range(low, high) for name, low, high in node.images(first, end)}
        for number, (name, start) in enumerate(below):
            sectors = [start + sector for member, sector in places if member == number]
            mine = found.get(name, range(0))
            if is_exact:
                assert list(mine) == sorted(sectors)
            else:
                # Whole stripes, as parity and copies of them have other places on each.
                rows = [(sector - start) // CHUNK for sector in sectors]
                assert {*sectors} <= {*mine}
                assert len(mine) <= CHUNK * (max(rows) - min(rows) + 1 if rows else 2) + 2 * CHUNK


def zones(sizes: tuple[int, ...]) -> list[Place]:
    """Return where md has each sector of a RAID 0, row of chunks by row of chunks."""
    found = []
    for row in range(max(sizes) // CHUNK):
        for member, size in enumerate(sizes):
            if row < size // CHUNK:
                found += [(member, row * CHUNK + at) for at in range(CHUNK)]
    return found


def row(sizes: tuple[int, ...]) -> list[Place]:
    return [(member, at) for member, size in enumerate(sizes) for at in range(size)]


@pytest.mark.parametrize(
    ("level", "sizes", "known"),
    [
        ("raid0", (13, 13), 24),
        ("raid0", (13, 23), 32),
        ("raid0", (8, 20, 20), 48),  # the second zone begins with the same member in all kernels
        ("raid0", (12, 20, 20), 36),  # and here it does not
        ("linear", (5, 9, 7), 21),
    ],
)
def test_members_of_several_sizes_are_filled_as_md_does(
    level: str, sizes: tuple[int, ...], known: int
) -> None:
    # GIVEN an array whose members have data from other sectors on
    follow = (zones if level == "raid0" else row)(sizes)
    members = [Member(str(n), n, 100 * n, size) for n, size in reversed([*enumerate(sizes)])]
    node = Node("md0", "9,0", len(follow))
    chunk = CHUNK if level == "raid0" else 0
    # WHEN it is mapped, THEN each sector that is known to lie somewhere lies there
    assert map_array(node, Array(level, len(sizes), chunk, "original", members)) == (
        known == len(follow)
    )
    for sector, (member, at) in enumerate(follow):
        found = [(name, low) for name, low, _ in node.images(sector, sector + 1)]
        assert found == ([(str(member), 100 * member + at)] if sector < known else [])
    # AND members have something unknown as long as not all is known
    assert bool(node.aside) == (known < len(follow))


@pytest.mark.parametrize(
    "array",
    [
        Array("raid5", 3, CHUNK, "", [Member("a", 0, None, 60), Member("b", 1, 8, 60)]),
        Array("raid10", 2, CHUNK, "far=2", [Member("a", 0, 8, 60), Member("b", 1, 8, 60)]),
        Array("raid0", 3, CHUNK, "", [Member("a", 0, 8, 60), Member("b", 1, 8, 60)]),
        Array("linear", 2, 0, "", [Member("a", 0, 8, None), Member("b", 1, 8, 60)]),
        Array("container", 2, 0, "", [Member("a", 0, 8, 60), Member("b", 1, 8, 60)]),
    ],
    ids=lambda array: array.level,
)
def test_an_array_that_is_not_determined_lies_somewhere(array: Array) -> None:
    node = Node("md0", "9,0", SIZE)
    assert not map_array(node, array)
    assert (node.pieces, node.aside) == ([], {"a": Beside.BLOCKS, "b": Beside.BLOCKS})


def test_a_member_that_is_missing_leaves_the_others_where_they_are() -> None:
    # GIVEN a RAID 5 of four of which one is gone, and one that lies whole
    whole, part = Node("md0", "9,0", SIZE), Node("md0", "9,0", SIZE)
    members = [Member(str(n), n, 0, 20) for n in range(4)]
    assert map_array(whole, Array("raid5", 4, CHUNK, "2", members))
    assert map_array(part, Array("raid5", 4, CHUNK, "2", members[1:]))
    # THEN ranges lie on the members that are left as before
    for first, end in combinations(range(SIZE + 1), 2):
        found = [one for one in whole.images(first, end) if one[0] != "0"]
        assert [*part.images(first, end)] == found


TABLES = """\
vg-root: 0 8192 linear 8:2 2048
vg-root: 8192 4096 linear 8:16 4096
vg-str: 0 4096 striped 2 128 8:2 100 8:16 200
luks: 0 4096 crypt aes-xts-plain64 :64:logon:cryptsetup:x 0 8:2 32768 1 allow_discards
slow: 0 4096 cache 253:1 253:2 8:2 128 1 writeback smq 0
wc: 0 4096 writecache s 8:2 8:16 4096 0
paths: 0 4096 multipath 0 0 1 1 service-time 0 2 2 8:2 1 1 8:16 1 1
legs: 0 4096 mirror core 2 1024 nosync 2 8:2 10 8:16 20 1 handle_errors
lv1: 0 4096 raid raid1 3 0 region_size 4096 2 253:0 8:2 253:1 8:16
tpool: 0 4096 thin-pool 253:1 8:2 128 0 1 skip_block_zeroing
thin: 0 4096 thin 253:4 7
odd: 0 4096 vdo V4 8:2 1024 4096
none: 0 4096 error
"""
NAMES = {"8:2": "sda2", "8:16": "sdb", "253:0": "dm-0", "253:1": "dm-1", "253:2": "dm-2"} | {
    "253:4": "dm-4"
}


def thin(_pool: str, number: int) -> list[Piece]:
    return [Piece(0, 128, "dm-4", 128 * number)]


@pytest.mark.parametrize(
    ("name", "images", "aside"),
    [
        ("vg-root", {("sda2", 2048, 10240), ("sdb", 4096, 8192)}, {}),
        ("vg-str", {("sda2", 100, 2148), ("sdb", 200, 2248)}, {}),
        ("luks", {("sda2", 32768, 36864)}, {}),
        ("slow", {("sda2", 0, 4096)}, {"dm-1": "metadata", "dm-2": Beside.BLOCKS}),
        ("wc", {("sda2", 0, 4096)}, {"sdb": Beside.BLOCKS}),
        ("paths", {("sda2", 0, 4096), ("sdb", 0, 4096)}, {}),
        ("legs", {("sda2", 10, 4106), ("sdb", 20, 4116)}, {}),
        ("lv1", {("sda2", 0, 4096), ("sdb", 0, 4096)}, {"dm-0": "metadata", "dm-1": "metadata"}),
        ("tpool", {("sda2", 0, 4096)}, {"dm-1": "metadata"}),
        ("thin", {("dm-4", 896, 1024)}, {}),
        ("odd", set(), {"sda2": Beside.BLOCKS}),
        ("none", set(), {}),
    ],
)
def test_tables_of_the_device_mapper(
    name: str, images: set[tuple[str, int, int]], aside: dict[str, str]
) -> None:
    node = Node("dm-9", "253,9", 12288)
    for target in read_tables(TABLES)[name]:
        map_target(node, target, names=NAMES, read_thin=thin)
    names = {name for name, *_ in images}
    assert {*node.images(0, 12288)} == images
    assert node.aside == aside
    assert {*node.below} == names | {*aside}


def whole(role: str, sectors: int, name: str) -> Use:
    return Use(role, "it is", 0, sectors, name)


def test_uses_go_down_to_the_disks_and_the_highest_comes_last() -> None:
    # GIVEN a partition that holds a file system and swap, of which the file system ends on sdb
    part = Node("sda2", "8,2", 16384, "part", pieces=[Piece(0, 16384, "sda", 2048)])
    part.uses = [whole("other", 16384, "sda2")]
    root, swap = Node("dm-0", "253,0", 12288, label="root"), Node("dm-1", "253,1", 512)
    (root_low, root_high) = Piece(0, 8192, "sda2", 2048), Piece(8192, 4096, "sdb", 0)
    root.pieces, swap.pieces = [root_low, root_high], [Piece(0, 512, "sda2", 10240)]
    root.uses = [whole("fs", 12288, "root"), Use("journal", "its log", 8000, 400, "root journal")]
    swap.uses = [whole("swap", 512, "swap")]
    sdb = Node("sdb", "8,16", 9999)
    sdb.uses = [whole("other", 9999, "sdb")]
    stack = Stack([Node("sda", "8,0", 1 << 20), part, sdb, root, swap])
    # WHEN both disks are described, THEN each sector has the highest device's use
    found = [
        (entry["device"], entry["name"], entry["start_sector"], entry["sectors"], entry["role"])
        for entry in entries_of(stack, ["sda", "sdb"])
    ]
    assert found == [
        ("sda", "sda2", 2048, 16384, "other"),
        ("sdb", "sdb", 0, 9999, "other"),
        ("sda", "root", 4096, 8192, "fs"),
        ("sdb", "root", 0, 4096, "fs"),
        ("sda", "root journal", 4096 + 8000, 192, "journal"),
        ("sdb", "root journal", 0, 208, "journal"),
        ("sda", "swap", 12288, 512, "swap"),
    ]
    # AND of one disk alone only what lies on it is told; a device in the middle can be traced too
    assert {entry["device"] for entry in entries_of(stack, ["sdb"])} == {"sdb"}
    middle = entries_of(stack, ["dm-0"])
    assert [(entry["start_sector"], entry["sectors"], entry["node"]) for entry in middle] == [
        (0, 12288, "dm-0"),
        (8000, 400, "dm-0"),
    ]
    # AND what has no other name than the kernel's has no node
    assert not any(
        "node" in entry for entry in entries_of(stack, ["sda"]) if entry["name"] == "sda2"
    )


@pytest.mark.parametrize(("roles", "role"), [(("fs",), "fs"), (("fs", "swap"), "unknown")])
def test_blocks_in_no_known_order_have_the_only_role_there_is(
    roles: tuple[str, ...], role: str
) -> None:
    # GIVEN a cache before a disk, and volumes of these roles on it
    cached = Node("dm-0", "253,0", 512, "cache", "slow", [Piece(0, 512, "sda", 0)])
    cached.aside = {"sdb": Beside.BLOCKS, "sdc": Beside.METADATA}
    volumes = [
        Node(f"dm-{at}", f"253,{at}", 256, pieces=[Piece(0, 256, "dm-0", 0)])
        for at in range(1, 1 + len(roles))
    ]
    for node, name in zip(volumes, roles, strict=True):
        node.uses = [whole(name, 256, node.name)]
    stack = Stack([*(Node(name, name, 512) for name in ("sda", "sdb", "sdc")), cached, *volumes])
    found = {entry["name"]: entry["role"] for entry in entries_of(stack, ["sdb", "sdc"])}
    assert found == {"slow blocks": role, "slow metadata": "other"}
