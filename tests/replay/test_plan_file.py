"""Plans as bytes: what INTERFACE.md says is accepted, everything else is one line and code 1."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.replay.program import READ, WRITE, record, run, write_plan

HEADER_BYTES, RECORD_BYTES, STRIDE = 192, 48, 4096


def by_hand(records: list[tuple[int, int, int, int, int, int, int]], needed_bytes: int) -> bytes:
    """Return a plan of one target with reads only, packed from INTERFACE.md alone."""
    packed = [struct.pack("<QQQIBBHQII", *fields, 0, 0, 0) for fields in records]
    bits = 0
    for fields in records:
        bits |= fields[1] | fields[3]
    bytes_read = sum(fields[3] * 512 for fields in records)
    body = b"".join(packed)
    index = b""
    for first in range(0, len(packed), STRIDE):
        block = b"".join(packed[first : first + STRIDE])
        count = len(packed[first : first + STRIDE])
        index += struct.pack("<QII", records[first][0], zlib.crc32(block), count)
    sums = (len(records), 0, 0, 0, 0, bytes_read, 0, 0, 0, 0)
    target = struct.pack("<32sQ10QQ", b"default", needed_bytes, *sums, bits)
    extent = struct.pack("<32sQQQII", b"sda", 0, needed_bytes // 512, 0, 0, 0)
    index_offset = HEADER_BYTES + len(body)
    header = struct.pack(
        "<8sIIIIQQQQQIIQIIQIIQ32sIII32s",
        b"TKPLAN\r\n", 2, HEADER_BYTES, RECORD_BYTES, 512, 1,
        len(records), records[-1][0],
        HEADER_BYTES, index_offset, STRIDE, 16,
        index_offset + len(index), 1, 128,
        index_offset + len(index) + 128, 1, 64,
        max((fields[3] * 512 for fields in records if fields[4] < 2), default=0),
        bytes(32), 0, zlib.crc32(target + extent), zlib.crc32(index), bytes(32),
    )  # fmt: skip
    header += struct.pack("<I", zlib.crc32(header))
    return header + body + index + target + extent


def test_a_plan_packed_from_the_document_runs(tmp_path: Path) -> None:
    # GIVEN 5,000 reads (two blocks of the index), packed by struct from the document
    records = [(i * 100, i, 7 * i, 1, READ, 0, 0) for i in range(5000)]
    plan = tmp_path / "a.plan"
    plan.write_bytes(by_hand(records, 5000 * 512))
    # WHEN it runs
    ran = run(plan, "--engine", "null")
    # THEN each request comes back under its own id
    assert ran.code == 0, ran.messages
    assert sorted(ran.statuses()) == [7 * i for i in range(5000)]
    assert ran.summary["plan"]["duration_ns"] == 499_900


def damage(plan: Path, offset: int, data: bytes, *, seal: bool = False) -> None:
    """Overwrite bytes; `seal` makes the header's checksum right again."""
    content = bytearray(plan.read_bytes())
    content[offset : offset + len(data)] = data
    if seal:
        content[188:192] = struct.pack("<I", zlib.crc32(bytes(content[:188])))
    plan.write_bytes(content)


HEADER_CASES = [
    ("magic", 0, b"TKPLAN\n\n", "first bytes are wrong"),
    ("version", 8, struct.pack("<I", 1), "another version"),
    ("record size", 16, struct.pack("<I", 40), "does not fit its version"),
    ("time unit", 24, struct.pack("<Q", 1000), "does not fit its version"),
    ("count", 32, struct.pack("<Q", 1 << 60), "more than 2^40"),
    ("duration", 40, struct.pack("<Q", 1 << 63), "292 years"),
    ("more than there is", 32, struct.pack("<Q", 101), "do not follow each other"),
    ("no target", 80, struct.pack("<I", 0), "1 to 64 targets"),
    ("too many targets", 80, struct.pack("<I", 65), "1 to 64 targets"),
    ("extents", 96, struct.pack("<I", 1 << 31), "65,536 extents"),
    ("transfer", 104, struct.pack("<Q", 1 << 40), "more than 64 MiB"),
    ("level", 144, struct.pack("<I", 9), "unknown event level"),
]


@pytest.mark.parametrize(("name", "offset", "data", "message"), HEADER_CASES)
def test_a_header_that_lies_is_refused(
    tmp_path: Path, name: str, offset: int, data: bytes, message: str
) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, i, 1) for i in range(100)])
    damage(plan, offset, data, seal=True)
    check_refused(plan, message, name)


def check_refused(plan: Path, message: str, name: str = "") -> None:
    ran = run(plan, "--engine", "null")
    assert ran.code == 1, name
    assert message in ran.messages, name
    assert len(ran.messages.splitlines()) == 1, name
    assert ran.summary == {}
    assert not ran.completions.exists()
    assert list(plan.parent.glob("*.part")) == []


def test_a_flipped_bit_anywhere_is_found(tmp_path: Path) -> None:
    # GIVEN a plan of 40 requests
    plan = write_plan(tmp_path / "a.plan", [record(READ, i, 1, at_ns=i) for i in range(40)])
    whole = plan.read_bytes()
    for place in range(0, len(whole), 37):
        # WHEN one bit of it is flipped
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        plan.write_bytes(damaged)
        # THEN the program refuses it in one line
        check_refused(plan, str(plan), name=f"byte {place}")


@pytest.mark.parametrize("length", [0, 1, 191, 192, 200, 1000])
def test_a_truncated_plan_is_refused(tmp_path: Path, length: int) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, i, 1) for i in range(100)])
    plan.write_bytes(plan.read_bytes()[:length])
    check_refused(plan, str(plan))


def test_a_plan_with_bytes_behind_it_is_refused(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 1)])
    plan.write_bytes(plan.read_bytes() + b"x")
    check_refused(plan, "longer than its header says")


RECORD_CASES: list[tuple[str, Callable[[list[int]], None], str]] = [
    ("order", lambda fields: fields.__setitem__(0, 0), "record 2 is earlier"),
    ("time", lambda fields: fields.__setitem__(0, 1 << 63), "record 2 is later than the plan"),
    ("sector", lambda fields: fields.__setitem__(1, 1 << 60), "record 2 lies beyond"),
    ("end", lambda fields: fields.__setitem__(1, 100), "record 2 lies beyond"),
    ("long", lambda fields: fields.__setitem__(3, 1 << 31), "record 2 is longer"),
    ("empty", lambda fields: fields.__setitem__(3, 0), "record 2 has no length"),
    ("operation", lambda fields: fields.__setitem__(4, 5), "record 2 has an unknown operation"),
    ("flush", lambda fields: fields.__setitem__(4, 2), "record 2 is a flush with a length"),
    ("flags", lambda fields: fields.__setitem__(5, 0x80), "record 2 has unknown flags"),
    ("target", lambda fields: fields.__setitem__(6, 1), "record 2 names a target"),
]


@pytest.mark.parametrize(("name", "change", "message"), RECORD_CASES)
def test_a_record_with_an_absurd_value_is_refused(
    tmp_path: Path, name: str, change: Callable[[list[int]], None], message: str
) -> None:
    # GIVEN a plan whose checksums are right, but whose third record is not
    rows = [[10 * i + 1, i, i, 1, READ, 0, 0] for i in range(10)]
    change(rows[2])
    plan = tmp_path / "a.plan"
    plan.write_bytes(resealed(rows))
    # THEN the record is named
    check_refused(plan, message, name)


def resealed(rows: list[list[int]]) -> bytes:
    """Return a plan with proper checksums and a header of ten plain reads."""
    content = bytearray(by_hand([(f[0], f[1], f[2], f[3], f[4], f[5], f[6]) for f in rows], 5120))
    content[104:112] = struct.pack("<Q", 512)
    content[40:48] = struct.pack("<Q", 91)
    content[188:192] = struct.pack("<I", zlib.crc32(bytes(content[:188])))
    return bytes(content)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "missing"):
        ran = run(path / "." if path == tmp_path else path, "--engine", "null")
        assert ran.code == 1
        assert len(ran.messages.splitlines()) == 1


def test_a_label_that_the_plan_lacks_is_refused(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(WRITE, 0, 8)])
    ran = run(plan, "--target", f"swap={tmp_path / 't'}", "--target", str(tmp_path / "u"))
    assert ran.code == 1
    assert "no requests for a target 'swap'" in ran.messages
    assert not (tmp_path / "t").exists()
    assert not (tmp_path / "u").exists()
