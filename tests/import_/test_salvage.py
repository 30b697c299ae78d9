"""Damaged texts, compressed or not: what is whole is imported, and the places of the rest said."""

import bz2
import gzip
import itertools
import lzma
import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests import parsed as traces
from tests.import_.importer import Importer
from tracekit.readers.salvage import READ_BYTES, Packed
from tracekit.readers.units import ImportOptions

PARTS, PART_LINES = 10, 2000
LINES = [
    f"{128166372003061629 + 10_000 * number},usr,0,Read,{number * 4096},4096,{number % 977 + 5}\n"
    for number in range(PARTS * PART_LINES)
]
SECTORS = [number * 8 for number in range(PARTS * PART_LINES)]
CHANCE = random.Random(1)  # noqa: S311 - test data
NOISY = "".join(
    f"{128166372003061629 + 10_000 * number},usr,0,{CHANCE.choice(('Read', 'Write'))}"
    f",{CHANCE.randrange(1 << 24) * 4096},4096,{CHANCE.randrange(300, 9000)}\n"
    for number in range(3 * PARTS * PART_LINES)
)
"""Of which compressed data has no long repetitions."""
Pack = Callable[[bytes], bytes]
PACKS: dict[str, Pack] = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def noise(size: int, seed: int = 3) -> bytes:
    return random.Random(seed).randbytes(size)  # noqa: S311 - test data


def sectors(read: Importer, content: bytes) -> tuple[list[int], str]:
    """Return the places of the imported requests, and what is said of the damage."""
    folder = read(content, salvages=True)
    return [row[3] for row in traces.rows(folder)], traces.warnings(folder).get("salvaged", "")


def about(words: str) -> int:
    found = re.search(r"about ([0-9,]+) lines", words)
    assert found
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("fill", [bytes(70_000), noise(70_000)], ids=["zeros", "noise"])
def test_a_damaged_middle_is_passed_over(read: Importer, fill: bytes) -> None:
    # GIVEN a text whose middle is something else, from within a line to within another
    text = "".join(LINES).encode()
    at = len("".join(LINES[:9000])) + 30
    damaged = text[:at] + fill + text[at + len(fill) :]
    first, last = 9000, text[: at + len(fill)].count(b"\n")
    if any(fill):  # zeros are within one wrong line
        read.rejects(damaged, "lines are wrong", hint="--salvage")
    # WHEN it is imported with --salvage THEN all lines around the damage are there, and no other
    found, words = sectors(read, damaged)
    assert found == SECTORS[:first] + SECTORS[last + 1 :]
    # AND place, bytes and about how many lines are said
    begin = len("".join(LINES[:9000]))
    assert f"bytes from byte {begin:,}" in words
    assert about(words) == pytest.approx(last + 1 - first, rel=0.05)


@pytest.mark.parametrize("kind", PACKS)
def test_a_damaged_member_is_passed_over(read: Importer, kind: str) -> None:
    # GIVEN a compressed text of ten members, whose sixth has noise in it; lines go over their ends
    text = "".join(LINES).encode()
    size = len(text) // PARTS
    packed = [PACKS[kind](text[at : at + size]) for at in range(0, len(text), size)]
    begin, half = sum(map(len, packed[:5])), len(packed[5]) // 2
    whole = b"".join(packed)
    damaged = whole[: begin + half] + noise(500) + whole[begin + half + 500 :]
    read.rejects(damaged, "the compressed file is damaged before byte", hint="--salvage")
    # WHEN it is imported with --salvage
    found, words = sectors(read, damaged)
    # THEN all requests of the other members are there, but for the lines cut by their ends
    cut = [text[: 5 * size].count(b"\n"), text[: 6 * size].count(b"\n")]
    assert found[: cut[0]] == SECTORS[: cut[0]]
    assert found[cut[1] - cut[0] - PARTS * PART_LINES :][-1] == SECTORS[-1]
    assert found[-(len(SECTORS) - cut[1] - 1) :] == SECTORS[cut[1] + 1 :]
    assert found == sorted(set(found))
    # AND the damage is said to be within that member, of the file's bytes
    place = re.search(r"([0-9,]+) bytes from byte ([0-9,]+) of the compressed file", words)
    assert place, words
    lost, at = (int(number.replace(",", "")) for number in place.groups())
    assert begin <= at <= begin + half + 500
    assert at + lost == begin + len(packed[5])
    assert about(words) == pytest.approx(len(SECTORS) - len(found), rel=0.35, abs=300)


def test_a_cut_end_is_said(read: Importer) -> None:
    whole = gzip.compress("".join(LINES).encode())
    # GIVEN a compressed text that ends early, and one of so few bytes that a read has all of them
    for kept in (len(whole) // 2, 3000):
        found, words = sectors(read, whole[:kept])
        # THEN all whole lines are there, and nothing is said of what is not in the file
        assert found == SECTORS[: len(found)]
        text = zlib.decompressobj(wbits=31).decompress(whole[:kept])
        assert len(found) == text.count(b"\n")
        ended = f"it ends within compressed data: {len(found):,} whole lines up to its last byte"
        assert words.endswith(f"{ended}, {kept:,}; how many are missing is not known")
        assert "about" not in words


def test_a_damaged_only_member_is_read_to_its_damage(read: Importer) -> None:
    # GIVEN a compressed text of one member, in which a block of no known kind begins
    packer, text = zlib.compressobj(wbits=31), "".join(LINES).encode()
    first = packer.compress(text[: len(text) // 2]) + packer.flush(zlib.Z_FULL_FLUSH)
    data = first + b"\x07" + bytes(5000) + packer.compress(text[len(text) // 2 :])
    # THEN it says up to where it was read and what is lost, of the compressed bytes, at least
    found, words = sectors(read, data)
    assert SECTORS[: len(found)] == found
    place = re.search(r"([0-9,]+) bytes from byte ([0-9,]+) of the compressed file", words)
    assert place, words
    lost, at = (int(number.replace(",", "")) for number in place.groups())
    assert len(first) - 65_536 <= at <= len(first)
    assert at + lost == len(data)
    assert "lines before it may be wrong" in words
    # AND of a text of which nothing was read, that the number of lines is not known
    nothing = gzip.compress(b"")[:10] + b"\x07" + bytes(100)
    message = "111 damaged bytes passed over, of how many lines is not known: 111 bytes from byte 0"
    read.rejects(nothing, f"{message} .* there is no whole line", hint="copy", salvages=True)


def in_thirds(text: bytes) -> list[bytearray]:
    """Return a text in three members of gzip, whose ends are within lines."""
    ends = [0, len(text) // 3, 2 * len(text) // 3, len(text)]
    return [bytearray(gzip.compress(text[a:b])) for a, b in itertools.pairwise(ends)]


def with_header(member: bytes, size: int) -> bytearray:
    """Return a member of gzip whose header has a name, so that all of it has so many bytes."""
    name = b"x" * (size - len(member) - 1) + b"\0"
    return bytearray(member[:3] + b"\x08" + member[4:10] + name + member[10:])


@pytest.mark.parametrize("at", [-6, -2], ids=["checksum", "length"])
@pytest.mark.parametrize("behind", range(9))
def test_a_wrong_checksum_takes_no_line(read: Importer, at: int, behind: int) -> None:
    # GIVEN a member with a wrong checksum or length, of which so many bytes lie behind a boundary
    # of reads, and an empty one with such a checksum behind it, both in the midst of a line
    first, *others = in_thirds("".join(LINES).encode())
    first = with_header(bytes(first), 2 * READ_BYTES + behind)
    empty = bytearray(gzip.compress(b""))
    first[at] ^= 4
    empty[-6] ^= 4
    damaged = b"".join([first, empty, *others])
    read.rejects(damaged, "the compressed file is damaged before byte", hint="--salvage")
    # WHEN it is imported with --salvage THEN all lines are there, and may be wrong
    found, words = sectors(read, damaged)
    assert found == SECTORS
    places = f"{len(first) - 8:,}, {len(first) + len(empty) - 8:,}"
    assert f"x: the checksum at byte {places} of the compressed file" in words
    kept = "all that were unpacked are kept, and some may be wrong"
    assert words.endswith(f"{kept}; doubtful: up to {len(LINES):,} requests")


@pytest.mark.parametrize("is_zero", [False, True], ids=["header", "zeros"])
def test_damage_behind_a_wrong_checksum_is_passed_over(read: Importer, is_zero: bool) -> None:
    # GIVEN a member with a wrong checksum, and one with a damaged header behind it
    text = "".join(LINES).encode()
    first, second, third = in_thirds(text)
    if is_zero:
        first[-8:], second[:10] = bytes(8), bytes(10)
    else:
        first[-6] ^= 4
        second[1] ^= 4
    # WHEN it is imported with --salvage THEN only lines that are in the second are missing
    found, words = sectors(read, bytes(first + second + third))
    cut = [text[: len(text) // 3].count(b"\n"), text[: 2 * len(text) // 3].count(b"\n")]
    assert found == SECTORS[: cut[0]] + SECTORS[cut[1] + 1 :]
    # AND its bytes are said, beside the checksum
    begin = len(first) + 10 * is_zero
    lost = len(first) + len(second) - begin
    assert f"{lost:,} bytes from byte {begin:,} of the compressed file" in words
    assert f"the checksum at byte {len(first) - 8:,} of the compressed file" in words


def test_an_empty_member_is_no_end(read: Importer) -> None:
    # GIVEN a damaged member, behind it an empty one with a wrong checksum, and a whole one
    first, second, third = in_thirds("".join(LINES).encode())
    empty = bytearray(gzip.compress(b""))
    second[len(second) // 2 :] = bytes(len(second) // 2)
    empty[-6] ^= 4
    # THEN the whole one is read
    found, _ = sectors(read, bytes(first + second + empty + third))
    assert found[-1] == SECTORS[-1]
    assert found == sorted(set(found))


def test_what_damage_makes_of_lines_is_left_out(read: Importer) -> None:
    # GIVEN a member with zeros in it, behind which other text than there was is unpacked
    whole = gzip.compress(NOISY.encode())
    damaged = whole[: len(whole) // 2] + bytes(512) + whole[len(whole) // 2 + 512 :]
    unpacked = zlib.decompressobj(wbits=31).decompress(damaged[:-8])
    pairs = enumerate(zip(NOISY.encode(), unpacked, strict=False))
    good = next(at for at, (one, other) in pairs if one != other)
    assert unpacked[good:].count(b"\n") > PART_LINES
    # THEN the lines before are there, and the wrong ones are no reason to stop
    folder = read(damaged, salvages=True)
    expected = NOISY.encode()[:good].count(b"\n")
    assert len(traces.rows(folder)) == pytest.approx(expected, abs=50)
    said = traces.warnings(folder)
    assert "lines before it may be wrong" in said["salvaged"]
    # AND how many requests may be wrong is in the warning
    assert f"doubtful: up to {len(traces.rows(folder)):,} requests" in said["salvaged"]
    assert "bad_lines" in said


def test_events_around_a_damaged_middle(read: Importer) -> None:
    # GIVEN a text of blkparse with a hole of zeros, longer than any line
    lines = [
        f"  8,0    0 {n + 1:8}  {n // 1000:4}.{n % 1000:03}000000  9"
        f"  {'QC'[n % 2]}   R {n // 2 * 8} + 8 [{'fio' if n % 2 == 0 else '0'}]\n"
        for n in range(4000)
    ]
    text = "".join(lines).encode()
    at, hole = len("".join(lines[:1000])) + 7, 2 << 20
    # WHEN it is imported THEN only the line with the hole in it is missing
    found, words = sectors(read, text[:at] + bytes(hole) + text[at:])
    assert found == [n * 8 for n in range(2000) if n != 500]
    assert f"{hole + len(lines[1000]):,} bytes from byte {at - 7:,}" in words


def test_nothing_is_said_of_a_whole_text(read: Importer) -> None:
    found, words = sectors(read, "".join(LINES).encode())
    assert (found, words) == (SECTORS, "")


def test_wrong_lines_of_damaged_files_only_are_due_to_damage(
    read: Importer, tmp_path: Path
) -> None:
    def stored(name: str, numbers: range, step: int) -> Path:
        """Write a member with a wrong checksum, or a text; each of so many lines is wrong."""
        lines = [LINES[one].replace("Read", "?" if one % step == 2 else "Read") for one in numbers]
        packed = bytearray(gzip.compress("".join(lines).encode()))
        packed[-6] ^= 4
        (tmp_path / name).write_bytes(packed if name.endswith(".gz") else "".join(lines).encode())
        return tmp_path / name

    # GIVEN a damaged file of which every third line is wrong, and whole ones
    damaged = stored("t.1.gz", range(3000), 3)
    whole, other = stored("t.2", range(3000, 6000), 300), stored("t.3", range(3000, 6000), 30)
    # THEN it is read, and the wrong ones are counted
    assert read([damaged, whole], salvages=True).content["counts"]["bad_lines"] == 1010
    # BUT too many wrong lines of a whole file stop it, as more than the user allows of all do
    read.rejects([damaged, other], "1,100 of 6,000 lines are wrong", hint="", salvages=True)
    message = "1,010 of 6,000 lines are wrong"
    read.rejects([damaged, whole], message, salvages=True, most_bad_ratio=0.1)
    assert read([damaged, other], salvages=True, most_bad_ratio=0.2).content["counts"]["requests"]


def test_an_unexpected_failure_ends_the_import(
    read: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(Packed, "_next", fails)
    first, second, _ = in_thirds("".join(LINES).encode())
    damaged = bytes(first) + bytes(second[1:])
    read.rejects(damaged, "damaged before byte .*: no memory", hint="copy", salvages=True)


def test_what_is_no_text_is_not_salvaged(read: Importer) -> None:
    read.rejects(noise(9000), "--salvage: this is no text", hint="tracekit parse", salvages=True)
    # AND no hint leads to it, or behind the end of the file
    read.rejects(noise(9000), "no known format", hint="this is no text: check the file")
    read.rejects(noise(9000), "lines are wrong", hint="choose another --format", form="msr")


def test_long_damage_at_the_beginning_of_a_short_text(read: Importer) -> None:
    text = "".join(LINES).encode()
    found, _ = sectors(read, noise(50_000) + b"\n" + text)
    assert found == SECTORS


@pytest.mark.parametrize("kind", ["gzip", "xz", "bz2"])
def test_many_members_are_read(read: Importer, kind: str) -> None:
    # GIVEN a member for each line, and zeros between two of them
    packed = [PACKS[kind](line.encode()) for line in LINES[:3000]]
    folder = read(b"".join([*packed[:1500], bytes(9000), *packed[1500:]]))
    # THEN all lines are there, and the place of the zeros
    assert [row[3] for row in traces.rows(folder)] == SECTORS[:3000]
    said = f"9,000 zero bytes from byte {sum(map(len, packed[:1500])):,} of the compressed file"
    assert said in traces.warnings(folder)["salvaged"]


@pytest.mark.parametrize("fill", [bytes(5000), noise(5000)], ids=["zeros", "noise"])
@pytest.mark.parametrize("salvages", [False, True])
def test_damage_at_the_beginning_of_a_text_is_told(
    read: Importer, fill: bytes, *, salvages: bool
) -> None:
    text = "".join(LINES).encode()
    folder = read(fill + text[len(fill) :], salvages=salvages)
    lost = text[: len(fill)].count(b"\n") + 1
    assert [row[3] for row in traces.rows(folder)] == SECTORS[lost:]
    words = traces.warnings(folder)["salvaged" if salvages else "bad_lines"]
    bytes_told = int(re.search(r"([0-9,]+) (damaged )?bytes", words)[1].replace(",", ""))  # type: ignore[index]
    assert abs(bytes_told - len(fill)) < 100
    # AND one that has no line in its first 64 KiB is refused with what to do
    read.rejects(bytes(70_000) + text[70_000:], "no known format", hint="tail -c +65537 ")


@pytest.mark.parametrize("kind", ["gzip", "xz", "bz2"])
@pytest.mark.parametrize("salvages", [False, True])
def test_zeros_in_place_of_whole_members_are_told(
    read: Importer, kind: str, *, salvages: bool
) -> None:
    # GIVEN a compressed text of three members, of which the second or the last is zeros
    packed = [PACKS[kind]("".join(LINES[at : at + 2000]).encode()) for at in (0, 2000, 4000)]
    for at, kept in ((1, [*SECTORS[:2000], *SECTORS[4000:6000]]), (2, SECTORS[:4000])):
        zeros = bytes(len(packed[at]))
        folder = read(b"".join([*packed[:at], zeros, *packed[at + 1 :]]), salvages=salvages)
        assert [row[3] for row in traces.rows(folder)] == kept
        first = sum(map(len, packed[:at]))
        said = f"{len(zeros):,} zero bytes from byte {first:,} of the compressed file"
        assert said in traces.warnings(folder)["salvaged"]


@pytest.mark.parametrize("flags", range(32))
def test_any_header_of_a_member_is_read(read: Importer, flags: int) -> None:
    # GIVEN a member with more fields, a name, a comment and a checksum of its header, or without
    whole = gzip.compress("".join(LINES).encode(), mtime=0)
    parts = {4: b"\x03\x00abc", 8: b"name\0", 16: b"why\0", 2: b"\1\2"}
    more = b"".join(part for flag, part in parts.items() if flags & flag)
    data = whole[:3] + bytes([flags]) + whole[4:10] + more + whole[10:]
    # THEN all lines behind it are read, and nothing is said
    assert sectors(read, data) == (SECTORS, "")


def test_a_header_with_reserved_flags_is_damage(read: Importer) -> None:
    wrong = bytearray(gzip.compress("".join(LINES).encode(), mtime=0))
    wrong[3] |= 0x80
    read.rejects(bytes(wrong), "damaged bytes passed over", hint="copy", salvages=True)


@pytest.mark.parametrize(("given", "is_damaged", "most"),
                         [(None, False, 0.01), (None, True, 0.5), (0.2, True, 0.2)])  # fmt: skip
def test_more_lines_of_a_damaged_file_may_be_wrong(
    given: float | None, most: float, *, is_damaged: bool
) -> None:
    assert ImportOptions(most_bad_ratio=given).bad_ratio(is_damaged=is_damaged) == most
