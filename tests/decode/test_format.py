"""The binary form: versions, byte orders, numbers, order of time, damage."""

from __future__ import annotations

import struct

import pytest

from tests.decode import scenes
from tests.decode.records import Event, decode, decode_lines, event, pack, pack_events
from tracekit._native.decode import DecodeError, Place, Problem

Q = 1 | 1 << 17


def problem(*files: bytes) -> Place:
    with pytest.raises(DecodeError) as caught:
        decode(*files)
    return caught.value.place


@pytest.mark.parametrize("name", sorted(scenes.SCENES))
@pytest.mark.parametrize(("version", "order"), [(8, "<"), (7, ">"), (8, ">")])
def test_every_form_gives_the_same_rows(name: str, version: int, order: str) -> None:
    text = scenes.SCENES[name]
    assert decode(pack(text, version=version, order=order)).rows == decode(pack(text)).rows


def test_versions_mixed_in_a_file() -> None:
    # GIVEN a file whose first record is of version 7 and whose second is of version 8
    data = pack("1 Q R 0+8") + pack("2 Q R 8+8", version=8)
    # WHEN it is decoded, THEN the second record's place and both versions are named
    place = problem(data)
    assert (place.kind, place.offset, place.value, place.other) == (Problem.VERSIONS, 48, 8, 7)


def test_versions_mixed_between_files() -> None:
    place = problem(pack("1 Q R 0+8"), pack("2 Q R 8+8", version=8))
    assert (place.kind, place.file, place.value, place.other) == (Problem.VERSIONS, 1, 8, 7)


def test_zone_operations_of_version_8() -> None:
    data = pack("1 Q Z 1000+0\n2 D Z 1000+0\n3 C Z 1000+0", version=8)
    (row,) = decode(data).rows
    assert (row["operation"], row["issue_ns"], row["complete_ns"]) == ("zone", 1, 2)


def test_files_are_merged_by_time() -> None:
    # GIVEN queue and completion of one request on different CPUs
    decoded = decode_lines(
        "100 Q W 0+8 cpu=0\n300 Q W 8+8 cpu=0", "200 C W 0+8 cpu=1\n400 C W 8+8 cpu=1"
    )
    assert decoded.column("complete_ns") == [100, 300]
    assert decoded.column("cpu") == [0, 0]
    assert decoded.unmatched() == {}


def test_many_files_of_which_some_are_empty() -> None:
    files = [pack(f"{100 + cpu} Q W {cpu * 8}+8 cpu={cpu}") for cpu in range(9)]
    decoded = decode(b"", *reversed(files), b"")
    assert decoded.column("sector") == [0, 8, 16, 24, 32, 40, 48, 56, 64]


def test_sequence_gaps() -> None:
    decoded = decode_lines(
        """
        1 Q W 0+8 seq=1
        2 Q W 8+8 seq=2
        3 Q W 16+8 seq=5
        4 Q W 24+8 seq=1 cpu=1
        5 Q W 32+8 seq=6
        6 Q W 40+8 seq=9 cpu=1
        """
    )
    assert (decoded.stats.sequence_gaps, decoded.stats.lost_records) == (2, 9)
    assert decoded.stats.numbered_records == 6


def test_numbers_that_wrap_are_no_gap() -> None:
    decoded = decode_lines("1 Q W 0+8 seq=4294967295\n2 Q W 8+8 seq=0\n3 Q W 16+8 seq=1")
    assert decoded.stats.lost_records == 1  # 0 means "no number"; here it took a number's place


def test_source_without_numbers() -> None:
    decoded = decode_lines("1 Q W 0+8 seq=0\n2 Q W 8+8 seq=0")
    assert (decoded.stats.numbered_records, decoded.stats.lost_records) == (0, 0)


def test_repeated_numbers() -> None:
    assert decode_lines("1 Q W 0+8 seq=7\n2 Q W 8+8 seq=7").stats.repeated_records == 1


def test_small_disorder_is_sorted() -> None:
    # GIVEN a completion written before the issue that it follows
    decoded = decode_lines("100 Q W 0+8\n130 C W 0+8\n110 D W 0+8\n120 Q R 8+8")
    assert decoded.column("issue_ns") == [10, None]
    assert decoded.column("queue_ns") == [0, 20]
    assert decoded.stats.reordered_records == 2
    assert decoded.unmatched() == {"queue": 1}


def test_time_that_runs_backwards_far_is_an_error() -> None:
    # GIVEN two captures of 5000 records joined one after the other
    once = [Event(1000 + place, Q, sector=place * 8, length_bytes=4096) for place in range(5000)]
    data = pack_events(once + once)
    # THEN the place where the second begins is named, and how far it goes back
    assert problem(data) == Place(Problem.BACKWARDS, 0, 5000 * 48, 4999, 4999 * 48)


def test_one_wrong_time_is_an_error() -> None:
    events = [Event(1000 + place, Q, sector=place * 8, length_bytes=4096) for place in range(2000)]
    events[700] = Event(1 << 60, Q)
    # THEN the record after it shows that it is wrong; its own place is named, too
    place = problem(pack_events(events))
    assert (place.kind, place.offset, place.other) == (Problem.BACKWARDS, 701 * 48, 700 * 48)


def test_wrong_magic() -> None:
    assert problem(b"GIF89a" + bytes(100)) == Place(Problem.NOT_A_TRACE, 0, 0, 0x38464947, 0)


def test_second_file_is_no_trace() -> None:
    place = problem(pack(scenes.PLAIN), b"\x89PNG" + bytes(60))
    assert (place.kind, place.file, place.offset) == (Problem.NOT_A_TRACE, 1, 0)


def test_damage_in_the_middle() -> None:
    data = bytearray(pack(scenes.BACK_MERGE))
    data[96:100] = b"\x01\x02\x03\x04"
    assert problem(bytes(data)) == Place(Problem.BAD_MAGIC, 0, 96, 0x04030201, 0)


def test_unknown_version() -> None:
    data = bytearray(pack(scenes.BACK_MERGE))
    data[48] = 9
    assert problem(bytes(data)) == Place(Problem.BAD_VERSION, 0, 48, 9, 0)


def test_cut_in_a_header() -> None:
    data = pack(scenes.BACK_MERGE)[:-20]
    assert problem(data) == Place(Problem.CUT_HEADER, 0, 8 * 48, 28, 48)


def test_cut_in_a_payload() -> None:
    data = pack("1 A W 8+8 of=8,1:0")
    assert problem(data[:-3]) == Place(Problem.CUT_PAYLOAD, 0, 0, 61, 64)


def test_a_giant_payload_is_skipped_or_missed() -> None:
    # GIVEN a record that claims 65535 bytes of payload
    giant = Event(1, Q, sector=8, length_bytes=512, payload=bytes(65535)).pack(1)
    follower = event("2 Q W 16+8").pack(2)
    # THEN it is read when they are there
    assert decode(giant + follower).column("sector") == [8, 16]
    # AND an error when not
    assert problem(giant[:1000]) == Place(Problem.CUT_PAYLOAD, 0, 0, 1000, 48 + 65535)


def test_three_bytes() -> None:
    assert problem(b"\x07ta").kind == Problem.NOT_A_TRACE


def test_salvage_keeps_what_is_whole() -> None:
    # GIVEN a file that is cut and one that is whole
    cut = pack("1 Q W 0+8\n2 Q W 8+8")[:-1]
    whole = pack("3 C W 0+8 cpu=1")
    decoded = decode(cut, whole, keeps_whole=True)
    # THEN all whole records are there and the place of the cut is told
    assert decoded.column("complete_ns") == [2]
    assert decoded.cuts == [Place(Problem.CUT_HEADER, 0, 48, 47, 48), None]


def test_salvage_does_not_take_a_file_that_is_no_trace() -> None:
    with pytest.raises(DecodeError):
        decode(b"GIF89a" + bytes(100), keeps_whole=True)


def test_every_prefix_ends_in_rows_or_in_an_error() -> None:
    data = pack(scenes.PLAIN + scenes.REMAP.replace("1", "2"))
    kinds = set()
    for length in range(len(data)):
        try:
            decoded = decode(data[:length])
        except DecodeError as error:
            kinds.add(error.place.kind)
        else:
            assert decoded.stats.bytes == length
    assert kinds == {Problem.CUT_HEADER, Problem.CUT_PAYLOAD, Problem.NOT_A_TRACE}


def test_payload_with_cgroup() -> None:
    data = pack("1 A W 3048+8 of=259,0:1000 cgroup=42\n2 Q W 3048+8 cgroup=42")
    assert decode(data).column("partition") == ["259,0"]


def test_a_remap_without_its_payload() -> None:
    short = Event(1, 15 | 1 << 17, sector=8, length_bytes=512, payload=struct.pack(">I", 7)).pack(1)
    decoded = decode(short + event("2 Q W 8+1").pack(2))
    assert decoded.column("partition") == [None]
    assert decoded.unmatched()["remap"] == 1
