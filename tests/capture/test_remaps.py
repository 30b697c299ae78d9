"""Where blocks of a cache lie, by the remaps of each device between it and the disk."""

import struct
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from tests.decode.records import CGROUP, WRITE, Event
from tracekit.capture import recording, remaps
from tracekit.capture.recording import remaps_in
from tracekit.capture.remaps import followed
from tracekit.layout import Layout
from tracekit.readers.joined_layouts import joined

TOP, CACHE, DISK, PART = (253 << 20, 253 << 20 | 1, 8 << 20, 8 << 20 | 2)
FIRST, SECTORS = 2048, 1 << 16
"""Of the partition, and of the cache in it."""
JOURNAL = 8192


def remap(
    time_ns: int, *, of: tuple[int, int], to: tuple[int, int], device: int, mark: int
) -> bytes:
    group = struct.pack("=Q", 1) if mark else b""
    payload = group + struct.pack(">IIQ", of[0], to[0], of[1])
    action = WRITE | 15 | mark
    return Event(time_ns, action, to[1], 8192, device=device, payload=payload).pack(0)


def request(time_ns: int, top: int, *, below: int, mark: int = 0) -> list[bytes]:
    """Return the remaps of a request: from the top to the cache's device, partition and disk."""
    there = FIRST + below
    return [
        remap(time_ns, of=(TOP, top), to=(CACHE, below), device=CACHE, mark=mark),
        remap(time_ns + 5, of=(CACHE, below), to=(PART, below), device=DISK, mark=mark),
        remap(time_ns + 9, of=(PART, below), to=(PART, there), device=DISK, mark=mark),
    ]


def entry(device: str, first: int, sectors: int, role: str, **more: Any) -> dict[str, Any]:
    where = {"device": device, "start_sector": first, "sectors": sectors}
    return where | {"name": f"{device} {role}", "role": role, "evidence": ""} | more


def device(name: str, number: int) -> dict[str, Any]:
    return {"device": name, "major": number >> 20, "minor": number & 0xFFFFF}


def layout_with(*doubts: str) -> dict[str, Any]:
    """Return the layout of the cache's disk."""
    top = [entry("dm-0", 0, 1 << 20, "fs"), entry("dm-0", JOURNAL, 1024, "journal")]
    return {
        "devices": [device("sda", DISK)],
        "partitions": [entry("sda", FIRST, SECTORS, "unknown", is_unordered=True)],
        "above": {"devices": [device("dm-0", TOP)], "partitions": top, "doubts": {"a": "b"}},
        "doubts": [*doubts],
    }


@pytest.mark.parametrize("mark", [0, CGROUP])
def test_blocks_of_a_cache_have_the_roles_of_the_device_above(tmp_path: Path, mark: int) -> None:
    # GIVEN a cache, of which each request says where it is on the next device, of two CPUs
    requests = [
        request(1000, JOURNAL + 16, below=800, mark=mark),
        request(2000, JOURNAL, below=816, mark=mark),
        request(3000, 64, below=832, mark=mark),
        # A place of which it is not known what lies above, between two of one role.
        request(3100, 1 << 21, below=848, mark=mark),
        request(3200, 80, below=864, mark=mark),
        # A place that another block had before; and a copy of the cache's own.
        request(4000, 128, below=896, mark=mark),
        request(5000, JOURNAL + 32, below=896, mark=mark),
        request(6000, 256, below=912, mark=mark)[1:],
        # The same place of the device between, long before anything of the top came to it.
        request(7000, 512, below=1600, mark=mark),
        [remap(9, of=(CACHE, 1600), to=(PART, 64), device=DISK, mark=mark)],
    ]
    for cpu in (0, 1):
        some = b"".join(one for many in requests for one in many[cpu::2])
        (tmp_path / f"cpu{cpu}").write_bytes(some)
    layout = layout_with("a", "c")
    # WHEN they are followed
    found = followed(layout, remaps_in(sorted(tmp_path.iterdir())))
    # THEN what lies together with one role is one entry, and a place of two roles has none
    assert found["partitions"][:1] == layout["partitions"]
    pieces = [(one["start_sector"], one["sectors"], one["role"]) for one in found["partitions"][1:]]
    assert pieces == [
        (FIRST + 800, 32, "journal"),
        (FIRST + 832, 16, "fs"),
        (FIRST + 864, 16, "fs"),
        (FIRST + 1600, 16, "fs"),
    ]
    assert not any("is_unordered" in one for one in found["partitions"][1:])
    *others, doubt = found["doubts"]
    assert others == ["b", "c"]
    assert doubt.startswith("2 pages of sda unknown had blocks of several roles")
    assert found["open_places"] == {"sda": [(FIRST + 848, 16), (FIRST + 896, 16)]}


def test_a_place_in_two_caches_has_one_entry(tmp_path: Path) -> None:
    # GIVEN a cache over a thin pool, whose blocks have no order either
    (tmp_path / "cpu0").write_bytes(b"".join(request(1000, 64, below=800)))
    layout = layout_with()
    layout["partitions"].append({**layout["partitions"][0], "name": "cache", "sectors": 4096})
    # THEN the place is one of the smaller region
    found = followed(layout, remaps_in([tmp_path / "cpu0"]))["partitions"][2:]
    assert [(one["name"], one["start_sector"]) for one in found] == [("cache of fs", FIRST + 800)]


def piece(folder: Path, number: int, *requests: tuple[int, int]) -> Layout:
    """Return the layout of a piece of a recording, with requests to the top and below."""
    records = [
        one
        for at, (top, below) in enumerate(requests)
        for one in request(1000 * at, top, below=below)
    ]
    path = folder / f"cpu{number}"
    path.write_bytes(b"".join(records))
    layout = followed(layout_with(), remaps_in([path]))
    return convert({**layout, "capture": {"own_pid": 5, "piece": number}}, Layout)


def test_pieces_of_a_recording_know_no_more_than_each_of_them(tmp_path: Path) -> None:
    # GIVEN pieces in which requests went to places: of one role, of another one in another piece,
    # of two in one piece and one of these in another, and amid what was of one role
    pieces = [
        piece(tmp_path, 1, (64, 800), (64, 816), (64, 896), (64, 960), (JOURNAL, 960)),
        piece(tmp_path, 2, (128, 800), (JOURNAL, 896), (64, 960), (JOURNAL, 864)),
    ]
    # WHEN they are read as one
    found = joined(pieces)
    # THEN each place has the role that all say, and nobody says else of
    places = [(one.start_sector, one.sectors, one.role) for one in found.partitions[1:]]
    assert places == [(FIRST + 800, 32, "fs"), (FIRST + 864, 16, "journal")]
    assert any(one.startswith("roles of 32 sectors of sda are guessed") for one in found.doubts)
    # AND without the piece between two others nothing is known of what it had
    apart = [pieces[0], piece(tmp_path, 3, (64, 800))]
    assert [one.role for one in joined(apart).partitions] == ["unknown"]


def test_two_names_of_one_role_are_no_dispute(tmp_path: Path) -> None:
    # GIVEN pieces that call overlapping regions by other names, as of thin volumes of one pool
    pieces = [piece(tmp_path, 1, (64, 800)), piece(tmp_path, 2, (128, 800))]
    for part in pieces[1].partitions[1:]:
        part.name = "another name"
    # THEN the place keeps the role that both say
    found = joined(pieces)
    assert [(one.start_sector, one.role) for one in found.partitions[1:]] == [(FIRST + 800, "fs")]
    assert found.doubts == []


def test_more_remaps_than_memory_is_for_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN spools with one remap more than are followed
    for module in (recording, remaps):
        monkeypatch.setattr(module, "MOST_REMAPS", 5)
    for cpu in range(4):
        (tmp_path / f"cpu{cpu}").write_bytes(b"".join(request(1000 + cpu, 64, below=800)))
    layout = layout_with("a")
    # WHEN they are read, which ends with that one, THEN the layout says so and stays
    found = followed(layout, remaps_in(sorted(tmp_path.iterdir())))
    too_many = (
        "more than 5 remaps: roles of blocks in the cache are guessed from the requests there"
    )
    places = {"sda": [(FIRST, SECTORS)]}
    assert found == layout | {"doubts": ["a", too_many], "open_places": places}
