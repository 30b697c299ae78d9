"""The binary form: versions, byte orders, numbers, order of time, damage."""

import struct

import pytest

from tests.decode import scenes
from tests.decode.records import Event, decode, decode_lines, event, pack, pack_events
from tracekit._native.decode import DecodeError, Place, Problem

Q = 1 | 1 << 17


def writes(count: int) -> list[Event]:
    return [Event(1000 + n, Q, sector=n * 8, length_bytes=4096) for n in range(count)]


def changed(at: int, new: bytes) -> bytes:
    """Return a good file in which some bytes are others."""
    data = bytearray(pack(scenes.BACK_MERGE))
    data[at : at + len(new)] = new
    return bytes(data)


# A record that claims 65535 bytes of payload.
GIANT = Event(1, Q, sector=8, length_bytes=512, payload=bytes(65535)).pack(1)
# By name: files, and the problem with file, offset in it, value and what it should be or follows.
PROBLEMS: dict[str, tuple[list[bytes], Place]] = {
    "versions mixed in a file": (
        [pack("1 Q R 0+8") + pack("2 Q R 8+8", version=8)],
        Place(Problem.VERSIONS, 0, 48, 8, 7),
    ),
    "versions mixed between files": (
        [pack("1 Q R 0+8"), pack("2 Q R 8+8", version=8)],
        Place(Problem.VERSIONS, 1, 0, 8, 7),
    ),
    # Two captures of 5000 records joined one after the other.
    "time that runs backwards far": (
        [pack_events(writes(5000) * 2)],
        Place(Problem.BACKWARDS, 0, 5000 * 48, 4999, 4999 * 48),
    ),
    # The record after it shows that it is wrong; its own place is named, too.
    "one wrong time": (
        [pack_events([*writes(700), Event(1 << 60, Q), *writes(2000)[701:]])],
        Place(Problem.BACKWARDS, 0, 701 * 48, (1 << 60) - 1701, 700 * 48),
    ),
    "another magic": (
        [b"GIF89a" + bytes(100)],
        Place(Problem.NOT_A_TRACE, 0, 0, 0x38464947, 0),
    ),
    "three bytes": ([b"\x07ta"], Place(Problem.NOT_A_TRACE, 0, 0, 0, 0)),
    "a second file that is no trace": (
        [pack(scenes.PLAIN), b"\x89PNG" + bytes(60)],
        Place(Problem.NOT_A_TRACE, 1, 0, 0x474E5089, 0),
    ),
    "damage in the middle": (
        [changed(96, b"\x01\x02\x03\x04")],
        Place(Problem.BAD_MAGIC, 0, 96, 0x04030201, 0),
    ),
    "an unknown version": ([changed(48, b"\x09")], Place(Problem.BAD_VERSION, 0, 48, 9, 0)),
    "a cut in a header": (
        [pack(scenes.BACK_MERGE)[:-20]],
        Place(Problem.CUT_HEADER, 0, 8 * 48, 28, 48),
    ),
    "a cut in a payload": (
        [pack("1 A W 8+8 of=8,1:0")[:-3]],
        Place(Problem.CUT_PAYLOAD, 0, 0, 61, 64),
    ),
    "a giant payload that is missing": (
        [GIANT[:1000]],
        Place(Problem.CUT_PAYLOAD, 0, 0, 1000, 48 + 65535),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_has_its_place(name: str) -> None:
    files, place = PROBLEMS[name]
    with pytest.raises(DecodeError) as caught:
        decode(*files)
    assert caught.value.place == place


def test_a_giant_payload_is_skipped() -> None:
    assert decode(GIANT + event("2 Q W 16+8").pack(2)).column("sector") == [8, 16]


@pytest.mark.parametrize("name", sorted(scenes.SCENES))
@pytest.mark.parametrize(("version", "order"), [(8, "<"), (7, ">"), (8, ">")])
def test_every_form_gives_the_same_rows(name: str, version: int, order: str) -> None:
    text = scenes.SCENES[name]
    assert decode(pack(text, version=version, order=order)).rows == decode(pack(text)).rows


def test_zone_operations_of_version_8() -> None:
    data = pack("1 Q Z 1000+0\n2 D Z 1000+0\n3 C Z 1000+0", version=8)
    (row,) = decode(data).rows
    assert (row["operation"], row["issue_ns"], row["complete_ns"]) == ("zone_reset", 1, 2)


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


@pytest.mark.parametrize(
    ("numbers", "gaps", "lost", "repeated", "numbered"),
    [
        # On two CPUs, a gap each.
        ("1 2 5 1/1 6 9/1", 2, 9, 0, 6),
        # 0 means "no number"; here it took a number's place.
        ("4294967295 0 1", 1, 1, 0, 2),
        ("0 0", 0, 0, 0, 0),
        ("7 7", 0, 0, 1, 2),
    ],
    ids=["gaps", "wrapped", "without numbers", "repeated"],
)
def test_sequence_numbers(numbers: str, gaps: int, lost: int, repeated: int, numbered: int) -> None:
    lines = []
    for place, (number, _, cpu) in enumerate(word.partition("/") for word in numbers.split()):
        lines.append(f"{place + 1} Q W {place * 8}+8 seq={number} cpu={cpu or 0}")
    stats = decode_lines("\n".join(lines)).stats
    assert (stats.sequence_gaps, stats.lost_records) == (gaps, lost)
    assert (stats.repeated_records, stats.numbered_records) == (repeated, numbered)


def test_small_disorder_is_sorted() -> None:
    # GIVEN a completion written before the issue that it follows
    decoded = decode_lines("100 Q W 0+8\n130 C W 0+8\n110 D W 0+8\n120 Q R 8+8")
    assert decoded.column("issue_ns") == [10, None]
    assert decoded.column("queue_ns") == [0, 20]
    assert decoded.stats.reordered_records == 2
    assert decoded.unmatched() == {"queue": 1}


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
